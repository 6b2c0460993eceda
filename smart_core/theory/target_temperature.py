"""The temperature at which a row's top confidence is p-hat.

With d_j = z_j - z_M over the rivals j != M and S = 1 / p-hat - 1, beta = 1/T solves h(beta) = log S for

    h(beta) = log sum_{j != M} exp(beta d_j),

convex and falling from log(K - 1). Newton's step from the left of the root never passes it; the margin bound gives a
place on the left, so it converges for every row.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.device import rows_per_chunk
from smart_core.theory.margin_bounds import HALF_LINE, INTERVAL, case_of

Array = NDArray[np.float64]

MOST_STEPS = 200
PRECISION = 1e-14


def target_temperature(logits: ArrayLike, target: float) -> Array:
    """(N,) T with max softmax(z / T) = target; NaN where no T > 0 gives it.

    >>> float(target_temperature([[0.0, -1.0]], 0.8)[0].round(6))   # 1 / log 4
    0.721348
    """
    z = np.atleast_2d(np.asarray(logits))
    if case_of(target, z.shape[1]) not in (INTERVAL, HALF_LINE):
        return np.full(len(z), np.nan)
    size = rows_per_chunk(z.shape[1])
    return np.concatenate(
        [_solve(z[start : start + size], target) for start in range(0, len(z), size)] or [np.empty(0)]
    )


def _solve(logits: NDArray[np.generic], target: float) -> Array:
    log_s = math.log1p(-target) - math.log(target)
    z = logits.astype(np.float64)
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    behind = z - z[rows, top][:, None]
    rival = np.ones(z.shape, dtype=np.bool_)
    rival[rows, top] = False
    d = behind[rival].reshape(len(z), -1)
    margin, tied = -d.max(axis=1), (d == 0).sum(axis=1)
    # h falls to log of the number of tied rivals, and without end where there is none
    solvable = (tied == 0) | (np.log(np.maximum(tied, 1)) < log_s)
    beta = np.divide(max(-log_s, 0.0), margin, out=np.zeros(len(z)), where=margin > 0)
    active = np.flatnonzero(solvable)
    for _ in range(MOST_STEPS):
        if not active.size:
            break
        scaled = beta[active, None] * d[active]
        largest = scaled.max(axis=1, keepdims=True)
        weight = np.exp(scaled - largest)
        total = weight.sum(axis=1)
        excess = largest[:, 0] + np.log(total) - log_s
        step = excess * total / -(weight * d[active]).sum(axis=1)
        beta[active] += step
        active = active[np.abs(step) > PRECISION * beta[active]]
    return np.asarray(np.divide(1.0, beta, out=np.full(len(z), np.nan), where=solvable & (beta > 0)))
