"""Does the repair survive a shift: what is left of the error, group by group and method by method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from smart_core.errors import CalibrationError
from smart_core.evaluation import metric_named
from smart_core.figures.cells import Mark, OverSeeds, best_cell, cell_heatmap
from smart_core.figures.chart import Chart
from smart_core.figures.seed_tables import cell_table, label_of
from smart_core.figures.theme import ink, plain, style, template
from smart_core.formatting import join_words, metric_label, metric_value, percent, shorten

if TYPE_CHECKING:
    import pandas as pd

    from smart_core.experiments.shift import Shift

LOWEST = -1.0
"""Harm beyond a doubled error is drawn here, with its number beside it: else one bar flattens all others."""

VERTICAL_UP_TO = 30
"""Bars that stand side by side on a narrow screen; more lie below each other."""
LETTERS_UP_TO = 32
"""Letters of all the groups' names that fit side by side there."""


def reduction_bars(
    shift: Shift,
    metric: str | None = None,
    *,
    horizontal: bool | None = None,
    dark: bool = False,
    height: int | None = None,
    uirevision: str = "reduction",
) -> Chart:
    """How much of the uncalibrated model's error each method takes away in each group: 100 % is all, below 0 is harm.

    Bars stand for few and lie for many, unless `horizontal` says which.
    """
    name = metric or shift.metric
    kind = metric_named(name)
    if kind.higher_is_better:
        raise CalibrationError(f"{kind.label} is not an error, so it cannot be reduced; choose an error such as ECE.")
    values = np.asarray(shift.reduction(name), dtype=np.float64)[1:]
    methods = [str(method) for method in shift.rows[1:]]
    groups = [plain(group, 24) for group in shift.columns]
    crowded = values.size > VERTICAL_UP_TO or sum(map(len, groups)) > LETTERS_UP_TO
    flat = crowded if horizontal is None else horizontal
    figure = go.Figure([_bars(method, line, groups, flat) for method, line in zip(methods, values, strict=True)])
    across: dict[str, Any] = {"title_text": f"{kind.label} reduction", "tickformat": ".0%", "range": _range(values)}
    across["tickvals"] = [-1, 0, 1] if across["range"][0] < -0.5 else [-0.5, 0, 0.5, 1]
    along: dict[str, Any] = {"tickvals": list(range(len(groups))), "ticktext": groups, "showgrid": False}
    if flat:
        figure.update_xaxes(**across)
        figure.update_yaxes(**along, range=[len(groups) - 0.5, -0.5])
        figure.update_layout(height=height or max(260, 110 + len(groups) * (10 * len(methods) + 12)))
        figure.add_vline(0, line={"color": ink(dark).quiet, "width": 1.5})
    else:
        figure.update_yaxes(**across)
        figure.update_xaxes(**along, range=[-0.5, len(groups) - 0.5])
        figure.update_layout(height=height or 420)
        figure.add_hline(0, line={"color": ink(dark).quiet, "width": 1.5})
    figure.update_layout(template=template(dark), uirevision=uirevision, barmode="group", bargap=0.22, bargroupgap=0.05)
    return Chart(figure, _bars_alt(shift, values, methods, kind.label), _bars_table(shift, values), "shift-reduction")


def _range(values: np.ndarray[Any, Any]) -> list[float]:
    known = values[np.isfinite(values)]
    least = float(known.min(initial=0.0))
    if least < LOWEST:
        return [LOWEST - 0.5, 1.02]  # room for the number beside a bar cut short
    return [least - (0.05 if least < 0 else 0.0), 1.02]


def _bars(method: str, values: np.ndarray[Any, Any], groups: list[str], flat: bool) -> go.Bar:
    look, label = style(method), plain(label_of("method", method))
    known = np.flatnonzero(np.isfinite(values))
    length = np.maximum(values[known], LOWEST)
    place = dict(zip(("y", "x") if flat else ("x", "y"), (known, length), strict=True))
    return go.Bar(
        **place,
        orientation="h" if flat else "v",
        name=label,
        marker={"color": look.color, "line": {"width": 0}},
        text=[f"{values[j]:.0%}" if values[j] < LOWEST else "" for j in known],
        textposition="outside",
        textfont={"size": 9},
        constraintext="none",
        cliponaxis=False,
        customdata=[[groups[j], f"{values[j]:.1%}"] for j in known],
        hovertemplate=f"%{{customdata[0]}}<br>%{{customdata[1]}} of the error taken away<extra>{label}</extra>",
    )


