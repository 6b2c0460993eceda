"""Tables over seeds as coloured cells with their numbers: ablation, sensitivity and shift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.calibrators import is_method
from smart_core.evaluation import metric_label, metric_named, metric_number, metric_value, tick_format
from smart_core.experiments.paper import DEFAULT
from smart_core.experiments.results import OverSeeds, SeedTable
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.experiments.shift import Shift
from smart_core.figures.chart import Chart, Look, cell_points, lay_out, legend_entry, marker, name_rows, shade
from smart_core.figures.theme import Scale, ink, plain, sequential, style, translucent
from smart_core.fitting.indicators import INDICATORS
from smart_core.fitting.objectives import OBJECTIVES
from smart_core.formatting import join_words, shorten
from smart_core.types import Vector

Place = tuple[int, int]
"""Row and column of a cell."""

WIDE = 6
"""Columns from which on the numbers are smaller, for narrow screens."""


def label_of(kind: str, value: Any) -> str:
    """The name of a row or column of a table, unescaped: methods, objectives and indicators by their own labels."""
    if kind == "method" and is_method(value):
        return style(value).label
    if kind == "objective" and value in OBJECTIVES:
        return OBJECTIVES[value].label
    if kind == "indicator" and value in INDICATORS:
        return INDICATORS[value].label
    return shorten(value)


def seed_table_heatmap(
    table: SeedTable, metric: str | None = None, *, source: str = "", floor: float | None = None, **look: Unpack[Look]
) -> Chart:
    """The table's cells with their numbers, mean and spread over seeds; the best cell starred.

    The table's columns (objectives, indicators) run down the side, where there is room for their names, and its rows
    (methods) across. A table of one method is drawn as dots along an axis. Colours begin at the noise floor, if it is
    given: what lies below it is all alike.

    >>> from smart_core.experiments import paper
    >>> chart = seed_table_heatmap(paper.objectives("ResNet-50"), source="the paper")
    >>> chart.name, list(chart.table.columns), len(chart.table)
    ('objectives', ['method', 'objective', 'ECE', 'ECE std over seeds', 'seeds'], 18)
    """
    name = metric or table.metric
    cells = _transposed(table, name)
    down = [label_of(table.column_name, value) for value in table.columns]
    across = [label_of(table.row_name, value) for value in table.rows]
    best = best_cell(cells.mean, name)
    marks = [] if best is None else [Mark(*best, f"{_extreme(name)} on test")]
    rows, columns = ([plain(label) for label in labels] for labels in (down, across))
    if len(columns) == 1:
        figure = cell_dots(cells, name, rows, look, "seed-table", floor)
    else:
        figure = cell_heatmap(cells, name, rows, columns, marks, look, "seed-table", floor=floor)
    head = f"{metric_named(name).label} by {table.column_name} and {table.row_name}{_from(source)}"
    alt = f"{head}: no cell is computed yet."
    if best is not None:
        own = [(j, best_cell(cells.mean[:, j : j + 1], name)) for j in range(len(across))]
        each = [f"{across[j]} {_at(cells, name, (at[0], j))} with {down[at[0]]}" for j, at in own if at is not None]
        words = [
            f"{head}: {_extreme(name)} for each {table.row_name}: {join_words(each)}",
            f"The {_extreme(name)} are chosen on test, so their own values are optimistic",
            *_open(cells, "have no value yet"),
        ]
        alt = ". ".join(words) + "."
    return Chart(figure, alt, _transposed_table(table, cells, name), f"{table.column_name}s")


def sensitivity_heatmap(
    result: Sensitivity,
    metric: str | None = None,
    paper_default: tuple[float, float] | None = DEFAULT,
    *,
    source: str = "",
    floor: float | None = None,
    **look: Unpack[Look],
) -> Chart:
    """Mean over seeds at every (sigma, delta), sigmas down the side; the paper's default framed, the best cell starred.

    Cells not computed yet are empty, so that a running study fills the figure cell by cell. `source` says whose
    numbers they are, such as "the paper, table hyperparam_resnet50".

    >>> from smart_core.experiments import paper
    >>> sensitivity_heatmap(paper.sensitivity_grid()).alt.split(": ")[0]
    'ECE of SMART over 5 values of sigma and 4 of delta'
    """
    name = metric or result.metric
    cells = result.over_seeds(name)
    best, default = best_cell(cells.mean, name), _place(result, paper_default)
    marks = [] if default is None else [Mark(*default, "paper's default", outline=True)]
    marks += [] if best is None else [Mark(*best, f"{_extreme(name)} on test")]
    sigmas, deltas = ([f"{value:g}" for value in axis] for axis in (result.sigmas, result.deltas))
    hover = [f"σ = {sigma}" for sigma in sigmas], [f"δ = {delta}" for delta in deltas]
    figure = cell_heatmap(cells, name, sigmas, deltas, marks, look, "sensitivity", hover=hover, floor=floor)
    figure.update_xaxes(title_text="δ")
    figure.update_yaxes(title_text="σ")
    pairs = [(sigma, delta) for sigma in result.sigmas for delta in result.deltas]
    table = pd.DataFrame([{"sigma": s, "delta": d} for s, d in pairs]).join(cell_numbers(cells, name))
    return Chart(figure, _sensitivity_alt(result, cells, name, best, default, source), table, "sensitivity")


def _place(result: Sensitivity, pair: tuple[float, float] | None) -> Place | None:
    """Row and column of (sigma, delta); None where the grid does not hold it."""
    if pair is None:
        return None
    axes = zip((result.sigmas, result.deltas), pair, strict=True)
    row, column = (np.flatnonzero(np.isclose(axis, value)) for axis, value in axes)
    return (int(row[0]), int(column[0])) if row.size and column.size else None


def _sensitivity_alt(
    result: Sensitivity, cells: OverSeeds, metric: str, best: Place | None, default: Place | None, source: str
) -> str:
    sizes = f"{len(result.sigmas)} values of sigma and {len(result.deltas)} of delta"
    head = f"{metric_named(metric).label} of SMART over {sizes}{_from(source)}"
    if best is None:
        return f"{head}: no cell is computed yet."
    worst = best_cell(cells.mean, metric, worst=True) or best

    def at(place: Place) -> str:
        where = f"sigma {result.sigmas[place[0]]:g}, delta {result.deltas[place[1]]:g}"
        return f"{_at(cells, metric, place)} at {where}"

    most = int(cells.seeds.max(initial=0))
    first = f"{head}, {most} seeds per cell" if most > 1 else head
    first += f": {_extreme(metric)} {at(best)}, {_extreme(metric, worst=True)} {at(worst)}"
    if default is not None and cells.seeds[default]:
        first += f"; the paper's default has {_at(cells, metric, default)}"
    optimistic = f"The {_extreme(metric)} cell is chosen on test, so its own value is optimistic"
    return ". ".join([first, optimistic, *_open(cells, "are not computed yet")]) + "."


def shift_heatmap(shift: Shift, metric: str | None = None, **look: Unpack[Look]) -> Chart:
    """The metric of every method (across) in every group (down) as numbers in cells; the best of each group starred."""
    name = metric or shift.metric
    cells = _transposed(shift, name)
    down = [plain(group, 24) for group in shift.columns]
    across = [label_of("method", method) for method in shift.rows]
    best = [best_cell(cells.mean[i : i + 1], name) for i in range(len(down))]
    # one legend entry stands for the stars of all groups
    marks = [Mark(i, own[1], "best of its group") for i, own in enumerate(best) if own is not None]
    columns = [plain(label) for label in across]
    figure = cell_heatmap(cells, name, down, columns, marks, look, "shift", empty="–")
    head = f"{metric_named(name).label} of {len(across)} methods in {len(best)} groups"
    alt = f"{head}: no value yet."
    if marks:
        wins = np.bincount([mark.column for mark in marks], minlength=len(across))
        most = int(wins.argmax())
        worst = best_cell(cells.mean, name, worst=True) or (0, 0)
        where = f"{across[worst[1]]} on {shorten(shift.columns[worst[0]])}"
        alt = (
            f"{head}: {across[most]} is best in {wins[most]} of {len(marks)} groups; the worst cell is {where} with "
            f"{_at(cells, name, worst)}."
        )
    return Chart(figure, alt, _transposed_table(shift, cells, name), "shift")


def _transposed(table: SeedTable, metric: str) -> OverSeeds:
    """The cells with the table's columns down the side."""
    return OverSeeds.of(np.swapaxes(table.metrics[metric], 0, 1))


