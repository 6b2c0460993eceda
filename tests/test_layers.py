"""The layers of the engine: a package imports those below it only, at the top of a file or inside a function."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

ENGINE = ROOT / "smart_core"

LAYERS = [
    {"errors", "types"},
    {"progress", "device", "formatting"},
    {"kernels", "data"},
    {"fitting", "metrics"},
    {"calibrators", "attacks"},
    {"evaluation"},
    {"experiments", "analysis"},
    {"theory", "export"},
    {"figures"},
    {"report"},
    {"cli"},
    {"__main__"},
]
"""The parts of the engine, lowest first: each may import those below it and, without a cycle, beside it."""


@cache
def imports() -> dict[str, set[str]]:
    """Every part of the engine with the other parts that it imports anywhere, also for types alone."""
    parts = {path.stem if path.is_file() else path.name for path in ENGINE.iterdir()}
    found: dict[str, set[str]] = {}
    for path in sorted(ENGINE.rglob("*.py")):
        here = path.relative_to(ENGINE).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        others = {name.split(".")[1] for name in names(path) if name.startswith("smart_core.")}
        found.setdefault(here, set()).update((others & parts) - {here})
    return found


def names(path: Path) -> set[str]:
    """The dotted names that a file imports."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {
        f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def test_the_engine_never_imports_streamlit():
    for path in sorted(ENGINE.rglob("*.py")):
        assert not {name for name in names(path) if name.split(".")[0] == "streamlit"}, path


def test_every_part_has_its_layer():
    layered = [part for layer in LAYERS for part in layer]
    assert len(layered) == len(set(layered))
    assert imports().keys() <= set(layered)


def test_the_top_level_stays_small_enough_to_read():
    assert len([path for path in ENGINE.iterdir() if path.name not in ("__pycache__", "app")]) <= 22


def test_a_page_stays_short_enough_to_read():
    lengths = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "pages").glob("*.py")}
    assert lengths
    assert max(lengths.values()) < 200, lengths


@pytest.mark.parametrize("part", sorted(part for layer in LAYERS for part in layer))
def test_imports_go_down(part: str):
    level = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    upwards = {other for other in imports().get(part, set()) if level[other] > level[part]}
    assert not upwards


def test_no_parts_import_each_other_in_a_circle():
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
