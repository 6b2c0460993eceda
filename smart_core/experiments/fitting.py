"""One fit on the validation part, judged on labelled parts: the step every experiment repeats."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from smart_core import __version__
from smart_core.calibrators import get, methods
from smart_core.calibrators.base import Calibrator
from smart_core.data.logitset import Head, LogitSet, Part
from smart_core.errors import SmartError
from smart_core.evaluation import Evaluation, evaluate
from smart_core.experiments.result import plain
from smart_core.progress import Run

Settings = dict[str, Any]

FitCache = MutableMapping[str, tuple[Calibrator, float, Evaluation]]
"""Fits remembered by `fit_key`: the calibrator, the seconds its fit took, and its evaluation on test."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted calibrator and the seconds its fit took."""

    calibrator: Calibrator
    seconds: float


def fit_key(data: LogitSet, method: str, settings: Settings | None = None, seed: int = 0) -> str:
    """The name under which a fit and its evaluation are remembered: SHA-256 of everything the fit depends on.

    That is the data's content, the method, all of its settings with defaults filled in (so a setting given as its
    default changes nothing), the seed and the version of this package. The bins of the evaluation are not among it:
    they matter to its classwise sums only, which say themselves how many they have.
    """
    calibrator = get(method, **{"seed": seed, **(settings or {})})
    parts = [data.content_hash, method, plain(calibrator.settings_dict()), int(seed), __version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


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
    """Fit a method on the validation part (or on the one given instead), to be judged on the test part.

    Features that only one of the two has cannot be used: a method that can do without them does, and says so.
    """
    part = data.validation if validation is None else validation
    calibrator = get(id, **{"seed": seed, "device": device, **(settings or {})})
    lopsided = (part.features is None) != (data.test.features is None)
    fit = fit_part(calibrator, part, data.head, run, trace=trace, features=not lopsided)
    if lopsided and "features" in calibrator.uses:
        side = "test" if part.features is None else "validation"
        calibrator.notices_.insert(0, f"Only the {side} part has features.")
    return fit


def fit_part(
    calibrator: Calibrator,
    part: Part,
    head: Head | None = None,
    run: Run | None = None,
    *,
    trace: bool = False,
    features: bool = True,
) -> Fit:
    """Fit a calibrator on a labelled part, with its features unless told otherwise, and take the time."""
    line = run or Run()
    calibrator.prepare()
    start = time.perf_counter()
    calibrator.fit(
        part.logits,
        part.labels,
        features=part.features if features else None,
        head=head,
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


def what_went_wrong(error: Exception) -> str:
    """An error as a reason in a result: its own sentence if it is meant for users, else its kind as well."""
    return str(error) if isinstance(error, SmartError) else f"failed: {type(error).__name__}: {error}"


def _mapped(run: Run) -> Any:
    return None if run.progress is None else lambda fraction, words: run.tick(fraction, words)
