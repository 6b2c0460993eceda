"""Simulated logits whose true probabilities are known, so that a calibrator's error has no label noise.

A row is drawn as top logit, margin m, and a background behind the rival:

    z_top = 0,   z_rival = -m,   z_k = -m - 3 log(1 + (K - 2) u_k),   u_k ~ U(0, 1),

then shifted to mean zero. Top and rival are two classes at random. The background's order statistics fall
like `3 log(rank)`, as they do in trained networks, and its share of the softmax stays bounded as K grows. The
margin is a mixture of hard rows, Gamma(1.2, 1.5), with weight 0.35, and easy rows, Gamma(6, 1.5): together about
0 to 20.

The truth is a temperature law T*(m): labels are drawn from softmax(z / T*(m)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from smart_core.data.logitset import Array, LogitSet, Part, read_only

Law = Callable[[Array], Array]
"""A temperature law T*(margin)."""

BLOCK_ROWS = 256
"""Rows drawn from one random stream; fixed, so that row i depends on the seed, i and K alone."""
BACKGROUND, HARD_ROWS = 3.0, 0.35
"""How far the classes behind the rival are spread, and the share of hard rows."""


def constant(margin: Array, temperature: float = 1.8) -> Array:
    """T* = temperature: the case that temperature scaling solves."""
    return np.full(np.shape(margin), float(temperature))


def linear(margin: Array, start: float = 1.0, slope: float = 0.12) -> Array:
    """T* = start + slope m: rows with small margins are nearly calibrated, confident ones are overconfident."""
    return start + slope * np.asarray(margin, dtype=np.float64)


def resnet(margin: Array, start: float = 1.0, rise: float = 1.6, scale: float = 6.0) -> Array:
    """T* = start + rise (1 - exp(-m / scale)): near one at small margins, increasing, then levelling off."""
    return start - rise * np.expm1(-np.asarray(margin, dtype=np.float64) / scale)


def u_shaped(margin: Array, base: float = 0.3, fall: float = 3.0, scale: float = 2.0, slope: float = 0.15) -> Array:
    """T* = base + fall exp(-m / scale) + slope m: overconfident at both ends, nearly calibrated in the middle.

    The minimum is at m = scale log(fall / (slope scale)), 4.6 by default. m / T* increases for any positive
    parameters, so confidence still grows with the margin. That makes the law identifiable: if two margins had the same
    confidence, calibration could not distinguish them.
    """
    m = np.asarray(margin, dtype=np.float64)
    return base + fall * np.exp(-m / scale) + slope * m


LAWS: dict[str, Law] = {"constant": constant, "linear": linear, "resnet": resnet, "u_shaped": u_shaped}
"""The shapes of the margin-temperature relation; for other parameters pass `partial(u_shaped, fall=2)`."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """Logits and labels with the truth behind them; slicing keeps both aligned."""

    logits: Array
    """(N, K) float32."""
    labels: Array
    """(N,) int64, drawn from softmax(z / T*)."""
    margin: Array
    """(N,) float64: largest minus second largest logit, as stored."""
    temperature: Array
    """(N,) float64: T*(margin)."""
    true_confidence: Array
    """(N,) float64: softmax(z / T*) at the largest logit."""

    def __len__(self) -> int:
        return int(self.logits.shape[0])

    @property
    def classes(self) -> int:
        """K."""
        return int(self.logits.shape[1])

    def __getitem__(self, rows: slice) -> Simulated:
        return Simulated(*(getattr(self, field.name)[rows] for field in fields(self)))

    def true_correctness(self, prediction: ArrayLike | None = None) -> Array:
        """Return q*_i, the true probability that the label is `prediction[i]` (by default the largest logit)."""
        if prediction is None:
            return self.true_confidence
        chosen = np.take_along_axis(self.logits, np.asarray(prediction, dtype=np.int64)[:, None], axis=1)[:, 0]
        behind = chosen.astype(np.float64) - self.logits.max(axis=1)
        return self.true_confidence * np.exp(behind / self.temperature)

    def true_calibration_error(self, confidence: ArrayLike, prediction: ArrayLike | None = None) -> float:
        """Return mean_i |p_i - q*_i|, the distance of each confidence from its true value. Exact, without binning."""
        return float(np.mean(np.abs(np.asarray(confidence, dtype=np.float64) - self.true_correctness(prediction))))

    def conditional_calibration_error(
        self, confidence: ArrayLike, prediction: ArrayLike | None = None, bins: int = 100
    ) -> float:
        """Return E|p - E[q* | p]|: what the ECE estimates, with the truth in place of the labels.

        The inner mean is taken in `bins` equal-mass bins of p; equal confidences share a bin. It has no label noise;
        its error is the spread of q* within a bin, of order sd(q* | p) / sqrt(N / bins). It is never above
        `true_calibration_error`.
        """
        stated = np.asarray(confidence, dtype=np.float64)
        _, member, count = np.unique(stated, return_inverse=True, return_counts=True)
        first = np.cumsum(count) - count
        bin_of = (first * bins // len(stated))[member]
        residual = np.bincount(bin_of, weights=stated - self.true_correctness(prediction), minlength=bins)
        return float(np.abs(residual).sum() / len(stated))

    def part(self) -> Part:
        """Return the same rows as one part of a `LogitSet`."""
        logits = np.ascontiguousarray(self.logits)
        return Part(logits=read_only(logits[:]), labels=read_only(self.labels[:]))


def simulate(n: int, classes: int = 10, law: str | Law = "u_shaped", seed: int = 0) -> Simulated:
    """Return `n` rows of `classes` logits with labels drawn from softmax(z / T*(m)).

    `law` is a name of `LAWS` or a vectorised function margin -> temperature. The rows are the same for the same seed,
    and a shorter set is the beginning of a longer one.

    >>> drawn = simulate(2000, classes=3, law="constant", seed=1)
    >>> drawn.logits.shape, drawn.temperature[:2]
    ((2000, 3), array([1.8, 1.8]))
    >>> drawn.true_calibration_error(drawn.true_confidence)
    0.0
    """
    from scipy.special import softmax

    truth = law_named(law)
    if n < 1 or classes < 2:
        raise ValueError(f"A simulated set needs at least one row and two classes, not {n} and {classes}.")
    logits = np.empty((n, classes), dtype=np.float32)
    labels = np.empty(n, dtype=np.int64)
    margin, temperature, confidence = (np.empty(n) for _ in range(3))
    for start in range(0, n, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, n))
        size = rows.stop - rows.start
        rng = np.random.default_rng([seed, start // BLOCK_ROWS])
        z = _draw_logits(rng, classes)[:size]
        uniform = rng.random(BLOCK_ROWS)[:size]
        logits[rows] = z
        second, largest = np.partition(z, -2, axis=1)[:, -2:].astype(np.float64).T
        margin[rows] = largest - second
        temperature[rows] = _positive(truth(margin[rows]), size)
        gaps = (z - z.max(axis=1, keepdims=True)).astype(np.float64)
        probabilities = softmax(gaps / temperature[rows, None], axis=1)
        confidence[rows] = probabilities.max(axis=1)
        # by inversion: the first class whose cumulative probability exceeds u of the total
        cumulative = probabilities.cumsum(axis=1)
        labels[rows] = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(axis=1)
    return Simulated(logits, labels, margin, temperature, confidence)


def simulate_set(n_val: int, n_test: int, classes: int = 10, law: str | Law = "u_shaped", seed: int = 0) -> LogitSet:
    """Return the first `n_val` rows of `simulate` as validation and the next `n_test` as test.

    The truth of the test rows is `simulate(n_val + n_test, ...)[n_val:]`.

    >>> simulate_set(300, 200, classes=3, law="linear")
    LogitSet('simulated (linear)', 3 classes, 300 + 200 samples)
    """
    drawn = simulate(n_val + n_test, classes, law, seed)
    shape = law if isinstance(law, str) else getattr(law, "__name__", "own law")
    return LogitSet(name=f"simulated ({shape})", validation=drawn[:n_val].part(), test=drawn[n_val:].part(), notices=())


def law_named(law: str | Law) -> Law:
    """Return the law of that name; a function is returned as it is."""
    if callable(law):
        return law
    if law not in LAWS:
        raise ValueError(f"There is no law '{law}'; the laws are {', '.join(LAWS)}, or a function of the margin.")
    return LAWS[law]


def _positive(temperature: ArrayLike, size: int) -> Array:
    values = np.broadcast_to(np.asarray(temperature, dtype=np.float64), (size,))
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("The law must give a finite temperature above zero for every margin.")
    return values


def _draw_logits(rng: np.random.Generator, classes: int) -> Array:
    """Return one block of float32 logits, drawn as the module's docstring says."""
    index = np.arange(BLOCK_ROWS)
    hard = rng.random(BLOCK_ROWS) < HARD_ROWS
    margin = np.where(hard, rng.gamma(1.2, 1.5, BLOCK_ROWS), rng.gamma(6.0, 1.5, BLOCK_ROWS)).astype(np.float32)
    top = rng.integers(classes, size=BLOCK_ROWS)
    rival = (top + rng.integers(1, classes, size=BLOCK_ROWS)) % classes
    z = rng.random((BLOCK_ROWS, classes), dtype=np.float32)
    z *= classes - 2
    z += 1
    np.log(z, out=z)
    z *= -BACKGROUND
    z -= margin[:, None]
    z[index, rival] = -margin
    z[index, top] = 0
    z -= z.mean(axis=1, keepdims=True)
    return z
