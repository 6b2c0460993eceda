"""Rows reduced to what methods of one temperature or of the top-1 confidence read: `log_partition` from a few numbers.

A reduced row keeps its ten largest logits, and of the other classes the curve

    u(beta) = log sum_{k > 10} exp(beta (z_k - z_(11)))

at geometric nodes of beta, in 16 bits each. It falls slowly from log(K - 10), and

    g(beta) = log [ sum_{j <= 10} exp(beta d_j) + exp(beta d_(11) + u(beta)) ],    d = z - z_(1) <= 0,

reads it by cubic interpolation in log beta. An error e of u is an error `w e` of g and of the NLL, w being the share of
the tail, and one of at most `w (1 - w) e` of the confidence. The row that is hardest to interpolate has K - 11 equal
classes a little below one; `NODES_PER_LOG_CLASS` holds these errors for it and for any K below the two bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smart_core.data.logitset import TAIL_COLUMN, Array
from smart_core.fitting.profile import BETA_LOW, OCTAVES, Profile, TableProfile, nodes_per_octave
from smart_core.types import Logits

TOP = 10
"""The largest logits that are kept as they are: what PTS reads, and the margin of SMART."""
NODES_PER_LOG_CLASS = 0.8
"""Nodes of u for each doubling of beta, as a multiple of log K."""
CONFIDENCE_BOUND, NLL_BOUND = 5e-4, 1e-3
"""How far the confidence and the NLL of a row may be from the exact ones, for temperatures from 0.039 to 20."""
CODES = 65535
"""The largest 16-bit number: u is kept in steps of log(K - 10) / 65535, which is below 2e-4."""


def tail_nodes(classes: int) -> tuple[int, Tensor]:
    """Nodes of u per doubling of beta, and the betas of all nodes, float64."""
    per_octave = max(3, math.ceil(NODES_PER_LOG_CLASS * math.log(classes)))
    steps = torch.arange(OCTAVES * per_octave + 1, dtype=torch.float64) / per_octave
    return per_octave, BETA_LOW * torch.exp2(steps)


def tail_scale(classes: int) -> float:
    """The largest u: that of equal classes."""
    return math.log(max(classes - TOP, 2))


def encoded(u: Array, classes: int) -> Array:
    """Values of u as 16-bit numbers."""
    return np.rint(np.clip(u / tail_scale(classes), 0.0, 1.0) * CODES).astype(np.uint16)


@dataclass(eq=False)
class ReducedProfile(Profile):
    """The profile of reduced rows, read without a table over K; beta is (N,)."""

    classes: int
    top: Logits
    """(N, 10) the largest logits in descending order."""
    tail: Tensor
    """(N, nodes) u."""
    tail_gap: Tensor
    """(N,) `d_(11)`."""
    label_gap: Tensor
    mean_gap: Tensor
    correct: Tensor
    complement: Tensor
    """(N,) `1 - s`, s the uncalibrated confidence, exact."""
    others_squared: Tensor
    """(N,) the sum of the squared shares that the other classes have of it, exact."""

    @classmethod
    def of(cls, top: Array, columns: Mapping[str, Array], correct: Array) -> ReducedProfile:
        """The profile of the columns of a reduced part; `top` are its logits."""
        name = next(name for name in columns if TAIL_COLUMN.fullmatch(name))
        classes = int(TAIL_COLUMN.fullmatch(name)[1])  # type: ignore[index]

        def tensor(values: Array) -> Tensor:
            return torch.from_numpy(np.array(values, dtype=np.float32))

        return cls(
            classes,
            Logits(tensor(top)),
            tensor(columns[name]) * (tail_scale(classes) / CODES),
            tensor(columns["tail_gap"]),
            tensor(columns["label_gap"]),
            tensor(columns["mean_gap"]),
            tensor(correct),
            tensor(columns["complement"]),
            tensor(columns["others_squared"]),
        )

    def log_partition(self, beta: Tensor) -> Tensor:
        u, _ = self._tail(beta)
        terms = torch.cat([beta.unsqueeze(1) * self._gaps(), (beta * self.tail_gap + u).unsqueeze(1)], dim=1)
        return torch.logsumexp(terms, dim=1)

    def take(self, index: Tensor) -> ReducedProfile:
        return ReducedProfile(
            self.classes,
            Logits(self.top[index]),
            self.tail[index],
            self.tail_gap[index],
            self.label_gap[index],
            self.mean_gap[index],
            self.correct[index],
            self.complement[index],
            self.others_squared[index],
        )

    def tabulated(self) -> TableProfile:
        """The table that fits read: g and `dg / dlog beta` at the nodes of `fitting.profile`."""
        steps = OCTAVES * nodes_per_octave(self.classes)
        table = torch.empty(len(self), steps + 1, 2)
        d = torch.cat([self._gaps(), self.tail_gap.unsqueeze(1)], dim=1)
        for node in range(steps + 1):
            beta = torch.full_like(self.tail_gap, BETA_LOW * 2.0 ** (OCTAVES * node / steps))
            u, slope = self._tail(beta)
            scaled = beta.unsqueeze(1) * d
            terms = torch.cat([scaled[:, :-1], (scaled[:, -1] + u).unsqueeze(1)], dim=1)
            table[:, node, 0] = torch.logsumexp(terms, dim=1)
            scaled[:, -1] += slope
            table[:, node, 1] = torch.linalg.vecdot(torch.softmax(terms, dim=1), scaled)
        rows = torch.arange(len(self))
        return TableProfile(self.classes, table, self.label_gap, self.mean_gap, self.correct, rows)

    def _gaps(self) -> Tensor:
        return self.top - self.top[:, :1]

    def _tail(self, beta: Tensor) -> tuple[Tensor, Tensor]:
        """u and `du / dlog beta`, by the cubic through the four nearest nodes; constant beyond both ends."""
        per_octave = (self.tail.shape[1] - 1) // OCTAVES
        step = math.log(2.0) / per_octave
        position = ((torch.log(beta) - math.log(BETA_LOW)) / step).clamp(0.0, float(self.tail.shape[1] - 1))
        node = position.floor().clamp(1, self.tail.shape[1] - 3).long()
        t = position - node
        before, low, high, after = (
            self.tail.gather(1, (node + offset).unsqueeze(1)).squeeze(1) for offset in (-1, 0, 1, 2)
        )
        # the cubic through (-1, before), (0, low), (1, high), (2, after) as c0 + c1 t + c2 t^2 + c3 t^3
        c3 = (after - before) / 6.0 + (low - high) / 2.0
        c2 = (before + high) / 2.0 - low
        c1 = high - low - c2 - c3
        u = low + t * (c1 + t * (c2 + t * c3))
        return u.clamp(0.0, tail_scale(self.classes)), (c1 + t * (2.0 * c2 + 3.0 * t * c3)) / step
