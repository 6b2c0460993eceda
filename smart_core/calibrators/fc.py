"""Feature clipping (Tao et al., 2025): large penultimate features are clipped before the classifier's head."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from smart_core.calibrators.base import Calibrator, FitData, LineStyle, Shape
from smart_core.calibrators.candidate_ece import candidate_ece
from smart_core.calibrators.rules import between
from smart_core.calibrators.settings import setting
from smart_core.device import precise, rows_per_chunk
from smart_core.fitting.profile import gaps
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

ACCURACY_KEPT = 0.99
"""A threshold must keep more than this share of the original accuracy."""

STEP, GRID = 0.01, 2000
"""The thresholds considered: 0.01, 0.02, ..., 20.00."""

COARSE, REFINED = 10, 3
"""The coarse search tries every tenth threshold, then all those around the best three."""

FULL_UP_TO = 1 << 28
"""Multiplications of one pass through the head (N D K) up to which the whole grid is searched."""


@dataclass(kw_only=True, eq=False)
class FC(Calibrator):
    """`q = softmax(W clamp(x, -C, C) + b)` with the C of least validation ECE, x the features, W and b the head.

    Only thresholds that keep more than 0.99 of the accuracy count; if none does, nothing is clipped and `q =
    softmax(z)`. The full search tries all 2000 thresholds. Departure: the coarse search, for large sets, tries every
    tenth and then all those around the best three, and may end slightly above the full minimum.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits")
    >>> part = data.validation
    >>> fc = sc.FC(search="coarse").fit(part.logits, part.labels, features=part.features, head=data.head)
    >>> float(fc.clip_) > 0
    True
    """

    id = "fc"
    label = "FC"
    summary = "Penultimate features clipped at a threshold before the classifier's head."
    position = 11
    whole_rows = "its head gives a logit for every class"
    family = "With the network's features"
    style = LineStyle("#A855B8", "longdashdot", "star-square")
    rules = (("clip_", between(1e-9, math.inf)),)
    needs = ("features", "head")
    infinite = ("clip_",)
    keeps_top1 = False  # clipping changes the logits
    parameters = 1

    search: str = setting(
        "auto",
        "Thresholds tried: all, every tenth and then around the best, or whichever the size suggests.",
        choices=("auto", "full", "coarse"),
    )
    bins: int = setting(15, "Bins of the ECE that the search lowers.", low=1, high=1000)

    def _fit(self, data: FitData, run: Run) -> None:
        assert data.features is not None
        assert data.head is not None
        features = self._checked_features(data.features)
        self.weight_, self.bias_ = self._checked_head(data.head, features.shape[1], data.classes)
        search = ClipSearch(features, data.labels, self.weight_, self.bias_, self.bins, run)
        original = int((data.logits.argmax(dim=1) == data.labels).sum())
        full = self.search == "full" or (self.search == "auto" and features.numel() * data.classes <= FULL_UP_TO)
        best = (search.full if full else search.coarse)(ACCURACY_KEPT * original)
        self.features_used_ = best is not None
        if best is None:
            self.notices_.append("No threshold kept 99% of the accuracy; the features are not clipped.")
        clip = math.inf if best is None else STEP * best
        self.clip_ = torch.tensor([clip], dtype=torch.float32, device=data.logits.device)

    def _checked_head(self, head: tuple[Tensor, Tensor], width: int, classes: int) -> tuple[Tensor, Tensor]:
        weight, bias = head
        if weight.shape != (classes, width) or bias.shape != (classes,):
            raise self._error(
                f"the head must be ({classes}, {width}) weights and ({classes},) biases, "
                f"not {tuple(weight.shape)} and {tuple(bias.shape)}"
            )
        if not bool(torch.isfinite(weight).all() and torch.isfinite(bias).all()):
            raise self._error("the head holds NaN or infinity")
        return weight, bias

    def learned(self) -> dict[str, Shape]:
        return {"clip_": (1,), "weight_": (self.classes_, "d"), "bias_": (self.classes_,)}

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        if features is None:
            return Probabilities(torch.softmax(gaps(logits), dim=1))
        clipped = precise(features.clamp(-self.clip_, self.clip_))
        scores = linear(clipped, precise(self.weight_), precise(self.bias_))
        return Probabilities(torch.softmax(scores, dim=1).to(logits.dtype))

    def numpy_code(self) -> str:
        if not self.features_used_:
            return "return softmax(z).astype(np.float32)"
        return "return softmax(linear(np.clip(x, -CLIP, CLIP), WEIGHT, BIAS)).astype(np.float32)"


class ClipSearch:
    """Validation ECE and accuracy at thresholds `STEP * number`, number = 1..GRID.

    Rows are sorted by their largest absolute feature: those that a threshold does not change are at the end, and their
    confidences are computed once.
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
        """ECE and hits at one threshold, computed once; thresholds above every feature are all the same."""
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
            z = linear(self.features[rows].clamp(-clip, clip), self.weight, self.bias)
            top, prediction = z.max(dim=1)
            confidence[rows] = torch.exp(top - torch.logsumexp(z, dim=1)).clamp(max=1.0)
            hit[rows] = prediction == self.labels[rows]
        return confidence, hit
