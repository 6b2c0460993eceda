"""The log-partition: the one function of a sample that a temperature method needs.

With the gaps `d_k = z_k - max z <= 0`, the log-partition `g(beta) = log sum_k exp(beta d_k)` at the inverse
temperature `beta = 1/T` gives

    confidence                    p    = exp(-g(beta))
    negative log-likelihood       NLL  = g(beta) - beta d_y
    sum of squared probabilities  s2   = exp(g(2 beta) - 2 g(beta))
    Brier score                        = s2 - 2 exp(beta d_y - g(beta)) + 1

For few classes the sum is taken directly. For many, `g` is tabulated once on a geometric grid of `beta`, with its
derivative, and read by cubic Hermite interpolation in `log beta`: a training step then costs the same for any K.
Only fitting reads the table; evaluation and inference always take the exact softmax.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core import kernels
from smart_core.device import rows_per_chunk
from smart_core.fitting.ragged import ABSENT, mean_over_classes
from smart_core.kernels.threads import share
from smart_core.progress import Run
from smart_core.types import Logits

DIRECT_UP_TO = 64
"""Classes up to which the direct sum is cheaper than reading the table."""

NODES_PER_LOG_CLASS = 1.2
"""Grid nodes for each doubling of beta, as a multiple of log K.

The hardest row has K - 1 equal rivals: its g bends within a step of log beta as wide as 1 / log K. With this many
nodes the interpolated confidence of any row is accurate to 5e-5.
"""

BETA_LOW = 1.0 / 20.0
OCTAVES = 9
"""The table spans T from 20 down to 20 / 2^9 = 0.039: twice the largest beta of T >= 0.1 is inside."""

GAP_FLOOR = -1e4
"""Smaller gaps contribute exactly nothing to any sum; the clamp keeps huge logits from overflowing."""


def nodes_per_octave(classes: int) -> int:
    """Resolution of the table for K classes."""
    return max(6, math.ceil(NODES_PER_LOG_CLASS * math.log(classes)))


def gaps(logits: Tensor) -> Tensor:
    """`d_k = z_k - max_j z_j`, row by row; never positive."""
    return logits - logits.amax(dim=1, keepdim=True)


class Profile(ABC):
    """Per-sample functions of the inverse temperature; `beta` is (N,), or (..., N) for several fits at once."""

    classes: int
    correct: Tensor
    """(N,) 1.0 where the largest logit is the label's, else 0.0."""
    label_gap: Tensor
    """(N,) `d_y`."""
    mean_gap: Tensor
    """(N,) the mean of `d` over the classes that the row has, for label smoothing."""

    @abstractmethod
    def log_partition(self, beta: Tensor) -> Tensor:
        """`g(beta) = log sum_k exp(beta d_k)`."""

    @abstractmethod
    def take(self, index: Tensor) -> Profile:
        """The profile of some of the samples, for mini-batches."""

    def __len__(self) -> int:
        return self.correct.shape[0]

    def confidence(self, beta: Tensor) -> Tensor:
        """`p = exp(-g(beta))`, kept in [1/K, 1]: interpolation may slightly overshoot."""
        return torch.exp(-self.log_partition(beta)).clamp(1.0 / self.classes, 1.0)

    def nll(self, beta: Tensor) -> Tensor:
        """`-log q_y = g(beta) - beta d_y`."""
        return self.log_partition(beta) - beta * self.label_gap

    def smoothed_nll(self, beta: Tensor, smoothing: float) -> Tensor:
        """Cross-entropy against `(1 - e) one-hot + e / K`: `g - beta ((1 - e) d_y + e mean d)`."""
        target_gap = (1.0 - smoothing) * self.label_gap + smoothing * self.mean_gap
        return self.log_partition(beta) - beta * target_gap

    def brier(self, beta: Tensor) -> Tensor:
        """`sum_k (q_k - [k = y])^2 = exp(g(2b) - 2 g(b)) - 2 exp(b d_y - g(b)) + 1`."""
        g = self.log_partition(beta)
        squares = torch.exp(self.log_partition(2.0 * beta) - 2.0 * g)
        return squares - 2.0 * torch.exp(beta * self.label_gap - g) + 1.0


@dataclass(eq=False)
class DirectProfile(Profile):
    """The gaps themselves; `g` by a sum over the classes at each call."""

    d: Tensor
    label_gap: Tensor
    mean_gap: Tensor
    correct: Tensor

    def __post_init__(self) -> None:
        self.classes = self.d.shape[1]

    def log_partition(self, beta: Tensor) -> Tensor:
        return torch.logsumexp(beta.unsqueeze(-1) * self.d, dim=-1)

    def take(self, index: Tensor) -> DirectProfile:
        return DirectProfile(self.d[index], self.label_gap[index], self.mean_gap[index], self.correct[index])


