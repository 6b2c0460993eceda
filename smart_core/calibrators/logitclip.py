"""Logit clipping: logits clamped at a threshold chosen on validation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, LineStyle
from smart_core.calibrators.candidate_ece import candidate_ece
from smart_core.calibrators.rows import row_chunks
from smart_core.calibrators.rules import between
from smart_core.calibrators.settings import setting
from smart_core.calibrators.temperature import lift_top
from smart_core.fitting.profile import gaps
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

COARSE, FINE = 40, 10
"""Thresholds of the first search, and those on either side of its best that the second one tries."""


LEAST = 1e-9
"""Smaller thresholds would leave nothing of the logits."""


@dataclass(kw_only=True, eq=False)
class LogitClip(Calibrator):
    """`q = softmax(clamp(z, -C, C))` with the C of least validation ECE.

    The search tries 40 thresholds, evenly spaced up to the largest absolute logit, and then 20 around the best. If none
    lowers the ECE, nothing is clipped. Where the largest logits are all clipped their classes tie, and the model's own
    prediction is kept. Unlike a temperature, this depends on the level of the logits, which are clamped as they are.
    Departure: LogitClip (Wei et al., 2023) rescales rows by their norm during training; this clamps each logit
    afterwards, as in the comparison of the SMART paper's authors.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> float(sc.LogitClip().fit(data.logits, data.labels).clip_) > 0
    True
    """

    id = "logitclip"
    label = "Logit clipping"
    summary = "Logits clamped to a range chosen by validation ECE."
    position = 27
    whole_rows = "clamping would give an absent class a logit"
    family = "One correction for all samples"
    style = LineStyle("#4C8C8C", "12px,2px", "square-cross")
    shapes = (("clip_", (1,)),)
    rules = (("clip_", between(LEAST, math.inf)),)
    infinite = ("clip_",)
    parameters = 1

    bins: int = setting(15, "Bins of the ECE that the search lowers.", low=1, high=1000)

    def _fit(self, data: FitData, run: Run) -> None:
        best = ClampSearch(data.logits, data.labels, self.bins, run).best()
        if math.isinf(best):
            self.notices_.append("No threshold lowered the validation ECE; the logits are not clipped.")
        self.clip_ = torch.tensor([best], dtype=torch.float32, device=data.logits.device)

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        clipped = logits.clamp(-self.clip_, self.clip_)
        return lift_top(Probabilities(torch.softmax(gaps(clipped), dim=1)), logits)

    def numpy_code(self) -> str:
        return "return lift_top(softmax(np.clip(z, -CLIP, CLIP)), z)"


class ClampSearch:
    """Validation ECE at a threshold. The rows are in the order of their largest absolute logit, largest first: those
    that a threshold does not change are at the end, and their confidences are computed once."""

    def __init__(self, logits: Logits, labels: Tensor, bins: int, run: Run) -> None:
        self.run = run
        reach, order = logits.abs().amax(dim=1).sort(descending=True)
        self.reach, self.rows, self.bins = reach.cpu(), logits[order], bins
        self.hit = logits.argmax(dim=1)[order] == labels[order]
        self.plain = self._confidence(len(labels), math.inf, 0.0)

    def best(self) -> float:
        """The threshold of least ECE, the largest where several are equal; infinity where none lowers the model's."""
        step = float(self.reach[0]) / COARSE
        tried = {math.inf: self._ece(math.inf, 0.0)}
        self._try((step * number for number in range(1, COARSE + 1)), tried)
        best = min(sorted(tried, reverse=True), key=tried.__getitem__)
        if math.isfinite(best):
            self._try((best + step * offset / FINE for offset in range(1 - FINE, FINE) if offset), tried)
        return min(sorted(tried, reverse=True), key=tried.__getitem__)

    def _try(self, thresholds: Iterable[float], tried: dict[float, float]) -> None:
        for clip in thresholds:
            if LEAST < clip < torch.finfo(torch.float32).max:
                tried[clip] = self._ece(clip, len(tried) / (COARSE + 2 * FINE))

    def _ece(self, clip: float, done: float) -> float:
        touched = int((self.reach > clip).sum())
        confidence = self.plain.clone()
        if touched:
            confidence[:touched] = self._confidence(touched, clip, done)
        return candidate_ece(confidence.unsqueeze(0), self.hit.unsqueeze(0), self.bins)[0]

    def _confidence(self, count: int, clip: float, done: float) -> Tensor:
        """Of the first `count` rows: clamping keeps the largest logit among the largest."""
        chunks = row_chunks(self.rows[:count], self.run.part(done, 1.0), f"threshold {clip:.3g}")
        parts = [torch.logsumexp(gaps(chunk.clamp(-clip, clip)), dim=1) for chunk in chunks]
        return torch.exp(-torch.cat(parts)).clamp(max=1.0)
