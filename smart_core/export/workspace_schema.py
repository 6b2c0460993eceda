"""The schema of a workspace: a file may hold anything, but a page must be able to show every value that it opens.

`SCHEMA` has a rule for each field of every class that a workspace holds; `AGREE` says whether the fields of one object
agree with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import numpy as np

from smart_core.calibrators import is_method
from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.rules import Rule
from smart_core.data.logitset import Cure, LogitSet, Notice
from smart_core.data.normalize.logits import MAX_LOGIT
from smart_core.evaluation import DETAILS, HEADLINE, METRICS, Evaluation
from smart_core.experiments import Ablation, Comparison, MethodResult, Runtime, SeedTable, Sensitivity, Shift, Traces
from smart_core.experiments.benchmark_result import Benchmark, Cell, SetInfo
from smart_core.fitting.indicators import INDICATORS
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.metrics.classwise import ClasswiseCells, group_number
from smart_core.metrics.uncertainty import Floor, Interval
from smart_core.progress import Trace
from smart_core.theory.playground import Playground

T = TypeVar("T")

LARGEST = 1e37
"""No number of a result is larger: even the largest logit divided by the smallest temperature is smaller."""


def number(low: float = -LARGEST, high: float = LARGEST, *, unknown: bool = False) -> Rule:
    """Allow a number within bounds; with `unknown` also NaN and infinity, which pages show as missing."""

    def holds(value: Any) -> bool:
        if type(value) not in (int, float):
            return False
        return low <= value <= high or (unknown and not np.isfinite(value))

    return Rule(holds, f"a number from {low:g} to {high:g}")


def whole(low: int = 0, high: int = 2**31 - 1) -> Rule:
    """Allow a whole number within bounds."""
    return Rule(lambda value: type(value) is int and low <= value <= high, f"a whole number from {low} to {high:,}")


def one_of(values: Collection[str]) -> Rule:
    """Allow one of these texts."""
    return Rule(lambda value: isinstance(value, str) and value in values, f"one of {', '.join(values)}")


def text(longest: int = 200) -> Rule:
    """Allow text of limited length. The sandbox has checked that it can be encoded."""
    return Rule(lambda value: isinstance(value, str) and len(value) <= longest, f"text of at most {longest} characters")


def a(kind: type) -> Rule:
    """Allow an object of a class."""
    return Rule(lambda value: isinstance(value, kind), f"a {kind.__name__}")


def optional(rule: Rule) -> Rule:
    """Allow None, and what the rule allows."""
    return Rule(lambda value: value is None or rule.holds(value), f"{rule.words}, or None")


def each(rule: Rule, kind: type[list[Any] | tuple[Any, ...]] = list) -> Rule:
    """Allow a list (or tuple) whose entries keep the rule."""
    words = f"a {kind.__name__}, and each entry {rule.words}"
    return Rule(lambda value: isinstance(value, kind) and all(map(rule.holds, value)), words)


def by_key(rule: Rule, key: Rule) -> Rule:
    """Allow a dictionary whose keys and values keep their rules."""

    def holds(value: Any) -> bool:
        return isinstance(value, dict) and all(map(key.holds, value)) and all(map(rule.holds, value.values()))

    return Rule(holds, f"a dictionary, and each value {rule.words}")


def array(kinds: str, axes: int, low: float, high: float = LARGEST, *, unknown: bool = False) -> Rule:
    """Allow an array of numbers within bounds; with `unknown` also NaN and infinity. `kinds` are those of its dtype."""

    def holds(value: Any) -> bool:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds or value.ndim != axes:
            return False
        if value.dtype.itemsize > 8:
            return False
        with np.errstate(over="ignore"):  # the bounds in float16
            inside = (value >= low) & (value <= high)
        return bool((inside | ~np.isfinite(value)).all() if unknown else inside.all())

    return Rule(holds, f"an array of numbers from {low:g} to {high:g}")


FLAG = a(bool)
SENTENCE = text(20_000)
SCALAR = Rule(lambda value: isinstance(value, bool | int | float | str | None), "a number or text")
METHOD = Rule(is_method, "the id of a method, or of a chain such as svs+smart")
METRIC, DETAIL = one_of(METRICS), one_of({**METRICS, **DETAILS})
SECONDS = number(0, 1e9)
VALUE = number(unknown=True)
AXES = {
    "method": METHOD,
    "objective": one_of(OBJECTIVES),
    "indicator": one_of(INDICATORS),
    "size": whole(1),
    "sigma": number(0),
    "delta": number(0),
    "target": text(1000),
}
"""Name of the rows or columns of a table -> the rule for each of their names."""
TRACED = ("objective", "gradient_norm", "ece", "nll")
MOST_SEEDS = 10_000


def _table(table: SeedTable) -> bool:
    shape = (len(table.rows), len(table.columns))
    axes = ((table.row_name, table.rows), (table.column_name, table.columns))
    seeds = {values.shape[2] for values in table.metrics.values() if values.shape[:2] == shape}
    return (
        table.metric in table.metrics
        and len(seeds) == 1
        and 1 <= min(seeds) <= MOST_SEEDS
        and all(values.shape == (*shape, *seeds) for values in table.metrics.values())
        and all(AXES.get(name, SCALAR).holds(place) for name, places in axes for place in places)
        and all(0 <= i < shape[0] and 0 <= j < shape[1] for i, j, _ in table.reasons)
    )


def _row(row: MethodResult) -> bool:
    if not row.available:
        return row.reason is not None
    seeds = len(row.evaluations)
    return (
        seeds == len(row.calibrators) >= 1
        and row.values.keys() >= set(HEADLINE)
        and all(len(values) == seeds for values in row.values.values())
        and len({len(evaluation) for evaluation in row.evaluations}) == 1
        and all(belongs(*pair, row.id) for pair in zip(row.calibrators, row.evaluations, strict=True))
    )


def belongs(calibrator: Calibrator, evaluation: Evaluation, method: str) -> bool:
    """Return whether this evaluation can be one of this calibrator, fitted by this method."""
    cells = evaluation.cells
    return (
        calibrator.id == method
        and int(evaluation.prediction.max()) < max(calibrator.classes_, 1)
        and (evaluation.margin is None) == (calibrator.classes_ == 0)
        and (cells is None or (cells.classes, cells.samples) == (calibrator.classes_, len(evaluation)))
    )


def _comparison(comparison: Comparison) -> bool:
    rows, data = comparison.results, comparison.data
    return (
        all(row.id == id for id, row in rows.items())
        and {*comparison.tied, *([comparison.best] if comparison.best else [])} <= comparison.available.keys()
        and all(row.matches(data) for row in comparison.available.values())
    )


def _evaluation(evaluation: Evaluation) -> bool:
    return len(evaluation) >= 1 and all(len(vector) == len(evaluation) for vector in evaluation.vectors.values())


def _runtime(runtime: Runtime) -> bool:
    times = (*runtime.fit_seconds.values(), *runtime.apply_seconds.values())
    return runtime.fit_seconds.keys() == runtime.apply_seconds.keys() and all(times)


def _playground(found: Playground) -> bool:
    shape, points = (len(found.methods), len(found.sizes)), len(found.x)
    return (
        found.error.shape == found.conditional.shape == (*shape, found.error.shape[2])
        and all(shape)
        and 1 <= found.error.shape[2] <= MOST_SEEDS
        and points == len(found.truth) >= 2
        and len(found.density_edges) == len(found.density) + 1 >= 2
        and {*found.smart, *found.ts} <= set(found.sizes)
        and all(curves.shape[1] == points for curves in found.smart.values())
    )


def _cells(cells: ClasswiseCells) -> bool:
    sizes = {"g": group_number(cells.classes, cells.bins), "k": cells.classes, "b": cells.bins}
    return vars(cells).keys() == SCHEMA[ClasswiseCells].keys() and all(
        getattr(cells, name).shape == tuple(sizes[axis] for axis in axes) and getattr(cells, name).dtype == kind
        for name, (axes, kind) in CELL_SUMS.items()
    )


def _set(data: LogitSet) -> bool:
    parts, head = (data.validation, data.test), data.head
    widths = {part.features.shape[1] for part in parts if part.features is not None}
    arrays = [array for part in parts for array in (part.logits, part.features) if array is not None]
    if head is not None:
        arrays += [head.weight, head.bias]
        widths |= {head.weight.shape[-1]}
    if any(part.ragged and (np.isfinite(part.logits).sum(axis=1) < 2).any() for part in parts):
        raise ValueError(f"the data set '{data.name}' has rows with fewer than two classes")
    arrays = [np.where(np.isneginf(a), 0, a) if any(a is part.logits for part in parts) else a for a in arrays]
    if not all(array.dtype == np.float32 and np.abs(array).max(initial=0) <= MAX_LOGIT for array in arrays):
        raise ValueError(f"the data set '{data.name}' holds NaN or infinity, or numbers that are too large")
    confidences = [part.confidence for part in parts if part.confidence is not None]
    distances = [part.cw_l2 for part in parts if part.cw_l2 is not None]
    return (
        len(widths) <= 1
        and (head is None or (head.weight.shape, head.bias.shape) == ((data.classes, *widths), (data.classes,)))
        and all(((each >= 0) & (each <= 1)).all() for each in confidences)
        and all((np.isnan(each) | (each >= 0) & (each < np.inf)).all() for each in distances)
    )


CELL_SUMS = {
    **dict.fromkeys(("count", "sum_p", "sum_p2", "sum_y"), ("kb", np.float64)),
    **dict.fromkeys(("group_residual", "null_residual"), ("gkb", np.float32)),
    "group_count": ("g", np.float64),
}
"""Array of the classwise sums -> its axes (g: groups, k: classes, b: bins) and type."""
FIT = {"seconds": SECONDS, "method": METHOD}
TABLE: dict[str, Rule] = {
    "row_name": text(),
    "column_name": text(),
    "rows": each(SCALAR, tuple),
    "columns": each(SCALAR, tuple),
    "metrics": by_key(array("f", 3, -LARGEST, unknown=True), METRIC),
    "metric": METRIC,
    "complete": FLAG,
    "reasons": by_key(SENTENCE, each(whole(), tuple)),
}
SCHEMA: dict[type, dict[str, Rule]] = {
    Cure: {"option": text(), "value": SCALAR, "label": text()},
    Notice: {"code": text(), "text": SENTENCE, "cure": optional(a(Cure))},
    LogitSet: {"name": text(), "class_names": optional(each(text(1000), tuple)), "notices": each(a(Notice), tuple)},
    Interval: {"low": VALUE, "high": VALUE, "level": number(0, 1), "of": SENTENCE},
    Floor: {"mean": VALUE, "q95": VALUE, "draws": whole(), "values": array("f", 1, -LARGEST, unknown=True)},
    Trace: {"values": by_key(each(VALUE), text())},
    ClasswiseCells: {
        "classes": whole(2, 2**24),
        "bins": whole(1, 10_000),
        "samples": whole(1),
        "seed": whole(),
        **{name: array("f", len(axes), -LARGEST) for name, (axes, _) in CELL_SUMS.items()},
    },
    Evaluation: {
        "confidence": array("f", 1, 0, 1),
        "prediction": array("iu", 1, 0, 2**31),
        "correct": array("b", 1, 0, 1),
        "nll": array("f", 1, -1, unknown=True),
        "brier": array("f", 1, -1, 3),
        "margin": optional(array("f", 1, 0, float(np.finfo(np.float32).max))),
        "temperature": optional(array("f", 1, 0)),
        "cells": optional(a(ClasswiseCells)),
    },
    MethodResult: {
        "id": METHOD,
        "available": FLAG,
        "reason": optional(SENTENCE),
        "parameters": whole(),
        "keeps_top1": FLAG,
        "fit_seconds": SECONDS,
        "values": by_key(each(VALUE), DETAIL),
        "intervals": by_key(a(Interval), METRIC),
        "floor": by_key(a(Floor), METRIC),
        "notices": each(SENTENCE),
        "calibrators": each(a(Calibrator)),
        "evaluations": each(a(Evaluation)),
    },
    Comparison: {
        "data": a(LogitSet),
        "results": by_key(a(MethodResult), METHOD),
        "floor": by_key(a(Floor), METRIC),
        "metric": METRIC,
        "tied": by_key(FLAG, METHOD),
        "best": optional(METHOD),
        "complete": FLAG,
        "notices": each(SENTENCE),
        "bins": whole(1, 10_000),
        "model_losses": by_key(VALUE, METRIC),
    },
    SeedTable: TABLE,
    Sensitivity: {**TABLE, "row_name": one_of(["sigma"]), "column_name": one_of(["delta"]), "seconds": SECONDS},
    Shift: {**TABLE, "row_name": one_of(["method"]), "column_name": one_of(["target"])},
    Ablation: {"objectives": a(SeedTable), "indicators": a(SeedTable)},
    Traces: {"runs": by_key(a(Trace), one_of([known.label for known in OBJECTIVES.values()])), "complete": FLAG},
    Runtime: {
        "fit_seconds": by_key(each(SECONDS), METHOD),
        "apply_seconds": by_key(each(SECONDS), METHOD),
        "reasons": by_key(SENTENCE, METHOD),
        "complete": FLAG,
    },
    SetInfo: {
        **dict.fromkeys(("classes", "validation", "test"), whole()),
        **dict.fromkeys(("accuracy", "overconfidence", "margin_spread", "floor"), VALUE),
        "splits": each(text(64), tuple),
    },
    Playground: {
        "methods": each(METHOD, tuple),
        "sizes": each(whole(1), tuple),
        "classes": whole(2, 2**24),
        **dict.fromkeys(("error", "conditional"), array("f", 3, 0, unknown=True)),
        **dict.fromkeys(("x", "density_edges", "density"), array("f", 1, 0)),
        "truth": array("f", 1, 0),
        "smart": by_key(array("f", 2, 0), whole(1)),
        "ts": by_key(number(0), whole(1)),
        "reasons": by_key(SENTENCE, METHOD),
        "complete": FLAG,
    },
    Cell: {
        "values": by_key(each(VALUE), METRIC),
        "seconds": VALUE,
        "parameters": whole(),
        "reason": SENTENCE,
        "key": text(80),
    },
    Benchmark: {
        "sets": by_key(a(SetInfo), text()),
        "methods": each(METHOD, tuple),
        "cells": by_key(by_key(a(Cell), METHOD), text()),
        "metric": METRIC,
        "complete": FLAG,
        "tied": by_key(by_key(by_key(FLAG, METHOD), text()), METRIC),
    },
}
"""Class -> field -> its rule."""

AGREE: dict[type, Callable[[Any], bool]] = {
    LogitSet: _set,
    Interval: lambda interval: not interval.low > interval.high,
    Trace: lambda trace: len({len(column) for column in trace.values.values()}) <= 1,
    ClasswiseCells: _cells,
    Evaluation: _evaluation,
    MethodResult: _row,
    Comparison: _comparison,
    SeedTable: _table,
    Sensitivity: _table,
    Shift: lambda shift: shift.rows[:1] == ("vanilla",) and _table(shift),
    Traces: lambda traces: all(len(run) and run.values.keys() >= set(TRACED) for run in traces.runs.values()),
    Runtime: _runtime,
    Playground: _playground,
    Benchmark: lambda found: found.cells.keys() == found.sets.keys(),
}
"""Class -> whether the fields agree with each other."""


def check(value: T) -> T:
    """Return the object if its fields keep the rules of its class; raise ValueError if not."""
    kind = type(value)
    check_fields(vars(value), SCHEMA[kind], kind.__name__)
    if kind in AGREE and not AGREE[kind](value):
        raise ValueError(f"the values of {kind.__name__} contradict each other")
    return value


def check_fields(fields: Mapping[str, Any], rules: Mapping[str, Rule], where: str) -> None:
    """Raise ValueError if a field is missing or does not keep its rule."""
    for name, rule in rules.items():
        if name not in fields or not rule.holds(fields[name]):
            raise ValueError(f"{where}.{name} must be {rule.words}")
