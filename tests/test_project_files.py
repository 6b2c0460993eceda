"""What the files around the code say agrees with the code."""

from __future__ import annotations

import re

import yaml

import smart_core
from tests.conftest import ROOT


def test_the_citation_is_of_this_version_and_of_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == smart_core.__version__
    assert citation["license"] == "Apache-2.0"
    assert citation["authors"] == [{"name": "the SMART calibration developers"}]
    paper = citation["preferred-citation"]
    assert paper["title"] == "Sample Margin-Aware Recalibration of Temperature Scaling"
    names = [author["family-names"] for author in paper["authors"]]
    cited = f"{', '.join(names[:-1])} and {names[-1]}, *{paper['title']}*, ICML {paper['year']}"
    assert cited in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_the_changelog_has_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", changelog, flags=re.MULTILINE)
    assert released[0] == smart_core.__version__


def test_every_file_that_the_guide_names_is_there():
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:smart_core|pages|tests|\.github)/[\w./]*)`", guide)
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_file_that_the_architecture_page_names_exists():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+(?:\.(?:py|md|txt|toml|html)|/))`", page))
    named -= {"smart_core/app/"}  # only the wheel has it
    folders = [
        ROOT / name for name in ("smart_core", "pages", "tests", "docs", "sample_logits", "benchmarks", ".streamlit")
    ]
    files = [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    known = [f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}" for path in files]
    assert len(named) > 80
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in known)] == []


def test_the_architecture_page_names_every_shared_module_of_the_pages():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The dashboard")[2]
    shared = (ROOT / "pages" / "shared").iterdir()
    modules = [f"{path.name}/" if path.is_dir() else path.name for path in shared if not path.name.startswith("__")]
    assert sorted(name for name in modules if f"`{name}`" not in table) == []


def test_every_name_that_the_architecture_page_gives_is_in_its_file():
    """`NAME` in `FILE`, where FILE may lack its folder; any other name is somewhere in the code."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    code = {
        path: path.read_text(encoding="utf-8")
        for name in ("smart_core", "pages")
        for path in (ROOT / name).rglob("*.py")
    }
    code |= {path: path.read_text(encoding="utf-8") for path in ROOT.glob("*.py")}
    pairs = re.findall(r"`([\w.]+)(?:\(\))?`,? (?:in|of) `([\w/]+\.py)`", page)
    assert len(pairs) >= 10
    for name, file in pairs:
        texts = [text for path, text in code.items() if path.as_posix().endswith(f"/{file}")]
        assert any(re.search(rf"\b{name.split('.')[-1]}\b", text) for text in texts), (name, file)
    words = set(re.findall(r"\w+", " ".join(code.values())))
    named = {name.split(".")[-1] for name in re.findall(r"`([A-Za-z_][\w.]*)(?:\(\))?`", page) if "/" not in name}
    assert sorted(named - words - {"py", "md", "html", "toml", "txt"}) == []


def test_every_name_that_the_guide_gives_is_in_its_file():
    """`NAME` in `FILE` and `NAME` of `FILE`: the tables that a new method, format or page goes into."""
    guide = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    pairs = re.findall(r"`([\w.]+)` (?:in|of) `((?:smart_core|pages|tests)/[\w/]+\.py)`", guide)
    assert len(pairs) >= 5
    for name, path in pairs:
        assert re.search(rf"\b{name.split('.')[-1]}\b", (ROOT / path).read_text(encoding="utf-8")), (name, path)


def test_the_workflow_and_the_hooks_are_yaml_and_name_what_is_there():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = " ".join(step.get("run", "") for step in steps)
    for path in re.findall(r"--ignore (\S+)", commands):
        assert (ROOT / path).exists(), path
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(re.findall(r"make (\w+)", commands)) <= set(targets)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {repository["repo"] for repository in hooks["repos"]} == {"local"}  # nothing is fetched from elsewhere