def _transposed_table(table: SeedTable, cells: OverSeeds, metric: str) -> pd.DataFrame:
    """One cell per row, as drawn: the table's columns down the side."""
    pairs = [{table.row_name: row, table.column_name: column} for column in table.columns for row in table.rows]
    return pd.DataFrame(pairs).join(cell_numbers(cells, metric))


def cell_numbers(cells: OverSeeds, metric: str) -> pd.DataFrame:
    """Mean, spread and number of seeds of every cell, row by row."""
    label = metric_named(metric).label
    columns = {label: cells.mean, f"{label} std over seeds": cells.std, "seeds": cells.seeds}
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()})


def _at(cells: OverSeeds, metric: str, place: Place) -> str:
    return metric_value(metric, cells.mean[place])


def _extreme(metric: str, *, worst: bool = False) -> str:
    return "highest" if metric_named(metric).higher_is_better is not worst else "lowest"


def _from(source: str) -> str:
    return f" ({shorten(source, 80)})" if source else ""


def _open(cells: OverSeeds, state: str) -> list[str]:
    missing = int((cells.seeds == 0).sum())
    return [f"{missing} of {cells.seeds.size} cells {state}"] if missing else []


def best_cell(mean: Vector, metric: str, *, worst: bool = False) -> Place | None:
    """Row and column of the best (or worst) mean; None while no cell is filled."""
    if not np.isfinite(mean).any():
        return None
    sign = -1.0 if metric_named(metric).higher_is_better is not worst else 1.0
    row, column = np.unravel_index(int(np.nanargmin(sign * mean)), mean.shape)
    return int(row), int(column)


