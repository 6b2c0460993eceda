"""ECE and its relatives against torchmetrics, netcal, closed forms and sampling theory."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from netcal.metrics import ECE as NetcalECE
from netcal.metrics import MCE as NetcalMCE
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from smart_core.metrics.arrays import top_label
from smart_core.metrics.binned import adaece, ece, ece_l2, ece_l2_debiased, mce
from tests.metrics.samples import Pair, forecasts, probabilities, small_sets

Metric = Callable[..., float]


@pytest.mark.parametrize("bins", [2, 5, 10, 15, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("metric", "norm"), [(ece, "l1"), (ece_l2, "l2"), (mce, "max")])
def test_agrees_with_torchmetrics(
    metric: Metric, norm: Literal["l1", "l2", "max"], dtype: type[np.floating], bins: int
) -> None:
    probs, labels = probabilities(3000, 7)
    probs = probs.astype(dtype)
    theirs = multiclass_calibration_error(
        torch.from_numpy(probs), torch.from_numpy(labels), num_classes=7, n_bins=bins, norm=norm
    )
    assert metric(*top_label(probs, labels), bins) == pytest.approx(float(theirs), abs=2e-6)


@pytest.mark.parametrize("bins", [5, 15, 40])
def test_agrees_with_netcal(bins: int) -> None:
    p, a = forecasts(4000, seed=3, shift=-0.1)
    # netcal reads a vector of binary scores, whose ECE has the same form
    assert ece(p, a, bins) == pytest.approx(NetcalECE(bins).measure(p, a.astype(int)), abs=1e-12)
    assert mce(p, a, bins) == pytest.approx(NetcalMCE(bins).measure(p, a.astype(int)), abs=1e-12)


def test_binary_scores_agree_with_torchmetrics() -> None:
    p, a = forecasts(2000, seed=9)
    theirs = binary_calibration_error(torch.from_numpy(p), torch.from_numpy(a).int(), n_bins=15, norm="l1")
    assert ece(p, a) == pytest.approx(float(theirs), abs=1e-6)


def test_one_confidence_everywhere() -> None:
    p, a = [0.8] * 10, [1] * 7 + [0] * 3
    for metric in (ece, adaece, mce, ece_l2):
        assert metric(p, a, 2) == pytest.approx(0.1)
    assert ece_l2_debiased(p, a) == 0.0  # 0.1^2 is below the variance 0.7 * 0.3 / 9


def test_adaece_is_the_error_of_sorted_chunks() -> None:
    p, a = forecasts(1003, seed=4, shift=-0.1)
    order = np.argsort(p, kind="stable")
    expected = sum(abs((p[chunk] - a[chunk]).sum()) for chunk in np.array_split(order, 15)) / p.size
    assert adaece(p, a) == pytest.approx(expected, rel=1e-12)


def test_adaece_does_not_part_ties() -> None:
    tied = [0.5] * 4
    assert adaece(tied, [1, 1, 0, 0], 2) == pytest.approx(0.0)
    assert adaece([0.5] * 4 + [0.9] * 2, [1, 1, 0, 0, 1, 0], 3) == pytest.approx(2 / 6 * 0.4)


def test_debiased_square_is_unbiased_where_the_plug_in_is_not() -> None:
    places, truth, per_place = np.array([0.1, 0.3, 0.5, 0.7, 0.9]), np.array([0.3, 0.1, 0.8, 0.5, 0.7]), 30
    rng = np.random.default_rng(0)
    p = np.repeat(places, per_place)
    draws = rng.uniform(size=(2000, p.size)) < np.repeat(truth, per_place)
    exact = float(((places - truth) ** 2).mean())
    debiased = np.array([ece_l2_debiased(p, a, 5) ** 2 for a in draws])
    plug_in = np.array([ece_l2(p, a, 5) ** 2 for a in draws])
    error = debiased.std() / np.sqrt(len(draws))
    assert abs(debiased.mean() - exact) < 4 * error
    assert plug_in.mean() - exact == pytest.approx((truth * (1 - truth)).mean() / per_place, rel=0.15)


def test_debiased_by_hand_with_a_bin_of_one_sample() -> None:
    # four at 0.9: gap 0.65, variance 0.25 * 0.75 / 3, so 0.4225 - 0.0625 = 0.36; one alone counts nothing
    assert ece_l2_debiased([0.9] * 4, [1, 0, 0, 0]) == pytest.approx(0.6)
    assert ece_l2_debiased([0.9] * 4 + [0.05], [1, 0, 0, 0, 1]) == pytest.approx(0.6 * np.sqrt(4 / 5))


@given(small_sets(), st.integers(2, 20))
def test_orderings_between_the_errors(pair: Pair, bins: int) -> None:
    p, a = pair
    mean_gap = abs(float(np.mean(p - a)))
    assert mean_gap <= ece(p, a, bins) + 1e-12
    assert ece(p, a, bins) <= ece_l2(p, a, bins) + 1e-12
    assert ece_l2(p, a, bins) <= mce(p, a, bins) + 1e-12
    assert ece_l2_debiased(p, a, bins) <= ece_l2(p, a, bins) + 1e-12
    assert mean_gap <= adaece(p, a, bins) + 1e-12 <= np.abs(p - a).mean() + 2e-12


@given(small_sets(), st.integers(2, 20), st.randoms(use_true_random=False))
def test_order_and_duplication_of_samples_change_nothing(pair: Pair, bins: int, random: Random) -> None:
    p, a = pair
    order = list(range(p.size))
    random.shuffle(order)
    assert adaece(p[order], a[order], bins) == pytest.approx(adaece(p, a, bins), abs=1e-12)
    for metric in (ece, mce, ece_l2):
        assert metric(np.tile(p[order], 3), np.tile(a[order], 3), bins) == pytest.approx(metric(p, a, bins), abs=1e-12)


@pytest.mark.parametrize("metric", [ece, adaece, mce, ece_l2, ece_l2_debiased])
def test_numpy_torch_and_lists_agree(metric: Metric) -> None:
    p, a = forecasts(50)
    expected = metric(p, a)
    assert metric(torch.from_numpy(p).requires_grad_(), torch.from_numpy(a)) == expected
    assert metric(p.tolist(), a.tolist()) == expected
    assert isinstance(expected, float)
