"""Rules for learned values, which each method declares in `rules`: a file may hold numbers that no fit can learn.

The schema of workspaces (`export.workspace_schema`) is written in rules too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """A condition on a value, such as a learned tensor, and its words: `lie between 0 and 1`."""

    holds: Callable[[Any], bool]
    words: str


def between(low: float, high: float) -> Rule:
    """Every value lies between `low` and `high`."""
    return Rule(lambda values: bool(((values >= low) & (values <= high)).all()), f"lie between {low:g} and {high:g}")


TEMPERATURES = between(0.04, 1000.0)
"""Fits keep temperatures within 0.05 to 100; divided by 0.04, the largest logits stay finite."""
PROBABILITIES = between(-1e-6, 1.0 + 1e-6)
DEVIATIONS = between(1e-13, 1e33)
"""Standard deviations to divide by; a smaller one counts as none in a fit."""
WEIGHTS = between(-1e12, 1e12)
INCREASING = Rule(lambda values: bool((values[1:] > values[:-1]).all()), "increase from entry to entry")
NOT_DECREASING = Rule(lambda values: bool((values[1:] >= values[:-1]).all()), "not decrease from entry to entry")
NOT_INCREASING = Rule(lambda values: bool((values[1:] <= values[:-1]).all()), "not increase from entry to entry")
DISTRIBUTION = Rule(lambda values: bool((values >= 0).all() and abs(float(values.sum()) - 1.0) < 1e-4), "sum to 1")