def cell_text(cells: OverSeeds, metric: str, place: Place) -> str:
    """The text in a cell: the mean, and below it the spread if several seeds ran."""
    mean, spread = (metric_number(metric, float(values[place])) for values in (cells.mean, cells.std))
    return f"{mean}<br>±{spread}" if mean and spread else mean


def cell_words(cells: OverSeeds, metric: str, place: Place) -> str:
    """A cell in words: value, spread and seeds."""
    if not cells.seeds[place]:
        return "no value yet"
    words = f"{metric_named(metric).label} {_at(cells, metric, place)}"
    if cells.seeds[place] > 1:
        words += f" ± {metric_value(metric, cells.std[place])} over {cells.seeds[place]} seeds"
    return words


@dataclass(frozen=True)
class Mark:
    """A cell that is pointed out, and its entry in the legend."""

    row: int
    column: int
    name: str
    outline: bool = False
    """Framed if true, else with a star before its number."""


def cell_heatmap(
    cells: OverSeeds,
    metric: str,
    rows: Sequence[str],
    columns: Sequence[str],
    marks: Sequence[Mark],
    look: Look,
    uirevision: str,
    *,
    hover: tuple[Sequence[str], Sequence[str]] | None = None,
    empty: str = "not yet",
    floor: float | None = None,
) -> go.Figure:
    """Cells coloured by their mean, with mean and spread written in them, as `cell_grid` draws them.

    Cells without a value have no colour and say `empty`. Where columns are many, only the mean is written; the hover
    text has the rest. `hover` names rows and columns in the hover text. `floor` is where the colours begin (see
    `color_span`).
    """
    wide, places = len(columns) >= WIDE, list(np.ndindex(cells.mean.shape))
    starred = {(mark.row, mark.column) for mark in marks if not mark.outline}
    texts = [_written(cell_text(cells, metric, place), empty, star=place in starred, wide=wide) for place in places]
    sides, tops = hover or (rows, columns)
    words = [f"{sides[i]}, {tops[j]}<br>{cell_words(cells, metric, (i, j))}" for i, j in places]
    tall = any("<br>" in text for text in texts)
    height = 90 + (46 if tall else 34) * len(rows)
    span, size = color_span(cells.mean, metric, floor), 9 if wide else 12
    figure = cell_grid(cells.mean, texts, words, rows, columns, look, height, uirevision, span=span, size=size)
    for mark in {mark.name: mark for mark in marks}.values():  # several stars may share one entry
        figure.add_trace(_legend_entry(mark, look.get("dark", False)))
    for mark in marks:
        if mark.outline:
            corners = {"x0": mark.column - 0.5, "x1": mark.column + 0.5, "y0": mark.row - 0.5, "y1": mark.row + 0.5}
            frame = {"color": ink(look.get("dark", False)).text, "width": 3}
            figure.add_shape(type="rect", **corners, line=frame)
    return figure.update_layout(legend={"title": {"text": _unit(metric, floor), "font": {"size": 12}}, "font_size": 12})


