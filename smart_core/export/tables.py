"""A leaderboard as CSV, and as a LaTeX table in the layout of calibration papers (booktabs)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from smart_core.calibrators import in_order, method_named
from smart_core.errors import ExportError
from smart_core.evaluation import CALIBRATION_ERRORS, HEADLINE, METRICS, metric_named, metric_number
from smart_core.experiments import latex
from smart_core.experiments.compare import Comparison, MethodResult
from smart_core.experiments.latex import NOTHING, escaped, heading

CAPTION = (
    r"Measured on test, mean $\pm$ standard deviation over seeds; a figure without one does not depend on the seed. "
    r"The best mean is bold{tied}. {floor}: the 95\% quantile of what a perfectly calibrated model with the "
    r"uncalibrated model's confidences would show."
)
TRUE = (
    r" True, 95\%: a confidence interval of the model's error over the whole population; sampling noise inflates the "
    r"measured error, which near the noise floor can lie above its own interval."
)
WORSE = r" $\dagger$: an NLL, Brier score or accuracy worse than that of the uncalibrated model, beyond noise."
TIED = "; underlined are the methods that a paired test by {metric} cannot tell from the best"


def comparison_csv(comparison: Comparison) -> str:
    """One row per method; fractions, not per cent, in full precision."""
    return str(comparison.to_frame().to_csv(lineterminator="\n"))


def comparison_latex(
    comparisons: Comparison | Sequence[Comparison],
    *,
    methods: Literal["columns", "rows"] = "columns",
    metrics: Sequence[str] | None = None,
    caption: str | None = None,
    label: str = "tab:calibration",
) -> str:
    """A table for a paper that loads `booktabs`.

    Methods as columns: a row for each data set and metric (default: ECE), its noise floor last. Methods as rows: a
    column for each metric (default: the leaderboard's), for one data set, the noise floor as the last row; after a
    calibration error that is the primary metric comes a column with its true range. Errors are in per cent; `caption`
    is LaTeX and is not escaped.
    """
    sets = [comparisons] if isinstance(comparisons, Comparison) else list(comparisons)
    wanted = tuple(metrics or (("ece",) if methods == "columns" else HEADLINE))
    for name in wanted:
        metric_named(name)
    if not sets:
        raise ExportError("There is no comparison to make a table of; give at least one.")
    if methods == "rows" and len(sets) > 1:
        raise ExportError("Methods as rows show one data set; put methods in columns for several.")
    columns, header, body = (_methods_as_rows if methods == "rows" else _methods_as_columns)(sets, wanted)
    tied = sorted({METRICS[one.metric].label for one in sets if one.tied and one.metric in wanted})
    words = caption if caption is not None else _caption(tied, sets, methods, wanted)
    return latex.table(words, label, columns, header, body)


def _caption(tied: list[str], sets: Sequence[Comparison], methods: str, metrics: Sequence[str]) -> str:
    underlined = TIED.format(metric=" and ".join(tied)) if tied else ""
    words = CAPTION.replace("{tied}", underlined).replace("{floor}", "Floor" if methods == "columns" else "Noise floor")
    if any(one.against_model(id).worse for one in sets for id in one.available):
        words += WORSE
    if methods == "columns":
        return words
    return f"{escaped(sets[0].data.name)}. {words}" + (
        TRUE if any(_has_range(sets[0], name) for name in metrics) else ""
    )


def _has_range(comparison: Comparison, metric: str) -> bool:
    """Whether the true range of a metric has a column of its own: that of the primary metric, if it is biased."""
    return metric == comparison.metric and metric in CALIBRATION_ERRORS


def _methods_as_columns(sets: Sequence[Comparison], metrics: Sequence[str]) -> tuple[str, list[str], list[str]]:
    ids = in_order(id for one in sets for id in one.results)
    header = ["Data", "Metric", *(method_named(id).label for id in ids), "Floor"]
    body: list[str] = []
    for number, one in enumerate(sets):
        if number > 0 and len(metrics) > 1:
            body.append(r"\midrule")
        for place, metric in enumerate(metrics):
            name = escaped(one.data.name) if place == 0 else ""
            cells = {id: f"{cell}{_dagger(one, id)}" for id, cell in _figures(one, metric).items()}
            body.append(
                latex.row([name, heading(metric), *(cells.get(id, NOTHING) for id in ids), _floor(one, metric)])
            )
    return "ll" + "c" * (len(ids) + 1), header, body


def _methods_as_rows(sets: Sequence[Comparison], metrics: Sequence[str]) -> tuple[str, list[str], list[str]]:
    (one,) = sets
    columns, header, floors = [], ["Method"], ["Noise floor"]
    for metric in metrics:
        columns.append(_figures(one, metric))
        header.append(heading(metric))
        floors.append(_floor(one, metric))
        if _has_range(one, metric):
            columns.append({id: _range(row, metric) for id, row in one.available.items()})
            header.append(r"true, 95\%")
            floors.append("")
    body = [
        latex.row([escaped(method_named(id).label) + _dagger(one, id), *(cells.get(id, NOTHING) for cells in columns)])
        for id in in_order(one.results)
    ]
    return "l" + "c" * len(columns), header, [*body, r"\midrule", latex.row(floors)]


def _figures(comparison: Comparison, metric: str) -> dict[str, str]:
    """Method -> its cell: `mean +- std`, the best bold, those tied with it underlined."""
    rows = {id: row for id, row in comparison.results.items() if row.available and math.isfinite(row.mean(metric))}
    if not rows:
        return {}
    choose = max if METRICS[metric].higher_is_better else min
    best = choose(row.mean(metric) for row in rows.values())
    tied = comparison.tied if metric == comparison.metric else {}
    cells = {}
    for id, row in rows.items():
        figure = latex.figure(metric, row.mean(metric), row.std(metric))
        if math.isclose(row.mean(metric), best, rel_tol=1e-9):  # a mean over seeds rounds
            figure = rf"\mathbf{{{figure}}}"
        elif tied.get(id):
            figure = rf"\underline{{{figure}}}"
        cells[id] = f"${figure}$"
    return cells


def _dagger(comparison: Comparison, id: str) -> str:
    """The mark of a method that worsens a proper score or the accuracy of the model."""
    return r"$^\dagger$" if comparison.against_model(id).worse else ""


def _range(row: MethodResult, metric: str) -> str:
    low, high = (metric_number(metric, end) for end in row.ends(metric))
    return f"{low}--{high}" if low and high else NOTHING


def _floor(comparison: Comparison, metric: str) -> str:
    floor = comparison.floor.get(metric)
    return NOTHING if floor is None or not math.isfinite(floor.q95) else f"${metric_number(metric, floor.q95)}$"
