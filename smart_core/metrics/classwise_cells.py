"""Sums per class and bin that a streaming pass keeps, enough for the interval and the floor of the classwise ECE."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from smart_core.metrics.arrays import Values
from smart_core.metrics.binning import bin_edges
from smart_core.metrics.classwise import ClasswiseHistogram

Vector = NDArray[np.float64]

GROUPS = 64
LABEL_DRAWS = 64


class ClasswiseCells(ClasswiseHistogram):
    """Classwise histogram that also keeps what an interval needs.

    `group_residual` (G, K, B): sum of p - y over each of G random groups of samples; `group_count` (G,) their sizes;
    `drawn` (M, K, B): label counts of M sets of labels drawn from the probabilities themselves.
    Chunks must come in the order of the samples; the groups depend on the position of a sample only, so that two
    evaluations of the same samples have the same groups.
    """

    def __init__(self, classes: int, bins: int = 15, seed: int = 0) -> None:
        super().__init__(classes, bins)
        self.seed = seed
        self.group_residual = np.zeros((GROUPS, classes, bins), dtype=np.float32)
        self.group_count = np.zeros(GROUPS)
        self.drawn = np.zeros((LABEL_DRAWS, classes, bins), dtype=np.float32)

    def _add(self, probs: torch.Tensor, labels: torch.Tensor) -> None:
        first = self.samples
        super()._add(probs, labels)
        edges = torch.from_numpy(bin_edges(self.bins)).to(probs.device, probs.dtype)
        cell = (
            torch.bucketize(probs, edges[1:-1].contiguous())
            + torch.arange(self.classes, device=probs.device) * self.bins
        )
        rows, total = probs.shape[0], self.classes * self.bins
        group = torch.from_numpy(random_groups(first, rows)).to(probs.device)
        residual = probs.to(torch.float64, copy=True)
        residual[torch.arange(rows, device=probs.device), labels] -= 1
        place = (group[:, None] * total + cell).reshape(-1)
        scattered = torch.bincount(place, residual.reshape(-1), minlength=GROUPS * total)
        self.group_residual += scattered.cpu().numpy().reshape(self.group_residual.shape).astype(np.float32)
        self.group_count += np.bincount(group.cpu().numpy(), minlength=GROUPS)
        self.drawn += self._draw_labels(probs, cell, first).reshape(self.drawn.shape)

    def _draw_labels(self, probs: torch.Tensor, cell: torch.Tensor, first: int) -> NDArray[np.float32]:
        """Counts per draw and cell of labels drawn from every row, by inverting its cumulated probabilities."""
        generator = np.random.default_rng([self.seed, first])
        uniform = torch.from_numpy(generator.random((probs.shape[0], LABEL_DRAWS))).to(probs.device)
        cumulated = probs.double().cumsum(1)
        label = torch.searchsorted(cumulated, uniform * cumulated[:, -1:]).clamp_(max=self.classes - 1)
        total = self.classes * self.bins
        place = cell.gather(1, label) + torch.arange(LABEL_DRAWS, device=probs.device) * total
        return torch.bincount(place.reshape(-1), minlength=LABEL_DRAWS * total).cpu().numpy().astype(np.float32)

    def null_values(self) -> Vector:
        """Classwise ECE of each set of drawn labels: draws of a perfectly calibrated model's."""
        gap = self.sum_p - self.drawn
        return np.asarray(np.abs(gap).sum(axis=(1, 2)) / (self.samples * self.classes), dtype=np.float64)


def random_groups(first: int, rows: int) -> NDArray[np.int64]:
    """Group of each sample position, by the SplitMix64 hash: the same whatever the chunks, unrelated to any order."""
    x = np.arange(first, first + rows, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) % np.uint64(GROUPS)).astype(np.int64)


def classwise_cells(
    probs: Values,
    labels: Values,
    bins: int = 15,
    seed: int = 0,
) -> ClasswiseCells:
    """Cells of a whole array of probabilities (N, K)."""
    matrix = torch.as_tensor(probs)
    cells = ClasswiseCells(matrix.shape[1], bins, seed)
    cells.update(matrix, labels)
    return cells
