"""csv, tsv and other delimited text, in UTF-8, UTF-16 or an older 8-bit encoding."""

from __future__ import annotations

import codecs
import re
from io import BytesIO
from itertools import islice
from typing import Any

import numpy as np
import pandas

from smart_core.data.formats.limits import Budget, check_width, text_array
from smart_core.data.formats.ragged import padded
from smart_core.data.formats.raw import Column, RawFile, Source
from smart_core.data.logitset import Array, Notice
from smart_core.errors import LogitFileError
from smart_core.formatting import plural, printable

MAX_TEXT_COLUMNS = 1000
"""Labels, groups, splits and names are text; more columns of text would take minutes to read."""
_LINES = 100
"""Lines that are looked at to see whether numbers have a decimal comma."""
_WITH_COMMA, _WITH_POINT = (re.compile(rf"[-+]?\d*{mark}\d+(?:[eE][-+]?\d+)?%?") for mark in (",", r"\."))


def decoded(source: Source, notices: list[Notice]) -> bytes:
    """Return the text as UTF-8, without a byte order mark."""
    encoding = source.encoding
    if encoding == "utf-8":
        try:
            source.data.decode()
        except UnicodeDecodeError:
            encoding = "cp1252"
    if encoding in (None, "utf-8"):
        return source.data.removeprefix(codecs.BOM_UTF8)
    text = source.data.decode(encoding, "replace")
    name = "Windows-1252 (Latin-1)" if encoding == "cp1252" else encoding[:6].upper()
    fix = "; if characters look wrong, save it again as UTF-8" if encoding == "cp1252" else ""
    notices.append(Notice("encoding", f"{source.name}: read as {name} text{fix}."))
    return text.removeprefix("\ufeff").encode()


def read_text(source: Source) -> RawFile:
    """Read the columns of a delimited text file, with or without a header line."""
    raw = RawFile(source.name)
    data = decoded(source, raw.notices).replace(b"\r\n", b"\n").lstrip(b"\n")
    comments = len(data) - len(data.lstrip(b"#"))
    if comments:
        data = data[comments:].lstrip(b" ")  # numpy.savetxt begins its header with #
    stream = BytesIO(data)
    first, second = (stream.readline().rstrip(b"\n").decode("utf-8", "replace") for _ in range(2))
    stream.seek(0)
    separator = delimiter_of(first, source.extension)
    cells, following = _cells(first, separator), _cells(second, separator)
    check_width(source.name, len(cells))
    raw.has_header = is_header(cells)
    if raw.has_header and not any(map(is_number, following)) and source.extension not in (".csv", ".tsv"):
        raise LogitFileError("is text, but not a table of numbers", "save the logits as csv or npz", file=source.name)
    options: dict[str, Any] = {"sep": separator, "header": 0 if raw.has_header else None, "low_memory": False}
    if separator == ";" and _has_decimal_comma(data):
        options["decimal"] = ","
    if separator == " ":
        options["sep"] = r"\s+"
    frame = _of_header_width(source.name, pandas.read_csv(stream, skipinitialspace=True, **options))
    # pandas renames repeated and empty names; the header's own are kept
    names = cells if raw.has_header and len(cells) == frame.shape[1] else [str(name) for name in frame.columns]
    arrays = _number_columns(frame)
    if len(names) - len(arrays) > MAX_TEXT_COLUMNS:
        problem = f"holds {len(names) - len(arrays):,} columns of text, more than a table of logits has"
        raise LogitFileError(problem, "save the logits as numbers", file=source.name)
    for i, name in enumerate(names):
        if i not in arrays:
            arrays[i] = _values(name, frame.iloc[:, i], 2 if raw.has_header else 1, raw, len(data))
    raw.columns = [Column(name, arrays[i]) for i, name in enumerate(names)]
    return raw


