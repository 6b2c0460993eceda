"""NLL, a witness and smCE along the path T_s = T / s on a margin slice, exactly at each s: the derivatives' long form.

The small-s lemma says that near s = 1 NLL and the witness move as their derivatives do. smCE is the supremum over all
witnesses; the lemma says nothing about smCE itself, so it is computed beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.device import rows_per_chunk
from smart_core.metrics.smooth_calibration import smce
from smart_core.theory.nll_probe import Mask, Probe

Array = NDArray[np.float64]

STEPS = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)


@dataclass(frozen=True, eq=False)
class ScalingPath:
    """What happens to the whole set as the slice is scaled; all (S,)."""

    s: Array
    nll: Array
    witness: Array
    """E[(a - p_s) psi(p_s)], signed."""
    smce: Array


def scaling_path(
    logits: ArrayLike,
    labels: ArrayLike,
    temperature: ArrayLike,
    chosen: Mask,
    probe: Probe,
    steps: Sequence[float] = STEPS,
) -> ScalingPath:
    """NLL, witness and exact smCE at every s."""
    z, y = np.asarray(logits), np.asarray(labels, dtype=np.int64)
    t = np.broadcast_to(np.asarray(temperature, dtype=np.float64), (len(z),))
    correct = z.argmax(axis=1) == y
    found = []
    for s in steps:
        confidence, losses = _softmax_terms(z, y, np.where(chosen, t / s, t))
        found.append((losses.mean(), ((correct - confidence) * probe(confidence)).mean(), smce(confidence, correct)))
    nll, signed, exact = (np.array(column) for column in zip(*found, strict=True))
    return ScalingPath(np.array(steps, dtype=np.float64), nll, signed, exact)


def _softmax_terms(z: NDArray[np.generic], y: NDArray[np.int64], temperature: Array) -> tuple[Array, Array]:
    """Top confidence and -log q_y of every row."""
    confidence, losses, size = np.empty(len(z)), np.empty(len(z)), rows_per_chunk(z.shape[1])
    for start in range(0, len(z), size):
        rows = slice(start, start + size)
        d = z[rows].astype(np.float64)
        d -= d.max(axis=1, keepdims=True)
        d /= temperature[rows, None]
        label = np.take_along_axis(d, y[rows, None], axis=1)[:, 0]
        total = np.exp(d).sum(axis=1)
        confidence[rows], losses[rows] = 1.0 / total, np.log(total) - label
    return confidence, losses
