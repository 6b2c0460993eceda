"""Compile every loop ahead: `python -m smart_core.kernels.compiling` when the package is set up.

numba keeps what it compiles beside the package, or in the user's cache if the package's folder cannot be written. A
process that finds it there is ready in a fraction of a second; otherwise the first fit compiles for some seconds.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from smart_core import kernels


@cache
def make_ready() -> None:
    """Compile the loops of fitting, or read them back; without numba there is nothing to do."""
    if not kernels.installed():
        return
    from smart_core.kernels.adam import adam_step
    from smart_core.kernels.class_search import candidate_sums
    from smart_core.kernels.logit_rows import all_finite
    from smart_core.kernels.partition import nll_sums, tabulate
    from smart_core.kernels.smart_objective import Samples, SmartGradient

    rows, table = np.zeros((2, 3), np.float32), np.zeros((2, 5, 2), np.float32)
    all_finite(rows)
    vector, half = np.zeros(2, np.float32), np.float32(0.5)
    adam_step(vector, vector, vector, vector, half, half, half, half, half, half)
    nll_sums(rows, np.zeros(2, np.int64), np.float32(1.0), np.float32(-1.0))
    tabulate(rows, np.ones(5), 2, table)
    ones, classes = np.ones(2, np.float32), np.zeros(2, np.int64)
    edges, sums = np.linspace(0, 1, 3, dtype=np.float32), np.zeros((2, 2), np.int64)
    candidate_sums(ones, ones, ones, classes, ones, classes, 0, edges, np.float32(1.0), sums, classes.copy())
    x, correct = torch.zeros(2), torch.ones(2)
    tabulated = Samples.from_table(x, correct, 3, torch.from_numpy(table), 0.0, 1.0)
    for samples in (tabulated, Samples.from_gaps(x, correct, torch.from_numpy(rows))):
        SmartGradient(samples, 0.05, 1e-3, 15)(torch.zeros(49))


def make_all_ready() -> None:
    """Compile the loops that apply and evaluate a fit too."""
    make_ready()
    if not kernels.installed():
        return
    from smart_core.kernels.confidence_cells import confidence_sums
    from smart_core.kernels.density import log_kernel_sums
    from smart_core.kernels.logit_rows import confidences, evaluate_rows, other_powers, share_rows, top_two
    from smart_core.kernels.nearest import candidate_products
    from smart_core.kernels.probability_rows import classwise_sums, row_statistics

    logits, labels = np.zeros((2, 3), np.float32), np.zeros(2, np.int64)
    top, second, third = (np.ones(2, np.float32) for _ in range(3))
    edges = np.linspace(0, 1, 3, dtype=np.float32)
    for kind in (np.float32, np.float64):
        confidence_sums(
            np.zeros(2, kind), np.zeros(2, bool), labels, np.linspace(0, 1, 3, dtype=kind), np.zeros((1, 2, 5))
        )
    log_kernel_sums(*(np.zeros(2) for _ in range(5)))
    candidate_products(np.zeros((2, 3)), logits, np.zeros(2), np.zeros((2, 1), np.int64), np.zeros((2, 1)))
    top_two(logits, top, second, labels)
    confidences(logits, top, second, third)
    nll, brier, sums = np.zeros(2), np.zeros(2), [np.zeros((3, 2)) for _ in range(4)]
    other_powers(logits, top, labels, second, nll)
    evaluate_rows(logits, top, second, labels, labels, third, edges, third, nll, brier, nll, *sums)
    share_rows(logits, top, second, labels, labels, third, third, third, third, edges, nll, brier, *sums)
    row_statistics(logits, np.zeros(2), top, second, labels)
    classwise_sums(logits, labels, edges, *(np.zeros((3, 2)) for _ in range(4)))


if __name__ == "__main__":
    make_all_ready()
