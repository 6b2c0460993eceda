"""Data at the edge of what can be calibrated, each with a name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.calibrators.problems import Problem, over_confident


def _with(base: Problem, logits: np.ndarray | None = None, labels: np.ndarray | None = None) -> Problem:
    return Problem(
        base.logits if logits is None else np.ascontiguousarray(logits, dtype=np.float32),
        base.labels if labels is None else labels.astype(np.int64),
        base.features,
        base.head,
    )


def _rows(base: Problem, index: np.ndarray) -> Problem:
    return Problem(base.logits[index], base.labels[index], base.features[index], base.head)


def all_correct() -> Problem:
    base = over_confident(120, 4, seed=1)
    return _with(base, labels=base.logits.argmax(axis=1))


def all_wrong() -> Problem:
    base = over_confident(120, 4, seed=1)
    return _with(base, labels=(base.logits.argmax(axis=1) + 1) % 4)


def constant_margins() -> Problem:
    """Every row is the same, up to the order of its entries: one margin for all."""
    base = over_confident(120, 4, seed=2)
    order = base.logits.argsort(axis=1).argsort(axis=1)
    return _with(base, np.array([0.0, 1.0, 2.0, 3.5])[order])


def two_samples() -> Problem:
    base = over_confident(60, 4, seed=3)
    return _rows(base, np.array([0, int(np.argmax(base.labels != base.labels[0]))]))


def one_class() -> Problem:
    """Only one class occurs among the labels."""
    base = over_confident(120, 4, seed=4)
    return _with(base, labels=np.full(120, 2))


def ties() -> Problem:
    """Every row has its largest logit more than once; half of the rows are all ties."""
    base = over_confident(120, 4, seed=5)
    logits = np.round(base.logits)
    logits[np.arange(120), (logits.argmax(axis=1) + 1) % 4] = logits.max(axis=1)
    logits[::2] = 1.0
    return _with(base, logits)


def certain() -> Problem:
    """A softmax of exactly 0 and 1, right and wrong."""
    base = over_confident(120, 4, seed=6)
    return _with(base, np.eye(4)[base.logits.argmax(axis=1)] * 1e4)


def two_classes() -> Problem:
    return over_confident(120, 2, seed=7)


def many_classes() -> Problem:
    """K = 30,000 in a few rows."""
    return over_confident(12, 30_000, seed=8)


def huge() -> Problem:
    base = over_confident(120, 4, seed=9)
    return _with(base, np.sign(base.logits) * 1e30)


def next_to_zero() -> Problem:
    """Numbers so small that float32 keeps but a few of their bits."""
    base = over_confident(120, 4, seed=11)
    return _with(base, base.logits * 1e-42)


def repeated_rows() -> Problem:
    """Two rows, sixty times each, with labels that disagree."""
    base = over_confident(120, 4, seed=10)
    index = np.arange(120) % 2
    return Problem(base.logits[index], base.labels, base.features[index], base.head)


DEGENERATE: dict[str, Callable[[], Problem]] = {
    "all correct": all_correct,
    "all wrong": all_wrong,
    "constant margins": constant_margins,
    "two samples": two_samples,
    "one class present": one_class,
    "ties everywhere": ties,
    "confidences of 0 and 1": certain,
    "two classes": two_classes,
    "30,000 classes": many_classes,
    "logits of 1e30": huge,
    "logits next to zero": next_to_zero,
    "repeated rows": repeated_rows,
}
