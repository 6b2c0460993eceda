"""Test laws whose population values are known by numerical integration, not by any code under test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Vector = NDArray[np.float64]

NODES = 120_000


def beta_sample(samples: int = 2000, seed: int = 0, shift: float = 0.0) -> tuple[Vector, NDArray[np.bool_]]:
    """Confidences 0.2 + 0.75 Beta(3, 1.5), and answers that are right with probability p - shift."""
    generator = np.random.default_rng(seed)
    p = 0.2 + 0.75 * generator.beta(3, 1.5, samples)
    return p, generator.random(samples) < p - shift


@dataclass(frozen=True)
class TopLabelLaw:
    """p = 0.1 + 0.9 Beta(shape), P(correct | p) = truth(p)."""

    shape: tuple[float, float]
    truth: Callable[[Vector], Vector]

    def draw(self, samples: int, generator: np.random.Generator) -> tuple[Vector, Vector]:
        p = 0.1 + 0.9 * generator.beta(*self.shape, samples)
        return p, (generator.random(samples) < self.truth(p)).astype(np.float64)

    def nodes(self) -> tuple[Vector, Vector]:
        """Equally likely confidences in rising order, and p - truth(p) there."""
        p = 0.1 + 0.9 * beta.ppf((np.arange(NODES) + 0.5) / NODES, *self.shape)
        return p, p - self.truth(p)

    def population(self, metric: str, bins: int = 15) -> float:
        p, gap = self.nodes()
        if metric == "ece":
            edges = np.arange(1, bins) / bins
            return float(np.abs(np.bincount(np.searchsorted(edges, p), weights=gap)).sum() / NODES)
        if metric == "adaece":
            return float(sum(abs(part.sum()) for part in np.array_split(gap, bins)) / NODES)
        if metric == "smce":
            return _smooth_error(p, gap / NODES)
        return _smooth_ece(p, gap / NODES)


def _gathered(p: Vector, mass: Vector, cells: int) -> tuple[Vector, Vector]:
    index = np.minimum((p * cells).astype(int), cells - 1)
    return (np.arange(cells) + 0.5) / cells, np.bincount(index, weights=mass, minlength=cells)


def _smooth_error(p: Vector, mass: Vector, cells: int = 500) -> float:
    """max <mass, phi> over 1-Lipschitz |phi| <= 1, as a linear programme (HiGHS)."""
    from scipy.optimize import linprog
    from scipy.sparse import diags, vstack

    if not np.abs(mass).sum() > 0:
        return 0.0
    point, total = _gathered(p, mass, cells)
    step = diags([-np.ones(cells - 1), np.ones(cells - 1)], [0, 1], shape=(cells - 1, cells))
    limits = np.full(2 * (cells - 1), point[1] - point[0])
    result = linprog(-total, A_ub=vstack([step, -step]), b_ub=limits, bounds=(-1, 1), method="highs")
    return float(-result.fun)


def _smooth_ece(p: Vector, mass: Vector, cells: int = 600) -> float:
    """sigma = integral |sum mass K_sigma(t, p)| dt, the images of the Gaussian summed one by one, by bisection."""
    if not np.abs(mass).sum() > 0:
        return 0.0
    point, total = _gathered(p, mass, cells)
    low, high = 1e-4, 1.0
    for _ in range(30):
        sigma = (low + high) / 2
        kernel = np.zeros((cells, cells))
        for k in (-1, 0, 1):
            for place in (point + 2 * k, -point + 2 * k):
                kernel += np.exp(-0.5 * ((point[:, None] - place) / sigma) ** 2)
        smoothed = kernel @ total / (sigma * np.sqrt(2 * np.pi))
        low, high = (sigma, high) if np.abs(smoothed).mean() > sigma else (low, sigma)
    return sigma


def _tempered(power: float) -> Callable[[Vector], Vector]:
    return lambda p: 1 / (1 + ((1 - p) / p) ** power)


def _wrong_above(share: float, gap: float) -> Callable[[Vector], Vector]:
    """Calibrated but for the most confident `share` of samples, which are wrong by `gap`."""
    start = 0.1 + 0.9 * float(beta.ppf(1 - share, 3, 1.5))
    return lambda p: p - gap * (p > start)


LAWS: dict[str, tuple[TopLabelLaw, int]] = {
    "calibrated": (TopLabelLaw((3, 1.5), lambda p: p), 1000),
    "mild": (TopLabelLaw((6, 0.6), _tempered(0.8)), 2000),
    "strong": (TopLabelLaw((3, 1.5), lambda p: np.clip(p + 0.1 * np.sin(2 * np.pi * p), 0, 1)), 1000),
    "wrong in the upper half": (TopLabelLaw((3, 1.5), _wrong_above(0.5, 0.1)), 1000),
    "wrong in the top tenth": (TopLabelLaw((3, 1.5), _wrong_above(0.1, 0.075)), 4000),
    "sign changes within bins": (
        TopLabelLaw((3, 1.5), lambda p: np.clip(p - 0.06 * np.sign(np.sin(30 * p)), 0, 1)),
        1000,
    ),
    "nearly certain": (TopLabelLaw((30, 0.2), lambda p: 0.997 * p), 1000),
}
"""Laws and numbers of samples. How the errors are spread over the bins decides the bias of a plug-in error, and with it
what an interval that takes the spread for known would miss."""


Shape = Callable[[Vector], Vector]

MEDIAN = 0.25 + 0.65 * float(beta.ppf(0.5, 3, 1.5))


@dataclass(frozen=True)
class PairLaw:
    """Two models of the same samples: each has its own confidence shape(t), t = 0.25 + 0.65 Beta(3, 1.5) the chance of
    a hit. The errors of each have one sign, so that every calibration error of the top label is their mean: the
    `difference` is known for all metrics."""

    first: Shape
    second: Shape
    difference: float
    samples: int = 1000

    def draw(self, generator: np.random.Generator) -> tuple[Vector, Vector, NDArray[np.bool_]]:
        """Confidences of the two models, and whether each prediction is right."""
        t = 0.25 + 0.65 * generator.beta(3, 1.5, self.samples)
        return self.first(t), self.second(t), generator.random(t.size) < t


@cache
def _means_of_tenths() -> Vector:
    node = 0.25 + 0.65 * beta.ppf((np.arange(100_000) + 0.5) / 100_000, 3, 1.5)
    tenth = (10 * node).astype(int)
    return np.asarray(np.bincount(tenth, node) / np.maximum(np.bincount(tenth), 1))


def _coarse(t: Vector) -> Vector:
    """Calibrated confidences that tell apart tenths of t only: the mean of t in each."""
    return np.asarray(_means_of_tenths()[(10 * t).astype(int)])


PAIRS: dict[str, PairLaw] = {
    "equal errors of opposite signs": PairLaw(lambda t: t - 0.05, lambda t: t + 0.05, 0.0),
    "one calibrated": PairLaw(lambda t: t, lambda t: t - 0.04, -0.04),
    "both calibrated": PairLaw(lambda t: t, _coarse, 0.0),
    "equal errors spread differently": PairLaw(lambda t: t + 0.05, lambda t: t + 0.1 * (t > MEDIAN), 0.0),
    "small errors spread differently": PairLaw(
        lambda t: t + 0.02, lambda t: t + 0.04 * (t > MEDIAN), 0.0, samples=4000
    ),
}


def softmax(z: Vector) -> Vector:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


Model = Callable[[Vector], Vector]
"""Logits (N, K) to probabilities."""


def tempered(inverse: float) -> Model:
    """Over-confident for `inverse` above 1, in every class alike."""
    return lambda z: softmax(inverse * z)


def tilted(*shift: float) -> Model:
    """Logits of the first classes moved, the others' left: each class has an error of its own sign and size."""
    return lambda z: softmax(z + np.pad(shift, (0, z.shape[1] - len(shift))))


