"""One step of Adam over a vector of parameters: for few of them, PyTorch's calls take longer than the numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from smart_core.kernels.elementary import EXACT, F32


@njit(cache=True, nogil=True, error_model="numpy", fastmath=EXACT)
def adam_step(
    parameters: F32, first: F32, second: F32, slope: F32,
    beta2: np.float32, share1: np.float32, share2: np.float32, epsilon: np.float32, rate: np.float32, scale: np.float32,
) -> None:  # fmt: skip
    """Update the parameters and both means in place; the shares of the new slope are 1 - beta.

    `rate` and `scale` include the corrections of the means, which start at 0.
    """
    for i in range(parameters.size):
        g = slope[i]
        first[i] += share1 * (g - first[i])
        second[i] = beta2 * second[i] + share2 * g * g
        parameters[i] -= rate * (first[i] / (np.sqrt(second[i] * scale) + epsilon))
