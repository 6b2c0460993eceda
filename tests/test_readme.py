"""Every snippet of the README is run, and its table of methods is the registry's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from smart_core.calibrators import methods
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def methods_table() -> str:
    """The README's table of methods, drawn from the registry."""
    lines = ["| id | method | keeps top-1 | needs | what it does |", "|---|---|---|---|---|"]
    for id, method in methods().items():
        keeps = "yes" if method().keeps_top1 else "no"
        needs = ", ".join(method.needs) or ("features, if there are any" if method.uses else "")
        lines.append(f"| `{id}` | {method.label} | {keeps} | {needs} | {method.summary} |")
    return "\n".join(lines)


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with the bundled samples, where snippets may write."""
    shutil.copytree(ROOT / "sample_logits", tmp_path / "sample_logits")
    return tmp_path


def environment() -> dict[str, str]:
    """The test's interpreter and scripts first, threads capped."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def test_the_methods_table_is_the_registry():
    assert methods_table() in README


def test_python_example(workplace: Path):
    (example,) = blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) == 5
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=workplace, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "ece_high" in done.stdout


def test_command_line_examples(workplace: Path):
    (example,) = blocks("sh")
    lines = example.strip().splitlines()
    assert len(lines) == 5
    for line in lines:
        done = subprocess.run(
            line, shell=True, cwd=workplace, env=environment(), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert done.stdout
        assert done.stderr == ""
    assert {"smart.safetensors", "probabilities.npz", "grid.json"} <= {file.name for file in workplace.iterdir()}


def plain_lines(start: str) -> list[list[str]]:
    """The words of each line of the unmarked block that begins so; a `#` and what follows are no part of them."""
    (block,) = [
        block for block in re.findall(r"^```\n(.*?)^```", README, re.DOTALL | re.MULTILINE) if block.startswith(start)
    ]
    return [line.split("#")[0].split() for line in block.strip().splitlines()]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_the_make_lines_lead_to_the_dashboard_and_to_the_tests(tmp_path: Path):
    """Dry runs from a bare checkout: they make the environment, install what is pinned, and end as the README says."""
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    commands = {}
    bare = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # not of `make test`
    for words in plain_lines("make"):
        assert words[0] == "make"
        done = subprocess.run(
            ["make", "-n", *words[1:]], cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=60, check=True
        )
        commands[words[1]] = done.stdout
    assert set(commands) == {"run", "test"}
    for steps in commands.values():
        order = [steps.index(step) for step in ("-m venv .venv", "install torch==", "-r requirements.txt", "-e .")]
        assert order == sorted(order)
    assert commands["run"].rstrip().endswith("streamlit run dashboard.py")
    for check in ("ruff check", "ruff format --check", "mypy", "pytest"):
        assert check in commands["test"]
    assert (ROOT / "dashboard.py").is_file()


def test_the_pip_lines_install_what_is_pinned_and_what_is_here():
    """What they name exists, and pip, which may not ask the network here, finds all of it installed as pinned."""
    lines = plain_lines("python -m venv")
    assert [words[0] for words in lines] == ["python", ".venv\\Scripts\\activate", "pip", "pip", "python", "streamlit"]
    assert lines[0] == ["python", "-m", "venv", ".venv"]
    assert lines[5] == ["streamlit", "run", "dashboard.py"]
    assert subprocess.run([sys.executable, *lines[4][1:]], cwd=ROOT, timeout=120, check=True)
    torch_alone, everything = (words[2:] for words in lines[2:4])
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    assert [word for word in pinned if word.startswith("torch==")] == torch_alone
    assert everything == ["-r", "requirements.txt", "-e", "."]
    for packages in (torch_alone, everything[:2]):
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", *packages],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "Would install" not in done.stdout
    assert shutil.which("smart", path=environment()["PATH"])


def test_every_linked_file_exists():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
