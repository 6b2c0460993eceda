"""SMART fitted many times to the same data: shared input is computed once, and the fits run side by side.

Each fit is the one that `fit_method` would make, bit for bit; which thread it runs in makes no difference. Evaluating a
fit takes one pass of compiled loops over the test logits and makes no N x K matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from smart_core import kernels
from smart_core.calibrators import get
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.smart import SMART, Reading
from smart_core.data.logitset import LogitSet, Part
from smart_core.device import resolve_device, to_tensor
from smart_core.evaluation import METRICS, Evaluation
from smart_core.fitting.indicators import INDICATORS
from smart_core.fitting.ragged import filled
from smart_core.kernels.threads import share_each
from smart_core.metrics.binning import bin_edges
from smart_core.metrics.classwise import ClasswiseHistogram
from smart_core.progress import Run, attempt

Settings = dict[str, Any]
Metrics = dict[str, float]
T = TypeVar("T")

PIECE = 1 << 22
"""Logits between two looks at the cancel token."""


class SmartBatch:
    """Fits on a set's validation part, each evaluated on its test part by every metric."""

    def __init__(self, data: LogitSet, bins: int, device: str) -> None:
        self.data, self.bins, self.device = data, bins, device
        self._readings: dict[tuple[object, ...], Reading] = {}
        self._evaluators: dict[str, SmartEvaluator] = {}

    def supports(self, method: str, settings: Settings) -> bool:
        """Whether the compiled loops can make these fits; all others are made one by one."""
        if self.data.kind == "reduced" or method != "smart" or not kernels.enabled or not kernels.installed():
            return False
        smart = self._smart(settings)
        whole = smart.batch_size is None or smart.batch_size >= len(self.data.validation.for_fit)
        known = smart.objective == "charbonnier" and smart.layers == 1 and smart.indicator != "all_logits"
        return whole and known and resolve_device(smart.device).type == "cpu"

    def results(self, settings: Sequence[Settings], run: Run) -> Generator[Metrics | Exception]:
        """The metrics of one fit per settings, or the error it raised, in order and as they are finished."""

        def one(chosen: Settings) -> Metrics:
            own_run = Run(cancel=run.cancel)
            return self._evaluators[self._smart(chosen).indicator].metrics(self._fit(chosen, own_run), own_run)

        yield from self._each(one, settings, run, evaluators=True)

    def fits(self, settings: Sequence[Settings], run: Run) -> Generator[SMART | Exception]:
        """One fit per settings, or the error it raised, in order and as they are finished."""
        yield from self._each(lambda chosen: self._fit(chosen, Run(cancel=run.cancel)), settings, run, evaluators=False)

    def _each(
        self, one: Callable[[Settings], T], settings: Sequence[Settings], run: Run, evaluators: bool
    ) -> Generator[T | Exception]:
        error = attempt(partial(self._read, settings, run.part(0.0, 0.02), evaluators))
        if error is not None:
            yield from [error] * len(settings)
            return
        fits = [partial(one, chosen) for chosen in settings]
        yield from share_each(attempt, fits, run.part(0.02, 1.0), "fitting SMART")

    def _fit(self, chosen: Settings, run: Run) -> SMART:
        smart = self._smart(chosen)
        return smart.fit_reading(self._readings[_key(smart)], run)

    def _smart(self, settings: Settings) -> SMART:
        smart = get("smart", **{"device": self.device, **settings})
        assert isinstance(smart, SMART)
        return smart

    def _read(self, settings: Sequence[Settings], run: Run, evaluators: bool) -> None:
        """What fits and evaluations share, once for each indicator and start."""
        part = self.data.validation.for_fit
        for smart in map(self._smart, settings):
            if _key(smart) not in self._readings:
                self._readings[_key(smart)] = smart.read(smart._fit_data(part.logits, part.labels, None, None), run)
            if evaluators and smart.indicator not in self._evaluators:
                self._evaluators[smart.indicator] = SmartEvaluator(self.data.test, smart.indicator, self.bins, run)


def _key(smart: SMART) -> tuple[object, ...]:
    """The settings that determine a `Reading`."""
    return smart.indicator, smart.standardize, smart.init, smart.tail


class SmartEvaluator:
    """The exact softmax of a labelled part under the temperatures of one fit after another."""

    def __init__(self, part: Part, indicator: str, bins: int, run: Run) -> None:
        from smart_core.kernels.logit_rows import top_two

        self.bins = bins
        logits = to_tensor(part.logits, torch.device("cpu"))
        logits = filled(logits) if part.ragged else logits  # a copy of all rows
        self.logits = logits.contiguous().numpy()
        self.labels = np.ascontiguousarray(part.labels, dtype=np.int64)
        self.values = map_rows(INDICATORS[indicator], logits, run, "reading the test part")
        count = len(self.labels)
        self.top, self.second = np.empty(count, np.float32), np.empty(count, np.float32)
        self.prediction = np.empty(count, np.int64)
        for rows in self._pieces():
            run.tick(0.0, "reading the test part")
            top_two(self.logits[rows], self.top[rows], self.second[rows], self.prediction[rows])
        self.margin = self.top - self.second
        self.correct = self.prediction == self.labels

    def metrics(self, calibrator: SMART, run: Run) -> Metrics:
        """Every metric of a fitted calibrator on the part."""
        evaluation = self.evaluate(calibrator, run)
        values = {}
        for name, metric in METRICS.items():
            run.tick(0.0, "evaluating on test")
            values[name] = metric.value(evaluation, self.bins)
        return values

    def evaluate(self, calibrator: SMART, run: Run) -> Evaluation:
        """The evaluation, with classwise sums."""
        from smart_core.kernels.logit_rows import evaluate_rows

        with torch.no_grad():
            temperature = calibrator.map(self.values).numpy()
        confidence = np.empty(len(self.labels), np.float32)
        nll, brier, others = np.empty((3, len(self.labels)))
        cells, edges = ClasswiseHistogram(self.logits.shape[1], self.bins), bin_edges(self.bins, np.float32)
        cells.samples = len(self.labels)
        for rows in self._pieces():
            run.tick(0.0, "evaluating on test")
            evaluate_rows(
                self.logits[rows], self.top[rows], self.second[rows], self.prediction[rows], self.labels[rows],
                temperature[rows], edges, confidence[rows], nll[rows], brier[rows], others[rows],
                cells.count, cells.sum_p, cells.sum_p2, cells.sum_y,
            )  # fmt: skip
        return Evaluation(confidence, self.prediction, self.correct, nll, brier, self.margin, temperature, cells)

    def _pieces(self) -> list[slice]:
        step = max(1, PIECE // self.logits.shape[1])
        return [slice(start, start + step) for start in range(0, len(self.labels), step)]
