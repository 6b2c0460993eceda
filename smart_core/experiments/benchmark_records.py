"""The finished fits of a benchmark, kept in a file so that none is computed twice."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from smart_core.data.document import Document
from smart_core.data.saved import read_saved
from smart_core.data.saving import atomic_write, write_npz
from smart_core.errors import LogitFileError, SmartError
from smart_core.evaluation import Evaluation, build_evaluation, cell_numbers, evaluation_arrays
from smart_core.experiments.results import json_value
from smart_core.metrics.classwise import ClasswiseCells

FORMAT = "smart-benchmark"
"""The `format` of a file of records."""

NUMBER = "number."
"""What the names of the whole numbers of classwise sums begin with in the cache."""

UNSAVED = 1 << 20
"""Bytes of new fits at which they are moved into the file, which is written as a whole; larger for a larger file."""

LARGEST = 1 << 19
"""Bytes up to which classwise sums of a fit are kept, for each of two arrays: about 130 classes with 15 bins."""


@dataclass(frozen=True)
class Record:
    """One fit: what was fitted, and its metrics on test or the reason why there are none."""

    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    parameters: int = 0
    reason: str = ""
    data: str = ""
    """`LogitSet.content_hash` of the set, or of the split of it."""
    method: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    """Those that differ from the method's defaults."""
    seed: int = 0
    bins: int = 15


@dataclass
class RecordFile:
    """The finished fits of a benchmark by their keys, in memory or in a JSON file that can be committed and merged.

    While a benchmark runs, fits are appended to `NAME.new.jsonl`; `save` moves them into the file. The per-sample
    vectors that paired tests need lie beside it in a folder `NAME.cache`, which can be deleted: without it no fit and
    no test is made again, but methods added later cannot be tested against earlier ones.

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
    """`LogitSet.content_hash` -> the name of the set and the fields of its `SetInfo`."""
    tests: MutableMapping[str, dict[str, float]] = field(default_factory=dict)
    """Metric and key of the best fit of a set -> key of another fit -> p-value of the paired test between them."""
    vectors: MutableMapping[str, Evaluation] = field(default_factory=dict)
    """Where there is no file: key -> the evaluation."""

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None) -> RecordFile:
        """The records of a file; none if there is no such file yet, or without a path."""
        if path is None:
            return cls()
        place = Path(path)
        if place.suffix.lower() != ".json":
            raise SmartError("the name must end in .json", file=str(path))
        file = cls(place)
        if place.exists():
            file.merge(place)
        file.records.update(_appended(place.with_suffix(".new.jsonl")))
        return file

    def merge(self, path: str | os.PathLike[str]) -> None:
        """Add what another file has and this one lacks."""
        records, sets, tests = _read(Path(path))
        self.records.update({key: record for key, record in records.items() if key not in self.records})
        self.sets.update({key: about for key, about in sets.items() if key not in self.sets})
        for name, p_values in tests.items():
            self.tests[name] = p_values | self.tests.get(name, {})

    def add(self, key: str, record: Record, evaluation: Evaluation | None = None) -> None:
        """Keep a finished fit; where there is a file, the fit is on the disk when this returns."""
        self.records[key] = record
        if evaluation is not None:
            cells = evaluation.cells
            if not isinstance(cells, ClasswiseCells) or cells.null_residual.nbytes > LARGEST:
                evaluation = evaluation.without_cells()  # paired tests read neither those of shards nor large ones
        if self.path is None:
            if evaluation is not None:
                self.vectors[key] = evaluation
            return
        if evaluation is not None:
            cache = self.path.with_suffix(".cache")
            cache.mkdir(exist_ok=True)
            (cache / ".gitignore").write_text("*\n", encoding="utf-8")
            numbers = {f"{NUMBER}{name}": np.array(value) for name, value in (cell_numbers(evaluation) or {}).items()}
            with atomic_write(cache / f"{key}.npz") as stream:
                write_npz(stream, evaluation_arrays(evaluation) | numbers)
        with self.path.with_suffix(".new.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(json_value({key: asdict(record)}), allow_nan=False) + "\n")
            unsaved = lines.tell()
        if unsaved > UNSAVED and (not self.path.exists() or unsaved > self.path.stat().st_size // 4):
            self.save()

    def evaluation(self, key: str) -> Evaluation | None:
        """The per-sample vectors of a fit, if they were kept."""
        if self.path is None:
            return self.vectors.get(key)
        if Path(key).name != key:
            return None
        try:
            arrays = Document.open(self.path.with_suffix(".cache") / f"{key}.npz").arrays()
            numbers = {name.removeprefix(NUMBER): int(arrays[name]) for name in arrays if name.startswith(NUMBER)}
            vectors = {name: arrays[name] for name in arrays if not name.startswith(NUMBER)}
            return build_evaluation(vectors, numbers or None)
        except (LogitFileError, ValueError, KeyError, TypeError):  # a damaged cache is as good as none
            return None

    def save(self) -> None:
        """Write the file, in an order that does not depend on the order of the work."""
        if self.path is None:
            return
        records = {key: asdict(self.records[key]) for key in sorted(self.records)}
        about = {"sets": dict(sorted(self.sets.items())), "tests": dict(sorted(self.tests.items()))}
        content = {"format": FORMAT, "version": 1, **about, "records": records}
        with atomic_write(self.path) as stream:
            stream.write((json.dumps(json_value(content), indent=1, allow_nan=False) + "\n").encode())
        self.path.with_suffix(".new.jsonl").unlink(missing_ok=True)


def _read(path: Path) -> tuple[dict[str, Record], dict[str, dict[str, Any]], dict[str, dict[str, float]]]:
    try:
        content = _checked("json_value", path)
        if content["format"] != FORMAT or content["version"] != 1:
            raise ValueError(content["format"])
        tests = {str(name): {str(key): float(p) for key, p in each.items()} for name, each in content["tests"].items()}
        sets = {str(key): dict(about) for key, about in content["sets"].items()}
        return {str(key): _record(**fields) for key, fields in content["records"].items()}, sets, tests
    except (ValueError, KeyError, TypeError, AttributeError, SmartError) as error:
        raise SmartError("is not a file of benchmark results", "give another name to --out", file=str(path)) from error


def _appended(path: Path) -> dict[str, Record]:
    """The fits that a benchmark that was killed had not moved into the file; the last line may be torn."""
    found: dict[str, Record] = {}
    if path.exists():
        for fits in _checked("json_lines", path):
            try:
                found |= {str(key): _record(**fields) for key, fields in fits.items()}
            except (ValueError, TypeError, AttributeError):
                continue
    return found


def _checked(task: str, path: Path) -> Any:
    """Return the JSON of a file, which the sandbox parses: it may come from someone else."""
    _, content = read_saved(task, path, "", SmartError)
    return json.loads(content.tobytes())


def _record(metrics: Mapping[str, float | None], seconds: float | None, **other: Any) -> Record:
    values = {str(name): math.nan if value is None else float(value) for name, value in metrics.items()}
    found = Record(values, math.nan if seconds is None else float(seconds), **other)
    kinds = {"parameters": int, "reason": str, "data": str, "method": str, "settings": dict, "seed": int, "bins": int}
    if not all(type(getattr(found, name)) is kind for name, kind in kinds.items()):
        raise ValueError("a field of a record has a wrong type")
    return found