def _number_columns(frame: Any) -> dict[int, Array]:
    """Return {index: column of numbers}, extracted by type: one by one would take minutes for many columns."""
    kinds = frame.dtypes.to_numpy()
    columns: dict[int, Array] = {}
    for kind in {kind for kind in kinds if isinstance(kind, np.dtype) and kind.kind in "biuf"}:
        indices = np.flatnonzero(kinds == kind)
        block = frame.iloc[:, indices].to_numpy()
        columns |= {int(index): block[:, i] for i, index in enumerate(indices)}
    return columns


def _of_header_width(file: str, frame: Any) -> Any:
    """Return the frame with as many columns as the header has names.

    If the rows are longer, pandas uses their first cells as an index. If their last cells are empty, each line ends in
    a delimiter; otherwise the header does not belong to the rows.
    """
    if isinstance(frame.index, pandas.RangeIndex):
        return frame
    extra = frame.index.nlevels
    whole = frame.reset_index(names=[f"cell {i}" for i in range(extra)])
    if whole.iloc[:, -extra:].notna().any(axis=None):
        width = frame.shape[1]
        problem = f"cannot be read: rows of {width + extra} cells under a header of {width}"
        raise LogitFileError(problem, "name every column", file=file)
    return whole.iloc[:, :-extra].set_axis(frame.columns, axis=1)


def delimiter_of(line: str, extension: str) -> str:
    """Return the separator in the first line; the extension decides if there is none."""
    counts = {mark: line.count(mark) for mark in ("\t", ";", ",", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[best]:
        return best
    if " " in line.strip():
        return " "
    return "\t" if extension == ".tsv" else ","


def is_header(cells: list[str]) -> bool:
    """Return whether a cell is not a number, or the cells are 0, 1, 2, ..., as pandas names the columns of an array."""
    if not all(is_number(cell) for cell in cells):
        return True
    return len(cells) > 2 and cells == [str(i) for i in range(len(cells))]


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, including nan and inf, with a decimal point or comma."""
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _cells(line: str, separator: str) -> list[str]:
    parts = line.split() if separator == " " else line.split(separator)
    return [cell.strip().strip("\"'") for cell in parts]


def _has_decimal_comma(data: bytes) -> bool:
    """Return whether cells of the first lines are numbers with a decimal comma, and none has a point."""
    lines = islice(BytesIO(data), _LINES)
    cells = [cell for line in lines for cell in _cells(line.decode("utf-8", "replace"), ";")]
    return any(map(_WITH_COMMA.fullmatch, cells)) and not any(map(_WITH_POINT.fullmatch, cells))


def _lists(name: str, cells: list[str], raw: RawFile, size: int) -> Array | None:
    """Return cells such as [0.1, 0.9] as rows of numbers, as pandas and NumPy write them; None if one is not."""
    if not all(cell.startswith("[") and cell.endswith("]") for cell in cells):
        return None
    budget, label = Budget(raw.name, size), f"column '{printable(name)}'"
    budget.charge(label, 8 * sum(cell.count(".") + cell.count(",") + 1 for cell in cells))
    try:
        rows = [np.array(cell[1:-1].replace(",", " ").split(), dtype=np.float64) for cell in cells]
    except ValueError:
        return None
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else padded(budget, label, rows)


def _values(name: str, series: Any, first_line: int, raw: RawFile, size: int) -> Array:
    """Return the column as numbers, or as text if most of it is; raise if a few cells among numbers are words."""
    if pandas.api.types.is_numeric_dtype(series) or pandas.api.types.is_bool_dtype(series):
        return np.asarray(series)
    numbers = pandas.to_numeric(series, errors="coerce")
    stray = np.asarray(numbers.isna() & series.notna())
    if 0 < stray.sum() < len(series) / 2:
        row = int(np.argmax(stray))
        cell = f"line {row + first_line}, column '{printable(name)}' holds '{printable(str(series.iloc[row]))}'"
        fix = f"correct or remove {plural(int(stray.sum()), 'such row')}"
        raise LogitFileError(f"{cell}, which is not a number", fix, file=raw.name)
    cells = series.fillna("").astype(str).tolist()
    rows = _lists(name, cells, raw, size)
    return text_array(cells, raw.name, f"column '{printable(name)}'", raw.notices) if rows is None else rows
