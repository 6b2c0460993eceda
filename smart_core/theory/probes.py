"""Probes psi of the confidence: what a calibration witness E[(a - p) psi(p)] looks through.

A plateau of height h on [low, high] with a smooth ramp of width w on each side,

    psi(p) = h s((p - low + w) / w) below,   h on [low, high],   h s((high + w - p) / w) above,   s(x) = 3 x^2 - 2 x^3,

continuously differentiable, 0 elsewhere. Its steepest slope is 1.5 |h| / w, so it is 1-Lipschitz for w >= 1.5 |h|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.errors import CalibrationError

Array = NDArray[np.float64]

STEEPEST = 1.5
"""The largest slope of s."""


@dataclass(frozen=True)
class Plateau:
    """A 1-Lipschitz probe, bounded by 1, that looks at one range of confidence. The paper's is of height -c."""

    low: float
    high: float
    height: float
    ramp: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise CalibrationError(f"A probe's range runs from low to high, not from {self.low:g} to {self.high:g}.")
        if abs(self.height) > 1 or not STEEPEST * abs(self.height) <= self.ramp * (1 + 1e-12) or self.ramp <= 0:
            raise CalibrationError(
                f"A probe of height {self.height:g} with ramps {self.ramp:g} wide is not 1-Lipschitz and bounded by 1; "
                f"take a height within ±1 and ramps of {STEEPEST:g} times it."
            )

    @classmethod
    def against(cls, low: float, high: float, depth: float) -> Plateau:
        """psi = -depth on [low, high], with the narrowest ramps: what finds the range overconfident is positive."""
        return cls(low, high, -depth, STEEPEST * depth)

    def __call__(self, p: ArrayLike) -> Array:
        """psi(p)."""
        x = self._inward(np.asarray(p, dtype=np.float64))
        return np.asarray(self.height * x**2 * (3 - 2 * x))

    def slope(self, p: ArrayLike) -> Array:
        """psi'(p)."""
        at = np.asarray(p, dtype=np.float64)
        x = self._inward(at)
        side = np.where(at < self.low, 1.0, -1.0)
        return np.asarray(side * self.height * 6 * x * (1 - x) / self.ramp)

    def on_ramp(self, p: ArrayLike) -> NDArray[np.bool_]:
        """Where psi is neither 0 nor on its plateau: the transition band."""
        x = self._inward(np.asarray(p, dtype=np.float64))
        return np.asarray((x > 0) & (x < 1))

    def _inward(self, p: Array) -> Array:
        """0 outside the ramps, 1 on the plateau, in between the share of the ramp passed."""
        outside = np.maximum(np.maximum(self.low - p, p - self.high), 0.0)
        return np.asarray(np.clip(1 - outside / self.ramp, 0.0, 1.0))
