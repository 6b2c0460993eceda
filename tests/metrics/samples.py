"""Random confidences and outcomes shared by the metric tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from smart_core.metrics.classwise import ClasswiseCells

Pair = tuple[NDArray[np.float64], NDArray[np.bool_]]


def forecasts(n: int, seed: int = 0, shift: float = 0.0) -> Pair:
    """Confidences from a Beta(3, 1) law; outcomes that hold with probability p + shift."""
    rng = np.random.default_rng(seed)
    p = rng.beta(3, 1, size=n)
    return p, rng.uniform(size=n) < np.clip(p + shift, 0, 1)


def probabilities(n: int, classes: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Softmax rows, and labels of which half are the top class and half are drawn at random."""
    rng = np.random.default_rng(seed)
    z = rng.normal(scale=2.0, size=(n, classes))
    z = np.exp(z - z.max(axis=1, keepdims=True))
    labels = np.where(rng.uniform(size=n) < 0.5, z.argmax(axis=1), rng.integers(0, classes, size=n))
    return z / z.sum(axis=1, keepdims=True), labels


@st.composite
def small_sets(draw: st.DrawFn, largest: int = 25) -> Pair:
    """A few samples, with ties, zeros and ones among the confidences."""
    confidence = st.one_of(st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]), st.floats(0, 1, allow_subnormal=False))
    pairs = draw(st.lists(st.tuples(confidence, st.booleans()), min_size=1, max_size=largest))
    return np.array([p for p, _ in pairs]), np.array([a for _, a in pairs])


def classwise_cells(probs: np.ndarray, labels: np.ndarray, bins: int = 15, seed: int = 0) -> ClasswiseCells:
    """The cells of a whole array of probabilities (N, K)."""
    return ClasswiseCells(np.shape(probs)[1], bins, seed).update(probs, labels)
