"""Bins are (l, u] with edges k/B, exactly, in single and double precision."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smart_core.errors import CalibrationError
from smart_core.metrics.binning import adaptive_index, bin_index, reliability
from tests.metrics.samples import forecasts


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bins", [1, 2, 3, 5, 7, 10, 15, 20, 25, 49, 100])
def test_an_edge_belongs_to_the_bin_below_it_and_its_neighbours_to_either_side(
    bins: int, dtype: type[np.floating]
) -> None:
    for k in range(1, bins):
        edge = dtype(k / bins)
        around = np.array([np.nextafter(edge, dtype(0)), edge, np.nextafter(edge, dtype(1))], dtype=dtype)
        assert bin_index(around, bins).tolist() == [k - 1, k - 1, k]


@pytest.mark.parametrize("bins", [1, 3, 15])
def test_zero_is_in_the_first_bin_and_one_in_the_last(bins: int) -> None:
    assert bin_index([0.0, 1.0], bins).tolist() == [0, bins - 1]


@given(st.integers(1, 60), st.floats(0, 1, exclude_min=True))
def test_index_obeys_exact_rational_arithmetic(bins: int, p: float) -> None:
    b = int(bin_index([p], bins)[0])
    if p in (b / bins, (b + 1) / bins):  # a rounded edge stands for the edge itself
        assert p == (b + 1) / bins
    else:
        assert Fraction(b, bins) < Fraction(p) < Fraction(b + 1, bins)


@given(st.integers(1, 60), st.floats(0, 1, exclude_min=True, width=32))
def test_single_precision_index_obeys_exact_rational_arithmetic(bins: int, p: float) -> None:
    b = int(bin_index(np.array([p], dtype=np.float32), bins)[0])
    if np.float32(p) in (np.float32(b / bins), np.float32((b + 1) / bins)):
        assert np.float32(p) == np.float32((b + 1) / bins)
    else:
        assert Fraction(b, bins) < Fraction(p) < Fraction(b + 1, bins)


def test_lists_numpy_and_torch_agree() -> None:
    p = np.random.default_rng(0).uniform(size=100).astype(np.float32)
    assert (bin_index(p, 15) == bin_index(torch.from_numpy(p), 15)).all()
    assert bin_index([0.2, 0.5], 5).tolist() == [0, 2]


def test_reliability_table_holds_the_means_of_each_bin() -> None:
    table = reliability([0.05, 0.15, 0.2, 0.9], [0, 1, 0, 1], bins=5)
    assert table.count.tolist() == [3, 0, 0, 0, 1]
    np.testing.assert_allclose(table.confidence, [0.4 / 3, np.nan, np.nan, np.nan, 0.9])
    np.testing.assert_allclose(table.accuracy, [1 / 3, np.nan, np.nan, np.nan, 1.0])
    np.testing.assert_allclose(table.gap, [0.4 / 3 - 1 / 3, np.nan, np.nan, np.nan, -0.1])
    np.testing.assert_allclose(table.edges, [0, 0.2, 0.4, 0.6, 0.8, 1])


@pytest.mark.parametrize("n", [3, 15, 100, 1001])
def test_adaptive_table_is_array_split_of_the_sorted_samples(n: int) -> None:
    p, a = forecasts(n)
    table = reliability(p, a, bins=15, adaptive=True)
    chunks = np.array_split(np.argsort(p, kind="stable"), 15)
    assert table.count.tolist() == [chunk.size for chunk in chunks]
    for b, chunk in enumerate(chunks):
        if chunk.size:
            assert table.confidence[b] == pytest.approx(p[chunk].mean())
            assert table.accuracy[b] == pytest.approx(a[chunk].mean())
            assert table.edges[b + 1] == p[chunk].max()


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([], [], "no samples"),
        ([0.5, 0.5], [1], "2 confidences but 1"),
        ([1.5], [1], r"\[0, 1\]"),
        ([0.5, float("nan")], [1, 1], "Confidence 1 is not a number"),
        ([0.5], [2], "true or false"),
        ([[0.5, 0.5], [0.5, 0.5]], [1, 1], "top_label"),
    ],
)
def test_bad_arguments_are_named(confidence: list[float], correct: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reliability(confidence, correct)


def test_a_rounding_excess_over_one_is_forgiven() -> None:
    assert reliability(np.array([1.0 + 1e-7], dtype=np.float32), [1]).confidence[-1] == 1.0


@pytest.mark.parametrize("bins", [-1, 0, 1, 1001, 100_000, 2.5, True])
@pytest.mark.parametrize("adaptive", [False, True])
def test_bins_outside_2_to_1000_are_refused(bins: int, adaptive: bool) -> None:
    with pytest.raises(CalibrationError, match="whole number from 2 to 1000"):
        reliability([0.5], [1], bins=bins, adaptive=adaptive)


def test_ties_stay_together_in_the_chunk_of_their_middle_rank() -> None:
    # ranks 0-3, 4-6 and 7-9 are the three chunks; the middle ranks are 0, 4, 8 and then 1, 3, 7
    tied = np.repeat([0.1, 0.5, 0.9], [2, 5, 3])
    assert adaptive_index(tied, 3).tolist() == [0] * 2 + [1] * 5 + [2] * 3
    assert adaptive_index(np.repeat([0.1, 0.5, 0.9], [3, 2, 5]), 3).tolist() == [0] * 3 + [0] * 2 + [2] * 5


@given(st.lists(st.sampled_from([0.1, 0.4, 0.4001, 0.7, 1.0]), min_size=1, max_size=40), st.integers(2, 12))
def test_adaptive_bins_follow_from_the_values_alone(values: list[float], bins: int) -> None:
    """Against the definition, group by group; so the order of the samples cannot matter."""
    p = np.array(values)
    rising = np.sort(p)
    chunks = np.concatenate([np.full(part.size, b) for b, part in enumerate(np.array_split(rising, bins))])
    for value, index in zip(p, adaptive_index(p, bins), strict=True):
        ranks = np.flatnonzero(rising == value)
        assert index == chunks[ranks[(ranks.size - 1) // 2]]
