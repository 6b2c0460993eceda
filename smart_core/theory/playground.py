"""How well methods recover a known temperature law: the curve, the true errors, and how they shrink with more rows.

Rows are simulated with labels drawn from softmax(z / T*(m)), so each sample's true confidence q* is known and the
error of a method, E|p - q*|, is free of label noise. `knot_law` draws a law by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from smart_core.analysis.temperature_curve import map_at
from smart_core.calibrators import Calibrator, get, select
from smart_core.calibrators.smart import SMART
from smart_core.calibrators.ts import TS
from smart_core.data.logitset import Part
from smart_core.data.simulate import Law, Simulated, law_named, simulate
from smart_core.errors import CalibrationError, Cancelled
from smart_core.evaluation import Evaluation, evaluate
from smart_core.experiments.results import OverSeeds
from smart_core.experiments.running import failure, fit_part
from smart_core.progress import CancelToken, Progress, Run, attempt
from smart_core.types import Vector

DEFAULT_METHODS = ("vanilla", "ts", "smart", "isotonic")
TEST_ROWS = 10_000
MIN_ROWS = 50
POINTS = 161


def knot_law(margins: Sequence[float], temperatures: Sequence[float]) -> Law:
    """Return the shape-preserving cubic (PCHIP) through (margin, log T), constant beyond the ends; T > 0 always.

    It rises and falls only where the knots do.

    >>> knot_law([0.0, 4.0, 8.0], [1.0, 2.0, 1.5])(np.array([0.0, 4.0, 20.0])).round(3)
    array([1. , 2. , 1.5])
    """
    from scipy.interpolate import PchipInterpolator

    at, t = np.asarray(margins, dtype=np.float64), np.asarray(temperatures, dtype=np.float64)
    usable = np.isfinite(t) & (t > 0)
    if len(at) != len(t) or len(at) < 2 or not (np.diff(at) > 0).all() or not usable.all():
        raise CalibrationError("A law needs two or more knots at rising margins, each with a temperature above 0.")
    through = PchipInterpolator(at, np.log(t))

    def drawn(margin: Vector) -> Vector:
        return np.asarray(np.exp(through(np.clip(np.asarray(margin, dtype=np.float64), at[0], at[-1]))))

    return drawn


def identifiable(law: Law, largest: float = 20.0, points: int = 400) -> bool:
    """Return whether m / T*(m) rises throughout.

    Otherwise two margins share a true confidence, and no calibration error can tell which temperature belongs to which.
    """
    m = np.linspace(0.0, largest, points)
    return bool((np.diff(m / np.asarray(law(m))) > 0).all())


@dataclass(eq=False)
class Playground:
    """Errors of methods on simulated sets of growing size; NaN where not computed."""

    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    """Validation rows, rising."""
    classes: int
    error: Vector
    """(methods, sizes, seeds): E|p - q*| over the test rows."""
    conditional: Vector
    """The same shape: E|p - E[q* | p]|, what the ECE estimates."""
    x: Vector
    """(P,) margins at which the recovered curves are compared with the law."""
    truth: Vector
    """(P,) T*(x)."""
    density_edges: Vector
    density: Vector
    """Fraction of test rows between neighbouring edges."""
    smart: dict[int, Vector] = field(default_factory=dict)
    """Size -> (finished seeds, P) temperatures of SMART."""
    ts: dict[int, float] = field(default_factory=dict)
    """Size -> the T of temperature scaling with the first seed."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Method -> why it could not be fitted."""
    complete: bool = False

    def continues(self, other: Playground) -> bool:
        """Return whether both simulate the same rows and fit the same methods on them."""
        mine, others = ((one.methods, one.sizes, one.classes, one.error.shape) for one in (self, other))
        return mine == others and np.array_equal(self.truth, other.truth) and np.array_equal(self.x, other.x)

    def mean(self, conditional: bool = False) -> Vector:
        """Return (methods, sizes) means over the finished seeds; NaN where none is finished."""
        return OverSeeds.of(self.conditional if conditional else self.error).mean

    def recovery(self, size: int) -> float:
        """Return the mean over test rows and seeds of |log T_SMART - log T*|: 0.1 is about 10% of the temperature."""
        curves = self.smart.get(size)
        if curves is None or not len(curves):
            return float("nan")
        middle = (self.density_edges[:-1] + self.density_edges[1:]) / 2
        off = np.abs(np.log(curves) - np.log(self.truth)).mean(axis=0)
        return float(np.interp(middle, self.x, off) @ self.density)


