"""Test laws whose population values are known by numerical integration, not by any code under test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Vector = NDArray[np.float64]

NODES = 120_000


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


LAWS: dict[str, tuple[TopLabelLaw, int]] = {
    "calibrated": (TopLabelLaw((3, 1.5), lambda p: p), 1000),
    "mild": (TopLabelLaw((6, 0.6), _tempered(0.8)), 2000),
    "strong": (TopLabelLaw((3, 1.5), lambda p: np.clip(p + 0.1 * np.sin(2 * np.pi * p), 0, 1)), 1000),
}


def softmax(z: Vector) -> Vector:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class ClassLaw:
    """Normal logits; the model says softmax(z), the truth is softmax(z / temperature)."""

    classes: int
    temperature: float
    scale: float = 3.0

    def probabilities(self, samples: int, generator: np.random.Generator) -> tuple[Vector, Vector]:
        z = self.scale * generator.standard_normal((samples, self.classes))
        return softmax(z), softmax(z / self.temperature)

    def draw(self, samples: int, generator: np.random.Generator) -> tuple[Vector, NDArray[np.int64]]:
        p, q = self.probabilities(samples, generator)
        y = (generator.random(samples)[:, None] > q.cumsum(axis=1)).sum(axis=1)
        return p, np.minimum(y, self.classes - 1)

    def classwise_error(self, bins: int = 15, samples: int = 400_000) -> float:
        """Population classwise ECE: a large sample with the labels integrated out."""
        p, q = self.probabilities(samples, np.random.default_rng(99))
        if self.temperature == 1:
            return 0.0
        cell = np.searchsorted(np.arange(1, bins) / bins, p) + np.arange(self.classes) * bins
        total = np.bincount(cell.ravel(), weights=(p - q).ravel(), minlength=self.classes * bins)
        return float(np.abs(total).sum() / samples / self.classes)
