"""True temperature laws T*(margin): the shapes that margin-based calibration finds in trained networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Law = Callable[[Array], Array]


def constant(margin: Array, temperature: float = 1.8) -> Array:
    """T* = temperature: the case that temperature scaling solves."""
    return np.full(np.shape(margin), float(temperature))


def linear(margin: Array, start: float = 1.0, slope: float = 0.12) -> Array:
    """T* = start + slope m: rows of small margin are nearly right, confident ones are too confident."""
    return start + slope * np.asarray(margin, dtype=np.float64)


def resnet(margin: Array, start: float = 1.0, rise: float = 1.6, scale: float = 6.0) -> Array:
    """T* = start + rise (1 - exp(-m / scale)): near one at small margins, increasing, then levelling off."""
    return start - rise * np.expm1(-np.asarray(margin, dtype=np.float64) / scale)


def u_shaped(margin: Array, base: float = 0.3, fall: float = 3.0, scale: float = 2.0, slope: float = 0.15) -> Array:
    """T* = base + fall exp(-m / scale) + slope m: both ends too confident, the middle near right.

    The turn lies at m = scale log(fall / (slope scale)), 4.6 by default. m / T* increases for any positive
    parameters, so confidence still grows with the margin. That makes the law identifiable: were two margins
    to share a confidence, calibration could not tell which deserves it.
    """
    m = np.asarray(margin, dtype=np.float64)
    return base + fall * np.exp(-m / scale) + slope * m


LAWS: dict[str, Law] = {"constant": constant, "linear": linear, "resnet": resnet, "u_shaped": u_shaped}
"""The shapes of the margin-temperature relation; for other parameters pass `partial(u_shaped, fall=2)`."""
