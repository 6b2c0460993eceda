"""Sums of many samples over bins give what the samples themselves give."""

from __future__ import annotations

import numpy as np
import pytest

import smart_core as sc
from smart_core import evaluation as evaluations
from smart_core import kernels
from smart_core.analysis import margin_groups as groups_of_margins
from smart_core.analysis import slices as slices_by_column
from smart_core.data import grouping
from smart_core.metrics import confidence_cells

ROWS = 30_000


def sample(dtype: type) -> sc.Evaluation:
    rng = np.random.default_rng(0)
    margin = rng.gamma(2.0, 2.0, ROWS).astype(np.float32)
    p = (1.0 / (1.0 + 3.0 * np.exp(-margin))).astype(dtype)
    p[:30] = np.repeat(np.arange(1, 16) / 15, 2)  # edges
    correct = rng.random(ROWS) < p**1.3
    zeros = np.zeros(ROWS)
    return sc.Evaluation(p, zeros.astype(np.int64), correct, zeros, zeros, margin)


def few(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    for module in (evaluations, groups_of_margins, slices_by_column):
        monkeypatch.setattr(module, "SUMS_FROM_SAMPLES", limit)
    monkeypatch.setattr(grouping, "HASHED_FROM_TEXTS", limit)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_metrics_and_groups_are_those_of_the_samples(dtype: type, compiled: bool, monkeypatch: pytest.MonkeyPatch):
    if not compiled:
        monkeypatch.setattr(kernels, "enabled", False)
    column = np.array(["b", "a", "c"])[np.random.default_rng(1).integers(0, 3, ROWS)]
    found = {}
    for limit in (1, ROWS + 1):
        few(monkeypatch, limit)
        one = sample(dtype)
        edges = groups_of_margins.equal_groups(one, 5)
        np.testing.assert_array_equal(edges, groups_of_margins.margin_edges(one.margins, 5))
        groups = groups_of_margins.margin_groups(one, edges, 12)
        sliced = slices_by_column.slices(one, column, 12)
        cells = groups_of_margins.gap_cells(one, edges, 12)
        values = [one.metric(name, bins) for name in ("ece", "mce", "ece_l2", "over", "under") for bins in (7, 15)]
        values += [
            value for group in groups for value in (group.n, group.ece, group.accuracy, group.confidence, group.low)
        ]
        values += [value for each in sliced for value in (each.n, each.ece)]
        values += [*cells.count.ravel(), *cells.confidence.ravel(), *cells.accuracy.ravel()]
        intervals = [sc.metrics.interval("ece", one, bins=9), *(each.interval for each in sliced)]
        ends = [end for each in intervals for end in (each.low, each.high)]
        members = [np.sort(group.rows).tolist() for group in [*groups, *sliced]]
        found[limit] = np.array(values), np.array(ends), members, [each.name for each in sliced]
    of_sums, of_samples = found[1], found[ROWS + 1]
    np.testing.assert_allclose(of_sums[0], of_samples[0], rtol=1e-6, atol=1e-9)
    # an interval draws noise along eigenvectors, which rounding turns where eigenvalues are nearly equal
    np.testing.assert_allclose(of_sums[1], of_samples[1], rtol=0.02)
    assert of_sums[2:] == of_samples[2:]


def test_the_noise_floor_of_sums_is_that_of_drawn_labels(monkeypatch: pytest.MonkeyPatch):
    drawn = sc.metrics.noise_floor("ece", sample(np.float32), draws=4000)
    few(monkeypatch, 1)
    summed = sc.metrics.noise_floor("ece", sample(np.float32), draws=4000)
    # the mean of 4000 draws is known to 1% of itself, their 95% quantile to 2%
    assert summed.mean == pytest.approx(drawn.mean, rel=0.04)
    assert summed.q95 == pytest.approx(drawn.q95, rel=0.06)
    assert confidence_cells.SUMS_FROM_SAMPLES > ROWS


def test_a_bin_of_hardly_any_errors_is_drawn_as_counts():
    p = np.full(5000, 0.9999)
    (cells,) = confidence_cells.cells_of(p, np.ones(5000, dtype=bool), 10)
    gaps = cells.calibrated_gaps(20_000, seed=0)[:, 9]
    wrong = np.rint(5000 * gaps + 5000 * 1e-4).astype(int)  # p - a sums to the wrong answers less 5000 (1 - p)
    assert set(np.unique(wrong)) <= set(range(12))
    assert wrong.mean() == pytest.approx(0.5, abs=0.03)
