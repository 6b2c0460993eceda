"""JSON and JSON lines: records, columns, or arrays in nested objects.

Numbers become arrays record by record, so that a file of many lines is never a tree of Python objects as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from typing import Any

from smart_core.data.formats.limits import Budget
from smart_core.data.formats.lm_eval import is_sample, read_samples
from smart_core.data.formats.nested import flatten
from smart_core.data.formats.raw import RawFile, Source
from smart_core.data.formats.records import is_scores_by_label, scores_by_label, table_of
from smart_core.data.formats.text_table import decoded
from smart_core.errors import LogitFileError

_OBJECT_BYTES = 60
"""Memory of a number or a short text that json makes, with its place in a list."""


def read_json(source: Source) -> RawFile:
    """Read one JSON value, or one per line."""
    raw = RawFile(source.name)
    data = decoded(source, raw.notices).strip()
    budget = Budget(source.name, len(data))
    first, _, rest = data.partition(b"\n")
    if rest.strip():
        try:
            json.loads(first)
        except ValueError:
            pass  # one value over several lines
        else:
            return _of_records(raw, budget, _lines(source.name, data))
    budget.charge("the file", _OBJECT_BYTES * data.count(b","))
    tree = json.loads(data)
    if source.extension in (".jsonl", ".ndjson") and isinstance(tree, dict) and not _is_table(tree):
        tree = [tree]
    return _of_tree(raw, budget, tree, len(data))


def _lines(file: str, data: bytes) -> Iterator[Any]:
    """The value of each line that is not empty; the error for a last line that was cut off says so."""
    for number, line in enumerate(BytesIO(data), start=1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError as error:
            problem = f"line {number} is not JSON ({error})"
            raise LogitFileError(problem, "the file may be cut off; write it again", file=file) from error


def _of_records(raw: RawFile, budget: Budget, records: Iterator[Any]) -> RawFile:
    """Records of named values, logged samples, or rows of numbers."""
    first = next(records)
    records = chain([first], records)
    if is_sample(first):
        return read_samples(raw, budget, records)
    if isinstance(first, dict):
        return table_of(raw, budget, (_record(raw.name, number, item) for number, item in enumerate(records)))
    return flatten(list(records), raw.name, budget.held, lambda node: node)


def _record(file: str, number: int, item: Any) -> dict[str, Any]:
    if isinstance(item, dict):
        return item
    problem = f"record {number} (counted from 0) is not an object of named values, as the first one is"
    raise LogitFileError(problem, "write one object per sample", file=file)


def _of_tree(raw: RawFile, budget: Budget, tree: Any, size: int) -> RawFile:
    if isinstance(tree, list) and tree and isinstance(tree[0], dict) and not _is_nested(tree):
        return _of_records(raw, budget, iter(tree))
    if isinstance(tree, list) and tree and all(item and is_scores_by_label(item) for item in tree):
        return table_of(raw, budget, map(scores_by_label, tree))
    if isinstance(tree, dict):
        samples = tree.get("samples")
        if isinstance(samples, dict) and len(samples) == 1:  # an older log of lm-evaluation-harness
            samples = next(iter(samples.values()))
        if isinstance(samples, list) and samples and is_sample(samples[0]):
            return read_samples(raw, budget, samples)
        if "results" in tree and "configs" in tree and "samples" not in tree:
            problem = "is the summary that lm-evaluation-harness writes, without the samples"
            raise LogitFileError(problem, "run it with --log_samples and give the samples_*.jsonl files", file=raw.name)
        if _is_table(tree):
            return table_of(raw, budget, _rows_of_columns(tree))
        if isinstance(tree.get("columns"), list) and isinstance(tree.get("data"), list):  # pandas, orient="split"
            return table_of(raw, budget, (dict(zip(tree["columns"], row, strict=True)) for row in tree["data"]))
        if tree and all(isinstance(column, dict) and column for column in tree.values()) and _is_indexed(tree):
            return table_of(raw, budget, _rows_of_columns({name: list(tree[name].values()) for name in tree}))
    return flatten(tree, raw.name, size, lambda node: node)


def _is_nested(tree: list[Any]) -> bool:
    """Whether the objects are few and hold arrays of many samples, such as [{validation}, {test}], not one sample."""
    return len(tree) <= 2 and any(
        isinstance(value, list) and value and isinstance(value[0], list) for value in tree[0].values()
    )


def _is_table(tree: dict[str, Any]) -> bool:
    """Whether each entry is a column: a list as long as the others, of numbers, text or rows."""
    lengths = {len(column) if isinstance(column, list) else -1 for column in tree.values()}
    return len(tree) > 1 and len(lengths) == 1 and lengths.pop() > 0


def _is_indexed(tree: dict[str, Any]) -> bool:
    """Whether each entry is a column by row number, as pandas writes it by default."""
    first = next(iter(tree.values()))
    return all(column.keys() == first.keys() for column in tree.values()) and all(key.isdecimal() for key in first)


def _rows_of_columns(tree: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for row in zip(*tree.values(), strict=True):
        yield dict(zip(tree, row, strict=True))
