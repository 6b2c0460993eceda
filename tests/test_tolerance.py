"""The bounds of the other tests: they hold of what they are said to bound, and they can fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from tests.calibrators.made_up import plain_ece
from tests.tolerance import EPS, PROBABILITY, assert_within, binned_bound, float32_bound, moved_by_temperature


def test_what_lies_beyond_is_named() -> None:
    assert_within([1.0, 2.0], [1.0, 2.5], [0.0, 0.5])
    with pytest.raises(AssertionError, match=r"gap 1 of 2 beyond their bound; at \(1,\) .*2\.0.* is not .*2\.5"):
        assert_within([1.0, 2.0], [1.0, 2.5], 0.4, "gap")
    with pytest.raises(AssertionError):
        assert_within([np.nan], [1.0], 10.0)
    with pytest.raises(AssertionError):
        assert_within([1.0], [1.0, 1.0], 10.0)


@given(st.integers(0, 10_000), st.sampled_from([2, 10, 300]), st.sampled_from([0.1, 3.0, 1e4]))
def test_float32_sums_and_softmax_rows_keep_their_bounds(seed: int, count: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=count) * scale).astype(np.float32)
    wide = values.astype(np.float64)
    for order in (values, np.sort(values), values[::-1]):
        one_by_one = np.float32(0.0)
        for value in order:
            one_by_one += value
        assert_within(one_by_one, wide.sum(), float32_bound(count / 2, np.abs(wide).sum()))
    assert_within(softmax(values), softmax(wide), PROBABILITY)


@given(
    st.integers(0, 10_000),
    st.floats(1e-7, 1e-2),
    st.sampled_from([0.1, 3.0, 100.0]),
    st.sampled_from([2, 7, 1000]),
)
def test_a_temperature_moves_no_probability_further(seed: int, share: float, scale: float, classes: int) -> None:
    z = np.random.default_rng(seed).normal(size=(50, classes)) * scale
    z[::2, 0] = np.linspace(0, 12, 25)
    z[::2, 1:] = 0.0  # the worst: one class against all others
    moved = np.abs(softmax(z / (1 + share), axis=1) - softmax(z, axis=1)).max()
    assert moved <= moved_by_temperature(share, classes) * (1 + share) + 1e-15


@given(st.integers(0, 10_000), st.sampled_from([2, 15, 40]), st.sampled_from([EPS, 1e-3]))
def test_a_binned_error_moves_no_further_than_its_bound(seed: int, bins: int, off: float) -> None:
    rng = np.random.default_rng(seed)
    confidence, correct = rng.random(200), rng.random(200) < 0.5
    confidence[:50] = rng.integers(0, bins + 1, 50) / bins  # on the edges
    other = np.clip(confidence + off * rng.uniform(-1, 1, 200), 0, 1)
    change = abs(plain_ece(other, correct, bins) - plain_ece(confidence, correct, bins))
    assert change <= binned_bound(confidence, correct, bins, off) + 1e-15
    centres = (np.arange(200) % bins + 0.5) / bins
    assert binned_bound(centres, correct, bins, EPS) < 1e-6  # away from the edges it is small
