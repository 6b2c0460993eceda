"""The examples in docstrings run and give what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name",
    [
        *("errors", "data.load", "data.logitset", "data.simulate"),
        "analysis.correlation",
        *("experiments.compare", "experiments.results", "experiments.sensitivity"),
    ],
)
def test_examples(name: str):
    result = doctest.testmod(import_module(f"smart_core.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
