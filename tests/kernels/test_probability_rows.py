"""Rows of probabilities read by the compiled loops, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from smart_core.kernels import row_reading
from smart_core.kernels.probability_rows import STRETCH, classwise_sums
from smart_core.metrics.binning import bin_edges, bin_index
from tests.tolerance import assert_within, float32_bound


def probabilities(count: int, classes: int, scale: float, seed: int = 0) -> np.ndarray:
    powers = np.exp(np.random.default_rng(seed).normal(size=(count, classes)) * scale)
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("classes", [2, 63, 64, 65, 500])
def test_row_statistics(classes: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(row_reading, "WORTH_LOADING", 1)
    monkeypatch.setattr(row_reading, "PIECE", 7 * classes)
    rows = probabilities(100, classes, 2.0, seed=classes)
    rows[:20] = np.float32(1.0 / classes)  # every entry the largest
    rows[20] = 0.0
    rows[20, -1] = 1.0
    assert row_reading.compiled_for(rows)
    found = row_reading.read_rows(rows)
    total = rows.sum(axis=1, dtype=np.float64)
    assert_within(found.total, total, float32_bound(STRETCH / 2, total))  # half a rounding for each entry of a stretch
    np.testing.assert_array_equal(found.least, rows.min(axis=1))
    np.testing.assert_array_equal(found.top, rows.max(axis=1))
    np.testing.assert_array_equal(found.place, rows.argmax(axis=1))
    spoiled = rows.copy()
    spoiled[7, classes // 2] = np.nan
    assert np.isnan(row_reading.read_rows(spoiled).total).nonzero()[0].tolist() == [7]
    plain = row_reading.read_rows(rows.astype(np.float64))  # NumPy's way
    np.testing.assert_array_equal(plain.place, found.place)


def plain_sums(rows: np.ndarray, labels: np.ndarray, bins: int) -> list[np.ndarray]:
    """Sample by sample and class by class, in float64."""
    sums = [np.zeros((rows.shape[1], bins)) for _ in range(4)]
    wide = rows.astype(np.float64)
    for k in range(rows.shape[1]):
        index = bin_index(rows[:, k], bins)
        for values, total in zip((np.ones(len(rows)), wide[:, k], wide[:, k] ** 2, labels == k), sums, strict=True):
            total[k] = np.bincount(index, weights=values, minlength=bins)
    return sums


@pytest.mark.parametrize("bins", [2, 15, 64])
@pytest.mark.parametrize(("classes", "scale"), [(2, 1.0), (30, 0.1), (30, 4.0), (130, 2.0)])
def test_classwise_sums(classes: int, scale: float, bins: int):
    rows = probabilities(200, classes, scale, seed=1)
    edges = bin_edges(bins, np.float32)
    rows[: bins + 1, 0] = edges  # probabilities on the edges themselves
    labels = np.random.default_rng(2).integers(0, classes, 200)
    sums = [np.zeros((classes, bins)) for _ in range(4)]
    for piece in (slice(0, 90), slice(90, 200)):
        classwise_sums(rows[piece], labels[piece], edges, *sums)
    for found, expected in zip(sums, plain_sums(rows, labels, bins), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)
