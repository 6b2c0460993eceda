"""Training watched epoch by epoch: the paper's divergence of NLL and ECE, and its gradient-norm figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smart_core.data.logitset import LogitSet
from smart_core.experiments.fitting import Settings, fit_method
from smart_core.experiments.result import Result
from smart_core.objectives import OBJECTIVES
from smart_core.run import CancelToken, Progress, Run, Trace

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_OBJECTIVES = ("nll", "softece", "charbonnier")


@dataclass(eq=False)
class Traces(Result):
    """SMART trained on several objectives: objective -> what each epoch recorded.

    Quantities: `objective`, `gradient_norm`, and `ece` (15 bins) and `nll`, both on validation.
    """

    runs: dict[str, Trace]

    def to_dict(self) -> dict[str, Any]:
        return {name: dict(trace.values) for name, trace in self.runs.items()}

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        frames = [
            pd.DataFrame(trace.values).assign(trained_on=name).rename_axis("epoch").reset_index()
            for name, trace in self.runs.items()
        ]
        return pd.concat(frames, ignore_index=True)


def traces(
    data: LogitSet,
    objectives: Sequence[str] = DEFAULT_OBJECTIVES,
    *,
    seed: int = 0,
    epochs: int = 300,
    settings: Settings | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Traces:
    """Train SMART once for each objective, every epoch recorded, none stopped early."""
    run = Run(progress, cancel)
    result: dict[str, Trace] = {}
    for number, objective in enumerate(objectives):
        chosen = {"epochs": epochs, "patience": None, **(settings or {}), "objective": objective}
        part = run.part(number / len(objectives), (number + 1) / len(objectives))
        fit = fit_method("smart", data, seed=seed, settings=chosen, device=device, run=part, trace=True)
        trace = fit.calibrator.trace_
        if trace is not None:
            result[OBJECTIVES[objective].label] = trace
    return Traces(result)
