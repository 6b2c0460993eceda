"""Methods that map the top-1 confidence alone, and what becomes of the other classes then."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData
from smart_core.device import precise, resolve_device, rows_per_chunk
from smart_core.profile import gaps
from smart_core.progress import Run
from smart_core.types import FloatArray, Logits, Probabilities

STRICTLY_BELOW = 1.0 - 2.0**-18
"""How close to the prediction's probability another class may come and still be told apart in float32."""


def doubt(logits: Logits) -> tuple[Tensor, Tensor]:
    """`u = 1 - s`, what the top-1 confidence s leaves to the other classes, and the prediction.

    `u = r / (1 + r)` with `r` the sum of `exp(d_k)` over the other classes: no digits are lost where s rounds
    to 1 in float32 (below u = 6e-8), which is where most samples of a confident network lie. The sum is rounded once:
    a learned map may be steep, or step, where another order of summing would fall on the other side.
    """
    prediction = logits.argmax(dim=1)
    powers = torch.exp(precise(gaps(logits))).scatter(1, prediction.unsqueeze(1), 0.0)
    others = powers.sum(dim=1).to(logits.dtype)
    return others / (1.0 + others), prediction


@dataclass(kw_only=True, eq=False)
class TopLabelCalibrator(Calibrator):
    """A map of the top-1 confidence alone; the other classes share what is left in their old proportions.

    The map is learned and read as a function of the doubt `u = 1 - s`, never of s itself: see `doubt`.
    """

    @abstractmethod
    def _fit_map(self, doubts: Tensor, correct: Tensor, run: Run) -> None:
        """Learn from doubts (N,) and hits (N,), float64 on the CPU; `_store` makes the learned tensors."""

    @abstractmethod
    def _map(self, doubts: Tensor) -> Tensor:
        """Calibrated confidences of doubts (N,), on the calibrator's device."""

    def _fit(self, data: FitData, run: Run) -> None:
        size = rows_per_chunk(data.classes)
        parts = []
        for start in range(0, len(data), size):
            run.tick(0.0, "reading confidences")
            parts.append(doubt(Logits(data.logits[start : start + size])))
        doubts, prediction = (torch.cat(column) for column in zip(*parts, strict=True))
        correct = (prediction == data.labels).cpu().to(torch.float64)
        self._fit_map(doubts.cpu().to(torch.float64), correct, run)

    def _store(self, values: FloatArray) -> Tensor:
        """A learned array as the float32 tensor to keep, on the fit's device."""
        return torch.as_tensor(values, dtype=torch.float32, device=resolve_device(self.device))

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        doubts, prediction = doubt(logits)
        probabilities = Probabilities(torch.softmax(gaps(logits), dim=1))
        return spread(probabilities, prediction, self._map(doubts), keep=self.keeps_top1)


def spread(probabilities: Probabilities, prediction: Tensor, confidence: Tensor, *, keep: bool) -> Probabilities:
    """Rows with `confidence` at `prediction`, the rest in its old proportions: scaled by `(1 - c) / (1 - s)`.

    With `keep`, no other class may reach the prediction: the confidence is held just above 1/K, and where the
    proportional share would overtake it the share is capped and the excess goes to the smaller classes.
    """
    classes = probabilities.shape[1]
    top = prediction.unsqueeze(1)
    floor = (2.0 - STRICTLY_BELOW) / classes if keep else 0.0
    c = confidence.to(probabilities.dtype).clamp(floor, 1.0).unsqueeze(1)
    others = probabilities.scatter(1, top, 0.0)
    left = others.sum(dim=1, keepdim=True)
    even = torch.full_like(others, 1.0 / (classes - 1)).scatter(1, top, 0.0)
    tiny = torch.finfo(others.dtype).tiny  # below it, numbers have too few digits to hold proportions
    shares = torch.where(left >= tiny, others / left.clamp(min=tiny), even)
    rest = shares * (1.0 - c)
    if keep:
        rest = _cap(rest, even, 1.0 - c, c * STRICTLY_BELOW)
    return Probabilities(rest.scatter(1, top, c))


def _cap(rest: Tensor, even: Tensor, total: Tensor, ceiling: Tensor) -> Tensor:
    """The mixture of proportional and even shares, nearest to proportional, with no class above the ceiling.

    `r_k = total ((1 - w) share_k + w / (K - 1))`; the largest class meets the ceiling at
    `w = (max - ceiling) / (max - total / (K - 1))`.
    """
    highest = rest.amax(dim=1, keepdim=True)
    even_value = (even * total).amax(dim=1, keepdim=True)
    excess = (highest - ceiling).clamp(min=0.0)
    weight = torch.where(excess > 0.0, excess / (highest - even_value).clamp(min=1e-12), 0.0).clamp(0.0, 1.0)
    # near weight 1 the sum is rounded by more than the ceiling lies below the prediction, hence the minimum
    return torch.minimum((1.0 - weight) * rest + weight * even * total, ceiling)
