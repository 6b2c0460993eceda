"""Metrics from sums against those of the samples, and the stated bounds of the two that take a grid."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.evaluation import Evaluation
from smart_core.metrics import interval, noise_floor
from smart_core.metrics.arrays import MetricError
from smart_core.metrics.summed import SamplePiece, SampleSums, SummedEvaluation

EXACT = ("ece", "adaece", "nll", "brier", "accuracy", "mce", "ece_l2", "over", "under")


def samples(kind: str, count: int = 30_000) -> Evaluation:
    """Confidences of one kind with outcomes that are over-confident, and skewed losses."""
    rng = np.random.default_rng(5)
    p = {
        "spread": lambda: rng.beta(4.0, 1.0, count),
        "confident": lambda: 1.0 - rng.exponential(1e-4, count),  # most round to few float32 numbers, many to 1
        "ties": lambda: rng.integers(2, 7, count) / 6,
        "equal": lambda: np.full(count, 0.8),
        "narrow": lambda: 0.7 + 1e-7 * rng.integers(0, 40, count),  # every cut falls into one or two cells
        "small": lambda: rng.uniform(1e-5, 3e-5, count),
    }[kind]()
    p = np.clip(p, 0.0, 1.0).astype(np.float32)
    correct = rng.random(count) < p**1.2
    nll, brier = rng.exponential(1.0, count) ** 2, rng.random(count)
    return Evaluation(p, np.zeros(count, np.int64), correct, nll, brier)


def summed(evaluation: Evaluation, bins: int = 15, pieces: int = 7) -> SummedEvaluation:
    sums = SampleSums(bins)
    for rows in np.array_split(np.random.default_rng(0).permutation(len(evaluation)), pieces):
        sums.add(SamplePiece.of(evaluation.subset(rows)))
    return sums.evaluation()


@pytest.fixture(autouse=True)
def _many_reads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("smart_core.metrics.summed.AT_ONCE", 7001)


KINDS = ("spread", "confident", "ties", "equal", "narrow", "small")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bins", [2, 15, 100])
def test_exact_metrics(kind: str, bins: int):
    evaluation = samples(kind)
    found = summed(evaluation, bins)
    assert len(found) == len(evaluation)
    for name in EXACT:
        assert found.metric(name, bins) == pytest.approx(evaluation.metric(name, bins), rel=1e-9, abs=1e-12), name


@pytest.mark.parametrize("kind", KINDS)
def test_smooth_metrics_are_within_their_bound(kind: str):
    evaluation = samples(kind)
    found = summed(evaluation)
    for name in ("smce", "smece"):
        off = abs(found.metric(name) - evaluation.metric(name))
        assert off <= found.smooth_error_bound(name) + 1e-9, name
        assert found.smooth_error_bound(name) < 1e-3


@pytest.mark.parametrize("kind", ["spread", "ties", "confident"])
def test_intervals_and_floors_are_those_of_the_samples(kind: str):
    evaluation = samples(kind)
    found = summed(evaluation)
    for name in ("ece", "adaece", "smce", "smece", "nll", "brier", "accuracy"):
        expected, own = interval(name, evaluation), found.interval(name)
        width = expected.high - expected.low
        tolerance = 1e-9 if name in ("nll", "brier", "accuracy") else 0.1 * width + 1e-6  # others by simulation
        assert (own.low, own.high) == pytest.approx((expected.low, expected.high), abs=tolerance), name
        assert own.of == expected.of
    for name in ("ece", "adaece", "smce", "smece"):
        expected_floor, floor = noise_floor(name, evaluation), found.floor(name)
        assert (floor.mean, floor.q95) == pytest.approx((expected_floor.mean, expected_floor.q95), rel=0.1), name


def test_what_sums_do_not_have():
    found = summed(samples("spread"))
    assert np.isnan(found.metric("aurc"))
    with pytest.raises(MetricError, match="keeps sums of its 30,000 samples, not their confidence"):
        _ = found.confidence
    with pytest.raises(MetricError, match="have 15 bins, not 10"):
        found.metric("ece", 10)
