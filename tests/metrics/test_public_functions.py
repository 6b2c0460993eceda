"""Public functions have an example, which `tests/test_doctests.py` runs."""

from __future__ import annotations

from inspect import isfunction

import pytest

from smart_core import metrics
from smart_core.metrics import uncertainty


@pytest.mark.parametrize("name", [name for name in metrics.__all__ if isfunction(getattr(metrics, name))])
def test_a_public_function_has_an_example(name: str) -> None:
    assert ">>> " in getattr(metrics, name).__doc__


def test_uncertainty_has_its_names_in_metrics_too() -> None:
    for name in set(uncertainty.__all__) - {"TOO_FEW", "Verdict"}:
        assert getattr(metrics, name) is getattr(uncertainty, name)
