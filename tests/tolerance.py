"""How far apart two float32 results may lie, from the arithmetic that gave them.

A float32 operation rounds its result by at most EPS / 2, relative to that result. Which way it rounds differs between
processors: one fuses a product and a sum, another adds in another order or has another polynomial for exp. Two results
of n operations each therefore lie within n EPS of each other, times what the expression makes of an error:

- n terms of one sign: nothing, the sum is as exact as its terms;
- n terms of either sign: the error is relative to the sum of their absolute values, their scale, not to what is left;
- f(x): an error of x, relative, is multiplied by |x f'(x) / f(x)|.

In softmax, `p_k = exp(d_k) / sum_j exp(d_j)` with gaps `d_k <= 0`, a temperature that is off by a factor of 1 + t
moves p_k by `t p_k |d_k - d|`, d the mean of the gaps under p. For most classes that is below t / e, as
`p_k <= exp(d_k)`; for the largest p it is `t p |d|`, at most `t p (1 - p) (log(K - 1) + logit p)`. Both are below
`t (1 + log K) / 4`, whatever the logits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

EPS = float(np.finfo(np.float32).eps)


def float32_bound(operations: float, scale: ArrayLike = 1.0) -> NDArray[np.float64]:
    """How far two results of so many float32 operations on numbers of this scale may lie apart."""
    return np.asarray(operations * EPS * np.asarray(scale, dtype=np.float64))


PROBABILITY = float(float32_bound(8))
"""Of two softmax rows from the same logits and temperatures: gap, quotient, exp, sum and quotient, and reserve for the
longer sum of a few hundred classes. Just below 1e-6."""


def moved_by_temperature(share: ArrayLike, classes: int) -> NDArray[np.float64]:
    """How far a probability may move, beside its own rounding, where its temperature is off by a share of itself."""
    return np.asarray(share, dtype=np.float64) * (1.0 + math.log(classes)) / 4.0


def assert_within(found: ArrayLike, expected: ArrayLike, bound: ArrayLike, words: str = "") -> None:
    """`|found - expected| <= bound`, entry by entry; says by how much and where it is not."""
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert found.shape == expected.shape, words
    allowed = np.broadcast_to(np.asarray(bound, dtype=np.float64), found.shape)
    beyond = ~(np.abs(found - expected) <= allowed)  # NaN is beyond, too
    if beyond.any():
        place = tuple(np.argwhere(beyond)[0].tolist())
        raise AssertionError(
            f"{words} {beyond.sum()} of {beyond.size} beyond their bound; at {place} {found[place]!r} is not "
            f"{expected[place]!r} within {allowed[place]:.3g}".strip()
        )


def on_an_edge(confidence: ArrayLike, bins: int, off: ArrayLike = PROBABILITY) -> NDArray[np.bool_]:
    """Which confidences lie so close to an edge of equal bins that rounding decides between the two beside it."""
    scaled = np.asarray(confidence, dtype=np.float64) * bins
    nearest = np.round(scaled)
    inner = (nearest >= 1) & (nearest <= bins - 1)
    return inner & (np.abs(scaled - nearest) <= bins * np.asarray(off, dtype=np.float64))


def binned_bound(confidence: ArrayLike, correct: ArrayLike, bins: int, off: ArrayLike = PROBABILITY) -> float:
    """How far two binned errors of these samples may lie apart where the confidences are off by so much.

    The mean of what the confidences are off; and a sample on an edge takes its gap from one bin to the next, which
    changes each of the two sums by that gap.
    """
    gap = np.abs(np.asarray(confidence, dtype=np.float64) - np.asarray(correct, dtype=np.float64))
    moves = np.where(on_an_edge(confidence, bins, off), 2.0 * gap, 0.0)
    return float(np.mean(np.broadcast_to(off, gap.shape) + moves))
