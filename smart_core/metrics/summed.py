"""Metrics from sums, for sets too large to keep a vector per sample.

Each sample leaves four bytes in a temporary file, its float32 confidence with the correctness in the bit of the sign,
and adds its losses to power sums. When all are in, the file is read:

- for the values at which AdaECE cuts: counts in `CELLS` cells (l, u] of [0, 1] say in which cells the cuts fall, and
  the values in these are counted one by one;
- then for the sums of 1, p, p^2, a and p a over the bins of ECE and AdaECE, and over the cells.

ECE, AdaECE, NLL, Brier score and accuracy are those of the samples, and so are the sums behind their intervals. For
smCE and SmoothECE every sample is moved to the mean confidence of its cell, by less than the width h of a cell. A
1-Lipschitz probe changes by at most h, a smoothing kernel of width sigma by at most sqrt(2 / pi) h / sigma in L1 norm:

    |smCE - exact| <= h mean|a - p|,  h = 2^-18;    |SmoothECE - exact| <= 0.8 h mean|a - p| / SmoothECE,  h = 2^-20.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.arrays import MetricError
from smart_core.metrics.binning import bin_index
from smart_core.metrics.classwise import ClasswiseHistogram
from smart_core.metrics.smooth_calibration import smce_from_residuals
from smart_core.metrics.smooth_ece import smece_from_residuals
from smart_core.metrics.uncertainty.cells import CellSums, cell_index, correlated_normals, smece_cells
from smart_core.metrics.uncertainty.floor import Floor, floor_of_cells
from smart_core.metrics.uncertainty.intervals import DESCRIPTIONS, LOSS_BOUNDS, Interval, Residuals, error_range
from smart_core.metrics.uncertainty.means import moments_interval, moments_of_sums, wilson_interval
from smart_core.metrics.uncertainty.top_label import DRAWS, bounds_of_cells
from smart_core.types import FloatArray, IntArray, Vector

CELLS = 1 << 20
SMCE_MERGED = 4
"""Cells that are joined for smCE, whose solution is a loop over them."""
AT_ONCE = 1 << 22
"""Samples of the file that are read at a time."""
SIGN = np.uint32(1 << 31)
Columns = NDArray[np.float64]
"""(cells, 5): sums of 1, p, p^2, a, p a."""


@dataclass(frozen=True)
class SamplePiece:
    """What a range of samples sends: four bytes per sample, power sums of both losses, and classwise sums."""

    packed: NDArray[np.uint32]
    losses: Vector
    """(2, 5): sums of x, x^2, x^3, the least and the largest x of NLL and Brier score."""
    cells: ClasswiseHistogram | None

    @classmethod
    def of(cls, evaluation: Any) -> SamplePiece:
        """The piece of an evaluation."""
        bits = np.ascontiguousarray(evaluation.confidence, dtype=np.float32).view(np.uint32)
        packed = bits | np.where(evaluation.correct, SIGN, np.uint32(0))
        losses = [[x.sum(), (x * x).sum(), (x**3).sum(), x.min(), x.max()] for x in (evaluation.nll, evaluation.brier)]
        return cls(packed, np.array(losses), evaluation.cells)


class SampleSums:
    """Collects pieces, in any order, and becomes a `SummedEvaluation`."""

    def __init__(self, bins: int) -> None:
        self.bins, self.samples = bins, 0
        self.losses = np.array([[0.0, 0.0, 0.0, np.inf, -np.inf]] * 2)
        self.cells: ClasswiseHistogram | None = None
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as this object

    def add(self, piece: SamplePiece) -> None:
        """Add the samples of a range."""
        self._file.write(np.ascontiguousarray(piece.packed).data)
        self.samples += len(piece.packed)
        self.losses[:, :3] += piece.losses[:, :3]
        self.losses[:, 3] = np.minimum(self.losses[:, 3], piece.losses[:, 3])
        self.losses[:, 4] = np.maximum(self.losses[:, 4], piece.losses[:, 4])
        if self.cells is None:
            self.cells = piece.cells
        elif piece.cells is not None:
            self.cells.merge(piece.cells)

    def evaluation(self) -> SummedEvaluation:
        """The metrics of all samples so far."""
        ends = self._adaptive_ends()
        tables = [np.zeros((size, 5)) for size in (self.bins, len(ends) + 1, CELLS)]
        for p, a in self._chunks():
            index = bin_index(p, self.bins), np.searchsorted(ends, p, side="left"), _cell(p)
            wide = p.astype(np.float64)
            for column, weight in enumerate((None, wide, wide * wide, a, wide * a)):
                for table, place in zip(tables, index, strict=True):
                    table[:, column] += np.bincount(place, weight, minlength=len(table))
        fine = tables[2][tables[2][:, 0] > 0]
        return SummedEvaluation(self.samples, self.bins, tables[0], tables[1], ends, fine, self.losses, self.cells)

    def _chunks(self) -> Iterator[tuple[FloatArray, Vector]]:
        """Confidences and correctness of the samples in the file."""
        self._file.seek(0)
        while data := self._file.read(4 * AT_ONCE):
            packed = np.frombuffer(data, dtype=np.uint32)
            yield (packed & ~SIGN).view(np.float32), (packed >> np.uint32(31)).astype(np.float64)

    def _adaptive_ends(self) -> FloatArray:
        """The largest confidence of each adaptive bin but the last that holds samples; see `adaptive_chunks`."""
        count = np.zeros(CELLS, dtype=np.int64)
        for p, _ in self._chunks():
            count += np.bincount(_cell(p), minlength=CELLS)
        size, larger = divmod(self.samples, self.bins)
        cuts = np.cumsum(size + (np.arange(self.bins) < larger))
        used = np.flatnonzero(count)
        stop = np.cumsum(count[used])
        start = stop - count[used]
        first, last = (np.searchsorted(cuts, rank, side="right") for rank in (start, stop - 1))
        parted = first != last
        values, ties = self._values_in(used[parted])
        begin = np.cumsum(ties) - ties
        cell = np.searchsorted(used[parted], _cell(values))
        begin += start[parted][cell] - begin[np.searchsorted(cell, cell, side="left")]
        chunk = np.searchsorted(cuts, begin + ties - 1 - ties // 2, side="right")
        value = np.concatenate([((used[~parted] + 1) / CELLS).astype(np.float32), values])
        order = np.argsort(value, kind="stable")
        value, chunk = value[order], np.concatenate([first[~parted], chunk])[order]
        return value[:-1][np.diff(chunk) > 0]

    def _values_in(self, wanted: IntArray) -> tuple[FloatArray, IntArray]:
        """The distinct confidences in some cells, rising, and how many samples have each."""
        values, ties = np.empty(0, np.float32), np.empty(0, np.int64)
        is_wanted = np.zeros(CELLS, dtype=bool)
        is_wanted[wanted] = True
        for p, _ in self._chunks():
            found, count = np.unique(p[is_wanted[_cell(p)]], return_counts=True)
            both, place = np.unique(np.concatenate([values, found]), return_inverse=True)
            ties = np.bincount(place, np.concatenate([ties, count]), minlength=len(both)).astype(np.int64)
            values = both
        return values, ties


def _cell(p: FloatArray) -> IntArray:
    """The i with i / CELLS < p <= (i + 1) / CELLS; 0 for p = 0."""
    return np.maximum(np.ceil(p.astype(np.float64) * CELLS).astype(np.int64) - 1, 0)


@dataclass(frozen=True, eq=False)
class SummedEvaluation:
    """An evaluation without per-sample vectors: the metrics of `EXACT` and `BY_GRID`, their intervals and floors.

    Metrics that need vectors are NaN.
    """

    samples: int
    bins: int
    equal_width: Columns
    equal_mass: Columns
    ends: FloatArray
    """The largest confidence of each adaptive bin but the last."""
    fine: Columns
    """Of the cells that hold samples."""
    losses: Vector
    cells: ClasswiseHistogram | None = None

    def __len__(self) -> int:
        return self.samples

    def __getattr__(self, name: str) -> Any:
        if name in ("confidence", "prediction", "correct", "nll", "brier", "margin", "temperature", "vectors"):
            raise MetricError(f"This evaluation keeps sums of its {self.samples:,} samples, not their {name}.")
        raise AttributeError(name)

    def without_cells(self) -> SummedEvaluation:
        """The evaluation without the classwise sums."""
        return replace(self, cells=None)

    def metric(self, name: str, bins: int = 15) -> float:
        """The value of a metric; NaN for one that needs vectors."""
        if bins != self.bins:
            raise MetricError(f"The sums of this evaluation have {self.bins} bins, not {bins}; evaluate again.")
        n, total = self.samples, self.fine.sum(axis=0)
        gap = (self.equal_width[:, 1] - self.equal_width[:, 3]) / n
        if name in ("nll", "brier"):
            return float(self.losses[("nll", "brier").index(name), 0] / n)
        if name in ("cece", "cece_l2"):
            if self.cells is None:
                return float("nan")
            return self.cells.ece() if name == "cece" else self.cells.l2_debiased()
        count = np.maximum(self.equal_width[:, 0], 1.0)
        accuracy = self.equal_width[:, 3] / count
        squared = (gap * n / count) ** 2 - accuracy * (1 - accuracy) / np.maximum(count - 1, 1)
        found = {
            "accuracy": total[3] / n,
            "ece": np.abs(gap).sum(),
            "over": np.maximum(gap, 0).sum(),
            "under": np.maximum(-gap, 0).sum(),
            "mce": (np.abs(gap) * n / count).max(),
            "ece_l2": np.sqrt(max(0.0, float((np.where(count > 1, squared, 0.0) * self.equal_width[:, 0]).sum() / n))),
            "adaece": np.abs(self.equal_mass[:, 1] - self.equal_mass[:, 3]).sum() / n,
        }
        return self._smooth[name] if name in ("smce", "smece") else float(found.get(name, np.nan))

    @cached_property
    def _smooth(self) -> dict[str, float]:
        mean, mass = self.fine[:, 1] / self.fine[:, 0], (self.fine[:, 3] - self.fine[:, 1]) / self.samples
        _, group = np.unique(_cell(mean) // SMCE_MERGED, return_inverse=True)
        few = np.column_stack([np.bincount(group, self.fine[:, column]) for column in range(5)])
        merged = few[:, 1] / few[:, 0], (few[:, 3] - few[:, 1]) / self.samples
        return {"smce": smce_from_residuals(*merged), "smece": smece_from_residuals(mean, mass)}

    def smooth_error_bound(self, name: str) -> float:
        """How far smCE or SmoothECE can be from its exact value; see the head of this module."""
        # mean |a - p|: a right answer adds 1 - p, a wrong one p
        n, p, _, a, pa = self.fine.sum(axis=0)
        residual = float((a - pa) + (p - pa)) / n
        if name == "smce":
            return SMCE_MERGED / CELLS * residual
        return 0.8 / CELLS * residual / max(self._smooth["smece"], 1e-300)

    def floor(self, name: str, *, draws: int = 1000, seed: int = 0) -> Floor:
        """The noise floor of a calibration error, with labels drawn for groups of cells."""
        mean = self.fine[:, 1] / self.fine[:, 0]
        index, cells = self._index(name, fine=True)
        return floor_of_cells(name, mean, index, cells, draws, seed, self.fine[:, 0])

    def interval(self, name: str, *, level: float = 0.95, seed: int = 0, floor: Floor | None = None) -> Interval:
        """The interval of the population value, as `uncertainty.interval` computes it."""
        totals = self.fine.sum(axis=0)
        if name == "accuracy":
            low, high = wilson_interval(float(totals[3]), self.samples, level)
        elif name in LOSS_BOUNDS:
            *sums, least, most = self.losses[("nll", "brier").index(name)].tolist()
            moments = moments_of_sums(self.samples, *sums)
            low, high = moments_interval(self.samples, least, most, *moments, level, LOSS_BOUNDS[name])
        else:
            _, p, p2, a, pa = totals.tolist()
            known = Residuals(self.samples, p, p - p2, a - 2 * pa + p2, a)
            noise = floor or self.floor(name, seed=seed)
            low, high = error_range(name, self.metric(name, self.bins), self._bounds(name, seed), known, level, noise)
        return Interval(float(low), float(high), level, DESCRIPTIONS[name].format(bins=self.bins))

    def _bounds(self, name: str, seed: int) -> Any:
        if name in ("ece", "adaece"):
            sums = self.equal_width if name == "ece" else self.equal_mass
        else:
            index, cells = self._index(name, fine=False)
            sums = np.column_stack([np.bincount(index, self.fine[:, i], minlength=cells) for i in range(5)])
        count, p, p2, a, pa = (sums / self.samples).T
        part = CellSums(self.samples, count, p, p2, p - a)
        covariance = np.diag(a - 2 * pa + p2) - np.outer(p - a, p - a)
        normals = correlated_normals(covariance, DRAWS, np.random.default_rng(seed))
        return bounds_of_cells(name, part, normals, self._smooth.get(name))

    def _index(self, name: str, *, fine: bool) -> tuple[IntArray, int]:
        """The cell of a metric of every fine cell, by its mean confidence."""
        mean = self.fine[:, 1] / self.fine[:, 0]
        if name == "adaece":
            return np.searchsorted(self.ends.astype(np.float64), mean, side="left"), len(self.ends) + 1
        if name == "smece":
            _, p, p2, _, _ = self.fine.sum(axis=0)
            cells = smece_cells((p - p2) / self.samples, self.samples, fine)
            return np.minimum((mean * cells).astype(np.int64), cells - 1), cells
        return cell_index(name, mean, self.bins, fine=fine)
