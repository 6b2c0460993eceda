"""A figure with what it says in words and the numbers it draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smart_core.figures.spreadsheet import without_formulas

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


@dataclass(frozen=True, eq=False)
class Chart:
    """What every figure function gives: nothing is drawn that cannot also be read and kept as a table."""

    figure: go.Figure
    alt: str
    """One or two sentences for those who cannot see the figure: what is drawn, and what it shows."""
    table: pd.DataFrame
    """The numbers drawn, one observation a row; shares as fractions."""
    name: str
    """A short stem for file names and keys, like `reliability`."""

    def __post_init__(self) -> None:
        """The table is kept as a file from more than one place: what a spreadsheet would run is taken out here."""
        object.__setattr__(self, "table", without_formulas(self.table))
