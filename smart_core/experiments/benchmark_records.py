"""The finished fits of a benchmark, kept in a file so that none is made twice."""

from __future__ import annotations

import json
import math
import os
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from smart_core.data.saving import atomic_write
from smart_core.errors import SmartError
from smart_core.evaluation import Evaluation
from smart_core.experiments.results import json_value

FORMAT = "smart-benchmark"
"""The `format` of a file of records."""

VECTORS = ("confidence", "prediction", "correct", "nll", "brier", "margin")
"""What the paired tests need of an evaluation."""


@dataclass(frozen=True)
class Record:
    """One fit: its metrics on test, or the reason why it failed."""

    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    parameters: int = 0
    reason: str = ""


@dataclass
class RecordFile:
    """The finished fits of a benchmark by `fit_key`, in memory or in a JSON file that grows with each fit.

    The per-sample vectors that paired tests need lie beside the file in a folder `NAME.cache`, which can be deleted:
    without it no fit is made again, but methods added later cannot be tested against earlier ones.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = RecordFile.open(f"{folder}/results.json")
    ...     file.add("key of a fit", Record({"ece": 0.01}, 0.5))
    ...     RecordFile.open(f"{folder}/results.json").records["key of a fit"].metrics
    {'ece': 0.01}
    """

    path: Path | None = None
    records: MutableMapping[str, Record] = field(default_factory=dict)
    sets: MutableMapping[str, dict[str, Any]] = field(default_factory=dict)
    """Name -> the fields of its `SetInfo`, for readers of the file."""
    vectors: MutableMapping[str, Evaluation] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None) -> RecordFile:
        """The records of a file; none if there is no such file yet, or without a path."""
        if path is None:
            return cls()
        place = Path(path)
        if place.suffix.lower() != ".json":
            raise SmartError("the name must end in .json", file=str(path))
        return cls(place, *(_read(place) if place.exists() else ({}, {})))

    def merge(self, path: str | os.PathLike[str]) -> None:
        """Add the records of another file that this one lacks."""
        records, sets = _read(Path(path))
        self.records = {**records, **self.records}
        self.sets = {**sets, **self.sets}

    def add(self, key: str, record: Record, evaluation: Evaluation | None = None) -> None:
        """Keep a finished fit; the file has it when this returns."""
        self.records[key] = record
        if evaluation is not None:
            self.vectors[key] = evaluation
            if self._cache is not None:
                self._cache.mkdir(exist_ok=True)
                (self._cache / ".gitignore").write_text("*\n", encoding="utf-8")
                with atomic_write(self._cache / f"{key}.npz") as stream:
                    np.savez_compressed(stream, **{name: getattr(evaluation, name) for name in VECTORS})
        self.save()

    def evaluation(self, key: str) -> Evaluation | None:
        """The per-sample vectors of a fit, if they were kept."""
        if key not in self.vectors and self._cache is not None and (self._cache / f"{key}.npz").exists():
            try:
                with np.load(self._cache / f"{key}.npz", allow_pickle=False) as arrays:
                    self.vectors[key] = Evaluation(*(arrays[name] for name in VECTORS))
            except (OSError, ValueError, KeyError):  # a damaged cache is as good as none
                return None
        return self.vectors.get(key)

    def save(self) -> None:
        """Write the file, in an order that does not depend on the order of the work."""
        if self.path is None:
            return
        records = {key: asdict(self.records[key]) for key in sorted(self.records)}
        content = {"format": FORMAT, "version": 1, "sets": dict(sorted(self.sets.items())), "records": records}
        with atomic_write(self.path) as stream:
            stream.write((json.dumps(json_value(content), indent=1, allow_nan=False) + "\n").encode())

    @property
    def _cache(self) -> Path | None:
        return None if self.path is None else self.path.with_suffix(".cache")


def _read(path: Path) -> tuple[dict[str, Record], dict[str, dict[str, Any]]]:
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT or content["version"] != 1:
            raise ValueError(content["format"])
        records = {str(key): _record(**fields) for key, fields in content["records"].items()}
        return records, dict(content["sets"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SmartError("is not a file of benchmark results", "give another name to --out", file=str(path)) from error


def _record(metrics: dict[str, float | None], seconds: float | None, parameters: int, reason: str) -> Record:
    values = {str(name): math.nan if value is None else float(value) for name, value in metrics.items()}
    return Record(values, math.nan if seconds is None else float(seconds), int(parameters), str(reason))
