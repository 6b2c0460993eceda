"""Methods that map the top-1 confidence alone: the map as a curve, and how the other classes share the rest."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, ReducedColumns
from smart_core.calibrators.rows import row_chunks
from smart_core.calibrators.rules import NOT_DECREASING, PROBABILITIES
from smart_core.device import precise, resolve_device
from smart_core.fitting.profile import gaps
from smart_core.fitting.ragged import present
from smart_core.fitting.reduced import ReducedProfile
from smart_core.metrics.proper import SMALLEST_PROBABILITY
from smart_core.progress import Run
from smart_core.types import FloatArray, IntArray, Logits, Probabilities

STRICTLY_BELOW = 1.0 - 2.0**-18
"""How close to the prediction's probability another class may come and still be smaller in float32."""


LARGEST_COMPLEMENT = 1.0 - 2.0**-24
"""The largest float32 number below 1."""


def complement(logits: Logits) -> tuple[Tensor, Tensor]:
    """`u = 1 - s`, the complement of the top-1 confidence s, and the prediction.

    `u = r / (1 + r)` with r the sum of `exp(d_k)` over the other classes. No digits are lost where s rounds to 1 in
    float32 (below u = 6e-8), which is where most samples of a confident network lie. The sum is rounded once: a
    learned map may be steep, or a step, and another order of summing could fall on its other side.
    """
    prediction = logits.argmax(dim=1)
    powers = torch.exp(precise(gaps(logits))).scatter(1, prediction.unsqueeze(1), 0.0)
    others = powers.sum(dim=1).to(logits.dtype)
    return others / (1.0 + others), prediction


def complement_of(confidence: Tensor) -> Tensor:
    """`u = 1 - s` of confidences given as such, float32 and below 1: a logarithm of s is finite."""
    return (1.0 - precise(confidence)).to(torch.float32).clamp(max=LARGEST_COMPLEMENT)


@dataclass(kw_only=True, eq=False)
class TopLabelCalibrator(Calibrator):
    """A map of the top-1 confidence alone; the other classes share the rest in their old proportions.

    The map is learned and read as a function of the complement `u = 1 - s`, never of s itself: see `complement`.
    """

    family = "Maps of the top-1 confidence"
    top_label = True
    reducible = True
    whole_rows = None
    reads_curve = False
    numpy_map: ClassVar[str]
    """The calibrated confidences (n,) of `u` (n,), as an expression of `numpy_code`."""

    @abstractmethod
    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        """Learn from complements (N,) and hits (N,), 1.0 or 0.0, both float64; `_store` makes the learned tensors."""

    @abstractmethod
    def _map(self, u: Tensor) -> Tensor:
        """Calibrated confidences of complements (N,), on the calibrator's device."""

    def _fit(self, data: FitData, run: Run) -> None:
        if data.reduced is not None:
            self._fit_map(data.reduced.complement.double().numpy(), data.reduced.correct.double().numpy(), run)
            return
        parts = [complement(Logits(chunk)) for chunk in row_chunks(data.logits, run, "reading confidences")]
        u, prediction = (torch.cat(column) for column in zip(*parts, strict=True))
        hits = (prediction == data.labels).cpu().to(torch.float64)
        self._fit_map(u.cpu().to(torch.float64).numpy(), hits.numpy(), run)

    def _fit_confidence(self, confidence: Tensor, correct: Tensor, run: Run) -> None:
        self._fit_map(complement_of(confidence).double().numpy(), correct.numpy(), run)

    def _map_confidence(self, confidence: Tensor) -> Tensor:
        learned = next(iter(self.state().values()))  # an exported module may have moved it
        return self._map(complement_of(confidence).to(learned.device)).clamp(0.0, 1.0).to(torch.float32)

    def _store(self, values: FloatArray) -> Tensor:
        """A learned array as the float32 tensor to keep, on the fit's device."""
        return torch.as_tensor(values, dtype=torch.float32, device=resolve_device(self.device))

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        u, prediction = complement(logits)
        probabilities = Probabilities(torch.softmax(gaps(logits), dim=1))
        return spread(probabilities, prediction, self._map(u), keep=self.keeps_top1, present=present(logits))

    def _evaluate_reduced(self, rows: ReducedProfile) -> ReducedColumns:
        """As `spread` with `keep`, by the sums of the row over its other classes."""
        others = rows.complement / (1.0 - rows.complement)
        second = torch.exp(rows.top[:, 1] - rows.top[:, 0])
        c, scale, even, ceiling = shares_of_others(self._map(rows.complement), others, second, rows.classes)
        left = scale * others
        squares = rows.others_squared * left**2 + even * (2.0 * left + (rows.classes - 1.0) * even)
        label = torch.where(rows.correct > 0.0, c, torch.minimum(scale * torch.exp(rows.label_gap) + even, ceiling))
        nll = -torch.log(label.double().clamp(min=SMALLEST_PROBABILITY))
        return ReducedColumns(c, nll, c**2 + squares - 2.0 * label + 1.0)

    def numpy_code(self) -> str:
        if self.classes_ == 0:
            return f"u = complement_of(confidence)\nreturn np.clip({self.numpy_map}, 0.0, 1.0).astype(np.float32)"
        return f"u = complement(z)\nreturn spread(z, {self.numpy_map}, keep={self.keeps_top1})"


