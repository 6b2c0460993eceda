"""The complement, and what becomes of the other classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smart_core.calibrators import get
from smart_core.calibrators.toplabel import complement, spread
from smart_core.types import Logits, Probabilities
from tests.calibrators.made_up import degenerate, softmax

TOP_LABEL = [
    ("spline", {"top1": "keep"}),
    ("histogram", {}),
    ("histogram", {"scheme": "width"}),
    ("isotonic", {}),
    ("bbq", {}),
    ("beta", {}),
    ("platt", {}),
    ("vennabers", {}),
    ("cir", {}),
    ("scalingbinning", {}),
]


def test_complement_keeps_its_digits_where_the_confidence_rounds_to_one():
    z = np.random.default_rng(0).normal(size=(500, 7)).astype(np.float32) * np.float32(25)
    d = z.astype(np.float64) - z.max(axis=1, keepdims=True)
    others = np.sort(np.exp(d), axis=1)[:, :-1].sum(axis=1)
    found, prediction = complement(Logits(torch.from_numpy(z)))
    expected = others / (1.0 + others)
    assert (expected < 1e-8).mean() > 0.2  # here float32 confidences are all 1
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4)
    np.testing.assert_array_equal(prediction.numpy(), z.argmax(axis=1))


def test_complement_reads_the_prediction_off_the_logits():
    """Softmax rounds these two to a tie; the logits do not."""
    found, prediction = complement(Logits(torch.tensor([[0.0, 1e-9]])))
    assert prediction.tolist() == [1]
    assert found.tolist() == [0.5]


def test_spread_keeps_proportions_unless_the_prediction_would_fall():
    rows = Probabilities(torch.tensor([[0.7, 0.2, 0.1]]))
    top = torch.tensor([0])
    halved = spread(rows, top, torch.tensor([0.4]), keep=False)
    np.testing.assert_allclose(halved.numpy(), [[0.4, 0.4, 0.2]], atol=1e-6)
    kept = spread(rows, top, torch.tensor([0.4]), keep=True)
    assert kept.argmax(dim=1).tolist() == [0]
    np.testing.assert_allclose(kept.numpy(), [[0.4, 0.4, 0.2]], atol=1e-5)


def test_spread_of_what_is_almost_nothing_still_sums_to_one():
    """The other classes hold 2e-39 each, below the normal float32 numbers."""
    rows = torch.softmax(torch.tensor([[0.0, -89.0, -89.0, -89.0]]), dim=1)
    assert 0 < float(rows[0, 1]) < torch.finfo(torch.float32).tiny
    out = spread(Probabilities(rows), torch.tensor([0]), torch.tensor([0.7]), keep=True)
    np.testing.assert_allclose(out.numpy(), [[0.7, 0.1, 0.1, 0.1]], atol=1e-6)


@pytest.mark.parametrize(("id", "settings"), TOP_LABEL)
@pytest.mark.parametrize("name", list(degenerate()))
def test_degenerate_sets_keep_the_prediction(id: str, settings: dict[str, object], name: str):
    sample = degenerate()[name]
    calibrator = get(id, **settings).fit(sample.logits, sample.labels)
    rng = np.random.default_rng(1)
    classes = sample.logits.shape[1]
    other = rng.normal(size=(50, classes)).astype(np.float32)
    for logits in (sample.logits, 4 * other, np.float32(1e-9) * other, np.float32(1e30) * other):
        rows = calibrator.predict_proba(logits)
        assert np.isfinite(rows).all()
        assert (rows >= 0).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-5)
        np.testing.assert_array_equal(rows.argmax(axis=1), logits.argmax(axis=1))


@pytest.mark.parametrize(("id", "settings"), TOP_LABEL)
@given(z=arrays(np.float32, (20, 4), elements=st.floats(-50, 50, width=32)), seed=st.integers(0, 99))
def test_top1_is_kept_on_any_logits(id: str, settings: dict[str, object], z: np.ndarray, seed: int):
    labels = np.random.default_rng(seed).integers(0, 4, size=20)
    rows = get(id, **settings).fit(z, labels).predict_proba(z)
    np.testing.assert_array_equal(rows.argmax(axis=1), z.argmax(axis=1))
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("id", ["isotonic", "beta", "cir", "vennabers"])
def test_monotone_maps_never_reverse_two_confidences(id: str):
    rng = np.random.default_rng(3)
    z = rng.normal(size=(400, 3)).astype(np.float32) * 4
    labels = rng.integers(0, 3, size=400)
    labels[::2] = z[::2].argmax(axis=1)
    calibrator = get(id).fit(z, labels)
    order = np.argsort(softmax(z).max(axis=1), kind="stable")
    mapped = calibrator.predict_proba(z).max(axis=1)[order]
    assert (np.diff(mapped) >= -1e-6).all()
    assert mapped[-1] > mapped[0] + 0.02
