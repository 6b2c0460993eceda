"""Results drawn as plotly figures: pure functions used by pages, reports and notebooks alike."""

from smart_core.figures.reliability import Curve, reliability_diagram
from smart_core.figures.theme import PALETTE, Style, style, template

__all__ = ["PALETTE", "Curve", "Style", "reliability_diagram", "style", "template"]
