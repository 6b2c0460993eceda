"""Evaluations of rows of logits by compiled loops: what methods share of a row is found once, and no row is written.

A temperature method takes one sum of exponentials per row; a map of the top-1 confidence reads that of the uncalibrated
softmax. The others are evaluated by their rows of probabilities, as `evaluate` does, and so are rows that lack classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from smart_core import kernels
from smart_core.calibrators import Calibrator, TemperatureCalibrator
from smart_core.calibrators.toplabel import TopLabelCalibrator, shares_of_others
from smart_core.device import resolve_device
from smart_core.metrics.binning import bin_edges
from smart_core.metrics.classwise import ClasswiseHistogram
from smart_core.types import FloatArray, IntArray, Logits

OWN: Any = ("C", "W")
"""How arrays must lie in memory for the compiled loops."""
Sums = tuple[NDArray[np.float64], ...]


def supports(calibrator: Calibrator) -> bool:
    """Whether the compiled loops can evaluate a calibrator."""
    if not kernels.usable() or resolve_device(calibrator.device).type != "cpu":
        return False
    if isinstance(calibrator, TemperatureCalibrator):
        return type(calibrator)._probabilities is TemperatureCalibrator._probabilities
    own = isinstance(calibrator, TopLabelCalibrator) and calibrator.keeps_top1
    return own and type(calibrator)._probabilities is TopLabelCalibrator._probabilities


class CompiledRows:
    """Rows of finite logits (n, K) with their labels."""

    def __init__(self, logits: FloatArray, labels: IntArray) -> None:
        from smart_core.kernels.logit_rows import top_two

        self.logits, self.labels = np.require(logits, np.float32, OWN), np.require(labels, np.int64, OWN)
        count = len(logits)
        self.top, self.second = np.empty(count, np.float32), np.empty(count, np.float32)
        self.prediction = np.empty(count, np.int64)
        top_two(self.logits, self.top, self.second, self.prediction)
        with np.errstate(over="ignore"):
            self.margin = np.minimum(self.top - self.second, np.finfo(np.float32).max)
        self.correct = self.prediction == self.labels
        self._others: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, logits: FloatArray, labels: IntArray) -> CompiledRows | None:
        """The rows, or None if some of them lack classes."""
        from smart_core.kernels.logit_rows import all_finite

        return cls(logits, labels) if all_finite(np.require(logits, np.float32, OWN)) else None

    @property
    def others(self) -> FloatArray:
        """`sum exp(z_k - max z)` over the classes other than the prediction; the uncalibrated model leaves it here."""
        if self._others is None:
            from smart_core.kernels.logit_rows import other_powers

            self._others = np.empty(len(self.top))
            other_powers(self.logits, self.top, self.prediction, np.ones_like(self.top), self._others)
        return self._others

    def vectors(self, calibrator: Calibrator, cells: ClasswiseHistogram | None) -> tuple[NDArray[Any], ...]:
        """The columns of an `Evaluation` in its order; the classwise sums are added to `cells`."""
        edges = bin_edges(2 if cells is None else cells.bins, np.float32)
        if cells is None:
            sums: Sums = tuple(np.empty((0, 2)) for _ in range(4))
        else:
            sums = cells.count, cells.sum_p, cells.sum_p2, cells.sum_y
            cells.samples += len(self.top)
        with torch.no_grad():
            if isinstance(calibrator, TemperatureCalibrator):
                return self._tempered(calibrator, edges, sums)
            assert isinstance(calibrator, TopLabelCalibrator)
            return self._shared(calibrator, edges, sums)

    def _tempered(self, calibrator: TemperatureCalibrator, edges: FloatArray, sums: Sums) -> tuple[NDArray[Any], ...]:
        from smart_core.kernels.logit_rows import evaluate_rows

        found = calibrator._margin_temperatures(torch.from_numpy(self.margin))
        if found is None:
            found = calibrator._temperatures(Logits(torch.from_numpy(self.logits)))
        temperature = found.contiguous().numpy()
        confidence, (nll, brier, others) = np.empty_like(self.top), np.empty((3, len(self.top)))
        evaluate_rows(
            self.logits, self.top, self.second, self.prediction, self.labels, temperature, edges,
            confidence, nll, brier, others, *sums,
        )  # fmt: skip
        if (temperature == 1.0).all():
            self._others = others
        return confidence, self.prediction, self.correct, nll, brier, self.margin, temperature

    def _shared(self, calibrator: TopLabelCalibrator, edges: FloatArray, sums: Sums) -> tuple[NDArray[Any], ...]:
        from smart_core.kernels.logit_rows import share_rows

        others = torch.from_numpy(self.others.astype(np.float32))
        second = torch.exp(torch.from_numpy(self.second - self.top))
        mapped = calibrator._map(others / (1.0 + others))
        confidence, scale, even, ceiling = (
            each.numpy() for each in shares_of_others(mapped, others, second, self.logits.shape[1])
        )
        nll, brier = np.empty(len(self.top)), np.empty(len(self.top))
        share_rows(
            self.logits, self.top, self.second, self.prediction, self.labels,
            confidence, scale, even, ceiling, edges, nll, brier, *sums,
        )  # fmt: skip
        return confidence, self.prediction, self.correct, nll, brier, self.margin
