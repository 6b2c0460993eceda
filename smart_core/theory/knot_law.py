"""A temperature law T*(m) drawn by hand: a smooth curve of log T through a few knots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from smart_core.data.simulate import Law
from smart_core.errors import CalibrationError

Array = NDArray[np.float64]


def knot_law(margins: Sequence[float], temperatures: Sequence[float]) -> Law:
    """The shape-preserving cubic (PCHIP) through (margin, log T), constant beyond the ends; T > 0 always.

    It rises and falls only where the knots do.
    """
    from scipy.interpolate import PchipInterpolator

    at, t = np.asarray(margins, dtype=np.float64), np.asarray(temperatures, dtype=np.float64)
    usable = np.isfinite(t) & (t > 0)
    if len(at) != len(t) or len(at) < 2 or not (np.diff(at) > 0).all() or not usable.all():
        raise CalibrationError("A law needs two or more knots at rising margins, each with a temperature above 0.")
    through = PchipInterpolator(at, np.log(t))

    def drawn(margin: Array) -> Array:
        return np.asarray(np.exp(through(np.clip(np.asarray(margin, dtype=np.float64), at[0], at[-1]))))

    return drawn


def identifiable(law: Law, largest: float = 20.0, points: int = 400) -> bool:
    """Whether m / T*(m) rises throughout: else two margins share a true confidence, and no calibration error can tell
    which temperature belongs to which."""
    m = np.linspace(0.0, largest, points)
    return bool((np.diff(m / np.asarray(law(m))) > 0).all())
