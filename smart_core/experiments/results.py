"""Results of experiments, which convert to a DataFrame, JSON and a figure; mean and spread over seeds."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.evaluation import METRICS, metric_named
from smart_core.experiments.running import check_count
from smart_core.types import FloatArray, Vector

if TYPE_CHECKING:
    import pandas as pd


class Result(ABC):
    """A finished experiment."""

    keys: ClassVar[tuple[str, ...]] = ()
    """The columns that a table without rows has."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """The rows of the tidy table."""

    def to_frame(self) -> pd.DataFrame:
        """The result as a tidy table."""
        import pandas as pd

        records = self.records()
        return pd.DataFrame(records, columns=None if records else list(self.keys))

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The result as plain numbers, strings, lists and dicts."""

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON; what is not a finite number becomes null."""
        return json.dumps(json_value(self.to_dict()), indent=indent, allow_nan=False)


def json_value(value: Any) -> Any:
    """The value without NumPy types, and with None for NaN and infinity, which JSON does not have.

    >>> json_value({"mean": np.array([0.5, np.nan]), "seeds": np.int64(2)})
    {'mean': [0.5, None], 'seeds': 2}
    """
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return json_value(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@dataclass(frozen=True, eq=False)
class OverSeeds:
    """Mean and spread of a metric over seeds, the last axis; a seed without a value does not count.

    >>> cells = OverSeeds.of([[0.02, 0.04], [0.03, np.nan]])
    >>> cells.mean, cells.std.round(4), cells.published_std.round(4)
    (array([0.03, 0.03]), array([0.0141,    nan]), array([0.0141, 0.    ]))
    """

    mean: Vector
    """NaN where no seed has a value."""
    std: Vector
    """Sample standard deviation: NaN below two seeds, exactly 0 where all agree."""
    seeds: NDArray[np.int64]
    """How many seeds have a value."""

    @classmethod
    def of(cls, values: ArrayLike) -> OverSeeds:
        """From values (..., seeds); what is not finite counts as missing."""
        x = np.asarray(values, dtype=np.float64)
        known = np.isfinite(x)
        count = known.sum(axis=-1)
        mean = np.where(known, x, 0.0).sum(axis=-1) / np.where(count > 0, count, np.nan)
        # from the smallest value on, so that equal values have no spread at all
        above = np.where(known, x - np.where(known, x, np.inf).min(axis=-1, initial=np.inf, keepdims=True), 0.0)
        centred = np.where(known, above - (above.sum(axis=-1) / np.maximum(count, 1))[..., None], 0.0)
        std = np.sqrt((centred**2).sum(axis=-1) / np.where(count > 1, count - 1, np.nan))
        return cls(mean, std, count)

    @property
    def published_std(self) -> Vector:
        """`std` as JSON and tables give it: 0 for a single seed."""
        return np.where(self.seeds == 1, 0.0, self.std)


@dataclass(eq=False)
class SeedTable(Result):
    """Metrics over (row, column, seed). Cells without a value are NaN; `reasons` says why, where one was tried."""

    row_name: str
    column_name: str
    rows: tuple[Any, ...]
    columns: tuple[Any, ...]
    metrics: dict[str, FloatArray]
    """Metric -> (rows, columns, seeds); NaN pads the seeds of methods that need only one."""
    metric: str = "ece"
    complete: bool = True
    """False if the study was cancelled; each cell is then either finished or empty."""
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
        """A table without values; an unknown metric or no seed is an error."""
        metric_named(metric)
        check_count(seeds, "seeds")
        values = {name: np.full((len(rows), len(columns), seeds), np.nan) for name in metrics}
        return cls(row_name, column_name, rows, columns, values, metric)

    def take_over(self, known: SeedTable | None) -> None:
        """Copy the finished cells of an earlier table of the same study, which was cancelled."""
        if known is None or known.seeds != self.seeds or known.metrics.keys() != self.metrics.keys():
            return
        rows = {row: i for i, row in enumerate(known.rows)}
        columns = {column: j for j, column in enumerate(known.columns)}
        for i, row in enumerate(self.rows):
            for j, column in enumerate(self.columns):
                if row not in rows or column not in columns:
                    continue
                place = rows[row], columns[column]
                for name, values in self.metrics.items():
                    values[i, j] = known.metrics[name][place]
                for (*cell, seed), text in known.reasons.items():
                    if tuple(cell) == place:
                        self.reasons[i, j, seed] = text

    @property
    def full(self) -> bool:
        """Whether each cell has a value of at least one seed, or a reason why it has none."""
        finite = np.isfinite(np.stack(list(self.metrics.values()))).any(axis=(0, 3))
        tried = {(i, j) for i, j, _ in self.reasons}
        return all((i, j) in tried for i, j in np.argwhere(~finite).tolist())

    def finished(self, row: int, column: int, seeds: range) -> bool:
        """Return whether each of these seeds has a value, or a reason why there is none."""
        return all(
            (row, column, seed) in self.reasons
            or any(np.isfinite(values[row, column, seed]) for values in self.metrics.values())
            for seed in seeds
        )

    @property
    def seeds(self) -> int:
        """The seeds that a cell has room for."""
        return int(next(iter(self.metrics.values())).shape[2])

    def over_seeds(self, metric: str | None = None) -> OverSeeds:
        """(rows, columns) mean and spread over the seeds that have a value."""
        return OverSeeds.of(self.metrics[metric or self.metric])

    def mean(self, metric: str | None = None) -> FloatArray:
        """(rows, columns) mean over the seeds that have a value."""
        return self.over_seeds(metric).mean

    def std(self, metric: str | None = None) -> FloatArray:
        """(rows, columns) sample standard deviation over seeds; NaN below two."""
        return self.over_seeds(metric).std

    def reason(self, row: int, column: int) -> str | None:
        """Why a cell, or one of its seeds, has no value; None where nothing failed."""
        texts = [text for (i, j, _), text in sorted(self.reasons.items()) if (i, j) == (row, column)]
        return "; ".join(dict.fromkeys(texts)) or None

    def reasons_list(self) -> list[dict[str, Any]]:
        """The reasons for JSON."""
        return [
            {self.row_name: self.rows[i], self.column_name: self.columns[j], "seed": seed, "reason": text}
            for (i, j, seed), text in sorted(self.reasons.items())
        ]

    def to_dict(self) -> dict[str, Any]:
        over_seeds = {name: self.over_seeds(name) for name in self.metrics}
        return {
            self.row_name: list(self.rows),
            self.column_name: list(self.columns),
            "metric": self.metric,
            "complete": self.complete,
            "metrics": {name: {"mean": each.mean, "std": each.published_std} for name, each in over_seeds.items()},
            "reasons": self.reasons_list(),
        }

    def records(self) -> list[dict[str, Any]]:
        over_seeds = {name: self.over_seeds(name) for name in self.metrics}
        return [
            {
                self.row_name: row,
                self.column_name: column,
                **{name: each.mean[i, j] for name, each in over_seeds.items()},
                **{f"{name}_std": each.published_std[i, j] for name, each in over_seeds.items()},
                "reason": self.reason(i, j),
            }
            for i, row in enumerate(self.rows)
            for j, column in enumerate(self.columns)
        ]
