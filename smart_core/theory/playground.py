"""What methods find of a temperature law that is known: recovered curve, true errors, and how they shrink.

Rows are simulated with labels drawn from softmax(z / T*(m)), so each sample's true confidence q* is known and the
error of a method, E|p - q*|, carries no label noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from smart_core.calibrators import get, select
from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.smart import SMART
from smart_core.calibrators.ts import TS
from smart_core.data.logitset import Part
from smart_core.data.simulate import LAWS, Law, Simulated, simulate
from smart_core.errors import CalibrationError, Cancelled
from smart_core.evaluation import evaluate
from smart_core.experiments.fitting import fit_part, what_went_wrong
from smart_core.run import CancelToken, Progress, Run
from smart_core.temperature_curve import map_at

Array = NDArray[np.float64]

DEFAULT_METHODS = ("vanilla", "ts", "smart", "isotonic")
TEST_ROWS = 10_000
FEWEST = 50
POINTS = 161


@dataclass(eq=False)
class Playground:
    """Errors of methods on simulated sets of growing size; NaN where not computed."""

    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    """Validation rows, rising."""
    classes: int
    error: Array
    """(methods, sizes, seeds): E|p - q*| over the test rows."""
    conditional: Array
    """The same shape: E|p - E[q* | p]|, what the ECE estimates."""
    x: Array
    """(P,) margins at which the law is compared."""
    truth: Array
    """(P,) T*(x)."""
    density_edges: Array
    density: Array
    """Share of test rows between neighbouring edges."""
    smart: dict[int, Array] = field(default_factory=dict)
    """Size -> (seeds so far, P) SMART's map."""
    ts: dict[int, float] = field(default_factory=dict)
    """Size -> the T of temperature scaling, first seed."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Method -> why it could not be fitted."""
    complete: bool = False

    def mean(self, conditional: bool = False) -> Array:
        """(methods, sizes) over the seeds done; NaN where there is none."""
        values = self.conditional if conditional else self.error
        known = np.isfinite(values)
        count = known.sum(axis=2)
        total = np.where(known, values, 0.0).sum(axis=2)
        return np.asarray(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))

    def recovery(self, size: int) -> float:
        """Mean over test rows and seeds of |log T_SMART - log T*|: 0.1 is about 10 % of the temperature."""
        curves = self.smart.get(size)
        if curves is None or not len(curves):
            return float("nan")
        middle = (self.density_edges[:-1] + self.density_edges[1:]) / 2
        off = np.abs(np.log(curves) - np.log(self.truth)).mean(axis=0)
        return float(np.interp(middle, self.x, off) @ self.density)


def sizes_below(largest: int, steps: int = 4) -> tuple[int, ...]:
    """`largest` and up to `steps` - 1 quarters of quarters of it, rising, none below 50."""
    sizes = [largest // 4**power for power in range(steps)]
    return tuple(sorted({size for size in sizes if size >= FEWEST} | {largest}))


def playground(
    law: str | Law = "u_shaped",
    largest: int = 4000,
    classes: int = 10,
    methods: str | Sequence[str] = DEFAULT_METHODS,
    seeds: int = 2,
    *,
    test_rows: int = TEST_ROWS,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    on_cell: Callable[[Playground], None] | None = None,
) -> Playground:
    """Fit every method on each size of simulated validation rows and judge it against the truth.

    Each seed draws its own validation rows (of which smaller sizes are the beginning) and its own start of random
    methods; all are judged on the same test rows. The largest size comes first. Cancelled, it gives what is finished.
    """
    ids, sizes = tuple(select(methods)), sizes_below(largest)
    if largest < FEWEST or seeds < 1:
        raise CalibrationError(f"A playground needs {FEWEST} validation rows and one seed at least.")
    test = simulate(test_rows, classes, law, seed=0)
    result = _unfitted(ids, sizes, classes, seeds, test, law)
    run, part = Run(progress, cancel), test.part()
    cells = [(size, seed) for size in range(len(sizes) - 1, -1, -1) for seed in range(seeds)]
    try:
        for number, (size, seed) in enumerate(cells):
            drawn = simulate(largest, classes, law, seed=seed + 1)[: sizes[size]].part()
            for place, id in enumerate(ids):
                done = (number + place / len(ids)) / len(cells)
                stage = run.part(done, done + 1 / len(ids) / len(cells))
                stage.tick(0.0, f"{id} on {sizes[size]:,} rows")
                _fill(result, (place, size, seed), id, drawn, test, part, stage)
            if on_cell is not None:
                on_cell(result)
        result.complete = True
    except Cancelled:
        result.complete = False
    return result


def unfitted(law: str | Law, classes: int = 10, rows: int = 2000) -> Playground:
    """The law and where the rows lie, before anything is fitted."""
    return _unfitted((), (), classes, 1, simulate(rows, classes, law, seed=0), law)


def _unfitted(
    ids: tuple[str, ...], sizes: tuple[int, ...], classes: int, seeds: int, test: Simulated, law: str | Law
) -> Playground:
    shape = (len(ids), len(sizes), seeds)
    high = float(np.quantile(test.margin, 0.999))
    x = np.linspace(0.0, high, POINTS)
    count, edges = np.histogram(np.minimum(test.margin, high), bins=40, range=(0.0, high))
    return Playground(
        ids,
        sizes,
        classes,
        np.full(shape, np.nan),
        np.full(shape, np.nan),
        x,
        law_at(law, x),
        edges,
        count / count.sum(),
    )


def law_at(law: str | Law, margin: Array) -> Array:
    """T*(m) of a law by name or function."""
    if isinstance(law, str) and law not in LAWS:
        raise CalibrationError(f"There is no law '{law}'; the laws are {', '.join(LAWS)}, or a function of the margin.")
    return np.asarray((LAWS[law] if isinstance(law, str) else law)(margin), dtype=np.float64)


def _fill(
    result: Playground, cell: tuple[int, int, int], id: str, drawn: Part, test: Simulated, part: Part, run: Run
) -> None:
    _, size, seed = cell
    try:
        fitted = fit_part(get(id, seed=seed), drawn, run=run).calibrator
        judged = evaluate(fitted, part, classwise=False)
    except Cancelled:
        raise
    except Exception as error:
        result.reasons[id] = what_went_wrong(error)
        return
    result.error[cell] = test.true_calibration_error(judged.confidence, judged.prediction)
    result.conditional[cell] = test.conditional_calibration_error(judged.confidence, judged.prediction)
    _keep_curve(result, result.sizes[size], fitted, part)


def _keep_curve(result: Playground, size: int, fitted: Calibrator, part: Part) -> None:
    if isinstance(fitted, SMART):
        known = result.smart.get(size, np.empty((0, len(result.x))))
        result.smart[size] = np.vstack([known, map_at(fitted, result.x)])
    if isinstance(fitted, TS) and size not in result.ts:
        result.ts[size] = float(np.asarray(fitted.temperatures(part.logits[:1]))[0])