def half_tempered(inverse: float) -> Model:
    """Over-confident among the first half of the classes, and calibrated in the others."""

    def model(z: Vector) -> Vector:
        q, sharp, half = softmax(z), softmax(inverse * z), z.shape[1] // 2
        share = q[:, :half].sum(axis=1, keepdims=True) / sharp[:, :half].sum(axis=1, keepdims=True)
        return np.hstack([sharp[:, :half] * share, q[:, half:]])

    return model


@dataclass(frozen=True)
class ClassLaw:
    """Normal logits of `classes` classes; the truth is their softmax."""

    classes: int
    scale: float = 2.0

    def logits(self, samples: int, generator: np.random.Generator) -> Vector:
        return np.asarray(self.scale * generator.standard_normal((samples, self.classes)))

    def draw(self, samples: int, generator: np.random.Generator) -> tuple[Vector, NDArray[np.int64]]:
        """Logits and labels."""
        z = self.logits(samples, generator)
        y = (generator.random(samples)[:, None] > softmax(z).cumsum(axis=1)).sum(axis=1)
        return z, np.minimum(y, self.classes - 1)

    def classwise_error(self, model: Model, bins: int = 15, entries: int = 2_000_000) -> float:
        """Population classwise ECE of a model: a large sample with the labels integrated out."""
        samples = entries // self.classes
        z = self.logits(samples, np.random.default_rng(99))
        p, q = model(z), softmax(z)
        cell = np.searchsorted(np.arange(1, bins) / bins, p) + np.arange(self.classes) * bins
        total = np.bincount(cell.ravel(), weights=(p - q).ravel(), minlength=self.classes * bins)
        return float(np.abs(total).sum() / samples / self.classes)
