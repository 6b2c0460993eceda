"""How long methods take here: fit and inference seconds, repeated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smart_core.calibrators import methods as all_methods
from smart_core.calibrators import select
from smart_core.data.logitset import LogitSet
from smart_core.experiments.fitting import fit_method, unavailable
from smart_core.experiments.result import Result
from smart_core.run import CancelToken, Progress, Run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False)
class Runtime(Result):
    """Method -> seconds of each repetition."""

    fit_seconds: dict[str, list[float]]
    apply_seconds: dict[str, list[float]]

    def to_dict(self) -> dict[str, Any]:
        return {
            id: {
                "fit": {"mean": float(np.mean(fits)), "std": float(np.std(fits))},
                "apply": {
                    "mean": float(np.mean(self.apply_seconds[id])),
                    "std": float(np.std(self.apply_seconds[id])),
                },
            }
            for id, fits in self.fit_seconds.items()
        }

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        rows = [
            {
                "method": id,
                "label": all_methods()[id].label,
                **{f"{stage}_{name}": value for stage in ("fit", "apply") for name, value in times[stage].items()},
            }
            for id, times in self.to_dict().items()
        ]
        return pd.DataFrame(rows)


def runtime(
    data: LogitSet,
    methods: str | Sequence[str] = "all",
    repeats: int = 3,
    *,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Runtime:
    """Fit on validation and apply to test, `repeats` times each; methods that lack their arrays are left out."""
    chosen = select(list(methods) if not isinstance(methods, str) else methods)
    ids = [id for id in chosen if unavailable(id, data) is None]
    run = Run(progress, cancel)
    result = Runtime({id: [] for id in ids}, {id: [] for id in ids})
    for number, id in enumerate(ids):
        for repeat in range(repeats):
            start = (number + repeat / repeats) / len(ids)
            fit = fit_method(id, data, seed=repeat, device=device, run=run.part(start, start + 1.0 / len(ids)))
            result.fit_seconds[id].append(fit.seconds)
            begin = time.perf_counter()
            for _ in fit.calibrator.stream(data.test.logits, features=data.test.features):
                pass
            result.apply_seconds[id].append(time.perf_counter() - begin)
    return result