def _bars_alt(shift: Shift, values: np.ndarray[Any, Any], methods: list[str], label: str) -> str:
    groups = len(shift.columns)
    head = f"Share of the uncalibrated {label} that each of {len(methods)} methods takes away in {groups} groups"
    if not np.isfinite(values).any():
        return f"{head}: no value yet."
    mean = {
        method: float(np.mean(line[np.isfinite(line)]))
        for method, line in zip(methods, values, strict=True)
        if np.isfinite(line).any()
    }
    order = sorted(mean, key=lambda method: -mean[method])
    best, last = order[0], order[-1]
    words = f"{head}: on average most by {label_of('method', best)}, {percent(mean[best])}"
    if last != best:
        words += f", least by {label_of('method', last)}, {percent(mean[last])}"
    harm = [
        f"{label_of('method', methods[i])} on {shorten(shift.columns[j])} ({percent(values[i, j])})"
        for i, j in np.argwhere(values < 0.0).tolist()
    ]
    if harm:
        more = f" and {len(harm) - 3} more" if len(harm) > 3 else ""
        words += f". Harm: {', '.join(harm[:3]) if more else join_words(harm)}{more}"
    return words + "."


def _bars_table(shift: Shift, values: np.ndarray[Any, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [
            {"method": method, shift.column_name: group, "reduction": values[i, j]}
            for j, group in enumerate(shift.columns)
            for i, method in enumerate(shift.rows[1:])
            if np.isfinite(values[i, j])
        ],
        columns=["method", shift.column_name, "reduction"],
    )


def shift_heatmap(
    shift: Shift,
    metric: str | None = None,
    *,
    dark: bool = False,
    height: int | None = None,
    uirevision: str = "shift",
) -> Chart:
    """The metric of every method (across) in every group (down) as numbers in cells; the best of each group starred."""
    name = metric or shift.metric
    kind = metric_named(name)
    cells = OverSeeds.of(np.asarray(shift.metrics[name], dtype=np.float64)).transposed()
    down = [plain(group, 24) for group in shift.columns]
    across = [label_of("method", method) for method in shift.rows]
    best = [best_cell(cells.mean[i : i + 1], higher_is_better=kind.higher_is_better) for i in range(len(down))]
    # one legend entry stands for the stars of all groups
    marks = [Mark(i, own[1], "best of its group") for i, own in enumerate(best) if own is not None]
    figure = cell_heatmap(
        cells.mean,
        [[cells.text(name, i, j) for j in range(len(across))] for i in range(len(down))],
        [
            [f"{group}, {plain(method)}<br>{cells.words(name, i, j)}" for j, method in enumerate(across)]
            for i, group in enumerate(down)
        ],
        down,
        [plain(label) for label in across],
        caption=metric_label(name),
        marks=marks,
        empty="–",
        dark=dark,
        height=height,
        uirevision=uirevision,
    )
    return Chart(figure, _heatmap_alt(shift, cells, name, best, across), cell_table(shift, cells, name), "shift")


def _heatmap_alt(
    shift: Shift, cells: OverSeeds, metric: str, best: list[tuple[int, int] | None], across: list[str]
) -> str:
    label = metric_named(metric).label
    won = [own[1] for own in best if own is not None]
    head = f"{label} of {len(across)} methods in {len(best)} groups"
    if not won:
        return f"{head}: no value yet."
    wins = np.bincount(won, minlength=len(across))
    most = int(wins.argmax())
    worst = best_cell(cells.mean, higher_is_better=not metric_named(metric).higher_is_better) or (0, 0)
    return (
        f"{head}: {across[most]} is best in {wins[most]} of {len(won)} groups; the worst cell is {across[worst[1]]} on "
        f"{shorten(shift.columns[worst[0]])} with {metric_value(metric, cells.mean[worst])}."
    )
