"""The search for a clipping threshold: validation ECE and accuracy of the clipped network on a grid."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from smart_core.calibrators.candidate_ece import candidate_ece
from smart_core.device import rows_per_chunk
from smart_core.progress import Run

STEP, GRID = 0.01, 2000
"""The thresholds considered: 0.01, 0.02, ..., 20.00."""

COARSE = 10
"""The coarse search looks at every tenth threshold first."""

REFINED = 3
"""... and then at all thresholds around so many of the best."""


def head_logits(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`W x + b`, row by row."""
    return torch.addmm(bias, features, weight.T)


class ClipSearch:
    """Validation ECE and accuracy at thresholds `STEP * number`, number = 1..GRID.

    Rows are sorted by their largest absolute feature: those that a threshold does not touch are at the end,
    and keep what was computed for them once.
    """

    def __init__(self, features: Tensor, labels: Tensor, weight: Tensor, bias: Tensor, bins: int, run: Run) -> None:
        reach, order = features.abs().amax(dim=1).sort(descending=True)
        self.reach = reach.cpu()
        self.features, self.labels = features[order], labels[order]
        self.weight, self.bias, self.bins, self.run = weight, bias, bins, run
        self.planned = GRID
        self.tried: dict[int, tuple[float, int]] = {}
        self.confidence, self.hit = self._outcome(GRID, len(labels))
        self.tried[GRID] = self._score(self.confidence, self.hit)

    def full(self, hits_above: float) -> int | None:
        """The threshold of least ECE among all; the smallest where several are equal."""
        self.planned = GRID
        return self._best(range(1, GRID + 1), hits_above)

    def coarse(self, hits_above: float) -> int | None:
        """Every tenth threshold, then all around the best few."""
        self.planned = GRID // COARSE + 2 * REFINED * COARSE
        numbers = set(range(COARSE, GRID + 1, COARSE))
        scores = {number: self._at(number) for number in sorted(numbers)}
        allowed = [number for number, (_, hits) in scores.items() if hits > hits_above]
        for centre in sorted(allowed, key=lambda number: scores[number][0])[:REFINED]:
            numbers.update(range(max(1, centre - COARSE + 1), min(GRID + 1, centre + COARSE)))
        return self._best(sorted(numbers), hits_above)

    def _best(self, numbers: Iterable[int], hits_above: float) -> int | None:
        """The first of least ECE among those that keep enough hits."""
        best, least = None, float("inf")
        for number in numbers:
            error, hits = self._at(number)
            if hits > hits_above and error < least:
                best, least = number, error
        return best

    def _at(self, number: int) -> tuple[float, int]:
        """ECE and hits at one threshold, remembered; thresholds above every feature are all the same."""
        if number not in self.tried:
            touched = int((self.reach > STEP * number).sum())
            if touched == 0:
                return self.tried[GRID]
            confidence, hit = self.confidence.clone(), self.hit.clone()
            confidence[:touched], hit[:touched] = self._outcome(number, touched)
            self.tried[number] = self._score(confidence, hit)
        return self.tried[number]

    def _score(self, confidence: Tensor, hit: Tensor) -> tuple[float, int]:
        error = candidate_ece(confidence.unsqueeze(0), hit.unsqueeze(0), self.bins)[0]
        return error, int(hit.sum())

    def _outcome(self, number: int, count: int) -> tuple[Tensor, Tensor]:
        """Confidence and hit of the first `count` rows, clipped at the threshold."""
        clip = STEP * number
        size = rows_per_chunk(max(self.weight.shape))
        confidence = torch.empty(count, device=self.features.device)
        hit = torch.empty(count, device=self.features.device, dtype=torch.bool)
        for start in range(0, count, size):
            rows = slice(start, min(start + size, count))
            self.run.tick(len(self.tried) / self.planned, f"threshold {clip:.2f}")
            z = head_logits(self.features[rows].clamp(-clip, clip), self.weight, self.bias)
            top, prediction = z.max(dim=1)
            confidence[rows] = torch.exp(top - torch.logsumexp(z, dim=1)).clamp(max=1.0)
            hit[rows] = prediction == self.labels[rows]
        return confidence, hit
