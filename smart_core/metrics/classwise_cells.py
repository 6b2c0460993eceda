"""Sums per class and bin that a streaming pass keeps, enough for the interval and the floor of the classwise ECE."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from smart_core.metrics.arrays import MetricError, Values, probabilities_and_labels
from smart_core.metrics.binning import bin_edges
from smart_core.metrics.classwise import ClasswiseHistogram

MOST_GROUPS, FEWEST_GROUPS = 64, 16
_GROUPED_CELLS = 1 << 22


class ClasswiseCells(ClasswiseHistogram):
    """Classwise histogram that also keeps what an interval and a floor need, over G random groups of samples.

    `group_residual` (G, K, B): sums of p - y; `null_residual` (G, K, B): the same for one set of labels drawn from the
    probabilities themselves; `group_count` (G,): sizes of the groups. Groups and drawn labels depend on the seed and on
    the position of a sample only, not on the chunks, so that two evaluations of the same samples have the same groups.
    `first` is the position of the first sample, for sums that are merged later.
    """

    def __init__(self, classes: int, bins: int = 15, seed: int = 0, first: int = 0) -> None:
        super().__init__(classes, bins)
        self.seed, self.first = seed, first
        groups = group_number(classes, bins)
        self.group_residual = np.zeros((groups, classes, bins), dtype=np.float32)
        self.null_residual = np.zeros((groups, classes, bins), dtype=np.float32)
        self.group_count = np.zeros(groups)

    def _add(self, probs: torch.Tensor, labels: torch.Tensor) -> None:
        rows, first = probs.shape[0], self.first + self.samples
        super()._add(probs, labels)
        edges = torch.from_numpy(bin_edges(self.bins)).to(probs.dtype)
        cell = torch.bucketize(probs, edges[1:-1].contiguous()) + torch.arange(self.classes) * self.bins
        group = torch.from_numpy(random_groups(first, rows, len(self.group_count)))
        place = group[:, None] * (self.classes * self.bins) + cell
        total = self._grouped(place.reshape(-1), probs.reshape(-1).double())
        for sums, chosen in ((self.group_residual, labels), (self.null_residual, self._drawn_labels(probs, first))):
            sums += total - self._grouped(place.gather(1, chosen[:, None])[:, 0], None)
        self.group_count += np.bincount(group.numpy(), minlength=len(self.group_count))

    def _grouped(self, place: torch.Tensor, weights: torch.Tensor | None) -> NDArray[np.float32]:
        """Sums per group and cell of the weights, or of ones."""
        sums = torch.bincount(place, weights, minlength=self.group_residual.size)
        return np.asarray(sums.numpy().reshape(self.group_residual.shape), dtype=np.float32)

    def _drawn_labels(self, probs: torch.Tensor, first: int) -> torch.Tensor:
        """A label drawn from every row, by inverting its cumulated probabilities."""
        uniform = torch.from_numpy(random_uniforms(first, probs.shape[0], self.seed))
        cumulated = probs.double().cumsum(1)
        label = torch.searchsorted(cumulated, uniform[:, None] * cumulated[:, -1:])
        return label[:, 0].clamp_(max=self.classes - 1)

    def merge(self, other: ClasswiseHistogram) -> ClasswiseCells:
        """Add what other cells have seen; they must start at the position where these end."""
        if not isinstance(other, ClasswiseCells):
            raise MetricError("Classwise cells merge with classwise cells only; a histogram has no groups to add.")
        if (other.seed, other.first) != (self.seed, self.first + self.samples):
            raise MetricError(
                "Merged classwise cells must have the same seed and follow one another: make the second ones with "
                f"seed={self.seed}, first={self.first + self.samples}."
            )
        super().merge(other)
        self.group_residual += other.group_residual
        self.null_residual += other.null_residual
        self.group_count += other.group_count
        return self


def group_number(classes: int, bins: int) -> int:
    """64 groups, fewer where cells are very many, to bound the memory."""
    return int(np.clip(_GROUPED_CELLS // (classes * bins), FEWEST_GROUPS, MOST_GROUPS))


def _hashed(first: int, rows: int, salt: int) -> NDArray[np.uint64]:
    """SplitMix64 of each sample position: the same whatever the chunks, unrelated to any order."""
    offset = np.uint64((salt * 0xD1342543DE82EF95 + 1) % 2**64)
    x = np.arange(first, first + rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + offset
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def random_groups(first: int, rows: int, groups: int) -> NDArray[np.int64]:
    """Group of each sample position."""
    return (_hashed(first, rows, 0) % np.uint64(groups)).astype(np.int64)


def random_uniforms(first: int, rows: int, seed: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each sample position."""
    return (_hashed(first, rows, seed + 1) >> np.uint64(11)).astype(np.float64) / 2**53


def classwise_cells(probs: Values, labels: Values, bins: int = 15, seed: int = 0) -> ClasswiseCells:
    """Cells of a whole array of probabilities (N, K)."""
    matrix, y = probabilities_and_labels(probs, labels)
    cells = ClasswiseCells(matrix.shape[1], bins, seed)
    cells.update(matrix, y)
    return cells
