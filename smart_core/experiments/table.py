"""A labelled grid of values over seeds: what ablation, data efficiency, sensitivity and shift come down to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from smart_core.evaluation import METRICS, metric_named
from smart_core.experiments.arguments import check_count
from smart_core.experiments.result import Result
from smart_core.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False)
class SeedTable(Result):
    """Metrics over (row, column, seed). Cells without a value are NaN; `reasons` says why, where it was tried."""

    row_name: str
    column_name: str
    rows: tuple[Any, ...]
    columns: tuple[Any, ...]
    metrics: dict[str, FloatArray]
    """Metric -> (rows, columns, seeds); NaN pads the seeds of methods that need only one."""
    metric: str = "ece"
    complete: bool = True
    """False if it was cancelled on the way; a cell is then either finished or empty."""
    reasons: dict[tuple[int, int, int], str] = field(default_factory=dict)
    """(row, column, seed) -> why there is no value."""

    @classmethod
    def empty(
        cls,
        row_name: str,
        column_name: str,
        rows: tuple[Any, ...],
        columns: tuple[Any, ...],
        seeds: int,
        metrics: tuple[str, ...] = tuple(METRICS),
        metric: str = "ece",
    ) -> Self:
        """A table with every cell still to be filled; an unknown metric or no seed is an error."""
        metric_named(metric)
        check_count(seeds, "seeds")
        shape = (len(rows), len(columns), seeds)
        values = {name: np.full(shape, np.nan) for name in metrics}
        return cls(row_name, column_name, rows, columns, values, metric)

    @property
    def seeds(self) -> int:
        """How many seeds a cell has room for."""
        return int(next(iter(self.metrics.values())).shape[2])

    def mean(self, metric: str | None = None) -> FloatArray:
        """(rows, columns) mean over the seeds that ran."""
        values = self.metrics[metric or self.metric]
        count = np.isfinite(values).sum(axis=2)
        total = np.nansum(values, axis=2)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def std(self, metric: str | None = None) -> FloatArray:
        """(rows, columns) sample standard deviation over seeds; 0 where only one ran."""
        values = self.metrics[metric or self.metric]
        count = np.isfinite(values).sum(axis=2)
        squares = np.nansum((values - self.mean(metric)[:, :, None]) ** 2, axis=2)
        return np.where(count > 0, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)

    def reason(self, row: int, column: int) -> str | None:
        """Why a cell, or one of its seeds, has no value; None where nothing failed."""
        found = [text for (i, j, _), text in sorted(self.reasons.items()) if (i, j) == (row, column)]
        return "; ".join(dict.fromkeys(found)) or None

    def reasons_list(self) -> list[dict[str, Any]]:
        """The reasons for JSON."""
        return [
            {self.row_name: self.rows[i], self.column_name: self.columns[j], "seed": seed, "reason": text}
            for (i, j, seed), text in sorted(self.reasons.items())
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            self.row_name: list(self.rows),
            self.column_name: list(self.columns),
            "metric": self.metric,
            "complete": self.complete,
            "metrics": {name: {"mean": self.mean(name), "std": self.std(name)} for name in self.metrics},
            "reasons": self.reasons_list(),
        }

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        figures = {
            **{name: self.mean(name) for name in self.metrics},
            **{f"{name}_std": self.std(name) for name in self.metrics},
        }
        records = [
            {
                self.row_name: row,
                self.column_name: column,
                **{name: values[i, j] for name, values in figures.items()},
                "reason": self.reason(i, j),
            }
            for i, row in enumerate(self.rows)
            for j, column in enumerate(self.columns)
        ]
        return pd.DataFrame(records)
