"""Random logit rows and labels shared by the tests of the theory."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def rows(n: int, classes: int, seed: int = 0, scale: float = 2.0) -> Rows:
    """Normal logits; labels that are the top class in about two thirds of the rows."""
    rng = np.random.default_rng(seed)
    z = rng.normal(scale=scale, size=(n, classes))
    return z, np.where(rng.random(n) < 0.6, z.argmax(axis=1), rng.integers(classes, size=n))


@st.composite
def labelled_rows(draw: st.DrawFn, fewest: int = 2, most: int = 8) -> Rows:
    """A few rows of 2 to 8 classes, of very different scales."""
    classes = draw(st.integers(fewest, most))
    return rows(draw(st.integers(3, 40)), classes, draw(st.integers(0, 10_000)), draw(st.sampled_from([0.3, 2.0, 8.0])))
