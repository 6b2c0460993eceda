"""Many lines on one figure: the more there are, the lighter each is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smart_core.figures.theme import Style

FEW = 6
"""Curves that are drawn at full weight."""
THIN = 10
"""Among many curves, bins and places with fewer samples carry no line: their scatter would hide the others."""
LEGEND_ROW = 26
"""Pixels of one row of the legend."""


@dataclass(frozen=True)
class Crowd:
    """The weights of lines, markers and legend for a number of curves."""

    curves: int

    @property
    def dense(self) -> bool:
        """Whether lines have to be lightened to stay apart."""
        return self.curves > FEW

    @property
    def fewest(self) -> int:
        """Samples that a bin or place needs to carry a line."""
        return THIN if self.dense else 1

    @property
    def marker_size(self) -> int:
        """Pixels of a marker."""
        return 5 if self.dense else 8

    @property
    def legend(self) -> dict[str, Any]:
        """Layout of the legend: smaller for many; a double click on an entry leaves it alone on the figure."""
        return {"font": {"size": 12}} if self.dense else {}

    def line(self, look: Style) -> dict[str, Any]:
        """A method's line."""
        return {**look.line(), "width": look.width * 0.7} if self.dense else look.line()

    def outline(self, look: Style) -> dict[str, Any]:
        """A method's line in a small panel."""
        return {**look.line(), "width": 1.0 if self.dense else 1.5}

    def height(self, height: int) -> int:
        """The height with room for the longer legend of many curves, at about three entries a row."""
        return height + LEGEND_ROW * max(0, (self.curves - FEW + 2) // 3)
