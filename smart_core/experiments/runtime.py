"""How long methods take here: fit and inference seconds, repeated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from smart_core.calibrators import method_named, select
from smart_core.data.logitset import LogitSet
from smart_core.errors import Cancelled
from smart_core.experiments.results import OverSeeds, Result
from smart_core.experiments.running import check_count, failure, fit_method, unavailable
from smart_core.progress import CancelToken, Progress, Run


@dataclass(eq=False)
class Runtime(Result):
    """Method -> seconds of each repetition."""

    fit_seconds: dict[str, list[float]]
    apply_seconds: dict[str, list[float]]
    reasons: dict[str, str] = field(default_factory=dict)
    """Method -> why it has no times: arrays that are missing, or what went wrong."""
    complete: bool = True
    """False if the study was cancelled: only finished methods are there."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "methods": {
                id: {"fit": mean_and_std(fits), "apply": mean_and_std(self.apply_seconds[id])}
                for id, fits in self.fit_seconds.items()
            },
            "reasons": self.reasons,
            "complete": self.complete,
        }

    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "method": id,
                "label": method_named(id).label,
                **{f"{stage}_{name}": value for stage in ("fit", "apply") for name, value in times[stage].items()},
            }
            for id, times in self.to_dict()["methods"].items()
        ]


def mean_and_std(seconds: Sequence[float]) -> dict[str, float]:
    """Mean and sample standard deviation of repeated times; 0 for a single one."""
    times = OverSeeds.of(seconds)
    return {"mean": float(times.mean), "std": float(times.published_std)}


def runtime(
    data: LogitSet,
    methods: str | Sequence[str] = "all",
    repeats: int = 3,
    *,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Runtime:
    """Fit on validation and apply to test, `repeats` times each.

    Methods that fail, or whose arrays are missing, are left out with a reason. A cancelled study returns
    the methods it has finished, with `complete=False`.

    >>> import smart_core as sc
    >>> result = runtime(sc.simulate_set(200, 200, 3, seed=0), "ts,fc", repeats=1)
    >>> list(result.fit_seconds), result.reasons
    (['ts'], {'fc': 'needs features and head'})
    """
    ids = select(methods)
    check_count(repeats, "repeats")
    result = Runtime({}, {})
    for id, part in Run(progress, cancel).each(ids):
        reason = unavailable(id, data)
        if reason is not None:
            result.reasons[id] = reason
            continue
        try:
            times = [_times(id, data, seed, device, span) for seed, span in part.each(range(repeats))]
        except Cancelled:
            result.complete = False
            break
        except Exception as error:
            result.reasons[id] = failure(error)
            continue
        result.fit_seconds[id], result.apply_seconds[id] = map(list, zip(*times, strict=True))
    return result


def _times(id: str, data: LogitSet, seed: int, device: str, run: Run) -> tuple[float, float]:
    """Seconds of one fit and of applying it to test."""
    fit = fit_method(id, data, seed=seed, device=device, run=run)
    begin = time.perf_counter()
    for _ in fit.calibrator.stream_rows(data.test.logits, features=data.test.features):
        run.tick(1.0, f"applying {fit.calibrator.label}")
    return fit.seconds, time.perf_counter() - begin
