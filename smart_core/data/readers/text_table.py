"""csv, tsv and other delimited text."""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import Any

import numpy as np

from smart_core.data.found import Contents, refuse, shown
from smart_core.data.logitset import Array
from smart_core.data.readers.columns import Column, arrays_of_columns
from smart_core.data.source import Source


def read_text(source: Source) -> Contents:
    """The columns of a delimited text file, with or without a header line."""
    import pandas

    data = source.data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").lstrip(b"\n")
    comments = len(data) - len(data.lstrip(b"#"))
    if comments:
        data = data[comments:].lstrip(b" ")  # numpy.savetxt marks its header so
    lines = data[: 1 << 20].decode("utf-8", "replace").split("\n", 3)
    separator = delimiter_of(lines[0], source.extension)
    cells = _cells(lines[0], separator)
    following = _cells(lines[1], separator) if len(lines) > 1 else []
    named = is_header(cells)
    if named and not any(map(is_number, following)) and source.extension not in (".csv", ".tsv"):
        raise refuse(source.name, "is text, but not a table of numbers", "save the logits as csv or npz")
    options: dict[str, Any] = {"sep": separator, "header": 0 if named else None, "low_memory": False}
    if separator == ";" and "," in "".join(lines[1:2]) and "." not in "".join(lines[1:2]):
        options["decimal"] = ","
    if separator == " ":
        options["sep"] = r"\s+"
    with warnings.catch_warnings():
        # a row longer than the header would be cut short with no more than a warning
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        frame = pandas.read_csv(BytesIO(data), skipinitialspace=True, index_col=False, **options)
    # pandas renames repeated and empty names; the header's own are kept
    names = cells if named and len(cells) == frame.shape[1] else [str(name) for name in frame.columns]
    columns = [Column(name, _values(source.name, name, frame.iloc[:, i], named)) for i, name in enumerate(names)]
    return arrays_of_columns(source.name, source.stem, columns, named)


def delimiter_of(line: str, extension: str) -> str:
    """The separator that the first line uses; the extension decides where it shows none."""
    counts = {mark: line.count(mark) for mark in ("\t", ";", ",")}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[best]:
        return best
    if " " in line.strip():
        return " "
    return "\t" if extension == ".tsv" else ","


def is_header(cells: list[str]) -> bool:
    """A line with a cell that is no number, or 0, 1, 2, ... as pandas names the columns of an array."""
    if not all(is_number(cell) for cell in cells):
        return True
    return len(cells) > 2 and cells == [str(i) for i in range(len(cells))]


def is_number(cell: str) -> bool:
    """Whether a cell is a number, nan and inf among them; a decimal comma counts."""
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _cells(line: str, separator: str) -> list[str]:
    parts = line.split() if separator == " " else line.split(separator)
    return [cell.strip().strip("\"'") for cell in parts]


def _values(file: str, name: str, series: Any, named: bool) -> Array:
    """The column as numbers, or as text where most of it is; a few stray words among numbers are an error."""
    import pandas

    if pandas.api.types.is_numeric_dtype(series) or pandas.api.types.is_bool_dtype(series):
        return np.asarray(series)
    numbers = pandas.to_numeric(series, errors="coerce")
    stray = np.asarray(numbers.isna() & series.notna())
    if 0 < stray.sum() < len(series) / 2:
        row = int(np.argmax(stray))
        line = row + (2 if named else 1)
        what = f"line {line}, column '{shown(name)}' holds '{shown(str(series.iloc[row]))}', which is no number"
        raise refuse(file, what, f"correct or remove the {int(stray.sum())} such rows")
    return np.asarray(series.fillna("").astype(str).to_numpy(), dtype=np.str_)
