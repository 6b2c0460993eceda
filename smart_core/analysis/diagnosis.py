"""Can the confidence be trusted: the ECE of an evaluation, its noise floor and interval, and the verdict in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from smart_core.evaluation import Evaluation
from smart_core.formatting import percent, plural
from smart_core.metrics.uncertainty import TOO_FEW, Floor, Interval, noise_floor
from smart_core.metrics.uncertainty import interval as population_interval

Direction = Literal["overconfident", "underconfident", "mixed"]


@dataclass(frozen=True)
class Diagnosis:
    """What Start, Diagnose, Export and the report say of an evaluation."""

    samples: int
    ece: float
    floor: Floor
    """What a perfectly calibrated model with the same confidences would show by chance."""
    interval: Interval
    """95% interval of the population ECE."""
    confidence: float
    """Mean confidence."""
    accuracy: float

    @property
    def beyond_noise(self) -> bool:
        """Whether the ECE exceeds the 95% quantile of the noise floor."""
        return self.ece > self.floor.q95

    @property
    def direction(self) -> Direction:
        """The sign of mean confidence minus accuracy; mixed where that gap is less than half of the ECE."""
        gap = self.confidence - self.accuracy
        if abs(gap) < self.ece / 2:
            return "mixed"
        return "overconfident" if gap > 0 else "underconfident"

    @property
    def words(self) -> str:
        """One sentence: is the confidence off, which way, and by more than noise?"""
        floor = percent(self.floor.q95)
        if not self.beyond_noise:
            what = "No miscalibration can be seen" if self.samples >= TOO_FEW else "Too few samples to judge"
            return (
                f"{what}: an ECE of {percent(self.ece)} is within the {floor} that a perfectly calibrated model would "
                f"show by chance on {plural(self.samples, 'sample')}."
            )
        beyond = f"ECE of {percent(self.ece)} exceeds the noise floor of {floor}"
        if self.direction == "mixed":
            return f"Overconfident in some ranges and underconfident in others: the {beyond}."
        means = f"the mean confidence is {percent(self.confidence)}, the accuracy {percent(self.accuracy)}"
        return f"{self.direction.capitalize()}: {means}. The {beyond}."


def diagnose(
    evaluation: Evaluation, bins: int = 15, *, floor: Floor | None = None, interval: Interval | None = None
) -> Diagnosis:
    """Diagnose an evaluation; a floor or interval of its ECE that is known already is not computed again.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(500, 2000, 5, seed=0)
    >>> model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
    >>> diagnosis = diagnose(sc.evaluate(model, data.test))
    >>> diagnosis.beyond_noise, diagnosis.direction
    (True, 'overconfident')
    """
    floor = floor or noise_floor("ece", evaluation, bins=bins)
    return Diagnosis(
        len(evaluation),
        evaluation.metric("ece", bins),
        floor,
        interval or population_interval("ece", evaluation, bins=bins, floor=floor),
        float(np.mean(evaluation.confidence)),
        float(np.mean(evaluation.correct)),
    )
