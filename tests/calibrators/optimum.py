"""An independent optimiser for linear maps: float64, autograd, SciPy's BFGS family."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor


def least(loss: Callable[[Tensor], Tensor], start: np.ndarray) -> tuple[float, np.ndarray]:
    """The least value of a smooth convex loss and where it is."""

    def value_and_slope(theta: np.ndarray) -> tuple[float, np.ndarray]:
        leaf = torch.tensor(theta, requires_grad=True)
        value = loss(leaf)
        value.backward()
        return value.item(), leaf.grad.numpy()

    found = minimize(
        value_and_slope,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-14, "gtol": 1e-9},
    )
    return float(found.fun), found.x


def centred64(logits: np.ndarray) -> Tensor:
    z = torch.tensor(logits, dtype=torch.float64)
    return z - z.mean(dim=1, keepdim=True)
