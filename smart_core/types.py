"""Names for arrays whose meaning matters, so that mixing them up is a type error."""

from __future__ import annotations

from typing import NewType

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Logits = NewType("Logits", Tensor)
"""(N, K) unnormalised scores; softmax turns them into probabilities."""

Probabilities = NewType("Probabilities", Tensor)
"""(N, K) non-negative rows that sum to one."""

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
FloatArray = NDArray[np.floating]
IntArray = NDArray[np.integer]
BoolArray = NDArray[np.bool_]
