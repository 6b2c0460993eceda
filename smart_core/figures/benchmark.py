"""A benchmark as figures: sets by methods, the critical difference diagram, who beats whom, and where a method wins."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from smart_core.evaluation import METRICS, metric_label, metric_number, metric_value, tick_format
from smart_core.experiments.benchmark_result import PROPERTIES, Benchmark, marked
from smart_core.experiments.set_ranking import Ranking
from smart_core.figures.chart import Chart, Look, error_bars, lay_out, legend_entry, name_rows
from smart_core.figures.seed_tables import cell_grid
from smart_core.figures.theme import diverging, ink, plain, style
from smart_core.formatting import join_words, percent, plural

WORST = 4.0
"""Times the best value of a set from which on a cell has the darkest colour."""


def benchmark_matrix(result: Benchmark, metric: str | None = None, **look: Unpack[Look]) -> Chart:
    """Sets down, methods across: the best of each set bold, the second underlined, those tied with the best starred.

    Sets differ in how large an error is, so that the colour is the ratio to the best value of the set, on a logarithmic
    scale up to four times. Every cell is a point that can be selected: x is its column, y its row.
    """
    name = metric or result.metric
    values = result.matrix(name)
    x = values.to_numpy(dtype=np.float64)
    places = [marked(name, means) for _, means in values.iterrows()]
    ratio = _ratio_to_best(x, higher_is_better=METRICS[name].higher_is_better)
    texts, words = [], []
    for i, one in enumerate(values.index):
        for j, id in enumerate(values.columns):
            number, tied = metric_number(name, x[i, j]), result.is_tied(name, one, id)
            text = {1: f"<b>{number}</b>", 2: f"<u>{number}</u>"}.get(places[i][id], number)
            texts.append(f"{text}{'*' if tied and places[i][id] != 1 else ''}" if number else "–")
            words.append(f"{plain(one)}, {style(id).label}<br>{_cell_words(result, one, id, name, tied)}")
    rows, columns = [_two_lines(one) for one in values.index], [style(id).label for id in values.columns]
    span, height = (0.0, float(np.log(WORST))), 80 + 30 * len(rows)
    figure = cell_grid(
        ratio, texts, words, rows, columns, look, height, "benchmark-matrix", span=span, size=11, side="top"
    )
    return Chart(figure, _matrix_alt(result, values, name), result.to_frame(), "benchmark")


def _two_lines(name: str) -> str:
    """A set's name, a data set and a model one below the other, which leaves room for the cells on a phone."""
    first, slash, second = plain(name, 40).partition(" / ")
    return f"{first}<br>{second}" if slash else plain(name, 32)


def _ratio_to_best(x: np.ndarray, *, higher_is_better: bool) -> np.ndarray:
    """(sets, methods) logarithm of how many times the best value of the set a value is, from 0 to log 4."""
    if not x.size:
        return x
    sign = -1.0 if higher_is_better else 1.0
    best = sign * np.nanmin(np.where(np.isfinite(x), sign * x, np.inf), axis=1, keepdims=True)
    top, bottom = (best, x) if higher_is_better else (x, best)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(np.abs(top) / np.abs(bottom))
    return np.where(np.isfinite(x), np.clip(np.nan_to_num(found, nan=0.0), 0.0, np.log(WORST)), np.nan)


def _cell_words(result: Benchmark, one: str, id: str, metric: str, tied: bool | None) -> str:
    cell = result.cells.get(one, {}).get(id)
    if cell is None:
        return "not fitted yet"
    if cell.reason:
        return plain(cell.reason, 120)
    figures = cell.over_seeds(metric)
    words = f"{METRICS[metric].label} {metric_value(metric, float(figures.mean))}"
    if figures.seeds > 1:
        words += f" ± {metric_value(metric, float(figures.std))} over {plural(int(figures.seeds), 'fit')}"
    return words + ("" if tied is None else ", tied with the best" if tied else ", worse than the best beyond noise")


def _matrix_alt(result: Benchmark, values: pd.DataFrame, metric: str) -> str:
    head = f"{METRICS[metric].label} of {plural(len(values.columns), 'method')} on {plural(len(values), 'data set')}"
    filled = values.dropna(how="all")
    if filled.empty:
        return f"{head}: no cell is computed yet."
    best = (filled.idxmax if METRICS[metric].higher_is_better else filled.idxmin)(axis=1).value_counts()
    leaders = [f"{style(id).label} on {count}" for id, count in best.head(3).items()]
    missing = int(sum(len(result.methods) - len(cells) for cells in result.cells.values()))
    return f"{head}; best {join_words(leaders)}." + (f" {missing} cells are empty." if missing else "")