def sizes_below(largest: int, steps: int = 4) -> tuple[int, ...]:
    """Return `largest` divided by 4 up to `steps` - 1 times, rising, none below 50.

    >>> sizes_below(4000)
    (62, 250, 1000, 4000)
    """
    sizes = [largest // 4**power for power in range(steps)]
    return tuple(sorted({size for size in sizes if size >= MIN_ROWS} | {largest}))


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
    known: Playground | None = None,
) -> Playground:
    """Fit every method on each size of simulated validation rows and compare it with the truth.

    Each seed draws its own validation rows, of which smaller sizes are the beginning, and seeds the random methods. All
    methods are evaluated on the same test rows. The largest size comes first. If cancelled, it returns the cells that
    are finished; `known` is such a result, whose cells are not computed again.

    >>> result = playground("constant", 200, 3, ["vanilla", "ts"], seeds=1, test_rows=500)
    >>> vanilla, ts = result.mean()[:, -1]
    >>> ts < vanilla
    np.True_
    """
    ids, sizes = tuple(select(methods)), sizes_below(largest)
    if largest < MIN_ROWS or seeds < 1:
        raise CalibrationError(f"A playground needs {MIN_ROWS} validation rows and one seed at least.")
    test = simulate(test_rows, classes, law, seed=0)
    result = unfitted(law, classes, test_rows, methods=ids, sizes=sizes, seeds=seeds)
    if known is not None and known.continues(result):
        result = deepcopy(known)
    cells = [(size, seed) for size in range(len(sizes) - 1, -1, -1) for seed in range(seeds)]
    try:
        for (size, seed), span in Run(progress, cancel).each(cells):
            drawn = simulate(largest, classes, law, seed=seed + 1)[: sizes[size]].part()
            for (place, id), stage in span.each(list(enumerate(ids))):
                if np.isfinite(result.error[place, size, seed]):
                    continue
                stage.tick(0.0, f"{id} on {sizes[size]:,} rows")
                _fill(result, (place, size, seed), id, drawn, test, stage)
            if on_cell is not None:
                on_cell(result)
        result.complete = True
    except Cancelled:
        result.complete = False
    return result


def unfitted(
    law: str | Law,
    classes: int = 10,
    rows: int = 2000,
    *,
    methods: tuple[str, ...] = (),
    sizes: tuple[int, ...] = (),
    seeds: int = 1,
) -> Playground:
    """Return the law and the distribution of the margins of simulated rows, before anything is fitted."""
    test, shape = simulate(rows, classes, law, seed=0), (len(methods), len(sizes), seeds)
    high = float(np.quantile(test.margin, 0.999))
    x = np.linspace(0.0, high, POINTS)
    count, edges = np.histogram(np.minimum(test.margin, high), bins=40, range=(0.0, high))
    error, conditional = np.full(shape, np.nan), np.full(shape, np.nan)
    return Playground(methods, sizes, classes, error, conditional, x, law_at(law, x), edges, count / count.sum())


def law_at(law: str | Law, margin: Vector) -> Vector:
    """Return T*(m) of a law by name or function."""
    return np.asarray(law_named(law)(margin), dtype=np.float64)


def _fill(result: Playground, cell: tuple[int, int, int], id: str, drawn: Part, test: Simulated, run: Run) -> None:
    def fitted_and_evaluated() -> tuple[Calibrator, Evaluation]:
        fitted = fit_part(get(id, seed=cell[2]), drawn, run=run).calibrator
        return fitted, evaluate(fitted, test.part(), classwise=False)

    found = attempt(fitted_and_evaluated)
    if isinstance(found, Exception):
        result.reasons[id] = failure(found)
        return
    (fitted, evaluation), rows = found, result.sizes[cell[1]]
    result.error[cell] = test.true_calibration_error(evaluation.confidence, evaluation.prediction)
    result.conditional[cell] = test.conditional_calibration_error(evaluation.confidence, evaluation.prediction)
    if isinstance(fitted, SMART):
        known = result.smart.get(rows, np.empty((0, len(result.x))))
        result.smart[rows] = np.vstack([known, map_at(fitted, result.x)])
    elif isinstance(fitted, TS):
        result.ts.setdefault(rows, float(fitted.temperature_[0]))
