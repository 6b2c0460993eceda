"""Training epoch by epoch: the paper's divergence of NLL and ECE, and its figure of gradient norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from smart_core.data.logitset import LogitSet
from smart_core.errors import CalibrationError, Cancelled
from smart_core.experiments.results import Result
from smart_core.experiments.running import Settings, fit_method, several
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.progress import CancelToken, Progress, Run, Trace

DEFAULT_OBJECTIVES = ("nll", "softece", "charbonnier")


@dataclass(eq=False)
class Traces(Result):
    """SMART trained on several objectives: objective -> what was recorded at each epoch.

    Quantities: `objective`, `gradient_norm`, and `ece` (15 bins) and `nll`, both on validation.
    """

    runs: dict[str, Trace]
    complete: bool = True
    """False if the study was cancelled: only finished runs are there."""

    def to_dict(self) -> dict[str, Any]:
        return {"runs": {name: dict(trace.values) for name, trace in self.runs.items()}, "complete": self.complete}

    def records(self) -> list[dict[str, Any]]:
        return [
            {"epoch": epoch, **dict(zip(trace.values, row, strict=True)), "trained_on": name}
            for name, trace in self.runs.items()
            for epoch, row in enumerate(zip(*trace.values.values(), strict=True))
        ]


def traces(
    data: LogitSet,
    objectives: str | Sequence[str] = DEFAULT_OBJECTIVES,
    *,
    seed: int = 0,
    epochs: int = 300,
    settings: Settings | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Traces:
    """Train SMART once per objective without early stopping, and record every epoch.

    A cancelled study returns the runs it has finished, with `complete=False`.

    >>> import smart_core as sc
    >>> result = traces(sc.simulate_set(200, 100, 3, seed=0), "charbonnier", epochs=5)
    >>> {label: len(trace) for label, trace in result.runs.items()}
    {'Charbonnier-SoftECE': 5}
    """
    objectives = several(objectives, "objectives")
    for objective in objectives:
        if objective not in OBJECTIVES:
            raise CalibrationError(f"There is no objective '{objective}'; the objectives are {' '.join(OBJECTIVES)}.")
    result = Traces({})
    for objective, part in Run(progress, cancel).each(objectives):
        chosen = {"epochs": epochs, "patience": None, **(settings or {}), "objective": objective}
        try:
            fit = fit_method("smart", data, seed=seed, settings=chosen, device=device, run=part, trace=True)
        except Cancelled:
            result.complete = False
            break
        if fit.calibrator.trace_ is not None:
            result.runs[OBJECTIVES[objective].label] = fit.calibrator.trace_
    return result
