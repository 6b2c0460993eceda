"""Every example in the engine's docstrings runs and gives the output that it shows."""

from __future__ import annotations

import doctest
from importlib import import_module
from inspect import getdoc, isclass, isfunction

import pytest

import smart_core as sc
from tests.conftest import ROOT

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "smart_core").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str):
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_every_public_function_and_class_has_an_example():
    public = {name: getattr(sc, name) for name in sc.__all__}
    without = {
        name
        for name, item in public.items()
        if (isfunction(item) or isclass(item)) and ">>> " not in (getdoc(item) or "")
    }
    errors = {name for name, item in public.items() if isclass(item) and issubclass(item, sc.SmartError)}
    assert without - errors == set()
