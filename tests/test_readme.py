"""Every snippet of the README is run, and its table of methods is the registry's."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from smart_core.calibrators import method_table
from smart_core.cli import build_parser, main
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


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
    assert method_table() in README


def test_python_example(workplace: Path):
    (example,) = blocks("python")
    assert len([line for line in example.splitlines() if line.strip()]) == 5
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=workplace, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "ece_high" in done.stdout


def test_command_line_examples(workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (example,) = blocks("sh")
    lines = example.strip().splitlines()
    assert len(lines) == 6
    first, *others = lines
    done = subprocess.run(
        first, shell=True, cwd=workplace, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    monkeypatch.chdir(workplace)
    # the others by the function that `smart` calls: a process each would spend its time importing PyTorch
    for line in others:
        command, *arguments = shlex.split(line)
        assert command == "smart"
        assert main(arguments) == 0, line
        out, err = capsys.readouterr()
        assert out
        assert err == ""
    written = {file.name for file in workplace.iterdir()}
    assert {"smart.safetensors", "probabilities.npz", "grid.json", "table.tex"} <= written


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
    assert commands["run"].rstrip().endswith("smart dashboard")
    for check in ("ruff check", "ruff format --check", "mypy", "pytest"):
        assert check in commands["test"]
    assert (ROOT / "dashboard.py").is_file()


def test_the_pip_lines_install_what_is_pinned_and_what_is_here():
    """What they name exists, and pip, which may not ask the network here, finds all of it installed as pinned."""
    lines = plain_lines("python -m venv")
    assert [words[0] for words in lines] == ["python", ".venv\\Scripts\\activate", "pip", "pip", "smart"]
    assert lines[0] == ["python", "-m", "venv", ".venv"]
    assert lines[2] == ["pip", "install", "-r", "requirements.txt"]
    assert lines[3] == ["pip", "install", "--no-deps", "-e", "."]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", *lines[2][2:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout
    assert shutil.which("smart", path=environment()["PATH"])


def test_the_lines_about_the_dashboard_are_commands():
    first, *others = plain_lines("pip install")
    assert first == ["pip", "install", "."]
    for words in [*others, plain_lines("python -m venv")[-1]]:
        assert words[:2] == ["smart", "dashboard"]
        assert build_parser().parse_args(words[1:]).files == words[2:]


def test_the_lock_is_within_the_ranges():
    """Every dependency of pyproject.toml has one exact version, which its range allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for file, listed in {
        "requirements.txt": project["dependencies"],
        "requirements-dev.txt": [text for extra in project["optional-dependencies"].values() for text in extra],
    }.items():
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        pinned = dict(line.lower().split("==") for line in lines if line[0] not in "#-")
        for wanted in map(Requirement, listed):
            if wanted.name != project["name"]:
                assert wanted.specifier.contains(pinned[wanted.name.lower()]), wanted


def test_every_linked_file_exists():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
