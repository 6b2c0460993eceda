"""Properties of stratified splits and nested subsets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smart_core.data import stratified_split, stratified_subset

LABELS = st.lists(st.integers(0, 6), min_size=2, max_size=120).map(np.array)


@given(LABELS, st.floats(0.01, 0.99), st.integers(0, 5))
def test_split_is_a_partition_in_proportion(labels, fraction, seed):
    validation, test = stratified_split(labels, fraction, seed)
    assert sorted([*validation, *test]) == list(range(len(labels)))
    assert list(validation) == sorted(validation)
    assert list(test) == sorted(test)
    size = min(max(round(fraction * len(labels)), 1), len(labels) - 1)
    assert len(validation) == size
    for label in np.unique(labels):
        quota = size * np.sum(labels == label) / len(labels)
        assert abs(np.sum(labels[validation] == label) - quota) < 1


@given(LABELS, st.integers(0, 3), st.data())
def test_subsets_are_nested_and_in_proportion(labels, seed, data):
    small = data.draw(st.integers(1, len(labels)))
    large = data.draw(st.integers(small, len(labels)))
    inner, outer = stratified_subset(labels, small, seed), stratified_subset(labels, large, seed)
    assert len(set(inner.tolist())) == small
    assert set(inner.tolist()) <= set(outer.tolist())
    for label in np.unique(labels):
        quota = small * np.sum(labels == label) / len(labels)
        assert abs(np.sum(labels[inner] == label) - quota) <= 2


def test_the_seed_determines_the_split():
    labels = np.repeat(np.arange(10), 50)
    first, again, other = (stratified_split(labels, 0.5, seed)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(stratified_subset(labels, 100, 0), stratified_subset(labels, 100, 1))


def test_every_row_is_equally_likely():
    labels = np.repeat([0, 1], [4, 12])
    hits = np.zeros(16)
    for seed in range(2000):
        hits[stratified_split(labels, 0.25, seed)[0]] += 1
    np.testing.assert_allclose(hits / 2000, 0.25, atol=0.06)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0, 2.0, float("nan")])
def test_impossible_fraction(fraction):
    with pytest.raises(ValueError, match="fraction"):
        stratified_split(np.zeros(4, int), fraction, 0)


@pytest.mark.parametrize("size", [0, -1, 5])
def test_impossible_subset(size):
    with pytest.raises(ValueError, match="subset"):
        stratified_subset(np.zeros(4, int), size, 0)
