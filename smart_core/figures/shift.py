"""Does the repair survive a shift: the share of the error that each method removes in each group."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from smart_core.errors import CalibrationError
from smart_core.evaluation import metric_named
from smart_core.experiments.shift import Shift
from smart_core.figures.chart import Chart, Look, lay_out
from smart_core.figures.seed_tables import label_of
from smart_core.figures.theme import ink, plain, style
from smart_core.formatting import join_words, percent, shorten

LOWEST = -1.0
"""Harm beyond a doubled error is drawn here, with its number beside it: otherwise one bar would flatten all others."""

VERTICAL_UP_TO = 30
"""Bars that fit side by side on a narrow screen; more are drawn below each other."""
CHARACTERS_UP_TO = 32
"""Characters of all the groups' names that fit side by side there."""


def reduction_bars(
    shift: Shift, metric: str | None = None, *, horizontal: bool | None = None, **look: Unpack[Look]
) -> Chart:
    """The share of the uncalibrated error that each method removes in each group: 100 % is all, below 0 is harm.

    Few bars are vertical and many horizontal, unless `horizontal` is given.

    >>> shift = Shift.empty("method", "target", ("vanilla", "ts"), ("fog", "snow"), 1, ("ece",))
    >>> shift.metrics["ece"][:, :, 0] = [[0.10, 0.20], [0.05, 0.30]]
    >>> reduction_bars(shift).table["reduction"].round(2).tolist()
    [0.5, -0.5]
    """
    name = metric or shift.metric
    kind = metric_named(name)
    if kind.higher_is_better:
        raise CalibrationError(f"{kind.label} is not an error, so it cannot be reduced; choose an error such as ECE.")
    values = np.asarray(shift.reduction(name), dtype=np.float64)[1:]
    methods = [str(method) for method in shift.rows[1:]]
    groups = [plain(group, 24) for group in shift.columns]
    crowded = values.size > VERTICAL_UP_TO or sum(map(len, groups)) > CHARACTERS_UP_TO
    flat = crowded if horizontal is None else horizontal
    figure = go.Figure([_bars(method, line, groups, flat) for method, line in zip(methods, values, strict=True)])
    across: dict[str, Any] = {"title_text": f"{kind.label} reduction", "tickformat": ".0%", "range": _range(values)}
    across["tickvals"] = [-1, 0, 1] if across["range"][0] < -0.5 else [-0.5, 0, 0.5, 1]
    many = len(groups)
    along: dict[str, Any] = {"tickvals": list(range(many)), "ticktext": groups, "showgrid": False}
    zero = {"line": {"color": ink(look.get("dark", False)).quiet, "width": 1.5}}
    if flat:
        figure.update_xaxes(**across)
        figure.update_yaxes(**along, range=[many - 0.5, -0.5])
        figure.add_vline(0, **zero)
        tall = max(260, 110 + many * (10 * len(methods) + 12))
    else:
        figure.update_yaxes(**across)
        figure.update_xaxes(**along, range=[-0.5, many - 0.5])
        figure.add_hline(0, **zero)
        tall = 420
    lay_out(figure, look, tall, "reduction", barmode="group", bargap=0.22, bargroupgap=0.05)
    return Chart(figure, _alt(shift, values, methods, kind.label), _table(shift, values), "shift-reduction")


def _range(values: NDArray[np.float64]) -> list[float]:
    known = values[np.isfinite(values)]
    least = float(known.min(initial=0.0))
    if least < LOWEST:
        return [LOWEST - 0.5, 1.02]  # room for the number beside a bar cut short
    return [least - (0.05 if least < 0 else 0.0), 1.02]


def _bars(method: str, values: NDArray[np.float64], groups: list[str], flat: bool) -> go.Bar:
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
        hovertemplate=f"%{{customdata[0]}}<br>%{{customdata[1]}} of the error removed<extra>{label}</extra>",
    )


def _alt(shift: Shift, values: NDArray[np.float64], methods: list[str], label: str) -> str:
    groups = len(shift.columns)
    head = f"Share of the uncalibrated {label} that each of {len(methods)} methods removes in {groups} groups"
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
        words += f". Worse than uncalibrated: {', '.join(harm[:3]) if more else join_words(harm)}{more}"
    return words + "."


def _table(shift: Shift, values: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"method": method, shift.column_name: group, "reduction": values[i, j]}
            for j, group in enumerate(shift.columns)
            for i, method in enumerate(shift.rows[1:])
            if np.isfinite(values[i, j])
        ],
        columns=["method", shift.column_name, "reduction"],
    )
