"""A metric over SMART's sigma and delta, cell by cell: our own grids and the paper's alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smart_core.evaluation import metric_named
from smart_core.experiments.paper import DEFAULT
from smart_core.figures.cells import Mark, OverSeeds, best_cell, cell_heatmap
from smart_core.figures.chart import Chart
from smart_core.formatting import metric_label, metric_value, shorten

if TYPE_CHECKING:
    import pandas as pd


class Grid(Protocol):
    """What is drawn: `smart_core.experiments.Sensitivity`, or the paper's own `PaperGrid`."""

    @property
    def sigmas(self) -> tuple[float, ...]: ...
    @property
    def deltas(self) -> tuple[float, ...]: ...
    @property
    def metrics(self) -> Mapping[str, NDArray[Any]]: ...
    @property
    def metric(self) -> str: ...


def sensitivity_heatmap(
    result: Grid,
    metric: str | None = None,
    paper_default: tuple[float, float] | None = DEFAULT,
    *,
    source: str = "",
    dark: bool = False,
    height: int | None = None,
    uirevision: str = "sensitivity",
) -> Chart:
    """Mean over seeds at every (sigma, delta), rows are sigmas; the paper's default framed, the best cell starred.

    Cells not computed yet are left empty, so that a running study fills the figure cell by cell. `source` says
    whose numbers they are, like "the paper, table hyperparam_resnet50".
    """
    name = metric or result.metric
    cells = OverSeeds.of(np.asarray(result.metrics[name], dtype=np.float64))
    better = metric_named(name).higher_is_better
    best = best_cell(cells.mean, higher_is_better=better)
    default = _place(result, paper_default)
    marks = []
    if default is not None:
        marks.append(Mark(*default, "paper's default", outline=True))
    if best is not None:
        marks.append(Mark(*best, f"{'highest' if better else 'lowest'} on test"))
    figure = cell_heatmap(
        cells.mean,
        [[cells.text(name, i, j) for j in range(len(result.deltas))] for i in range(len(result.sigmas))],
        [
            [f"σ = {sigma:g}, δ = {delta:g}<br>{cells.words(name, i, j)}" for j, delta in enumerate(result.deltas)]
            for i, sigma in enumerate(result.sigmas)
        ],
        [f"{sigma:g}" for sigma in result.sigmas],
        [f"{delta:g}" for delta in result.deltas],
        caption=metric_label(name),
        marks=marks,
        dark=dark,
        height=height,
        uirevision=uirevision,
    )
    figure.update_xaxes(title_text="δ")
    figure.update_yaxes(title_text="σ")
    return Chart(figure, _alt(result, cells, name, best, default, source), _table(result, cells, name), "sensitivity")


def _place(result: Grid, pair: tuple[float, float] | None) -> tuple[int, int] | None:
    """Row and column of (sigma, delta); None where the grid does not hold it."""
    if pair is None:
        return None
    row, column = (
        np.flatnonzero(np.isclose(axis, value))
        for axis, value in zip((result.sigmas, result.deltas), pair, strict=True)
    )
    return (int(row[0]), int(column[0])) if row.size and column.size else None


def _alt(
    result: Grid,
    cells: OverSeeds,
    metric: str,
    best: tuple[int, int] | None,
    default: tuple[int, int] | None,
    source: str,
) -> str:
    label, better = metric_named(metric).label, metric_named(metric).higher_is_better
    whose = f" ({shorten(source, 80)})" if source else ""
    head = f"{label} of SMART over {len(result.sigmas)} values of sigma and {len(result.deltas)} of delta{whose}"
    if best is None:
        return f"{head}: no cell is computed yet."
    worst = best_cell(cells.mean, higher_is_better=not better) or best

    def at(place: tuple[int, int]) -> str:
        value = metric_value(metric, cells.mean[place])
        return f"{value} at sigma {result.sigmas[place[0]]:g}, delta {result.deltas[place[1]]:g}"

    extremes = ["highest", "lowest"] if better else ["lowest", "highest"]
    words = [f"{head}, {cells.most} seeds a cell" if cells.most > 1 else head]
    words[0] += f": {extremes[0]} {at(best)}, {extremes[1]} {at(worst)}"
    if default is not None and cells.seeds[default]:
        words[0] += f"; the paper's default has {metric_value(metric, cells.mean[default])}"
    words.append(f"The {extremes[0]} cell is chosen on test, so its own value is optimistic")
    open_cells = int((cells.seeds == 0).sum())
    if open_cells:
        words.append(f"{open_cells} of {cells.seeds.size} cells are not computed yet")
    return ". ".join(words) + "."


def _table(result: Grid, cells: OverSeeds, metric: str) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [
            {"sigma": sigma, "delta": delta, **cells.record(metric, i, j)}
            for i, sigma in enumerate(result.sigmas)
            for j, delta in enumerate(result.deltas)
        ]
    )
