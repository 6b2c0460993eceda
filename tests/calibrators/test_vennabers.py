"""Venn-Abers against isotonic regressions of every query, and against the package venn-abers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from smart_core.calibrators.toplabel import complement
from smart_core.calibrators.vennabers import VennAbers, with_a_hit
from smart_core.types import Logits
from tests.calibrators.problems import over_confident


def by_refitting(scores: np.ndarray, hits: np.ndarray, query: float, label: int) -> float:
    """The isotonic fit at the query, after it joined the samples with this label."""
    x, y = np.append(scores, query), np.append(hits, label)
    return float(IsotonicRegression().fit(x, y).predict([query])[0])


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=25))
def test_the_stack_gives_the_isotonic_fit_of_each_group(groups: list[tuple[int, int]]):
    count = np.array([size for size, _ in groups], dtype=float)
    hits = np.array([min(size, hit) for size, hit in groups], dtype=float)
    found = with_a_hit(count, hits)
    for group in range(len(groups)):
        more = np.arange(len(groups)) == group
        fit = IsotonicRegression().fit(
            np.arange(len(groups)), (hits + more) / (count + more), sample_weight=count + more
        )
        assert found[group] == pytest.approx(fit.predict([group])[0], abs=1e-12)


def scores_of(logits: np.ndarray) -> np.ndarray:
    """Minus the complement of the confidence: its order, without the rounding near 1."""
    return -complement(Logits(torch.from_numpy(logits)))[0].numpy().astype(np.float64)


Fitted = tuple[VennAbers, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    """A fit, and the logits and hits of its validation samples; coarse logits tie many of them."""
    problem = over_confident(300, 4, seed=3)
    logits = np.round(problem.logits)
    return VennAbers().fit(logits, problem.labels), logits, logits.argmax(axis=1) == problem.labels


def test_the_interval_is_that_of_two_isotonic_fits(fitted: Fitted):
    vennabers, logits, hits = fitted
    _, rank = np.unique(scores_of(logits), return_inverse=True)
    assert rank.max() < 250
    low, high = vennabers.probability_interval(logits[:60])
    for row in range(60):
        assert low[row] == pytest.approx(by_refitting(rank, hits, rank[row], 0), abs=1e-6)
        assert high[row] == pytest.approx(by_refitting(rank, hits, rank[row], 1), abs=1e-6)


def test_it_equals_the_package_on_new_rows(fitted: Fitted):
    package = pytest.importorskip("venn_abers")
    vennabers, logits, hits = fitted
    new = over_confident(200, 4, seed=8).logits
    # venn-abers divides 0 by 0 where groups begin, and skips the NaN; it reads the second column only
    with np.errstate(divide="ignore", invalid="ignore"):
        p0, p1, c = package.calc_p0p1(np.tile(scores_of(logits)[:, None], 2), hits.astype(float))
        value, interval = package.calc_probs(p0, p1, c, np.tile(scores_of(new)[:, None], 2))
    low, high = vennabers.probability_interval(new)
    np.testing.assert_allclose(low, interval[:, 0], atol=1e-6)
    np.testing.assert_allclose(high, interval[:, 1], atol=1e-6)
    above = value[:, 1] > 0.3  # lower ones are raised to keep the prediction
    top = vennabers.predict_proba(new).max(axis=1)
    np.testing.assert_allclose(top[above], value[above, 1], atol=1e-6)


def test_the_notice_gives_the_width(fitted: Fitted):
    vennabers, logits, _ = fitted
    low, high = vennabers.probability_interval(logits)
    assert f"{np.mean(high - low):.4f} wide on average" in vennabers.notices_[0]


def test_no_rows_have_no_interval(fitted: Fitted):
    low, high = fitted[0].probability_interval(np.zeros((0, 4), dtype=np.float32))
    assert low.shape == high.shape == (0,)