@dataclass(eq=False)
class TableProfile(Profile):
    """`g` and `dg / d log beta` on geometric nodes: `table` is (N, nodes, 2), values and slopes side by side.

    A profile of some of the samples shares the table of all of them: `rows` are the indices of its samples there.
    """

    classes: int
    table: Tensor
    label_gap: Tensor
    mean_gap: Tensor
    correct: Tensor
    rows: Tensor

    def __post_init__(self) -> None:
        self.per_octave = nodes_per_octave(self.classes)

    def log_partition(self, beta: Tensor) -> Tensor:
        """Cubic Hermite between nodes; beyond the ends the tangent continues, so gradients lead back inside."""
        step = math.log(2.0) / self.per_octave
        last = self.table.shape[1] - 1
        position = (torch.log(beta) - math.log(BETA_LOW)) / step
        inside = position.clamp(0.0, float(last))
        node = inside.detach().floor().clamp(max=last - 1).long()
        t = inside - node
        entries = self.table.view(-1, 2)
        place = (self.rows * (last + 1) + node).reshape(-1)
        low, low_slope = entries.index_select(0, place).reshape(*beta.shape, 2).unbind(-1)
        high, high_slope = entries.index_select(0, place + 1).reshape(*beta.shape, 2).unbind(-1)
        low_slope, high_slope = low_slope * step, high_slope * step
        rise = high - low
        cubic = low + t * (
            low_slope + t * (3.0 * rise - 2.0 * low_slope - high_slope + t * (low_slope + high_slope - 2.0 * rise))
        )
        tangent = torch.where(position < 0.0, low_slope, high_slope)
        g = cubic + (position - inside) * tangent
        return g.clamp(0.0, math.log(self.classes))

    def own_table(self) -> Tensor:
        """The table's rows of these samples, (N, nodes, 2)."""
        whole = torch.equal(self.rows, torch.arange(len(self.table), device=self.rows.device))
        return self.table if whole else self.table[self.rows]

    def take(self, index: Tensor) -> TableProfile:
        terms = (self.label_gap[index], self.mean_gap[index], self.correct[index])
        return TableProfile(self.classes, self.table, *terms, self.rows[index])


def build_profile(logits: Logits, labels: Tensor, run: Run | None = None) -> Profile:
    """The profile of a labelled set: direct for few classes, tabulated for many."""
    classes = logits.shape[1]
    if classes <= DIRECT_UP_TO:
        d, label_gap, mean_gap, correct = _label_terms(logits, labels)
        return DirectProfile(d.clamp(min=GAP_FLOOR), label_gap, mean_gap, correct)
    size = rows_per_chunk(2 * classes)  # the gaps and their powers share the cache
    pieces = [slice(start, start + size) for start in range(0, len(logits), size)]
    tabulate = _tabulate_compiled if kernels.usable(logits) else _tabulate
    table = logits.new_empty(len(logits), OCTAVES * nodes_per_octave(classes) + 1, 2)

    def piece(rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        d, *terms = _label_terms(logits[rows], labels[rows])
        tabulate(d.clamp_(min=GAP_FLOOR), table[rows])
        return terms[0], terms[1], terms[2]

    terms = share(piece, pieces, run or Run(), "tabulating the log-partition")
    label_gap, mean_gap, correct = (torch.cat(column) for column in zip(*terms, strict=True))
    return TableProfile(classes, table, label_gap, mean_gap, correct, torch.arange(len(table), device=table.device))


def _label_terms(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gaps, label gap, mean gap, and whether the first largest logit is the label's."""
    top, prediction = logits.max(dim=1)
    d = logits - top.unsqueeze(1)
    label_gap = d.gather(1, labels.unsqueeze(1)).squeeze(1)
    mean_gap = d.mean(dim=1)
    if bool((mean_gap < 0.5 * ABSENT / d.shape[1]).any()):
        mean_gap = mean_over_classes(d, logits)
    return d, label_gap, mean_gap, (prediction == labels).to(d.dtype)


def _nodes(classes: int) -> tuple[int, Tensor]:
    """Nodes per doubling of beta, and the betas of all nodes in float64."""
    per_octave = nodes_per_octave(classes)
    steps = torch.arange(OCTAVES * per_octave + 1, dtype=torch.float64, device="cpu") / per_octave
    return per_octave, BETA_LOW * torch.exp2(steps)


def _tabulate(d: Tensor, table: Tensor) -> None:
    """`g` and `dg / d log beta = beta sum d e^(beta d) / sum e^(beta d)` at every node, (N, nodes, 2).

    An octave further on, beta has doubled, so the exponentials are squared: one `exp` for each node of the first
    octave, a multiplication for the others.
    """
    per_octave, betas = _nodes(d.shape[1])
    nodes = len(betas)
    total = d.new_empty(d.shape[0], nodes)
    weighted = d.new_empty(d.shape[0], nodes)
    for offset in range(per_octave):
        power = torch.exp(d * float(betas[offset]))
        for node in range(offset, nodes, per_octave):
            total[:, node] = power.sum(dim=1)
            weighted[:, node] = torch.linalg.vecdot(power, d)
            power = power * power
    beta = betas.to(d.dtype).to(d.device)
    table[:, :, 0] = torch.log(total)
    table[:, :, 1] = beta * weighted / total


def _tabulate_compiled(d: Tensor, table: Tensor) -> None:
    """The same in one loop."""
    from smart_core.kernels.partition import tabulate

    per_octave, betas = _nodes(d.shape[1])
    tabulate(d.contiguous().numpy(), betas.numpy(), per_octave, table.numpy())
