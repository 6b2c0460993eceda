"""A labelled grid of values over seeds: what the ablation, data-efficiency and shift studies come down to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smart_core.experiments.result import Result
from smart_core.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False)
class SeedTable(Result):
    """Metrics over (row, column, seed). Cells that were not computed are NaN."""

    row_name: str
    column_name: str
    rows: tuple[Any, ...]
    columns: tuple[Any, ...]
    metrics: dict[str, FloatArray]
    """Metric -> (rows, columns, seeds); NaN pads the seeds of methods that need only one."""
    metric: str = "ece"
    complete: bool = True

    @classmethod
    def empty(
        cls,
        row_name: str,
        column_name: str,
        rows: tuple[Any, ...],
        columns: tuple[Any, ...],
        seeds: int,
        metrics: tuple[str, ...],
        metric: str = "ece",
    ) -> SeedTable:
        """A table with every cell still to be filled."""
        shape = (len(rows), len(columns), seeds)
        return cls(row_name, column_name, rows, columns, {name: np.full(shape, np.nan) for name in metrics}, metric)

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

    def to_dict(self) -> dict[str, Any]:
        return {
            self.row_name: list(self.rows),
            self.column_name: list(self.columns),
            "metric": self.metric,
            "complete": self.complete,
            "metrics": {name: {"mean": self.mean(name), "std": self.std(name)} for name in self.metrics},
        }

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        records = []
        for i, row in enumerate(self.rows):
            for j, column in enumerate(self.columns):
                record = {self.row_name: row, self.column_name: column}
                for name in self.metrics:
                    record[name] = self.mean(name)[i, j]
                    record[f"{name}_std"] = self.std(name)[i, j]
                records.append(record)
        return pd.DataFrame(records)
