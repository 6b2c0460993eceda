"""The ECE that grid searches compare, against the metric and a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smart_core.calibrators.candidate_ece import bin_of, candidate_ece
from smart_core.metrics import ece
from smart_core.metrics.binning import bin_index
from tests.calibrators.made_up import plain_ece


def test_every_row_is_its_own_ece() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.uniform(size=(7, 400)).astype(np.float32)
    hit = rng.uniform(size=(7, 400)) < confidence**2
    found = candidate_ece(torch.from_numpy(confidence), torch.from_numpy(hit), 15)
    for row in range(7):
        assert found[row] == pytest.approx(plain_ece(confidence[row].astype(float), hit[row]), abs=1e-7)
        assert found[row] == pytest.approx(ece(confidence[row], hit[row]), abs=1e-7)


@pytest.mark.parametrize("bins", [1, 2, 10, 13, 15, 19, 25, 100, 997])
def test_bins_agree_with_the_metric_at_every_edge(bins: int) -> None:
    edges = (np.arange(bins + 1) / bins).astype(np.float32)
    around = np.concatenate([edges, np.nextafter(edges, np.float32(2)), np.nextafter(edges, np.float32(-1))])
    around = around.clip(0, 1)
    assert np.array_equal(bin_of(torch.from_numpy(around), bins).numpy(), bin_index(around, bins))


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40), st.integers(1, 60))
def test_bins_agree_with_the_metric_anywhere(values: list[float], bins: int) -> None:
    confidence = np.array(values, dtype=np.float32)
    assert np.array_equal(bin_of(torch.from_numpy(confidence), bins).numpy(), bin_index(confidence, bins))


def test_the_order_of_samples_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    confidence = torch.from_numpy(rng.uniform(size=(1, 5000)).astype(np.float32))
    hit = torch.from_numpy(rng.uniform(size=(1, 5000)) < 0.5)
    order = torch.from_numpy(rng.permutation(5000))
    assert candidate_ece(confidence, hit, 15) == candidate_ece(confidence[:, order], hit[:, order], 15)
