"""Tables that are safe to open in a spreadsheet, which runs a cell of text that begins like a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The beginnings by which spreadsheets take a cell for a formula."""


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with an apostrophe before every text and column name that a spreadsheet would run.

    An apostrophe is what a spreadsheet itself puts before text that is to stay text. Numbers are left alone, also those
    written as text.
    """
    texts = [column for column, kind in enumerate(frame.dtypes) if kind.kind not in "biufcmM"]
    touched = [column for column in texts if any(map(_runs, frame.iloc[:, column]))]
    names = [f"'{name}" if _runs(name) else name for name in frame.columns]
    if not touched and names == list(frame.columns):
        return frame
    safe = frame.copy()
    for column in touched:
        safe.isetitem(column, [f"'{cell}" if _runs(cell) else cell for cell in frame.iloc[:, column]])
    safe.columns = names
    return safe


def _runs(cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False
