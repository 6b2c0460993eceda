"""The steps of Venn-Abers' interval, against an isotonic regression for every query."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

import smart_core as sc
from smart_core.analysis.probability_interval import probability_interval
from smart_core.errors import CalibrationError

RNG = np.random.default_rng(0)
CONFIDENCE = np.round(RNG.beta(4, 2, 250), 2)  # many are equal
CORRECT = RNG.random(250) < CONFIDENCE**1.5
NEW = RNG.beta(4, 2, 90)


def by_refitting(query: float, label: int) -> float:
    """The isotonic fit at the query, after it joined the samples with this label."""
    fit = IsotonicRegression().fit(np.append(CONFIDENCE, query), np.append(CORRECT, label))
    return float(fit.predict([query])[0])


@pytest.fixture(scope="module")
def fitted() -> sc.VennAbers:
    return sc.VennAbers().fit_confidence(CONFIDENCE, CORRECT)


def test_the_steps_are_isotonic_fits_with_one_more_sample(fitted: sc.VennAbers) -> None:
    found = probability_interval(fitted, NEW)
    place = np.searchsorted(found.edges, NEW, side="right") - 1
    inside = place < len(found.low)
    assert inside.sum() >= 89
    for query, step in zip(NEW[inside], place[inside], strict=True):
        assert found.low[step] == pytest.approx(by_refitting(query, 0), abs=1e-6)
        assert found.high[step] == pytest.approx(by_refitting(query, 1), abs=1e-6)
    np.testing.assert_allclose(found.value[place[inside]], fitted.predict_confidence(NEW[inside]), atol=1e-6)


def test_every_sample_is_counted_once_and_steps_differ(fitted: sc.VennAbers) -> None:
    found = probability_interval(fitted, NEW)
    assert found.samples.sum() == len(NEW)
    assert found.edges[0] == NEW.min()
    assert found.edges[-1] == 1.0
    assert (np.diff(found.edges) > 0).all()
    assert ((np.diff(found.low) != 0) | (np.diff(found.high) != 0)).all()
    wide = [by_refitting(query, 1) - by_refitting(query, 0) for query in NEW]
    assert found.width == pytest.approx(np.mean(wide), abs=1e-3)


def test_certain_samples_and_none(fitted: sc.VennAbers) -> None:
    found = probability_interval(fitted, np.ones(3))
    assert found.samples.sum() == 3
    with pytest.raises(CalibrationError, match="no samples"):
        probability_interval(fitted, [])
