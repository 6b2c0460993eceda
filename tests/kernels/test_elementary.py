"""Exponential and logarithm in float32 against NumPy's in float64."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from smart_core.kernels import elementary
from tests.tolerance import assert_within, float32_bound


def test_exp():
    x = np.linspace(-87.0, 87.0, 20_001).astype(np.float32)
    got = np.array([elementary.exp(value) for value in x], dtype=np.float64)
    exact = np.exp(x.astype(np.float64))
    assert_within(got, exact, float32_bound(2, exact))
    assert elementary.exp(np.float32(0.0)) == 1.0
    assert elementary.exp(np.float32(-1e30)) == elementary.exp(np.float32(-87.0))
    assert np.isfinite(elementary.exp(np.float32(1e30)))


def test_log():
    x = np.geomspace(1.2e-38, 3e38, 20_001).astype(np.float32)
    got = np.array([elementary.log(value) for value in x], dtype=np.float64)
    exact = np.log(x.astype(np.float64))
    assert_within(got, exact, float32_bound(2, np.maximum(np.abs(exact), 0.5)))  # 0.5: the polynomial's own scale
    assert elementary.log(np.float32(1.0)) == 0.0
