"""What is known of published logits, asked of the bundled samples: every method repairs a real network."""

from __future__ import annotations

import numpy as np
import pytest

import sample_logits
import smart_core as sc
from smart_core.calibrators import get
from smart_core.evaluation import evaluate
from tests.calibrators.checks import cifar10
from tests.calibrators.fits import ALL
from tests.calibrators.made_up import plain_ece, softmax
from tests.calibrators.test_ts import scipy_temperature


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    return cifar10("bundled")


@pytest.mark.parametrize("id", [id for id in ALL if id != "vanilla"])
def test_every_method_removes_much_of_the_error(id: str, data: sc.LogitSet) -> None:
    """Clipping removes little, and ProCal leaves half; the others leave about a quarter."""
    before = softmax(data.test.logits)
    model = before.argmax(axis=1) == data.test.labels
    fit_on = {"features": data.validation.features, "head": data.head}
    judged = evaluate(get(id).fit(data.validation.logits, data.validation.labels, **fit_on), data.test)
    left = plain_ece(judged.confidence.astype(np.float64), judged.correct)
    assert left < {"procal": 0.6, "logitclip": 0.9}.get(id, 0.5) * plain_ece(before.max(axis=1), model)
    assert judged.correct.mean() > model.mean() - 0.01


@pytest.mark.parametrize("name", ["cifar10", "fashion", "fashion_fl_3", "digits"])
def test_the_temperature_is_scipys(name: str) -> None:
    part = sc.load(sample_logits.path(name)).validation
    found = float(sc.TS().fit(part.logits, part.labels).temperature_)
    assert found == pytest.approx(scipy_temperature(part.logits, part.labels), rel=1e-4)
