"""Many SMART fits judged on one labelled part: what they share is read once, and no fit makes an N x K matrix."""

from __future__ import annotations

import numpy as np
import torch

from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.smart import SMART
from smart_core.data.logitset import Part
from smart_core.device import to_tensor
from smart_core.evaluation import METRICS, Evaluation
from smart_core.indicators import INDICATORS
from smart_core.metrics.binning import bin_edges
from smart_core.progress import Run

PIECE = 1 << 22
"""Logits between two looks at the cancel token."""


class SmartJudge:
    """The exact softmax of a labelled part under the temperatures of one fit after another, by compiled loops."""

    def __init__(self, part: Part, indicator: str, bins: int, run: Run) -> None:
        from smart_core.kernels.judging import top_two

        self.bins, self.indicator = bins, indicator
        logits = to_tensor(part.logits, torch.device("cpu"))
        self.logits = logits.contiguous().numpy()
        self.labels = np.ascontiguousarray(part.labels, dtype=np.int64)
        self.values = map_rows(INDICATORS[indicator], logits, run, "reading the test part")
        count = len(self.labels)
        self.top, second = np.empty(count, np.float32), np.empty(count, np.float32)
        self.prediction = np.empty(count, np.int64)
        for rows in self._pieces():
            run.tick(0.0, "reading the test part")
            top_two(self.logits[rows], self.top[rows], second[rows], self.prediction[rows])
        self.margin = self.top - second
        self.correct = self.prediction == self.labels

    def metrics(self, calibrator: SMART, run: Run) -> dict[str, float]:
        """Every metric of a fitted calibrator on the part."""
        evaluation, classwise = self.evaluate(calibrator, run)
        values = {}
        for name, metric in METRICS.items():
            run.tick(0.0, "judging on test")
            values[name] = classwise if name == "cece" else metric.value(evaluation, self.bins)
        return values

    def evaluate(self, calibrator: SMART, run: Run) -> tuple[Evaluation, float]:
        """The evaluation, without classwise sums, and the classwise ECE."""
        from smart_core.kernels.judging import judge

        with torch.no_grad():
            temperature = calibrator.map(self.values).numpy()
        confidence, nll, brier = (np.empty(len(self.labels), np.float32) for _ in range(3))
        residual = np.zeros((self.logits.shape[1], self.bins))
        edges = bin_edges(self.bins, np.float32)
        for rows in self._pieces():
            run.tick(0.0, "judging on test")
            judge(
                self.logits[rows], self.top[rows], self.labels[rows], temperature[rows], edges,
                confidence[rows], nll[rows], brier[rows], residual,
            )  # fmt: skip
        evaluation = Evaluation(
            confidence,
            self.prediction,
            self.correct,
            nll.astype(np.float64),
            brier.astype(np.float64),
            self.margin,
            temperature,
        )
        return evaluation, float(np.abs(residual).sum() / (len(self.labels) * self.logits.shape[1]))

    def _pieces(self) -> list[slice]:
        step = max(1, PIECE // self.logits.shape[1])
        return [slice(start, start + step) for start in range(0, len(self.labels), step)]
