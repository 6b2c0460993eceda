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


def test_every_linked_file_exists():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
