"""Limited-memory BFGS (Liu & Nocedal, 1989) for a smooth convex loss whose curvature is roughly known.

The inverse Hessian is built from the last few steps `s` and gradient changes `y`, on top of
`gamma diag(1 / h)`: h is the diagonal of the Hessian at the start, `gamma = s.y / (y.(y / h))` of the last step.
On a convex loss `s.y >= 0` for every step, so a line search need only look for enough decrease.

Written by hand for a loss that float32 rounds: the line search of scipy's L-BFGS-B cannot tell such a loss near its
minimum and takes up to four times as many evaluations there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

HISTORY = 10
"""Number of steps that are kept."""

ARMIJO = 1e-4
"""Share of the decrease predicted by the slope that a step must achieve."""

ROUNDING = 1e-7
"""Error of the loss in float32, relative to 1 or to the loss if that is larger.

Smaller changes are decided by the slopes at both ends of the step, which are far more exact."""

TRIALS = 12
"""Step lengths tried along one direction; if none is accepted, rounding hides any decrease that is left."""

PATIENCE = 5
"""Steps in a row without a new least loss after which only rounding is left."""

SHORTEST_CUT, LONGEST_CUT = 0.1, 0.5
"""A step that was too long is multiplied by a factor between these."""

LEAST_CURVATURE = 1e-10
"""Least curvature, relative to the greatest: a flat direction must not send the first step far away."""

Loss = Callable[[Tensor], tuple[float, Tensor]]
"""Parameters -> value and gradient."""

Pair = tuple[Tensor, Tensor, float]
"""A step s, the change y of the gradient over it, and `s.y`."""


def minimise_convex(
    loss: Loss, start: Tensor, curvature: Tensor, max_iterations: int, least_gain: float, between: Callable[[int], None]
) -> Tensor:
    """The parameters of least loss on the path, never worse than the start.

    The search ends after `max_iterations` steps, when the expected gain of a step is less than `least_gain`, or when
    steps no longer lower the loss. `between` is called with the number of steps taken; it may raise to stop.
    """
    floor = LEAST_CURVATURE * float(curvature.max())
    inverse = initial = 1.0 / curvature.clamp(min=max(floor, torch.finfo(curvature.dtype).tiny))
    pairs: deque[Pair] = deque(maxlen=HISTORY)
    theta = best = start
    value, gradient = loss(theta)
    least, stale = value, 0
    for iteration in range(max_iterations):
        between(iteration)
        direction = -inverse_hessian_product(gradient, pairs, initial)
        slope = _dot(gradient, direction)
        if stale == PATIENCE or not slope < -2.0 * least_gain:  # on a parabola a full step gains half the slope
            break
        between(iteration)
        found = _line_search(loss, theta, value, direction, slope)
        if found is None:
            break
        following, value, new_gradient = found
        step, change = following - theta, new_gradient - gradient
        overlap, size = _dot(step, change), _dot(change, change * inverse)
        if overlap > 0.0 and size > 0.0:  # near the minimum rounding may turn their signs
            pairs.append((step, change, overlap))
            initial = inverse * (overlap / size)
        theta, gradient = following, new_gradient
        stale += 1
        if value < least:
            best, least, stale = theta, value, 0
    return best


def inverse_hessian_product(gradient: Tensor, pairs: deque[Pair], initial: Tensor) -> Tensor:
    """`H g` by the two-loop recursion over the pairs, oldest first; without any, `H = diag(initial)`."""
    product = gradient.clone()
    shares = []
    for step, change, overlap in reversed(pairs):
        share = _dot(step, product) / overlap
        product.add_(change, alpha=-share)
        shares.append(share)
    product.mul_(initial)
    for (step, change, overlap), share in zip(pairs, reversed(shares), strict=True):
        product.add_(step, alpha=share - _dot(change, product) / overlap)
    return product


def _line_search(
    loss: Loss, theta: Tensor, value: float, direction: Tensor, slope: float
) -> tuple[Tensor, float, Tensor] | None:
    """The first of increasingly short steps that lowers the loss enough; each cut is the minimum of a parabola."""
    length = 1.0
    for _ in range(TRIALS):
        trial = theta.add(direction, alpha=length)
        reached, gradient = loss(trial)
        if reached <= value + ARMIJO * length * slope or (
            reached <= value + ROUNDING * max(1.0, abs(value))
            and _dot(gradient, direction) <= (2.0 * ARMIJO - 1.0) * slope
        ):
            return trial, reached, gradient
        excess = reached - value - length * slope  # not finite where the loss overflows
        cut = -0.5 * length * slope / excess
        length *= min(max(cut, SHORTEST_CUT), LONGEST_CUT) if cut > 0.0 else SHORTEST_CUT
    return None


def _dot(left: Tensor, right: Tensor) -> float:
    return float(torch.dot(left, right))
