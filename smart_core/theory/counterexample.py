"""A set that meets the two-slice condition, with the main text's average gaps, and whose NLL rises.

Rows of two classes, T = 1, so that Delta_G = 0: J_U holds rows at p = 0.6 that are always right, where m / T is small,
and rows at p = 0.95 that are right in 65 of 100 cases, where it is large. On average J_U is underconfident by 0.05.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from smart_core.theory.nll_probe import local_terms
from smart_core.theory.probes import Plateau
from smart_core.theory.two_slice import TwoSlice, two_slice

GROUPS = ((0.6, 100, 100), (0.95, 100, 65), (0.55, 2, 1))
"""Confidence, rows, hits."""
UNDER = (0.59, 0.96)
OVER = Plateau.against(0.54, 0.56, 0.02)


def counterexample_rows() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Logits and labels."""
    z = np.repeat([[math.log(p / (1 - p)), 0.0] for p, _, _ in GROUPS], [count for _, count, _ in GROUPS], axis=0)
    y = np.concatenate([np.repeat([0, 1], [hits, count - hits]) for _, count, hits in GROUPS])
    return z, y


def counterexample() -> TwoSlice:
    """The condition's terms on these rows, all of them in the slice."""
    z, y = counterexample_rows()
    return two_slice(local_terms(z, y, 1.0), np.ones(len(z), dtype=np.bool_), UNDER, OVER)
