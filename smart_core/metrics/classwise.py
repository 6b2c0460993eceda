"""Classwise ECE, all at once or streamed over chunks of rows, and the sums that its uncertainty needs.

Column k of the probabilities is a binary forecast of [y = k]. The classwise ECE is the mean over all K columns of its
ECE, (1/K) sum_k sum_b |sum_{i in (k, b)} (p_ik - [y_i = k])| / N, with the equal-width bins of `binning`.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from smart_core.kernels.row_reading import compiled_for
from smart_core.metrics.arrays import MetricError, Values, probabilities_and_labels
from smart_core.metrics.binning import bin_edges, check_bins
from smart_core.types import Vector

HISTOGRAM_CHUNK = 1 << 20
"""Probabilities that are scattered at a time."""
CELLS_AT_ONCE = 1 << 20
"""Cells of groups that are added up at a time: for very many classes, those of all groups would fill the memory."""


class ClasswiseHistogram:
    """Running sums per class and bin: `count`, `sum_p`, `sum_p2` (squares) and `sum_y` (labels), each (K, B).

    Memory is 4 K B numbers for any number of rows. A row that sums to 1 has fewer than B entries above 1/B. Only those
    are scattered; the first bin is the rest of the column totals.

    >>> histogram = ClasswiseHistogram(classes=2, bins=2)
    >>> histogram.update([[0.7, 0.3]], [0]).update([[0.4, 0.6]], [0]).per_class().round(3).tolist()
    [0.45, 0.45]
    """

    def __init__(self, classes: int, bins: int = 15) -> None:
        if classes < 1:
            raise MetricError(f"The number of classes must be at least 1, not {classes}.")
        check_bins(bins)
        self.classes, self.bins, self.samples = classes, bins, 0
        self.count, self.sum_p, self.sum_p2, self.sum_y = (np.zeros((classes, bins)) for _ in range(4))

    def update(self, probs: Values, labels: Values) -> Self:
        """Add rows of probabilities (n, K) with labels (n,); NumPy or torch on any device."""
        # on the CPU: the order of additions in a weighted bincount on a GPU varies, and MPS has no float64
        matrix = _as_tensor(probs).cpu()
        y = _as_tensor(labels).cpu().reshape(-1).long()
        if matrix.ndim != 2 or matrix.shape[1] != self.classes:
            raise MetricError(f"Expected (n, {self.classes}) probabilities, but the shape is {tuple(matrix.shape)}.")
        if matrix.shape[0] != y.numel():
            raise MetricError(f"There are {matrix.shape[0]} rows of probabilities but {y.numel()} labels.")
        if y.numel() and (int(y.min()) < 0 or int(y.max()) >= self.classes):
            raise MetricError(f"The labels must be whole numbers in 0..{self.classes - 1}.")
        plain = type(self) is ClasswiseHistogram and matrix.dtype == torch.float32
        if plain and compiled_for(matrix.numpy()):
            from smart_core.kernels.probability_rows import classwise_sums

            edges = bin_edges(self.bins, np.float32)
            classwise_sums(matrix.numpy(), y.numpy(), edges, self.count, self.sum_p, self.sum_p2, self.sum_y)
            self.samples += len(matrix)
            return self
        rows = max(1, HISTOGRAM_CHUNK // self.classes)
        for part, part_y in zip(matrix.split(rows), y.split(rows), strict=True):
            self._add(part, part_y)
        return self

    def _add(self, probs: torch.Tensor, labels: torch.Tensor) -> None:
        precision = probs.dtype if probs.is_floating_point() else torch.float64
        wide = torch.promote_types(precision, torch.float32)
        edges = torch.from_numpy(bin_edges(self.bins)).to(probs.device, precision).to(wide)
        probs = probs.to(wide)
        above = probs > edges[1]
        value, column = probs[above], above.nonzero()[:, 1]
        cell = column * self.bins + _bin_of(value, edges)
        value = value.double()
        squares = (probs * probs).sum(0, dtype=torch.float64)
        for sums, weights, column_total in (
            (self.count, None, probs.new_full((self.classes,), probs.shape[0], dtype=torch.float64)),
            (self.sum_p, value, probs.sum(0, dtype=torch.float64)),
            (self.sum_p2, value**2, squares),
        ):
            scattered = _sums(cell, weights, self.count)
            scattered[:, 0] = column_total.cpu().numpy() - scattered.sum(axis=1)
            sums += scattered
        p_label = probs.gather(1, labels[:, None])[:, 0]
        self.sum_y += _sums(labels * self.bins + _bin_of(p_label, edges), None, self.count)
        self.samples += probs.shape[0]

    def merge(self, other: ClasswiseHistogram) -> None:
        """Add the sums of other rows."""
        self.samples += other.samples
        for name in ("count", "sum_p", "sum_p2", "sum_y"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def per_class(self) -> Vector:
        """Return the binary ECE of each column, (K,)."""
        if self.samples == 0:
            raise MetricError("There are no samples; a calibration metric needs at least one.")
        return np.asarray(np.abs(self.sum_p - self.sum_y).sum(axis=1) / self.samples)

    def ece(self) -> float:
        """Return the classwise ECE, the mean of `per_class`."""
        return float(self.per_class().mean())

    def l2_debiased(self) -> float:
        """Return the debiased L2 classwise error sqrt(mean_k max(0, sum_b (n_kb / N) [gap_kb^2 - v_kb])).

        `v_kb = acc_kb (1 - acc_kb) / (n_kb - 1)` is the variance of the frequency of class k in the bin, as in
        `ece_l2_debiased`; a bin with a single sample contributes nothing.
        """
        if self.samples == 0:
            raise MetricError("There are no samples; a calibration metric needs at least one.")
        count = np.maximum(self.count, 1.0)
        share = self.sum_y / count
        squared = ((self.sum_p - self.sum_y) / count) ** 2 - share * (1.0 - share) / np.maximum(self.count - 1.0, 1.0)
        weighted = np.where(self.count > 1.0, self.count * squared, 0.0)
        return float(np.sqrt(np.maximum(weighted.sum(axis=1) / self.samples, 0.0).mean()))


def _sums(place: torch.Tensor, weights: torch.Tensor | None, like: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of the weights, or of ones, at each flat place of an array of this shape and type."""
    sums = torch.bincount(place, weights, minlength=like.size)
    return np.asarray(sums.numpy().reshape(like.shape), dtype=like.dtype)


