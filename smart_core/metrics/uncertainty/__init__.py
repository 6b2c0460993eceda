"""Sampling uncertainty of a metric: noise floor, interval, paired difference and ties, each from an `Evaluation`."""

from smart_core.metrics.uncertainty.differences import Difference, Verdict, compare_all, holm, paired_difference
from smart_core.metrics.uncertainty.floor import Floor, noise_floor
from smart_core.metrics.uncertainty.intervals import TOO_FEW, Interval, interval

__all__ = [
    "TOO_FEW",
    "Difference",
    "Floor",
    "Interval",
    "Verdict",
    "compare_all",
    "holm",
    "interval",
    "noise_floor",
    "paired_difference",
]
