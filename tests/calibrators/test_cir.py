"""Centred isotonic regression against the package cir-model, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smart_core.calibrators.cir import centred_line


def test_by_hand():
    """One pooled level of 0.5 over x = 2, 3 becomes its centre; the levels 1 and 0 beside it stay flat."""
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0]) / 4
    nodes, values = centred_line(x, np.array([1.0, 1.0, 0.0, 1.0, 0.0]))
    np.testing.assert_allclose(nodes, [0.0, 0.25, 0.625, 1.0])
    np.testing.assert_allclose(values, [1.0, 1.0, 0.5, 0.0])


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=2, max_size=40))
def test_it_equals_the_package(samples: list[tuple[int, bool]]):
    package = pytest.importorskip("cir_model")
    x = np.array([place / 16 for place, _ in samples])
    y = np.array([float(hit) for _, hit in samples])
    nodes, values = centred_line(x, y)
    assert (np.diff(nodes) > 0).all()
    model = package.CenteredIsotonicRegression(increasing=False, out_of_bounds="clip").fit(x, y)
    grid = np.linspace(0, 1, 97)
    np.testing.assert_allclose(np.interp(grid, nodes, values), model.predict(grid), atol=1e-6)
