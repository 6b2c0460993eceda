"""Value and gradient of SMART's own objective, for `smart_core.training`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smart_core.kernels import smart_steps
from smart_core.kernels.smart_steps import BLOCK
from smart_core.profile import BETA_LOW, DirectProfile, Profile, TableProfile

F32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Samples:
    """What every fit on the same samples reads: the standardised indicator, hits, and the profile, in blocks."""

    count: int
    classes: int
    x: F32
    correct: F32
    table: F32 | None
    gaps: F32 | None
    per_log: float

    @classmethod
    def of(cls, x: Tensor, profile: Profile) -> Samples:
        """From the indicator (N,) and a profile of either kind."""
        table = gaps = None
        per_log = 0.0
        if isinstance(profile, TableProfile):
            table, per_log = _own_table(profile), profile.per_octave / math.log(2.0)
        elif isinstance(profile, DirectProfile):
            gaps = np.ascontiguousarray(blocks(profile.d).transpose(0, 2, 1))
        return cls(len(x), profile.classes, blocks(x), blocks(profile.correct), table, gaps, per_log)


def _own_table(profile: TableProfile) -> F32:
    """The rows of the profile's own samples."""
    whole = torch.equal(profile.rows, torch.arange(len(profile.table)))
    return (profile.table if whole else profile.table[profile.rows]).numpy()


def blocks(values: Tensor) -> F32:
    """(N, ...) as (blocks, 256, ...), the last block filled up with zeros."""
    array = values.numpy()
    whole = np.zeros((-(-len(array) // BLOCK) * BLOCK, *array.shape[1:]), dtype=np.float32)
    whole[: len(array)] = array
    return whole.reshape(-1, BLOCK, *array.shape[1:])


class SmartGradient:
    """`theta -> (L, dL/dtheta)` over all samples; its arrays are its own, so that fits can run side by side."""

    def __init__(self, samples: Samples, sigma: float, delta: float, bins: int) -> None:
        self.samples = samples
        self.delta = delta
        self.scale = np.float32(0.5 / sigma**2)
        shape = samples.x.shape
        self.beta, self.chain, self.g, self.slope, self.p, self.mean = (np.zeros(shape, np.float32) for _ in range(6))
        self.node, self.cubic = np.full(shape, -1.0, np.float32), np.zeros((shape[0], 4, BLOCK), np.float32)
        self.weight = np.empty((shape[0], bins, BLOCK), np.float32)
        self.sums = np.empty((2, bins))

    def __call__(self, theta: Tensor) -> tuple[float, Tensor]:
        samples, parameters = self.samples, theta.numpy()
        smart_steps.temperatures(parameters, samples.x, self.beta, self.chain)
        if samples.table is not None:
            smart_steps.read_table(
                samples.table, np.float32(math.log(BETA_LOW)), np.float32(samples.per_log),
                self.beta, self.node, self.cubic, self.g, self.slope,
            )  # fmt: skip
        elif samples.gaps is not None:
            smart_steps.sum_gaps(samples.gaps, self.beta, self.g, self.slope)
        smart_steps.soft_bins(
            samples.count, np.float32(math.log(samples.classes)), self.scale, samples.correct,
            self.g, self.slope, self.chain, self.p, self.mean, self.weight, self.sums,
        )  # fmt: skip
        loss, u, v = charbonnier(self.sums, self.delta)
        total = np.empty(parameters.size)
        smart_steps.gradient(
            self.scale, parameters, samples.x, samples.correct, u, v,
            self.chain, self.p, self.mean, self.weight, self.slope, total,
        )  # fmt: skip
        return loss / samples.count, torch.from_numpy((total / samples.count).astype(np.float32))


def charbonnier(sums: NDArray[np.float64], delta: float) -> tuple[float, F32, F32]:
    """`sum_b [sqrt(R_b^2 + delta^2 S_b^2) - delta S_b]` from S_b and R_b, with its slopes in R_b and in S_b."""
    held = delta * sums[0]
    root = np.maximum(np.sqrt(sums[1] ** 2 + held**2), np.finfo(np.float32).tiny)
    u, v = sums[1] / root, delta * (held / root - 1.0)
    return float((root - held).sum()), u.astype(np.float32), v.astype(np.float32)
