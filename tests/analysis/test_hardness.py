"""Indicators against attack distances: SciPy's correlation, counts of what is missing, quartiles by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

import smart_core as sc
from smart_core.analysis.hardness import hardness, trend
from smart_core.errors import CalibrationError
from smart_core.metrics.binning import equal_mass_groups


def part(n: int = 300, seed: int = 0, missing: int = 20) -> sc.Part:
    """Logits whose margin is known, distances that grow with it, some of them missing."""
    rng = np.random.default_rng(seed)
    margin = rng.gamma(2.0, 2.0, n)
    logits = np.full((n, 4), -30.0, dtype=np.float32)
    logits[:, 0], logits[:, 1] = 1.0, 1.0 - margin
    distance = 0.05 * margin + 0.05 * rng.random(n) + 0.01
    distance[:missing] = np.nan
    return sc.Part(logits, rng.integers(0, 2, n), cw_l2=distance)


def test_values_and_correlation_are_those_of_the_attacked_samples():
    data = part()
    found = hardness(data, resamples=50)
    top = np.sort(data.logits, axis=1)
    margin = (top[:, -1] - top[:, -2])[20:]
    np.testing.assert_allclose(found.value, margin)
    np.testing.assert_array_equal(found.index, np.arange(20, 300))
    np.testing.assert_array_equal(found.distance, data.cw_l2[20:])
    np.testing.assert_array_equal(found.correct, data.labels[20:] == 0)
    assert found.correlation.pearson == pytest.approx(pearsonr(margin, data.cw_l2[20:])[0])
    assert found.correlation.spearman == pytest.approx(spearmanr(margin, data.cw_l2[20:])[0])
    assert found.correlation.used == 280


def test_other_indicators():
    data = part()
    found = hardness(data, "confidence", resamples=20)
    wide = data.logits[20:].astype(np.float64)
    softmax = np.exp(wide) / np.exp(wide).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.value, softmax.max(axis=1), rtol=1e-6)


def test_failed_attacks_are_counted_apart_from_samples_not_attacked():
    data = part(missing=20)
    assert hardness(data, resamples=5).missing == "20 without a distance"
    attacked = np.ones(300, dtype=bool)
    attacked[:15] = False
    found = hardness(data, attacked=attacked, resamples=5)
    assert (found.failed, found.unknown) == (5, 20)
    assert found.missing == "5 attacks failed, 15 not attacked"
    assert hardness(part(missing=0), resamples=5).missing == ""


@pytest.mark.parametrize(
    ("data", "arguments", "words"),
    [
        (sc.Part(np.zeros((3, 2), np.float32), np.zeros(3, int)), {}, "no C&W distances here"),
        (sc.Part(np.zeros((3, 2), np.float32), np.zeros(3, int), cw_l2=np.full(3, np.nan)), {}, "every entry"),
        (part(), {"indicator": "all_logits"}, "not one number per sample"),
        (part(), {"indicator": "gap"}, "is not an indicator"),
        (part(), {"attacked": [True, False]}, "2 entries for 300 samples"),
    ],
)
def test_missing_distances_are_an_error(data: sc.Part, arguments: dict, words: str):
    with pytest.raises(CalibrationError, match=words) as error:
        hardness(data, **arguments)
    assert "\n" not in str(error.value)


def test_the_trend_is_quartiles_of_equal_bins():
    found = hardness(part(missing=0), resamples=5)
    order = np.argsort(found.value)
    line = trend(found, 10)
    np.testing.assert_array_equal(line.count, [30] * 10)
    for number, rows in enumerate(np.split(order, 10)):
        expected = np.percentile(found.distance[rows], [25, 50, 75])
        np.testing.assert_allclose([line.low[number], line.median[number], line.high[number]], expected)


@pytest.mark.parametrize("values", [[1.0], [2.0] * 7, [0.0] * 5 + [1.0] * 5, list(range(10)), [3.0, 1.0, 2.0, 1.0]])
@pytest.mark.parametrize("bins", [1, 3, 50])
def test_equal_mass_groups_hold_every_sample_once_and_keep_ties(values: list[float], bins: int):
    array = np.array(values)
    groups = equal_mass_groups(array, bins)
    assert 1 <= len(groups) <= bins
    assert all(len(group) for group in groups)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(len(values)))
    for left, right in pairwise(groups):
        assert array[left].max() < array[right].min()
