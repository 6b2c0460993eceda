"""Confidence and prediction without the rest of the row, against the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from smart_core import kernels
from smart_core.calibrators.smart import SMART
from smart_core.calibrators.ts import TS
from smart_core.errors import CalibrationError
from tests.calibrators.problems import over_confident
from tests.export.fits import probabilities_off
from tests.other_device import pretend_device
from tests.tolerance import PROBABILITY, assert_within


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("indicator", ["margin", "confidence"])
@pytest.mark.parametrize("classes", [2, 7, 150])
def test_they_are_the_top_of_the_row(classes: int, indicator: str, compiled: bool, monkeypatch: pytest.MonkeyPatch):
    problem = over_confident(300, classes, seed=classes)
    problem.logits[:40] = np.round(problem.logits[:40])  # ties
    problem.logits[40] *= np.float32(1e30)
    smart = SMART(epochs=20, indicator=indicator).fit(problem.logits, problem.labels)
    rows = smart.predict_proba(problem.logits)
    monkeypatch.setattr(kernels, "enabled", compiled)
    monkeypatch.setattr("smart_core.calibrators.temperature.rows_per_chunk", lambda columns: 37)
    confidence, prediction = smart.predict(problem.logits)
    assert confidence.dtype == np.float32
    assert_within(confidence, rows.max(axis=1), probabilities_off(smart, problem.logits)[:, 0])
    np.testing.assert_array_equal(prediction, problem.logits.argmax(axis=1))


def test_torch_in_torch_out_and_nothing_for_nothing():
    problem = over_confident(60, 5, seed=1)
    smart = SMART(epochs=3).fit(problem.logits, problem.labels)
    confidence, prediction = smart.predict(torch.from_numpy(problem.logits))
    assert isinstance(confidence, torch.Tensor)
    assert prediction.dtype == torch.int64
    expected = smart.predict(problem.logits)
    np.testing.assert_array_equal(confidence.numpy(), expected[0])
    assert [len(part) for part in smart.predict(problem.logits[:0])] == [0, 0]


def test_other_temperature_methods_can_be_asked_too():
    problem = over_confident(60, 5, seed=2)
    ts = TS().fit(problem.logits, problem.labels)
    confidence, prediction = ts.predict(problem.logits)
    rows = ts.predict_proba(problem.logits)
    assert_within(confidence, rows.max(axis=1), PROBABILITY)
    np.testing.assert_array_equal(prediction, rows.argmax(axis=1))


def test_bad_rows_are_named():
    problem = over_confident(60, 5, seed=3)
    smart = SMART(epochs=3).fit(problem.logits, problem.labels)
    for value in (np.nan, np.inf):
        spoiled = problem.logits.copy()
        spoiled[7, 2] = value
        with pytest.raises(CalibrationError, match="row 7 of the logits holds NaN or infinity"):
            smart.predict(spoiled)
    with pytest.raises(CalibrationError, match="5 classes"):
        smart.predict(problem.logits[:, :3])


def test_on_another_device():
    problem = over_confident(60, 5, seed=4)
    with pretend_device() as device:
        smart = SMART(epochs=3, device=device).fit(problem.logits, problem.labels)
        confidence, _ = smart.predict(problem.logits)
        rows = smart.predict_proba(problem.logits)
    np.testing.assert_array_equal(confidence, rows.max(axis=1))
