"""Feature clipping (Tao et al., 2025): large penultimate features are cut before the classifier's head."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData
from smart_core.calibrators.clip_search import STEP, ClipSearch, head_logits
from smart_core.calibrators.features import checked_features
from smart_core.calibrators.learned import Shape
from smart_core.calibrators.settings import setting
from smart_core.device import precise
from smart_core.errors import CalibrationError
from smart_core.profile import gaps
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

ACCURACY_KEPT = 0.99
"""A threshold must keep more than this share of the original accuracy."""

FULL_UP_TO = 1 << 28
"""Multiplications of one pass through the head (N D K) up to which the whole grid is searched."""


@dataclass(kw_only=True, eq=False)
class FC(Calibrator):
    """`q = softmax(W clamp(x, -C, C) + b)` with the C of least validation ECE.

    Only thresholds that keep more than 0.99 of the accuracy count; if none does, nothing is clipped and
    `q = softmax(z)`. The full search tries all 2000 thresholds. The coarse one tries every tenth and then all
    those around the best three, which on a jagged error may end slightly above the full minimum.
    """

    id = "fc"
    label = "FC"
    summary = "Penultimate features clipped at a threshold before the classifier's head."
    position = 11
    needs = ("features", "head")
    infinite = ("clip_",)

    search: str = setting(
        "auto",
        "Thresholds tried: all, every tenth and then around the best, or whichever the size suggests.",
        choices=("auto", "full", "coarse"),
    )
    bins: int = setting(15, "Bins of the ECE that the search lowers.", low=1, high=1000)

    def _fit(self, data: FitData, run: Run) -> None:
        if data.features is None or data.head is None:
            raise CalibrationError(f"{self.label} needs features and head.")
        features = checked_features(data.features, self.label)
        self.weight_, self.bias_ = self._checked_head(data.head, features.shape[1], data.classes)
        search = ClipSearch(features, data.labels, self.weight_, self.bias_, self.bins, run)
        original = int((data.logits.argmax(dim=1) == data.labels).sum())
        full = self.search == "full" or (self.search == "auto" and features.numel() * data.classes <= FULL_UP_TO)
        best = (search.full if full else search.coarse)(ACCURACY_KEPT * original)
        self.features_used_ = best is not None
        if best is None:
            self.notices_.append("No threshold kept 99 % of the accuracy; the features are not clipped.")
        clip = math.inf if best is None else STEP * best
        self.clip_ = torch.tensor([clip], dtype=torch.float32, device=data.logits.device)

    def _checked_head(self, head: tuple[Tensor, Tensor], width: int, classes: int) -> tuple[Tensor, Tensor]:
        weight, bias = head
        if weight.shape != (classes, width) or bias.shape != (classes,):
            raise CalibrationError(
                f"{self.label}: the head must be ({classes}, {width}) weights and ({classes},) biases, "
                f"not {tuple(weight.shape)} and {tuple(bias.shape)}."
            )
        if not bool(torch.isfinite(weight).all() and torch.isfinite(bias).all()):
            raise CalibrationError(f"{self.label}: the head holds NaN or infinity.")
        return weight, bias

    def learned(self) -> dict[str, Shape]:
        return {"clip_": (1,), "weight_": (self.classes_, "d"), "bias_": (self.classes_,)}

    def _feature_width(self) -> int:
        return self.weight_.shape[1]

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        if features is None:
            return Probabilities(torch.softmax(gaps(logits), dim=1))
        clipped = precise(features.clamp(-self.clip_, self.clip_))
        scores = head_logits(clipped, precise(self.weight_), precise(self.bias_))
        return Probabilities(torch.softmax(scores, dim=1).to(logits.dtype))

    @property
    def parameters(self) -> int:
        return 1

    @property
    def keeps_top1(self) -> bool:
        """No: clipping moves the logits."""
        return False
