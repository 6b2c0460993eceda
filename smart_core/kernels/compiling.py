"""Every compiled loop made ready at once: `python -m smart_core.kernels.compiling` when the package is set up.

numba keeps what it compiles beside the package, or in the user's cache where that cannot be written. A process that
finds it there is ready in a fraction of a second; one that does not compiles for some seconds, once.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from smart_core import kernels


@cache
def make_ready() -> None:
    """Compile the loops that a fit may need, or read them back; without numba there is nothing to do."""
    if not kernels.installed():
        return
    from smart_core.calibrators.ts import nll_slope
    from smart_core.kernels.judging import all_finite
    from smart_core.kernels.smart_gradient import Samples, SmartGradient
    from smart_core.profile import DIRECT_UP_TO, build_profile
    from smart_core.types import Logits

    all_finite(np.zeros((2, 3), np.float32))
    labels = torch.zeros(4, dtype=torch.int64)
    for classes in (2, DIRECT_UP_TO + 1):
        logits = Logits(torch.arange(4.0 * classes).reshape(4, classes))
        nll_slope(logits, labels, 1.0)
        samples = Samples.of(torch.arange(4.0), build_profile(logits, labels))
        SmartGradient(samples, 0.05, 1e-3, 15)(torch.zeros(49))


def make_all_ready() -> None:
    """The same, and the loops that apply a fit and judge it."""
    make_ready()
    if not kernels.installed():
        return
    from smart_core.kernels.judging import confidences, judge, top_two
    from smart_core.kernels.probabilities import classwise_sums, row_statistics

    logits, labels = np.zeros((2, 3), np.float32), np.zeros(2, np.int64)
    top, second, third = (np.ones(2, np.float32) for _ in range(3))
    top_two(logits, top, second, labels)
    confidences(logits, top, second, third)
    edges = np.linspace(0, 1, 3, dtype=np.float32)
    judge(logits, top, labels, second, edges, third, third, third, np.zeros((3, 2)))
    row_statistics(logits, np.zeros(2), top, second, labels)
    classwise_sums(logits, labels, edges, *(np.zeros((3, 2)) for _ in range(4)))


if __name__ == "__main__":
    make_all_ready()
