"""Classwise ECE, all at once or streamed over chunks of rows.

Column k of the probabilities is a binary forecast of [y = k]; the classwise ECE is the mean over all K
columns of its ECE, (1/K) sum_k sum_b |sum_{i in (k, b)} (p_ik - [y_i = k])| / N, with the equal-width bins
of `binning`.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from smart_core.kernels.row_reading import compiled_for
from smart_core.metrics.arrays import MetricError, Values, probabilities_and_labels
from smart_core.metrics.binning import bin_edges, check_bins

HISTOGRAM_CHUNK = 1 << 20


class ClasswiseHistogram:
    """Running sums per class and bin: `count`, `sum_p`, `sum_p2` (squares) and `sum_y` (labels), each (K, B).

    Memory is 4 K B numbers, whatever the number of rows. A row that sums to 1 has fewer than B entries
    above 1/B, so only those are scattered; the first bin is what remains of the column totals.
    """

    def __init__(self, classes: int, bins: int = 15) -> None:
        if classes < 1:
            raise MetricError(f"The number of classes must be at least 1, not {classes}.")
        check_bins(bins)
        self.classes, self.bins, self.samples = classes, bins, 0
        self.count = np.zeros((classes, bins))
        self.sum_p = np.zeros((classes, bins))
        self.sum_p2 = np.zeros((classes, bins))
        self.sum_y = np.zeros((classes, bins))

    def update(self, probs: Values, labels: Values) -> ClasswiseHistogram:
        """Add rows of probabilities (n, K) with labels (n,); NumPy or torch on any device."""
        # on the CPU: weighted bincounts on a GPU add in no fixed order, and MPS has no float64
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
            self._add_compiled(matrix, y)
            return self
        rows = max(1, HISTOGRAM_CHUNK // self.classes)
        for part, part_y in zip(matrix.split(rows), y.split(rows), strict=True):
            self._add(part, part_y)
        return self

    def _add_compiled(self, probs: torch.Tensor, labels: torch.Tensor) -> None:
        """The same as `_add` in one loop."""
        from smart_core.kernels.probability_rows import classwise_sums

        edges = bin_edges(self.bins, np.float32)
        classwise_sums(probs.numpy(), labels.numpy(), edges, self.count, self.sum_p, self.sum_p2, self.sum_y)
        self.samples += probs.shape[0]

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
            scattered = self._scatter(cell, weights)
            scattered[:, 0] = column_total.cpu().numpy() - scattered.sum(axis=1)
            sums += scattered
        p_label = probs.gather(1, labels[:, None])[:, 0]
        self.sum_y += self._scatter(labels * self.bins + _bin_of(p_label, edges), None)
        self.samples += probs.shape[0]

    def _scatter(self, cell: torch.Tensor, weights: torch.Tensor | None) -> NDArray[np.float64]:
        """Sums per (class, bin) of the weights, or of ones, whose flat cell numbers are given."""
        sums = torch.bincount(cell, weights, minlength=self.classes * self.bins)
        # an empty scatter returns integers, whatever the weights
        return np.asarray(sums.double().cpu().numpy().reshape(self.classes, self.bins))

    def merge(self, other: ClasswiseHistogram) -> ClasswiseHistogram:
        """Add the rows another histogram has seen."""
        if (other.classes, other.bins) != (self.classes, self.bins):
            raise MetricError("Histograms of different classes or bins cannot be merged.")
        self.count += other.count
        self.sum_p += other.sum_p
        self.sum_p2 += other.sum_p2
        self.sum_y += other.sum_y
        self.samples += other.samples
        return self

    def per_class(self) -> NDArray[np.float64]:
        """Binary ECE of every column, (K,)."""
        if self.samples == 0:
            raise MetricError("There are no samples; a calibration metric needs at least one.")
        return np.asarray(np.abs(self.sum_p - self.sum_y).sum(axis=1) / self.samples)

    def ece(self) -> float:
        """Classwise ECE, the mean of `per_class`."""
        return float(self.per_class().mean())


def _bin_of(values: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    """`bin_index` for tensors: the number of inner edges strictly below each value."""
    return torch.bucketize(values, edges[1:-1].contiguous(), right=False)


def _as_tensor(values: Values) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values.detach().cpu() if values.device.type == "mps" else values.detach()  # it has no float64
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))  # copies only a read-only or strided array


def classwise_ece(probs: Values, labels: Values, bins: int = 15) -> float:
    """Mean over all K columns (K from the width of `probs`, not from the labels seen) of the binary ECE."""
    matrix, y = probabilities_and_labels(probs, labels)
    low_precision = isinstance(probs, torch.Tensor) and probs.dtype == torch.bfloat16  # edges are rounded to it too
    return ClasswiseHistogram(matrix.shape[1], bins).update(probs if low_precision else matrix, y).ece()
