"""The verdict from plain numbers, for pages that have no `Diagnosis`."""

from __future__ import annotations

from smart_core.analysis.diagnosis import Diagnosis
from smart_core.experiments.verdict import repair_verdict as repair_verdict
from smart_core.metrics.floor import Floor
from smart_core.metrics.intervals import Interval


def model_verdict(ece: float, floor: float, confidence: float, accuracy: float, samples: int) -> str:
    """`Diagnosis.words` from plain numbers; `floor` is the 95 % quantile of the noise floor."""
    return Diagnosis(samples, ece, Floor(floor, floor, 0), Interval(ece, ece, 0.95, ""), confidence, accuracy).words
