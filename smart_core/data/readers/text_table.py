"""csv, tsv and other delimited text, in UTF-8, UTF-16 or one of the older eight-bit encodings."""

from __future__ import annotations

import codecs
from io import BytesIO
from typing import Any

import numpy as np

from smart_core.data.found import Contents, refuse, shown
from smart_core.data.limits import Budget
from smart_core.data.logitset import Array, Notice
from smart_core.data.readers.columns import Column, arrays_of_columns, check_width
from smart_core.data.source import Source
from smart_core.data.text import text_array

MAX_TEXT_COLUMNS = 1000
"""Labels, groups, a split, names and remarks are text; each such column takes a look at every cell."""


def encoding_of(data: bytes) -> str | None:
    """The encoding of text by its first bytes and its zeros; None where it is not text.

    An eight-bit encoding cannot be told from another one: Windows-1252, the commonest, stands for all of them.
    """
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = data[:4096]
    if 0 in head:
        # digits and marks in UTF-16: every other byte is zero
        even, odd = head[0::2], head[1::2]
        if len(head) > 3 and not any(odd) and all(even):
            return "utf-16-le"
        if len(head) > 3 and not any(even) and all(odd):
            return "utf-16-be"
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None if any(byte < 32 and byte not in b"\t\n\r\f" for byte in head) else "cp1252"
    return "utf-8"


def _decoded(source: Source, notices: list[Notice]) -> bytes:
    """The text as UTF-8, without a byte order mark."""
    encoding = encoding_of(source.data)
    if encoding == "utf-8":
        try:
            source.data.decode()
        except UnicodeDecodeError:
            encoding = "cp1252"
    if encoding in (None, "utf-8"):
        return source.data.removeprefix(codecs.BOM_UTF8)
    text = source.data.decode(encoding, "replace")
    name = "Windows-1252 (Latin-1)" if encoding == "cp1252" else encoding[:6].upper()
    cure = "; where letters look wrong, save it again as UTF-8" if encoding == "cp1252" else ""
    notices.append(Notice("encoding", f"{source.name}: read as {name} text{cure}."))
    return text.removeprefix("\ufeff").encode()


def read_text(source: Source) -> Contents:
    """The columns of a delimited text file, with or without a header line."""
    import pandas

    notices: list[Notice] = []
    data = _decoded(source, notices).replace(b"\r\n", b"\n").lstrip(b"\n")
    comments = len(data) - len(data.lstrip(b"#"))
    if comments:
        data = data[comments:].lstrip(b" ")  # numpy.savetxt marks its header so
    lines = data[: 1 << 20].decode("utf-8", "replace").split("\n", 3)
    separator = delimiter_of(lines[0], source.extension)
    cells = _cells(lines[0], separator)
    following = _cells(lines[1], separator) if len(lines) > 1 else []
    check_width(source.name, len(cells))
    named = is_header(cells)
    if named and not any(map(is_number, following)) and source.extension not in (".csv", ".tsv"):
        raise refuse(source.name, "is text, but not a table of numbers", "save the logits as csv or npz")
    options: dict[str, Any] = {"sep": separator, "header": 0 if named else None, "low_memory": False}
    if separator == ";" and "," in "".join(lines[1:2]) and "." not in "".join(lines[1:2]):
        options["decimal"] = ","
    if separator == " ":
        options["sep"] = r"\s+"
    frame = _of_header_width(source.name, pandas.read_csv(BytesIO(data), skipinitialspace=True, **options))
    # pandas renames repeated and empty names; the header's own are kept
    names = cells if named and len(cells) == frame.shape[1] else [str(name) for name in frame.columns]
    budget = Budget(source.name, len(source.data))
    arrays = _number_columns(frame)
    if len(names) - len(arrays) > MAX_TEXT_COLUMNS:
        what = f"holds {len(names) - len(arrays):,} columns of text, more than a table of logits has"
        raise refuse(source.name, what, "save the logits as numbers")
    for place, name in enumerate(names):
        if place not in arrays:
            arrays[place] = _values(name, frame.iloc[:, place], named, budget, notices)
    columns = [Column(name, arrays[place]) for place, name in enumerate(names)]
    contents = arrays_of_columns(source.name, source.stem, columns, named)
    contents.notices[:0] = notices
    return contents


def _number_columns(frame: Any) -> dict[int, Array]:
    """Place -> the columns that hold numbers, taken out by type: one by one takes minutes where they are many."""
    kinds = frame.dtypes.to_numpy()
    found: dict[int, Array] = {}
    for kind in {kind for kind in kinds if isinstance(kind, np.dtype) and kind.kind in "biuf"}:
        places = np.flatnonzero(kinds == kind)
        block = frame.iloc[:, places].to_numpy()
        found |= {int(place): block[:, i] for i, place in enumerate(places)}
    return found


def _of_header_width(file: str, frame: Any) -> Any:
    """The frame with as many columns as the header has names, from the first.

    Where the rows are longer pandas takes their first cells for an index: with nothing in the last ones each line
    ends in a delimiter, with values there the header is of another table.
    """
    import pandas

    if isinstance(frame.index, pandas.RangeIndex):
        return frame
    extra = frame.index.nlevels
    whole = frame.reset_index(names=[f"cell {i}" for i in range(extra)])
    if whole.iloc[:, -extra:].notna().any(axis=None):
        width = frame.shape[1]
        raise refuse(
            file, f"cannot be read: rows of {width + extra} cells under a header of {width}", "name every column"
        )
    return whole.iloc[:, :-extra].set_axis(frame.columns, axis=1)


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


def _values(name: str, series: Any, named: bool, budget: Budget, notices: list[Notice]) -> Array:
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
        raise refuse(budget.file, what, f"correct or remove the {int(stray.sum())} such rows")
    return text_array(series.fillna("").astype(str).tolist(), f"column '{shown(name)}'", budget, notices)
