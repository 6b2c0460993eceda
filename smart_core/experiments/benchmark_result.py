"""What a benchmark returns: sets by methods, and the statistics over sets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smart_core.calibrators import method_named
from smart_core.errors import CalibrationError
from smart_core.evaluation import METRICS, metric_named, metric_number
from smart_core.experiments import latex, paper
from smart_core.experiments.results import OverSeeds, Result
from smart_core.experiments.set_ranking import Ranking, rank_methods

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SetInfo:
    """A data set of a benchmark and the properties that results are compared with."""

    classes: int
    validation: int
    test: int
    accuracy: float
    """Of the uncalibrated model on test."""
    overconfidence: float
    """Mean confidence minus accuracy of the uncalibrated model on test; negative if it is under-confident."""
    margin_spread: float
    """Standard deviation of the logit margin on test."""
    floor: float
    """95 % quantile of the ECE that a perfectly calibrated model with the uncalibrated confidences would show."""
    splits: tuple[str, ...]
    """Content of each split, as `LogitSet.content_hash`."""

    def properties(self) -> dict[str, float]:
        """The fields but the splits."""
        return {name: value for name, value in asdict(self).items() if name != "splits"}


PROPERTIES = {
    "classes": "Classes",
    "validation": "Validation samples",
    "test": "Test samples",
    "accuracy": "Accuracy of the model",
    "overconfidence": "Mean confidence minus accuracy",
    "margin_spread": "Spread of the logit margin",
}
"""The numbers of a set that results can be plotted against."""


@dataclass(frozen=True)
class Cell:
    """One method on one set, over splits and seeds."""

    values: dict[str, list[float]]
    """Metric -> its value for each split and seed that has one."""
    seconds: float
    parameters: int
    reason: str = ""
    """Why there is no value."""

    def over_seeds(self, metric: str) -> OverSeeds:
        """Mean and spread over splits and seeds."""
        return OverSeeds.of(self.values.get(metric, []))


@dataclass(eq=False, repr=False)
class Benchmark(Result):
    """Sets by methods, with the statistics over sets."""

    sets: dict[str, SetInfo]
    methods: tuple[str, ...]
    cells: dict[str, dict[str, Cell]]
    """Set -> method -> its cell; a cell that was not reached yet is missing."""
    metric: str = "ece"
    complete: bool = True
    """False if the benchmark was cancelled: cells are missing."""
    tied: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict)
    """Metric -> set -> method -> whether the paired test, of the first seed on the first split and with Holm's
    correction over methods, cannot tell it from the best."""

    def __repr__(self) -> str:
        return f"Benchmark({len(self.sets)} sets, {len(self.methods)} methods)"

    def matrix(self, metric: str | None = None) -> pd.DataFrame:
        """Sets by methods: means of a metric; NaN where there is none."""
        import pandas as pd

        name = metric or self.metric
        metric_named(name)
        rows = {
            set_name: {id: float(cells[id].over_seeds(name).mean) if id in cells else math.nan for id in self.methods}
            for set_name, cells in self.cells.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(self.methods))

    def improvement(self, metric: str = "nll") -> pd.DataFrame:
        """Post-hoc improvement: by how much a method lowers a metric, as a share of the uncalibrated model's value."""
        values = self.matrix(metric)
        if "vanilla" not in values:
            raise CalibrationError("The improvement is over the uncalibrated model; add the method vanilla.")
        return 1.0 - values.div(values["vanilla"], axis=0)

    def ranking(self, metric: str | None = None, methods: Sequence[str] | None = None) -> Ranking | None:
        """The methods that have a value on every finished set, ranked; None without two of them."""
        name = metric or self.metric
        finished = [one for one, cells in self.cells.items() if all(id in cells for id in methods or self.methods)]
        values = self.matrix(name).loc[finished, list(methods or self.methods)].dropna(axis=1)
        if values.shape[0] < 1 or values.shape[1] < 2:
            return None
        return rank_methods(values.to_numpy(), list(values), higher_is_better=METRICS[name].higher_is_better)

    def summary(self, metric: str | None = None) -> pd.DataFrame:
        """One row per method: mean rank and win rate with their 95 % intervals, best first.

        Methods without a value on some finished set are left out.
        """
        import pandas as pd

        found = self.ranking(metric)
        columns = [
            "method",
            "mean_rank",
            "mean_rank_low",
            "mean_rank_high",
            "win_rate",
            "win_rate_low",
            "win_rate_high",
        ]
        if found is None:
            return pd.DataFrame(columns=columns).set_index("method")
        parts = (found.mean_rank, *found.rank_interval.T, found.win_rate, *found.win_interval.T)
        frame = pd.DataFrame(dict(zip(columns, (found.methods, *parts), strict=True))).set_index("method")
        return frame.sort_values("mean_rank", kind="stable")

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        records = []
        for set_name, id, cell in self.filled():
            figures = {name: cell.over_seeds(name) for name in METRICS if name in cell.values}
            row: dict[str, Any] = {"set": set_name, "method": id, "available": not cell.reason}
            row |= {name: float(each.mean) for name, each in figures.items()}
            row |= {f"{name}_std": float(each.published_std) for name, each in figures.items()}
            row |= {"fit_seconds": cell.seconds, "parameters": cell.parameters, "reason": cell.reason}
            row["tied_with_best"] = self.is_tied(self.metric, set_name, id)
            records.append(row)
        return pd.DataFrame(records, columns=None if records else ["set", "method"])

    def to_dict(self) -> dict[str, Any]:
        cells: dict[str, dict[str, Any]] = {name: {} for name in self.cells}
        for set_name, id, cell in self.filled():
            figures = {name: cell.over_seeds(name) for name in METRICS if name in cell.values}
            cells[set_name][id] = {
                **{name: {"mean": each.mean, "std": each.published_std} for name, each in figures.items()},
                **({"available": False, "reason": cell.reason} if cell.reason else {}),
                "fit_seconds": cell.seconds,
                "tied_with_best": self.is_tied(self.metric, set_name, id),
            }
        found = self.ranking()
        summary = {
            id: {
                "mean_rank": found.mean_rank[place],
                "win_rate": {
                    "mean": found.win_rate[place],
                    "low": found.win_interval[place, 0],
                    "high": found.win_interval[place, 1],
                },
            }
            for place, id in enumerate(found.methods if found else ())
            if found
        }
        return {
            "metric": self.metric,
            "complete": self.complete,
            "sets": {name: info.properties() for name, info in self.sets.items()},
            "cells": cells,
            "summary": summary,
            "critical_difference": found.critical_difference if found else None,
            "friedman_p": found.friedman.f_p if found and found.friedman else None,
        }

    def to_latex(self, metric: str | None = None) -> str:
        """The main table in the paper's layout: best bold, second underlined, tied with the best starred."""
        name = metric or self.metric
        values = self.matrix(name)
        ids = [id for id in self.methods if np.isfinite(values[id]).any()]
        spreads = {(one, id): float(cell.over_seeds(name).std) for one, id, cell in self.filled()}
        body = []
        for one, means in values[ids].iterrows():
            best, second = [*means.map(METRICS[name].sort_key).nsmallest(2).index, None][:2]
            cells = []
            for id in ids:
                number = latex.figure(name, means[id], spreads.get((one, id), math.nan)) or r"\text{--}"
                mark = r"\mathbf{%s}" if id == best else r"\underline{%s}" if id == second else "%s"
                tied = "^{*}" if self.is_tied(name, one, id) and id != best else ""
                cells.append(f"${mark % number}{tied}$")
            floor = [f"${metric_number(name, self.sets[one].floor)}$"] if name == "ece" else []
            body.append(latex.row([latex.escaped(one), *cells, *floor]))
        labels = [latex.escaped(method_named(id).label) for id in ids]
        header = ["Data", *labels, *(["Floor"] if name == "ece" else [])]
        caption = (
            rf"{latex.heading(name)}, measured on test; mean $\pm$ standard deviation over splits and seeds. The best "
            r"is bold, the second underlined; a star marks methods that a paired test cannot tell from the best."
        )
        return latex.table(caption, "tab:benchmark", "l" + "c" * (len(header) - 1), header, body)

    def filled(self) -> Iterator[tuple[str, str, Cell]]:
        """Set, method and cell of all cells that were reached."""
        for set_name, cells in self.cells.items():
            for id in self.methods:
                if id in cells:
                    yield set_name, id, cells[id]

    def is_tied(self, metric: str, set_name: str, id: str) -> bool | None:
        """Whether a method cannot be told from the best of its set; None where no test was made."""
        return self.tied.get(metric, {}).get(set_name, {}).get(id)


def paper_benchmark(metric: str = "ece") -> Benchmark:
    """The paper's main table of a metric (ece, adaece or accuracy), so that its claims can be seen in the same views.

    The paper prints means, so that there is one value per cell; nothing is known of ties and of most properties.

    >>> paper_benchmark().ranking().methods[0], len(paper_benchmark().sets)
    ('vanilla', 26)
    """
    tables = {"ece": "comparison_ECE_full", "adaece": "adaece_comparison_updated", "accuracy": "accuracy_comparison"}
    if metric not in tables:
        raise CalibrationError(f"The paper has no table of {metric_named(metric).label} over all of its networks.")
    printed = paper.rows(table=tables[metric])
    cells: dict[str, dict[str, Cell]] = {}
    for row in printed:
        cells.setdefault(f"{row.dataset} {row.model}", {})[row.method] = Cell({metric: [row.value]}, math.nan, 0)
    unknown = SetInfo(0, 0, 0, math.nan, math.nan, math.nan, math.nan, splits=())
    return Benchmark(dict.fromkeys(cells, unknown), tuple(dict.fromkeys(row.method for row in printed)), cells, metric)