def cell_grid(
    values: Vector,
    texts: Sequence[str],
    words: Sequence[str],
    rows: Sequence[str],
    columns: Sequence[str],
    look: Look,
    height: int,
    uirevision: str,
    *,
    span: tuple[float, float],
    scale: Scale | None = None,
    size: int = 12,
    side: str = "bottom",
) -> go.Figure:
    """Cells coloured by their values, with `texts` written in them and `words` as hover text; the first row is on top.

    `rows` and `columns` must be escaped already. Every cell is a point that can be selected: x is its column, y its
    row.
    """
    dark = look.get("dark", False)
    scale, across, down = scale or sequential(dark), list(range(len(columns))), list(range(len(rows)))
    colors = {"colorscale": scale, "showscale": False, "zmin": span[0], "zmax": span[1]}
    figure = go.Figure()
    figure.add_heatmap(z=values, x=across, y=down, hoverinfo="skip", **colors, xgap=2, ygap=2)
    y, x = np.indices(values.shape)
    details = {"customdata": words, "hovertemplate": "%{customdata}<extra></extra>"}
    figure.add_trace(cell_points(x.ravel(), y.ravel(), 24, 0.25, dark, **details))
    notes = zip(np.ndindex(values.shape), texts, cell_inks(values, dark, span, scale), strict=True)
    lay_out(
        figure,
        look,
        height,
        uirevision,
        annotations=[
            # annotations, which a selection does not dim
            {"x": j, "y": i, "text": text, "showarrow": False, "font": {"size": size, "color": color}}
            for (i, j), text, color in notes
        ],
        clickmode="event+select",
        hoverdistance=-1,  # the nearest point is always that of the cell under the pointer
    )
    axis = {"showgrid": False, "zeroline": False, "tickmode": "array", "tickfont": {"size": min(size + 2, 13)}}
    ends = {"range": [-0.5, len(columns) - 0.5], "side": side}
    # a label that leans to the left ends at its column and is never cut off at the right
    figure.update_xaxes(**axis, **ends, tickvals=across, ticktext=list(columns), autotickangles=[0, -45, -90])
    figure.update_yaxes(**axis, tickvals=down, ticktext=list(rows), range=[len(rows) - 0.5, -0.5])
    return figure


def color_span(values: Vector, metric: str, floor: float | None = None) -> tuple[float, float]:
    """The values at both ends of the colour scale.

    It begins at the noise floor and is at least as long as it: differences of the size of noise look alike. Without a
    floor an error in per cent begins at 0, and any other score spans at least 5% of its lowest value.

    >>> color_span(np.array([0.006, 0.008]), "ece", floor=0.01), color_span(np.array([0.2, 0.3]), "nll")
    ((0.01, 0.02), (0.2, 0.3))
    """
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if floor is not None and np.isfinite(floor) and floor > 0:
        return floor, max(high, 2 * floor)
    if metric_named(metric).percent and not metric_named(metric).higher_is_better:
        return 0.0, high or 1.0
    return low, max(high, low + 0.05 * abs(low)) if low else high or 1.0


