"""How the time of a SMART fit grows with the classes and with the samples: printed, and drawn in `growth.svg`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from smart_core import SMART
from smart_core.kernels.compiling import make_all_ready
from smart_core.progress import Run

CLASSES = (10, 100, 1000, 10_000, 30_000)
SAMPLES = (1_000, 10_000, 100_000, 1_000_000)
AT_SAMPLES, AT_CLASSES = 2_000, 10
EPOCHS = 200
ROUNDS = 9
"""Times the epochs are run; the fastest counts."""


@dataclass(frozen=True)
class Point:
    """One size: seconds of everything before training, and of one epoch."""

    samples: int
    classes: int
    reading: float
    epoch: float


def simulated(samples: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Overconfident rows, made a few at a time."""
    generator = np.random.default_rng(classes)
    logits = generator.standard_normal((samples, classes), dtype=np.float32)
    labels = generator.integers(0, classes, samples)
    logits[np.arange(samples), labels] += generator.normal(4.0, 3.0, samples).astype(np.float32)
    return logits * np.float32(2.0), labels


def point(samples: int, classes: int) -> Point:
    """Time one size in the processor's seconds, which other work on the machine changes little."""
    logits, labels = simulated(samples, classes)
    smart = SMART(epochs=max(3, EPOCHS * 10_000 // max(samples, 10_000)), patience=None, device="cpu")
    start = time.process_time()
    reading = smart.read(smart._fit_data(logits, labels, None, None), Run())
    reading_seconds = time.process_time() - start
    epoch = min(_seconds(lambda: smart.fit_reading(reading, Run())) for _ in range(ROUNDS)) / smart.epochs
    return Point(samples, classes, reading_seconds, epoch)


def _seconds(action: Callable[[], object]) -> float:
    start = time.thread_time()
    action()
    return time.thread_time() - start


def by_classes() -> list[Point]:
    return [point(AT_SAMPLES, classes) for classes in CLASSES]


def by_samples() -> list[Point]:
    return [point(samples, AT_CLASSES) for samples in SAMPLES]


def flatness(points: list[Point]) -> float:
    """The dearest epoch of a tabulated profile over the cheapest: 1 is no growth with the classes at all."""
    epochs = [each.epoch for each in points if each.classes > 64]
    return max(epochs) / min(epochs)


def rows(points: list[Point]) -> list[tuple[str, ...]]:
    return [
        (
            f"{each.samples:,}",
            f"{each.classes:,}",
            f"{each.reading:.3f}",
            f"{1000 * each.epoch:.3f}",
            f"{each.reading + 600 * each.epoch:.2f}",
        )
        for each in points
    ]


def draw(classes: list[Point], samples: list[Point], path: Path) -> None:
    """Seconds of a fit of 600 epochs, split into its one pass over the logits and its epochs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, points, name, sizes in (
        (left, classes, f"classes K, at {AT_SAMPLES:,} samples", [each.classes for each in classes]),
        (right, samples, f"samples N, at {AT_CLASSES} classes", [each.samples for each in samples]),
    ):
        axes.loglog(sizes, [600 * each.epoch for each in points], "o-", label="600 epochs")
        axes.loglog(sizes, [each.reading for each in points], "s--", label="reading the logits once")
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    left.set_ylabel("seconds")
    left.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Print the tables and draw them."""
    from smart_core.cli.terminal import table

    make_all_ready()

    torch.manual_seed(0)
    classes, samples = by_classes(), by_samples()
    print(table(("N", "K", "reading, s", "epoch, ms", "fit of 600, s"), rows(classes) + rows(samples)))
    draw(classes, samples, Path(__file__).parent / "growth.svg")


if __name__ == "__main__":
    main()
