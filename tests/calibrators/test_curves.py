"""Broken lines, stairs and bins against NumPy's own and plain loops."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from smart_core.calibrators.toplabel import (
    bin_centres,
    broken_line,
    equal_mass_edges,
    hits_in_bins,
    stairs,
)

coarse = st.integers(0, 64).map(lambda i: i / 64)


@given(nodes=st.lists(coarse, min_size=1, unique=True), x=st.lists(st.floats(-1, 2, width=32), min_size=1))
def test_broken_line_is_numpys_interpolation(nodes: list[float], x: list[float]):
    nodes = sorted(nodes)
    values = np.cos(7 * np.array(nodes))
    found = broken_line(torch.tensor(x), torch.tensor(nodes), torch.tensor(values, dtype=torch.float32))
    np.testing.assert_allclose(found.numpy(), np.interp(x, nodes, values), atol=1e-5)


@given(edges=st.lists(coarse, unique=True), x=st.lists(coarse, min_size=1))
def test_stairs_by_counting_the_edges_passed(edges: list[float], x: list[float]):
    edges = sorted(edges)
    values = torch.arange(len(edges) + 1, dtype=torch.float32)
    found = stairs(torch.tensor(x), torch.tensor(edges, dtype=torch.float32), values)
    assert found.tolist() == [float(sum(edge <= one for edge in edges)) for one in x]


@given(count=st.integers(1, 60), bins=st.integers(1, 20))
def test_equal_mass_without_ties_is_even(count: int, bins: int):
    x = np.linspace(0.1, 0.9, count)
    sizes, _ = hits_in_bins(x, np.ones(count), equal_mass_edges(x, bins))
    assert len(sizes) == min(bins, count)
    assert sizes.sum() == count
    assert sizes.max() - sizes.min() <= 1


@given(x=st.lists(coarse, min_size=1), bins=st.integers(1, 12))
def test_ties_share_a_bin_and_no_bin_is_empty(x: list[float], bins: int):
    ordered = np.sort(np.array(x))
    edges = equal_mass_edges(ordered, bins)
    sizes, hits = hits_in_bins(ordered, ordered > 0.5, edges)
    assert (sizes > 0).all()
    assert not np.isin(edges, ordered).any()
    assert hits.sum() == (ordered > 0.5).sum()


def test_neighbouring_float32_numbers_are_separated():
    low = np.float32(0.3)
    pair = np.array([low, low, np.nextafter(low, np.float32(1))], dtype=np.float64)
    sizes, _ = hits_in_bins(pair, np.ones(3), equal_mass_edges(pair, 2))
    assert sizes.tolist() == [2, 1]


def test_cuts_among_ties_move_to_the_nearer_end():
    edges = equal_mass_edges(np.repeat([0.25, 0.75], 20), 15)
    assert edges.tolist() == [0.5]


def test_bin_centres():
    np.testing.assert_allclose(bin_centres(np.array([0.2, 0.6])), [0.1, 0.4, 0.8])
