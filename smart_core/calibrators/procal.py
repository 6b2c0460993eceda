"""ProCal (Xiong et al., 2023), density-ratio form: confidence corrected for how crowded its place is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData
from smart_core.calibrators.density import Density
from smart_core.calibrators.features import features_or_logits
from smart_core.calibrators.learned import Shape
from smart_core.calibrators.proximity import proximity, unit_rows
from smart_core.calibrators.rows import map_rows, row_chunks
from smart_core.calibrators.settings import setting
from smart_core.calibrators.toplabel import spread
from smart_core.device import precise
from smart_core.profile import gaps
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities


@dataclass(kw_only=True, eq=False)
class ProCal(Calibrator):
    """`c = f+ / (f+ + f- n-/n+)`; `f+`, `f-` are the densities of (confidence, proximity) of hits and misses.

    Proximity is the mean of `exp(-d^2)` over the nearest validation samples, d the distance of L2-normalised
    features. The other classes share `1 - c` in their old proportions.
    """

    id = "procal"
    label = "ProCal"
    summary = "Hit rate as a density ratio over confidence and proximity to the validation set."
    position = 10
    uses = ("features",)

    neighbours: int = setting(10, "Nearest validation samples in the proximity.", low=1, high=10_000)

    def _fit(self, data: FitData, run: Run) -> None:
        values, self.features_used_ = features_or_logits(data, self.label, self.notices_)
        self.reference_ = map_rows(unit_rows, values, run, "normalising")
        tops = [_top1(Logits(chunk))[1:] for chunk in row_chunks(data.logits, run, "reading confidences")]
        confidence, prediction = (torch.cat(column) for column in zip(*tops, strict=True))
        near = proximity(self.reference_, self.reference_, self.neighbours, run)
        points = torch.stack([confidence, near], dim=1)
        hit = prediction == data.labels
        self.hits_, self.misses_ = points[hit], points[~hit]
        self.hit_bandwidth_ = Density.bandwidth(self.hits_, points)
        self.miss_bandwidth_ = Density.bandwidth(self.misses_, points)
        if not self._has_both:
            lacking = "misses" if len(self.misses_) == 0 else "hits"
            self.notices_.append(
                f"The validation set holds no {lacking}, so there is no density ratio; "
                "confidences are left as they are."
            )

    @property
    def _has_both(self) -> bool:
        return len(self.hits_) > 0 and len(self.misses_) > 0

    def _confidence(self, confidence: Tensor, near: Tensor) -> Tensor:
        """The ratio as a logistic function of `log f+ + log n+ - log f- - log n-`, safe where both vanish."""
        points = torch.stack([confidence, near], dim=1)
        for_hit = Density(self.hits_, self.hit_bandwidth_).log_mass(points)
        for_miss = Density(self.misses_, self.miss_bandwidth_).log_mass(points)
        return torch.sigmoid(for_hit - for_miss)

    def learned(self) -> dict[str, Shape]:
        width = "d" if self.features_used_ else self.classes_
        return {
            "reference_": ("n", width),
            "hits_": ("hits", 2),
            "misses_": ("misses", 2),
            "hit_bandwidth_": (2,),
            "miss_bandwidth_": (2,),
        }

    def _feature_width(self) -> int:
        return self.reference_.shape[1]

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        probabilities, confidence, prediction = _top1(logits)
        if self._has_both:
            # a bandwidth may be as narrow as the rounding of float32 numbers is wide
            queries = unit_rows(precise(logits if features is None else features))
            sharp = torch.softmax(precise(gaps(logits)), dim=1).amax(dim=1)
            confidence = self._confidence(sharp, proximity(queries, self.reference_, self.neighbours))
        return spread(probabilities, prediction, confidence, keep=True)

    @property
    def parameters(self) -> int:
        """The numbers kept: reference rows, density points and bandwidths."""
        return sum(getattr(self, name).numel() for name in self.learned())


def _top1(logits: Logits) -> tuple[Probabilities, Tensor, Tensor]:
    """The softmax, and the confidence and place of the largest logit (the softmax may round to ties)."""
    probabilities = torch.softmax(gaps(logits), dim=1)
    prediction = logits.argmax(dim=1)
    confidence = probabilities.gather(1, prediction.unsqueeze(1)).squeeze(1)
    return Probabilities(probabilities), confidence, prediction