@dataclass(kw_only=True, eq=False)
class StairsCalibrator(TopLabelCalibrator):
    """A step function of the complement."""

    shapes = (("edges_", ("n",)), ("values_", ("n+1",)))
    rules = (("edges_", PROBABILITIES, NOT_DECREASING), ("values_", PROBABILITIES))
    numpy_map = "stairs(u, EDGES, VALUES)"

    def _store_stairs(self, edges: FloatArray, values: FloatArray) -> None:
        self.edges_, self.values_ = self._store(edges), self._store(values)

    def _map(self, u: Tensor) -> Tensor:
        return stairs(u, self.edges_, self.values_)


@dataclass(kw_only=True, eq=False)
class LineCalibrator(TopLabelCalibrator):
    """A broken line over the complement."""

    shapes = (("nodes_", ("n+1",)), ("values_", ("n+1",)))
    numpy_map = "broken_line(u, NODES, VALUES)"

    @abstractmethod
    def _line(self, u: FloatArray, hits: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Nodes, increasing, and values of the line that is learned from complements (N,) and hits (N,)."""

    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        self.nodes_, self.values_ = map(self._store, self._line(u, hits))

    def _map(self, u: Tensor) -> Tensor:
        return broken_line(u, self.nodes_, self.values_)


def spread(
    probabilities: Probabilities, prediction: Tensor, confidence: Tensor, *, keep: bool, present: Tensor | None = None
) -> Probabilities:
    """Rows with `confidence` at `prediction`, the rest in its old proportions: scaled by `(1 - c) / (1 - s)`.

    With `keep`, no other class may reach the prediction: the confidence is kept just above 1/K, and where the
    proportional share would exceed it the share is capped and the excess goes to the smaller classes. `present` (N, K)
    says which classes each row has, if not all: K is their number, and the others get nothing.
    """
    here = torch.ones_like(probabilities) if present is None else present.to(probabilities.dtype)
    classes = here.sum(dim=1, keepdim=True)
    top = prediction.unsqueeze(1)
    c = confidence.to(probabilities.dtype).clamp(0.0, 1.0).unsqueeze(1)
    if keep:
        c = torch.maximum(c, (2.0 - STRICTLY_BELOW) / classes)
    others = probabilities.scatter(1, top, 0.0)
    left = others.sum(dim=1, keepdim=True)
    even = (here / (classes - 1.0)).scatter(1, top, 0.0)
    tiny = torch.finfo(others.dtype).tiny  # below it, numbers have too few digits to hold proportions
    shares = torch.where(left >= tiny, others / left.clamp(min=tiny), even)
    rest = shares * (1.0 - c)
    if keep:
        rest = _cap(rest, even, 1.0 - c, c * STRICTLY_BELOW)
    return Probabilities(rest.scatter(1, top, c))


def _cap(rest: Tensor, even: Tensor, total: Tensor, ceiling: Tensor) -> Tensor:
    """The mixture of proportional and even shares, nearest to proportional, with no class above the ceiling.

    `r_k = total ((1 - w) share_k + w / (K - 1))`; the largest class meets the ceiling at
    `w = (max - ceiling) / (max - total / (K - 1))`.
    """
    highest = rest.amax(dim=1, keepdim=True)
    even_value = (even * total).amax(dim=1, keepdim=True)
    excess = (highest - ceiling).clamp(min=0.0)
    weight = torch.where(excess > 0.0, excess / (highest - even_value).clamp(min=1e-12), 0.0).clamp(0.0, 1.0)
    # near weight 1 the sum is rounded by more than the ceiling lies below the prediction, hence the minimum
    return torch.minimum((1.0 - weight) * rest + weight * even * total, ceiling)


def shares_of_others(
    confidence: Tensor, others: Tensor, second: Tensor, classes: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`spread` with `keep`, without the rows: the confidence, and the scale, the even share and the ceiling with which
    the other classes get `min(scale exp(z_k - max z) + even, ceiling)`.

    `others` are the sums of these powers over the other classes, `second` their largest one; all are float32 (N,).
    """
    c = confidence.to(torch.float32).clamp(0.0, 1.0).clamp(min=(2.0 - STRICTLY_BELOW) / classes)
    total, even, ceiling = 1.0 - c, (1.0 - c) / (classes - 1.0), c * STRICTLY_BELOW
    tiny = torch.finfo(torch.float32).tiny
    known = others >= tiny
    scale = torch.where(known, total / others.clamp(min=tiny), 0.0)
    highest = torch.where(known, scale * second, even)
    excess = (highest - ceiling).clamp(min=0.0)
    weight = torch.where(excess > 0.0, excess / (highest - even).clamp(min=1e-12), 0.0).clamp(0.0, 1.0)
    return c, (1.0 - weight) * scale, torch.where(known, weight * even, even), ceiling


# -- curves -------------------------------------------------------------------------------------------------


def broken_line(x: Tensor, nodes: Tensor, values: Tensor) -> Tensor:
    """Linear interpolation of `values` over increasing `nodes`, constant beyond both ends."""
    if nodes.numel() == 1:
        return values.expand(x.shape)
    x = x.contiguous()
    right = torch.searchsorted(nodes, x).clamp(1, nodes.numel() - 1)
    low, high = nodes[right - 1], nodes[right]
    weight = ((x - low) / (high - low)).clamp(0.0, 1.0)
    return values[right - 1] + weight * (values[right] - values[right - 1])


def stairs(x: Tensor, edges: Tensor, values: Tensor) -> Tensor:
    """`values[j]` for x in `[edges[j - 1], edges[j])`: one value more than there are edges."""
    return values[torch.searchsorted(edges, x.contiguous(), right=True)]


def bin_of(x: FloatArray, edges: FloatArray) -> IntArray:
    """The step of `stairs` that each x falls on."""
    return np.searchsorted(edges, x, side="right")


def equal_mass_edges(ordered: FloatArray, bins: int) -> FloatArray:
    """Inner edges, midway between neighbours, that cut increasing values into `bins` parts of similar size.

    Equal values are never separated: a cut among them moves to their nearer end, so ties may give fewer bins.
    The values are float32 numbers, and so are the edges: that is how they are kept and compared later.
    """
    cuts = np.round(np.arange(1, bins) * len(ordered) / bins).astype(np.int64)
    cuts = cuts[(cuts > 0) & (cuts < len(ordered))]
    first = np.searchsorted(ordered, ordered[cuts], side="left")
    beyond = np.searchsorted(ordered, ordered[cuts], side="right")
    cuts = np.where(cuts - first <= beyond - cuts, first, beyond)
    cuts = np.unique(cuts[(cuts > 0) & (cuts < len(ordered))])
    below, above = ordered[cuts - 1], ordered[cuts]
    middle = (0.5 * (below + above)).astype(np.float32).astype(np.float64)
    return np.where(middle > below, middle, above)  # neighbouring float32 numbers have no middle


def bin_centres(edges: FloatArray) -> FloatArray:
    """Midpoints of the parts of [0, 1] that the inner edges cut."""
    ends = np.concatenate([[0.0], edges, [1.0]])
    return 0.5 * (ends[:-1] + ends[1:])


def hits_in_bins(x: FloatArray, hits: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Samples and hits in each bin."""
    place = bin_of(x, edges)
    bins = len(edges) + 1
    count = np.bincount(place, minlength=bins).astype(np.float64)
    return count, np.bincount(place, hits, minlength=bins).astype(np.float64)