def critical_difference_diagram(ranking: Ranking, **look: Unpack[Look]) -> Chart:
    """Methods at their mean ranks over sets, with 95% intervals; a bar joins those that Nemenyi's test cannot tell
    apart at 5%."""
    dark = look.get("dark", False)
    order = np.argsort(ranking.mean_rank, kind="stable")
    labels = [style(ranking.methods[index]).label for index in order]
    figure = go.Figure()
    for row, index in enumerate(order):
        drawn, rank, (low, high) = style(ranking.methods[index]), ranking.mean_rank[index], ranking.rank_interval[index]
        figure.add_scatter(
            x=[rank],
            y=[row],
            mode="markers",
            marker={"color": drawn.color, "symbol": drawn.symbol, "size": 11},
            error_x=error_bars([rank], [low], [high], width=0),
            hovertemplate=f"mean rank {rank:.2f} ({low:.2f} to {high:.2f})<extra>{drawn.label}</extra>",
            showlegend=False,
        )
    place = {ranking.methods[index]: row for row, index in enumerate(order)}
    left = float(ranking.mean_rank.max())
    for number, clique in enumerate(ranking.cliques()):
        at = left + 0.12 * (number + 1) * max(left / 10, 0.3)
        ends = place[clique[0]] - 0.2, place[clique[-1]] + 0.2
        figure.add_scatter(
            x=[at, at],
            y=ends,
            mode="lines",
            line={"color": ink(dark).quiet, "width": 5},
            hovertemplate=f"{join_words([style(id).label for id in clique])} cannot be told apart<extra></extra>",
            showlegend=False,
        )
    figure.add_trace(
        legend_entry("cannot be told apart (Nemenyi, 5%)", "lines", line={"color": ink(dark).quiet, "width": 5})
    )
    lay_out(figure, look, 90 + 26 * len(labels), "critical-difference")
    figure.update_xaxes(title_text="Mean rank over sets, 1 is best", zeroline=False)
    name_rows(figure, labels)
    alt = (
        f"Mean ranks over {plural(ranking.sets, 'data set')}: "
        + join_words(
            [f"{label} {ranking.mean_rank[index]:.2f}" for label, index in zip(labels, order, strict=True)][:6]
        )
        + (f". Differences below {ranking.critical_difference:.2f} are noise." if ranking.sets > 1 else ".")
    )
    table = pd.DataFrame(
        {
            "method": [ranking.methods[index] for index in order],
            "mean rank": ranking.mean_rank[order],
            "low": ranking.rank_interval[order, 0],
            "high": ranking.rank_interval[order, 1],
        }
    )
    return Chart(figure, alt, table, "critical-difference")


def win_matrix(ranking: Ranking, **look: Unpack[Look]) -> Chart:
    """On which share of the sets the method of the row beats that of the column, best methods first."""
    dark = look.get("dark", False)
    order = np.argsort(ranking.mean_rank, kind="stable")
    wins, ends = ranking.wins[np.ix_(order, order)], ranking.wins_interval[np.ix_(order, order)]
    labels = [style(ranking.methods[index]).label for index in order]
    words = [
        ""
        if i == j
        else f"{labels[i]} beats {labels[j]} on {percent(float(wins[i, j]), 0)} of sets<br>"
        f"95% over sets: {percent(float(ends[i, j, 0]), 0)} to {percent(float(ends[i, j, 1]), 0)}"
        for i, j in np.ndindex(wins.shape)
    ]
    texts = ["" if i == j else f"{100 * wins[i, j]:.0f}" for i, j in np.ndindex(wins.shape)]
    scale = tuple((1.0 - place, color) for place, color in reversed(diverging(dark)))
    height = 110 + 26 * len(labels)
    figure = cell_grid(
        wins, texts, words, labels, labels, look, height, "win-matrix", span=(0.0, 1.0), scale=scale, side="top"
    )
    best = labels[0]
    alt = f"Share of {plural(ranking.sets, 'set')} on which one method beats another; {best} has the best mean rank."
    records = [
        (ranking.methods[a], ranking.methods[b], wins[i, j], *ends[i, j])
        for i, a in enumerate(order)
        for j, b in enumerate(order)
        if i != j
    ]
    table = pd.DataFrame(records, columns=["method", "beats", "share", "low", "high"])
    return Chart(figure, alt, table, "wins")


def property_scatter(
    result: Benchmark,
    of: str,
    methods: list[str],
    metric: str | None = None,
    *,
    relative: bool = True,
    **look: Unpack[Look],
) -> Chart:
    """A metric of each set against a property of the sets, such as the number of classes: where does a method win?

    `relative` divides by the value of the uncalibrated model, so that sets of different difficulty can be compared.
    """
    name = metric or result.metric
    values = result.matrix(name)
    by_model = relative and "vanilla" in values
    if by_model:
        values = values.div(values["vanilla"], axis=0)
    where = pd.Series({one: result.sets[one].properties()[of] for one in values.index}, dtype=float)
    figure = go.Figure()
    records = []
    for id in methods:
        drawn = style(id)
        hover = [f"{plain(one)}<br>{PROPERTIES[of]}: {where[one]:g}" for one in values.index]
        figure.add_scatter(
            x=where.to_numpy(),
            y=values[id].to_numpy(),
            mode="markers",
            name=drawn.label,
            marker={"color": drawn.color, "symbol": drawn.symbol, "size": 10},
            customdata=hover,
            hovertemplate="%{customdata}<br>%{y:.3g}<extra>" + drawn.label + "</extra>",
        )
        records += [{"set": one, "method": id, of: where[one], name: values.loc[one, id]} for one in values.index]
    lay_out(figure, look, 400, f"property-{of}")
    label = METRICS[name].label
    figure.update_xaxes(title_text=PROPERTIES[of], type="log" if of in ("classes", "validation", "test") else "linear")
    title = f"{label} as a share of the model's" if by_model else metric_label(name)
    figure.update_yaxes(title_text=title, tickformat=".0%" if by_model else tick_format(name))
    if by_model:
        figure.add_hline(y=1.0, line={"color": ink(look.get("dark", False)).quiet, "dash": "dot", "width": 1})
    drawn_methods = join_words([style(id).label for id in methods])
    alt = f"{title} of {drawn_methods} on {plural(len(values), 'data set')} against {PROPERTIES[of].lower()}."
    return Chart(figure, alt, pd.DataFrame(records), "where")
