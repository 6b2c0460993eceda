"""A metric's values as they are written in cells, labels and sentences: two digits of per cent, or three decimals."""

from __future__ import annotations

import numpy as np

from smart_core.evaluation import metric_named
from smart_core.figures.words import NARROW


def number(metric: str, value: float) -> str:
    """`0.61` for an ECE of 0.0061: without the unit, which stands beside the figure."""
    if not np.isfinite(value):
        return ""
    return f"{100.0 * value:.2f}" if metric_named(metric).percent else f"{value:.3f}"


def amount(metric: str, value: float) -> str:
    """`0.61 %`: with the unit, for sentences."""
    if not np.isfinite(value):
        return "unknown"
    return number(metric, value) + (f"{NARROW}%" if metric_named(metric).percent else "")


def unit(metric: str) -> str:
    """`ECE, %`: what the numbers of a figure are."""
    known = metric_named(metric)
    return f"{known.label}, %" if known.percent else known.label


def tick_format(metric: str) -> str:
    """Of an axis that shows the metric's values."""
    return ".1~%" if metric_named(metric).percent else ".3~f"
