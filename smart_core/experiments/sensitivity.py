"""How much SMART depends on its bandwidth sigma and its Charbonnier delta: a grid of fits over seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smart_core.data.logitset import LogitSet
from smart_core.errors import CalibrationError, Cancelled
from smart_core.evaluation import METRICS, metric_named
from smart_core.experiments.fitting import Settings, fit_method, judge
from smart_core.experiments.result import Result
from smart_core.run import CancelToken, Progress, Run
from smart_core.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd

PAPER_SIGMAS = (0.01, 0.05, 0.1, 0.5, 1.0)
PAPER_DELTAS = (0.001, 0.01, 0.1, 1.0)


@dataclass(eq=False)
class Sensitivity(Result):
    """A metric over the grid; rows are sigmas, columns deltas. Cells that were not reached are NaN."""

    sigmas: tuple[float, ...]
    deltas: tuple[float, ...]
    metrics: dict[str, FloatArray]
    """Metric -> values (sigmas, deltas, seeds)."""
    metric: str = "ece"
    seconds: float = 0.0
    complete: bool = True
    """False if it was cancelled on the way."""

    def mean(self, metric: str | None = None) -> FloatArray:
        """(sigmas, deltas) mean over seeds."""
        return np.asarray(self.metrics[metric or self.metric].mean(axis=2))

    def std(self, metric: str | None = None) -> FloatArray:
        """(sigmas, deltas) sample standard deviation over seeds; 0 for a single one."""
        values = self.metrics[metric or self.metric]
        return np.asarray(values.std(axis=2, ddof=1)) if values.shape[2] > 1 else np.zeros(values.shape[:2])

    def to_dict(self) -> dict[str, Any]:
        return {
            "sigmas": list(self.sigmas),
            "deltas": list(self.deltas),
            "metric": self.metric,
            "mean": self.mean(),
            "std": self.std(),
            "seeds": next(iter(self.metrics.values())).shape[2],
            "complete": self.complete,
            "seconds": self.seconds,
        }

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        rows = []
        for i, sigma in enumerate(self.sigmas):
            for j, delta in enumerate(self.deltas):
                row: dict[str, Any] = {"sigma": sigma, "delta": delta}
                for metric in self.metrics:
                    row[metric] = self.mean(metric)[i, j]
                    row[f"{metric}_std"] = self.std(metric)[i, j]
                rows.append(row)
        return pd.DataFrame(rows)


def sensitivity(
    data: LogitSet,
    sigmas: Sequence[float] = PAPER_SIGMAS,
    deltas: Sequence[float] = PAPER_DELTAS,
    seeds: int = 5,
    *,
    metric: str = "ece",
    bins: int = 15,
    settings: Settings | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_cell: Callable[[int, int, Sensitivity], None] | None = None,
) -> Sensitivity:
    """Fit SMART at every (sigma, delta) for every seed and judge it on test.

    `on_cell(row, column, result so far)` is called as cells finish. A cancelled study returns the cells it
    has, with `complete=False`.
    """
    metric_named(metric)
    if seeds < 1:
        raise CalibrationError(f"seeds={seeds} must be at least 1.")
    run = Run(progress, cancel)
    shape = (len(sigmas), len(deltas), seeds)
    result = Sensitivity(
        tuple(map(float, sigmas)),
        tuple(map(float, deltas)),
        {name: np.full(shape, np.nan) for name in METRICS},
        metric,
    )
    start = time.perf_counter()
    try:
        for i, sigma in enumerate(sigmas):
            for j, delta in enumerate(deltas):
                for seed in range(seeds):
                    done = ((i * len(deltas) + j) * seeds + seed) / np.prod(shape)
                    chosen = {**(settings or {}), "sigma": float(sigma), "delta": float(delta)}
                    part = run.part(float(done), float(done + 1.0 / np.prod(shape)))
                    fit = fit_method("smart", data, seed=seed, settings=chosen, device=device, run=part)
                    evaluation = judge(fit, data.test, bins)
                    for name, described in METRICS.items():
                        result.metrics[name][i, j, seed] = described.value(evaluation, bins)
                result.seconds = time.perf_counter() - start
                if on_cell is not None:
                    on_cell(i, j, result)
    except Cancelled:
        result.complete = False
    result.seconds = time.perf_counter() - start
    return result