def _unit(metric: str, floor: float | None) -> str:
    """The legend's title: the metric and, if the colours begin there, its noise floor."""
    return f"{metric_label(metric)}{f', noise floor {metric_number(metric, floor)}' if floor else ''} "


def cell_dots(
    cells: OverSeeds, metric: str, rows: Sequence[str], look: Look, uirevision: str, floor: float | None = None
) -> go.Figure:
    """A table of one column as dots along the metric's axis: the mean with its spread over seeds, the noise shaded."""
    kind, dark, mean, std = metric_named(metric), look.get("dark", False), cells.mean[:, 0], cells.std[:, 0]
    places = [row for row, value in enumerate(mean) if np.isfinite(value)]
    best = best_cell(cells.mean, metric)
    look_of = style("smart")
    figure = go.Figure()
    if floor is not None and np.isfinite(floor):
        shade(figure, 0.0, floor, translucent(ink(dark).quiet, 0.16))
        entry = {"symbol": "square", "size": 12, "color": translucent(ink(dark).quiet, 0.3)}
        figure.add_trace(legend_entry("noise floor", marker=entry))
    figure.add_scatter(
        x=mean[places],
        y=places,
        mode="markers",
        marker={**marker(look_of, 11), "symbol": ["star" if i == (best or (-1,))[0] else "circle" for i in places]},
        error_x={"type": "data", "array": np.nan_to_num(std[places]), "thickness": 1.5, "width": 4},
        name="mean and spread over seeds",
        customdata=[f"{rows[i]}<br>{cell_words(cells, metric, (i, 0))}" for i in places],
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=True,
    )
    if best is not None:
        figure.add_trace(_legend_entry(Mark(*best, f"{_extreme(metric)} on test"), dark))
    ends = np.concatenate([mean[places] - np.nan_to_num(std[places]), mean[places] + np.nan_to_num(std[places])])
    least, most = (float(ends.min()), float(ends.max())) if ends.size else (0.0, 1.0)
    start = 0.0 if kind.percent and not kind.higher_is_better else least - 0.1 * (most - least or abs(most))
    end = max(most, floor or 0.0) if not kind.higher_is_better else most
    lay_out(figure, look, 120 + 34 * len(rows), uirevision)
    figure.update_xaxes(
        title_text=kind.label, tickformat=tick_format(kind), range=[start, end + 0.06 * (end - start or 1.0)], nticks=6
    )
    name_rows(figure, rows)
    return figure


def _written(text: str, empty: str, *, star: bool, wide: bool) -> str:
    """A cell's text; in a narrow one the star stands below its number."""
    if not text:
        return empty
    if wide:
        first = text.split("<br>")[0]
        return f"<b>{first}</b><br>★" if star else first
    return f"★ {text}" if star else text


def cell_inks(values: Vector, dark: bool, span: tuple[float, float] = (0.0, 1.0), scale: Scale = ()) -> list[str]:
    """Black or white for each cell, row by row, whichever has more contrast on its colour; quiet where it has none.

    `span` is the range of the colour scale, `sequential` by default.
    """
    known = np.isfinite(values.ravel())
    place = np.where(known, (values.ravel() - span[0]) / (span[1] - span[0]), 0.0)
    stops, colors = zip(*(scale or sequential(dark)), strict=True)
    red_green_blue = np.array([list(bytes.fromhex(color[1:])) for color in colors]).T / 255
    level = np.stack([np.interp(place, stops, channel) for channel in red_green_blue], axis=-1)
    # WCAG's relative luminance; the contrast is (light + .05) / .05 against black, 1.05 / (light + .05) against white
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    light = linear @ [0.2126, 0.7152, 0.0722]
    black_or_white = np.where((light + 0.05) ** 2 > 0.05 * 1.05, "#000000", "#FFFFFF")
    return np.where(known, black_or_white, ink(dark).quiet).tolist()


def _legend_entry(mark: Mark, dark: bool) -> go.Scatter:
    symbol, width = ("square-open", 2.5) if mark.outline else ("star", 0)
    look = {"symbol": symbol, "size": 11, "color": ink(dark).text, "line": {"width": width}}
    return legend_entry(mark.name, marker=look, showlegend=True)
