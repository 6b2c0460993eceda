"""Metrics and their statistics against independent packages and plain re-implementations.

Run with `make bench`. Seconds depend on the machine and its load; the ratio of two lines measured one after the other
depends on them much less.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse import diags, vstack

from smart_core.cli.terminal import table
from smart_core.metrics import Samples, classwise_ece, ece, interval, noise_floor, smce, smece, top_label

SAMPLES = 50_000
CLASSES = 100


def seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """The fastest of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def smce_by_linear_programme(confidence: np.ndarray, correct: np.ndarray) -> float:
    """The definition handed to HiGHS: maximise the mean of residual times phi over 1-Lipschitz phi in [-1, 1]."""
    order = np.argsort(confidence)
    p, residual = confidence[order], (correct - confidence)[order]
    steps = diags([-np.ones(p.size - 1), np.ones(p.size - 1)], [0, 1], shape=(p.size - 1, p.size))
    both_ways = vstack([steps, -steps])
    found = linprog(-residual / p.size, A_ub=both_ways, b_ub=np.tile(np.diff(p), 2), bounds=(-1, 1))
    return float(-found.fun)


def plain_floor(confidence: np.ndarray, draws: int) -> list[float]:
    """Draw labels from the confidences and compute the ECE, one draw at a time."""
    generator = np.random.default_rng(0)
    return [ece(confidence, generator.random(confidence.size) < confidence) for _ in range(draws)]


def main() -> None:
    """Print the table."""
    from torchmetrics.functional.classification import multiclass_calibration_error

    generator = np.random.default_rng(0)
    confidence = generator.beta(8, 2, SAMPLES)
    correct = (generator.random(SAMPLES) < confidence**1.2).astype(np.float64)
    samples = Samples(confidence, correct)
    few = slice(0, 5000)
    probabilities = torch.softmax(torch.randn(SAMPLES, CLASSES, generator=torch.Generator().manual_seed(0)) * 3, dim=1)
    labels = torch.randint(0, CLASSES, (SAMPLES,), generator=torch.Generator().manual_seed(1))
    rows = []

    def line(what: str, ours: float, theirs: float, other: str) -> None:
        rows.append((what, f"{ours:.4f}", f"{theirs:.4f}", f"{theirs / ours:.1f}", other))

    line(
        "smCE, 5,000 samples",
        seconds(lambda: smce(confidence[few], correct[few])),
        seconds(lambda: smce_by_linear_programme(confidence[few], correct[few]), 1),
        "HiGHS",
    )
    line(
        "ECE of 50,000 x 100 probabilities",
        seconds(lambda: ece(*top_label(probabilities, labels))),
        seconds(lambda: multiclass_calibration_error(probabilities, labels, CLASSES, n_bins=15)),
        "torchmetrics",
    )
    line(
        "noise floor of the ECE, 50,000 samples",
        seconds(lambda: noise_floor("ece", samples, draws=1000)),
        10.0 * seconds(lambda: plain_floor(confidence, 100), 1),
        "one draw at a time",
    )
    print(table(("what", "seconds", "other way", "ratio", "other way is"), rows))
    alone = {
        "smCE, 50,000 samples": lambda: smce(confidence, correct),
        "SmoothECE, 50,000 samples": lambda: smece(confidence, correct),
        "classwise ECE, 50,000 x 100": lambda: classwise_ece(probabilities, labels),
        "interval of the ECE, 50,000 samples": lambda: interval("ece", samples),
        "interval of smCE, 50,000 samples": lambda: interval("smce", samples),
        "interval of SmoothECE, 50,000 samples": lambda: interval("smece", samples),
    }
    print()
    print(table(("what", "seconds"), [(name, f"{seconds(function):.4f}") for name, function in alone.items()]))


if __name__ == "__main__":
    main()
