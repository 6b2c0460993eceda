"""The verdict on a model: whether its ECE is beyond noise, and which way the confidence is off."""

from __future__ import annotations

import pytest

from smart_core.analysis.diagnosis import Diagnosis, diagnose
from smart_core.metrics import Floor, Interval, ece, interval, noise_floor
from tests.figures.samples import too_sure


def diagnosis(ece: float, floor: float, confidence: float, accuracy: float, samples: int) -> Diagnosis:
    return Diagnosis(samples, ece, Floor(floor / 2, floor, 1000), Interval(0.0, ece, 0.95, ""), confidence, accuracy)


@pytest.mark.parametrize(
    ("ece", "confidence", "accuracy", "words"),
    [
        (0.01, 0.95, 0.94, "No miscalibration can be seen"),
        (0.05, 0.95, 0.90, "Overconfident:"),
        (0.05, 0.80, 0.85, "Underconfident:"),
        (0.05, 0.81, 0.80, "Overconfident in some ranges"),
    ],
)
def test_the_words_name_the_direction(ece: float, confidence: float, accuracy: float, words: str) -> None:
    assert diagnosis(ece, 0.015, confidence, accuracy, 1000).words.startswith(words)


def test_a_handful_of_samples_is_too_few_to_judge() -> None:
    words = diagnosis(0.4, 0.6, 0.9, 0.5, 1).words
    assert words.startswith("Too few samples to judge")
    assert words.endswith("on 1 sample.")


def test_the_numbers_are_those_of_the_metrics() -> None:
    evaluation = too_sure()
    found = diagnose(evaluation, 10)
    pair = evaluation.confidence, evaluation.correct
    assert found.ece == ece(*pair, 10)
    assert found.floor == noise_floor("ece", evaluation, bins=10)
    assert found.interval == interval("ece", evaluation, floor=found.floor, bins=10)
    assert found.beyond_noise
    assert found.direction == "overconfident"


def test_a_known_floor_and_interval_are_used() -> None:
    floor, ends = Floor(0.1, 0.2, 5), Interval(0.3, 0.4, 0.95, "")
    found = diagnose(too_sure(), floor=floor, interval=ends)
    assert (found.floor, found.interval) == (floor, ends)