def _bin_of(values: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """Return `bin_index` of a tensor: the number of inner edges strictly below each value."""
    return torch.bucketize(values, edges[1:-1].contiguous(), right=False)


def _as_tensor(values: Values) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values.detach()
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))  # copies only read-only or strided arrays


def classwise_ece(probs: Values, labels: Values, bins: int = 15) -> float:
    """Return the mean of the binary ECE over all K columns; K is the width of `probs`, also if labels are missing.

    >>> round(classwise_ece([[0.5, 0.25, 0.25]], [0]), 4)
    0.3333
    """
    matrix, y, _ = probabilities_and_labels(probs, labels)
    low_precision = isinstance(probs, torch.Tensor) and probs.dtype == torch.bfloat16  # edges are rounded to it too
    return ClasswiseHistogram(matrix.shape[1], bins).update(probs if low_precision else matrix, y).ece()


class ClasswiseCells(ClasswiseHistogram):
    """Classwise histogram that also keeps what an interval and a noise floor need, over G random groups of samples.

    `group_residual` (G, K, B) holds sums of p - y, `null_residual` (G, K, B) the same for one set of labels drawn from
    the probabilities, and `group_count` (G,) the sizes of the groups. Groups and drawn labels depend on the seed and
    the position of a sample only, so that two evaluations of the same samples have the same groups.
    """

    def __init__(self, classes: int, bins: int = 15, seed: int = 0) -> None:
        super().__init__(classes, bins)
        self.seed = seed
        groups = group_number(classes, bins)
        self.group_residual = np.zeros((groups, classes, bins), dtype=np.float32)
        self.null_residual = np.zeros((groups, classes, bins), dtype=np.float32)
        self.group_count = np.zeros(groups)

    def _add(self, probs: torch.Tensor, labels: torch.Tensor) -> None:
        position, groups = np.arange(self.samples, self.samples + len(probs), dtype=np.uint64), len(self.group_count)
        super()._add(probs, labels)
        edges = torch.from_numpy(bin_edges(self.bins)).to(probs.dtype)
        cell = _bin_of(probs, edges) + torch.arange(self.classes) * self.bins
        group = torch.from_numpy((_hashed(position, 0) % np.uint64(groups)).astype(np.int64))
        uniform = torch.from_numpy((_hashed(position, self.seed + 1) >> np.uint64(11)).astype(np.float64) / 2**53)
        cumulated = probs.double().cumsum(1)
        drawn = torch.searchsorted(cumulated, uniform[:, None] * cumulated[:, -1:])[:, 0].clamp_(max=self.classes - 1)
        step = max(1, CELLS_AT_ONCE // (self.classes * self.bins))
        for first in range(0, groups, step):
            block, own = slice(first, first + step), (group >= first) & (group < first + step)
            place = (group[own] - first)[:, None] * (self.classes * self.bins) + cell[own]
            total = _sums(place.reshape(-1), probs[own].reshape(-1).double(), self.group_residual[block])
            for sums, chosen in ((self.group_residual, labels[own]), (self.null_residual, drawn[own])):
                sums[block] += total - _sums(place.gather(1, chosen[:, None])[:, 0], None, total)
        self.group_count += np.bincount(group.numpy(), minlength=groups)


def group_number(classes: int, bins: int) -> int:
    """Return the number of groups: 64, fewer for very many cells, which bounds the memory."""
    return int(np.clip((1 << 22) // (classes * bins), 16, 64))


def _hashed(position: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """Return SplitMix64 of each sample position: independent of the chunks and of any order of the samples."""
    offset = np.uint64((salt * 0xD1342543DE82EF95 + 1) % 2**64)
    x = position * np.uint64(0x9E3779B97F4A7C15) + offset
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
