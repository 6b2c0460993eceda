"""One fit on the validation part, judged on labelled parts: the step every experiment repeats."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from smart_core.calibrators import get, methods
from smart_core.calibrators.base import Calibrator
from smart_core.data.logitset import LogitSet, Part
from smart_core.evaluation import Evaluation, evaluate
from smart_core.run import Run

Settings = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted calibrator and the seconds its fit took."""

    calibrator: Calibrator
    seconds: float


def fit_method(
    id: str,
    data: LogitSet,
    *,
    seed: int = 0,
    settings: Settings | None = None,
    device: str = "auto",
    run: Run | None = None,
    validation: Part | None = None,
    trace: bool = False,
) -> Fit:
    """Fit a method on the validation part (or on the one given instead)."""
    part = data.validation if validation is None else validation
    line = run or Run()
    calibrator = get(id, **{"seed": seed, "device": device, **(settings or {})})
    start = time.perf_counter()
    calibrator.fit(
        part.logits,
        part.labels,
        features=part.features,
        head=data.head,
        progress=_mapped(line),
        cancel=line.cancel,
        trace=trace,
    )
    return Fit(calibrator, time.perf_counter() - start)


def judge(fit: Fit, part: Part, bins: int = 15, run: Run | None = None) -> Evaluation:
    """The fitted calibrator on a labelled part."""
    return evaluate(fit.calibrator, part, bins=bins, run=run)


def unavailable(id: str, data: LogitSet) -> str | None:
    """Why a method cannot run on this data, or None if it can."""
    arrays = {
        "features": data.validation.features is not None and data.test.features is not None,
        "head": data.head is not None,
    }
    return methods()[id].missing(arrays)


def seeds_for(id: str, seeds: int) -> range:
    """All seeds for methods that draw random numbers; one for the others, whose results cannot differ."""
    return range(seeds if methods()[id].stochastic else 1)


def _mapped(run: Run) -> Any:
    return None if run.progress is None else lambda fraction, words: run.tick(fraction, words)
