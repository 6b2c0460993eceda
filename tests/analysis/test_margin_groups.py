"""Margin groups against loops over the samples, known population values and properties of the edges."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smart_core.analysis.margin_groups import (
    MarginGroup,
    confidence_change,
    gap_cells,
    group_of,
    margin_edges,
    margin_groups,
    margin_labels,
    samples_in,
    with_intervals,
    worst_group,
)
from smart_core.errors import CalibrationError
from tests.figures.samples import evaluation_of, too_sure


def brute_ece(confidence: np.ndarray, correct: np.ndarray, bins: int) -> float:
    total = 0.0
    for b in range(bins):
        inside = [i for i, p in enumerate(confidence) if b / bins < p <= (b + 1) / bins or (b == 0 and p == 0)]
        if inside:
            total += abs(sum(confidence[i] - correct[i] for i in inside))
    return total / len(confidence)


tied_margins = st.lists(
    st.one_of(st.sampled_from([0.0, 1.0, 2.5]), st.floats(0, 50, width=32)), min_size=1, max_size=60
).map(lambda values: np.array(values, dtype=np.float32))


@given(tied_margins, st.integers(1, 12))
def test_quantile_groups_are_never_empty_and_keep_every_sample_in_order(margin: np.ndarray, groups: int) -> None:
    edges = margin_edges(margin, groups)
    index = group_of(margin, edges)
    found = len(edges) - 1
    assert 1 <= found <= groups
    assert set(index) == set(range(found))
    assert (edges[0], edges[-1]) == (margin.min(), margin.max())
    for g in range(found - 1):
        assert margin[index == g].max() < margin[index == g + 1].min()


@pytest.mark.parametrize(("n", "groups"), [(1000, 7), (10, 3), (3, 10), (1, 1)])
def test_groups_of_distinct_margins_are_as_equal_as_can_be(n: int, groups: int) -> None:
    margin = np.random.default_rng(n).permutation(n) / 7
    sizes = np.bincount(group_of(margin, margin_edges(margin, groups)))
    # the smallest margin has no group of its own, because the first group is closed at both ends
    assert sizes.sum() == n
    assert sizes.max() - sizes.min() <= 1


def test_one_margin_for_all_is_one_group() -> None:
    edges = margin_edges([2.0] * 9, 4)
    assert list(edges) == [2.0, 2.0]
    (group,) = margin_groups(evaluation_of([0.5] * 9, [1] * 9, [2.0] * 9), edges)
    assert group.n == 9


def test_own_edges_are_kept_and_margins_beyond_get_their_own_group() -> None:
    margin = [0.5, 1.5, 7.0]
    assert list(margin_edges(margin, edges=[0, 1, 10])) == [0, 1, 10]
    assert list(margin_edges(margin, edges=[1, 2, 5])) == [0.5, 1, 2, 5, 7]
    assert list(group_of(margin, margin_edges(margin, edges=[1, 2, 5]))) == [0, 1, 3]


def test_edges_belong_to_the_group_below_in_the_precision_of_the_margins() -> None:
    assert list(group_of(np.array([0.0, 0.2, 0.3, 1.0]), [0.0, 0.2, 1.0])) == [0, 0, 1, 1]
    # float32(0.2) lies above 0.2 and is still meant to be it
    assert list(group_of(np.array([0.2], dtype=np.float32), [0.0, 0.2, 1.0])) == [0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"edges": [1.0]}, "at least two edges"),
        ({"edges": [1.0, 3.0, 2.0]}, "must rise strictly; 1, 3, 2 do not"),
        ({"edges": [1.0, 1.0]}, "must rise strictly"),
        ({"edges": [0.0, np.nan]}, "finite"),
        ({"edges": [0.0, np.inf]}, "finite"),
        ({"groups": 0}, "choose 1 to 1000"),
        ({"groups": 3, "edges": [0, 1]}, "not by both"),
    ],
)
def test_invalid_groups_are_an_error(arguments: dict, words: str) -> None:
    with pytest.raises(CalibrationError, match=words):
        margin_edges([0.5, 1.5], **arguments)


def test_margins_that_cannot_be_grouped_are_an_error() -> None:
    with pytest.raises(CalibrationError, match="no samples"):
        margin_edges([])
    with pytest.raises(CalibrationError, match="2 of 3 margins are not finite"):
        margin_edges([1.0, np.nan, np.inf])
    with pytest.raises(CalibrationError, match="two rising edges"):
        margin_groups(too_sure(10), [3.0, 1.0])


def test_each_group_is_evaluated_on_its_own() -> None:
    judged, bins = too_sure(800), 10
    edges = margin_edges(judged.margin, 5)
    groups = margin_groups(judged, edges, bins)
    assert sorted(np.concatenate([group.rows for group in groups])) == list(range(800))
    for group in groups:
        rows = [i for i, m in enumerate(judged.margin) if group.low < m <= group.high or (m == group.low == edges[0])]
        assert list(group.rows) == rows
        p, a = judged.confidence[rows], judged.correct[rows]
        assert group.n == len(rows)
        assert group.accuracy == pytest.approx(sum(a) / len(a))
        assert group.confidence == pytest.approx(sum(p) / len(p))
        assert group.gap == pytest.approx(sum(p) / len(p) - sum(a) / len(a))
        assert group.ece == pytest.approx(brute_ece(p, a, bins))
        assert group.interval is None


def test_an_empty_group_is_kept() -> None:
    judged = evaluation_of([0.6, 0.9], [1, 0], [0.5, 5.0])
    groups = margin_groups(judged, margin_edges(judged.margin, edges=[0, 1, 2, 6]))
    assert [group.n for group in groups] == [1, 0, 1]
    assert np.isnan([groups[1].ece, groups[1].accuracy, groups[1].floor_q95]).all()
    assert groups[1].sentence == "margins 1.00–2.00: no samples"
    assert with_intervals(judged, groups)[1].interval is None


def test_the_worst_group_is_the_one_made_worst() -> None:
    rng = np.random.default_rng(0)
    margin = np.repeat([0.5, 1.5, 2.5, 3.5], 2000)
    chance = np.repeat([0.60, 0.55, 0.80, 0.90], 2000)
    judged = evaluation_of(np.repeat([0.60, 0.71, 0.80, 0.90], 2000), rng.random(8000) < chance, margin)
    groups = margin_groups(judged, [0, 1, 1.99, 3, 4])
    worst = worst_group(groups)
    assert worst is groups[1]
    right = judged.correct[2000:4000].mean()
    assert worst.sentence == f"margins 1.00–1.99: mean confidence 71%, accuracy {100 * right:.0f}%"
    # a binomial count of 2000 lies within 1.96 standard deviations in 95% of sets
    assert groups[3].floor_q95 == pytest.approx(1.96 * np.sqrt(0.9 * 0.1 / 2000), rel=0.1)


def test_the_worst_group_weighs_its_gap_by_its_samples() -> None:
    def group(n: int, ece: float) -> MarginGroup:
        means = {"accuracy": 0.5, "confidence": 0.5, "ece": ece, "floor_q95": 0.01}
        return MarginGroup(low=0.0, high=1.0, rows=np.arange(n), **means)

    many, few, tiny = group(1000, 0.05), group(20, 0.30), group(5000, 0.0105)
    assert worst_group([tiny, few, many]) is many


def test_there_is_no_worst_group_if_none_is_off_beyond_noise() -> None:
    judged = evaluation_of([0.5] * 40, [1, 0] * 20, np.arange(40))
    assert worst_group(margin_groups(judged, margin_edges(judged.margin, 2))) is None


def test_small_gaps_have_more_digits() -> None:
    judged = evaluation_of([0.99] * 1000, [1] * 983 + [0] * 17, np.linspace(1.78, 2.9, 1000))
    (group,) = margin_groups(judged, [1.78, 2.9])
    assert group.sentence == "margins 1.78–2.90: mean confidence 99.0%, accuracy 98.3%"


def test_intervals_hold_the_known_population_error() -> None:
    rng = np.random.default_rng(3)
    judged = evaluation_of([0.8] * 4000, rng.random(4000) < np.repeat([0.7, 0.8], 2000), np.repeat([1.0, 2.0], 2000))
    low, high = with_intervals(judged, margin_groups(judged, [0, 1.5, 3]))
    assert low.interval is not None
    assert high.interval is not None
    assert low.interval.low < 0.1 < low.interval.high < 0.14
    assert high.interval.low == pytest.approx(0, abs=1e-3)


def test_cells_equal_a_loop_over_the_samples() -> None:
    judged, bins = too_sure(500, seed=2), 7
    edges = margin_edges(judged.margin, 4)
    cells = gap_cells(judged, edges, bins)
    assert cells.count.shape == (4, bins)
    assert cells.count.sum() == 500
    for g in range(4):
        for b in range(bins):
            rows = [
                i
                for i in range(500)
                if (edges[g] < judged.margin[i] <= edges[g + 1] or (g == 0 and judged.margin[i] == edges[0]))
                and b / bins < judged.confidence[i] <= (b + 1) / bins
            ]
            assert cells.count[g, b] == len(rows)
            assert list(samples_in(judged, edges, bins, group=g, confidence_bin=b)) == rows
            if rows:
                gap = np.mean([judged.confidence[i] - judged.correct[i] for i in rows])
                assert cells.gap[g, b] == pytest.approx(gap)
            else:
                assert np.isnan(cells.gap[g, b])


def test_samples_of_a_group_or_of_a_bin_alone() -> None:
    judged = evaluation_of([0.2, 0.9, 0.95], [0, 1, 1], [1.0, 2.0, 3.0])
    assert list(samples_in(judged, [1, 2, 3], 10, group=1)) == [2]
    assert list(samples_in(judged, [1, 2, 3], 10, confidence_bin=8)) == [1]
    assert list(samples_in(judged, [1, 2, 3], 10)) == [0, 1, 2]
    with pytest.raises(CalibrationError, match="no margin group 2; they are numbered 0 to 1"):
        samples_in(judged, [1, 2, 3], 10, group=2)
    with pytest.raises(CalibrationError, match="no confidence bin -1"):
        samples_in(judged, [1, 2, 3], 10, confidence_bin=-1)


def test_change_of_confidence_by_quantiles_of_the_margin() -> None:
    n = 1000
    margin = np.random.default_rng(1).permutation(n).astype(np.float64)
    before = evaluation_of(np.full(n, 0.9), margin >= 500, margin)
    after = evaluation_of(np.where(margin < 500, 0.4, 0.95), margin >= 500, margin)
    found = confidence_change(before, after, points=4)
    assert list(found.count) == [250] * 4
    np.testing.assert_allclose(found.change, [-0.5, -0.5, 0.05, 0.05])
    np.testing.assert_allclose(found.needed, [-0.9, -0.9, 0.1, 0.1])
    np.testing.assert_allclose(found.margin, [124.5, 374.5, 624.5, 874.5])
    np.testing.assert_array_equal(found.low, [0, 250, 500, 750])
    np.testing.assert_array_equal(found.high, [249, 499, 749, 999])


def test_change_needs_the_same_samples() -> None:
    with pytest.raises(CalibrationError, match="same samples"):
        confidence_change(too_sure(20), too_sure(21))
    with pytest.raises(CalibrationError, match="same samples"):
        confidence_change(too_sure(20, seed=0), too_sure(20, seed=1))


@pytest.mark.parametrize(
    ("edges", "labels"),
    [
        ([0.03, 1.78, 2.9], ["0.0–1.8", "1.8–2.9"]),
        ([0, 0.01, 5], ["0.00–0.01", "0.01–5.00"]),
        ([2, 2], ["2.0–2.0"]),
        ([0, 1e-9, 1], ["0–1e-09", "1e-09–1"]),
        ([0, 1e30], ["0–1e+30"]),
    ],
)
def test_labels_have_enough_digits_for_the_edges(edges: list[float], labels: list[str]) -> None:
    assert margin_labels(edges) == labels


def test_fifty_thousand_samples_are_quick() -> None:
    judged = too_sure(50_000)
    start = time.process_time()
    edges = margin_edges(judged.margin, 10)
    margin_groups(judged, edges)
    gap_cells(judged, edges)
    confidence_change(judged, judged)
    assert time.process_time() - start < 10  # a tenth; sample by sample, much longer
