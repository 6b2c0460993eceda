"""SMART's objective and its gradient, compiled: full batches, Charbonnier-SoftECE, one input, one hidden layer.

With `x` the standardised indicator, the objective is

    o_i = sum_h w2_h relu(w1_h x_i + b1_h) + b2,    T_i = softplus(o_i) + 0.1,    beta_i = 1 / T_i,
    p_i = exp(-g_i(beta_i)),    w_ib = softmax_b(-(p_i - c_b)^2 / (2 sigma^2)),
    L = (1/N) sum_b [sqrt(R_b^2 + delta^2 S_b^2) - delta S_b],

and its gradient, written out, with the slopes u_b and v_b of N L in R_b and S_b, and `cbar_i = sum_b w_ib c_b`,

    N dL/dp_i = sum_b w_ib u_b + sum_b w_ib (c_b - cbar_i) ((p_i - a_i) u_b + v_b) / sigma^2,
    dL/do_i = dL/dp_i * p_i * (dg_i/dlog beta) * beta_i * sigmoid(o_i),

of which a hidden unit needs two sums over the samples where it is active, `A = sum dL/do` and `B = sum x dL/do`:
dL/dw1 = w2 B, dL/db1 = w2 A, dL/dw2 = w1 B + b1 A.

Samples lie in blocks of 256, the last one padded: arrays over samples are (blocks, 256), loops run over whole blocks,
and padding has soft-bin weights of 0. Sums over a block are float32, sums over blocks float64. Short functions
compile in less time than one that runs whole epochs, and run as fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from smart_core.kernels import elementary
from smart_core.kernels.elementary import EXACT, F32, F64, ONE, SUMS, ZERO

BLOCK = 256
"""Samples per block: the arrays of a block stay in the nearest cache."""

HALF, TWO, THREE = np.float32(0.5), np.float32(2.0), np.float32(3.0)
LEAST_TEMPERATURE = np.float32(0.1)
LEAST_WEIGHT = np.float32(-80.0)
"""Log of the least soft-bin weight before normalisation."""
LEAST_ROOT = float(np.finfo(np.float32).tiny)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def temperatures(theta: F32, x: F32, beta: F32, chain: F32) -> None:
    """The map at every sample: `beta`, and in `chain` beta * sigmoid(o)."""
    hidden = (theta.size - 1) // 3
    for block in range(x.shape[0]):
        for s in range(BLOCK):
            beta[block, s] = theta[3 * hidden]
        for h in range(hidden):
            w1, b1, w2 = theta[h], theta[hidden + h], theta[2 * hidden + h]
            for s in range(BLOCK):
                beta[block, s] += w2 * max(x[block, s] * w1 + b1, ZERO)
        for s in range(BLOCK):
            o = beta[block, s]
            small = elementary.exp(-abs(o))
            temperature = max(o, ZERO) + elementary.log(ONE + small) + LEAST_TEMPERATURE
            beta[block, s] = ONE / temperature
            chain[block, s] = (ONE if o >= ZERO else small) / ((ONE + small) * temperature)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def read_table(
    table: F32, lowest: np.float32, per_log: np.float32, beta: F32, node: F32, cubic: F32, g: F32, slope: F32
) -> None:
    """`g` and `dg/dlog beta` from values and slopes at nodes, (N, nodes, 2), by cubic Hermite interpolation.

    Node n is at `log beta = lowest + n / per_log`; beyond the ends the tangent continues. From one epoch to the next
    few samples pass a node. So `node` (blocks, 256), -1 at first, and the coefficients `cubic` (blocks, 4, 256) are
    kept between epochs, and the table, which no cache holds, is read for those few samples only.
    """
    last = table.shape[1] - 1
    step = ONE / per_log
    for block in range(beta.shape[0]):
        for s in range(BLOCK):
            slope[block, s] = (elementary.log(beta[block, s]) - lowest) * per_log
        for s in range(min(BLOCK, table.shape[0] - block * BLOCK)):
            n = min(np.int64(max(slope[block, s], ZERO)), last - 1)
            if np.float32(n) != node[block, s]:
                node[block, s] = np.float32(n)
                i = block * BLOCK + s
                rise = table[i, n + 1, 0] - table[i, n, 0]
                low_slope, high_slope = table[i, n, 1] * step, table[i, n + 1, 1] * step
                cubic[block, 0, s] = table[i, n, 0]
                cubic[block, 1, s] = low_slope
                cubic[block, 2, s] = THREE * rise - TWO * low_slope - high_slope
                cubic[block, 3, s] = low_slope + high_slope - TWO * rise
        for s in range(BLOCK):
            inside = min(max(slope[block, s], ZERO), np.float32(last))
            t, beyond = inside - node[block, s], slope[block, s] - inside
            first, second, third = cubic[block, 1, s], cubic[block, 2, s], cubic[block, 3, s]
            tangent = first + t * (TWO * second + THREE * third * t)
            g[block, s] = cubic[block, 0, s] + t * (first + t * (second + t * third)) + beyond * tangent
            slope[block, s] = tangent * per_log


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def sum_gaps(gaps: F32, beta: F32, g: F32, slope: F32) -> None:
    """`g` and `dg/dlog beta` by the sum over all classes; `gaps` is (blocks, K, 256)."""
    for block in range(beta.shape[0]):
        for s in range(BLOCK):
            g[block, s], slope[block, s] = ZERO, ZERO
        for k in range(gaps.shape[1]):
            for s in range(BLOCK):
                scaled = beta[block, s] * gaps[block, k, s]
                power = elementary.exp(scaled)
                g[block, s] += power
                slope[block, s] += power * scaled
        for s in range(BLOCK):
            slope[block, s] /= g[block, s]
            g[block, s] = elementary.log(g[block, s])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def soft_bins(
    samples: int, log_classes: np.float32, scale: np.float32, correct: F32,
    g: F32, slope: F32, chain: F32, p: F32, mean: F32, weight: F32, sums: F64,
) -> None:  # fmt: skip
    """Confidences, soft-bin weights (blocks, B, 256) and mean centres `cbar`; S_b and R_b in `sums` (2, B).

    `scale` is 1 / (2 sigma^2). `chain` becomes dp/do, 0 where g was clipped to [0, log K]. Exponents are relative
    to the nearest centre's, whose weight is then 1 before normalisation. g and slope are overwritten.
    """
    bins = weight.shape[1]
    width = np.float32(bins)
    for b in range(bins):
        sums[0, b], sums[1, b] = 0.0, 0.0
    for block in range(p.shape[0]):
        filled = samples - block * BLOCK
        for s in range(BLOCK):
            held = min(max(g[block, s], ZERO), log_classes)
            confidence = elementary.exp(-held)
            p[block, s] = confidence
            chain[block, s] *= confidence * slope[block, s] if held == g[block, s] else ZERO
            away = confidence - (min(np.floor(confidence * width), width - ONE) + HALF) / width
            g[block, s] = away * away
            slope[block, s] = ZERO
            mean[block, s] = ZERO
        for b in range(bins):
            centre = (np.float32(b) + HALF) / width
            for s in range(BLOCK):
                away = p[block, s] - centre
                power = elementary.exp(max((g[block, s] - away * away) * scale, LEAST_WEIGHT))
                weight[block, b, s] = power
                slope[block, s] += power
        for s in range(BLOCK):
            slope[block, s] = ONE / slope[block, s] if s < filled else ZERO
        for b in range(bins):
            centre = (np.float32(b) + HALF) / width
            mass, gap = ZERO, ZERO
            for s in range(BLOCK):
                w = weight[block, b, s] * slope[block, s]
                weight[block, b, s] = w
                mean[block, s] += w * centre
                mass += w
                gap += w * (p[block, s] - correct[block, s])
            sums[0, b] += mass
            sums[1, b] += gap


@njit(cache=True, nogil=True, error_model="numpy", fastmath=SUMS)
def gradient(
    scale: np.float32, theta: F32, x: F32, correct: F32, u: F32, v: F32,
    chain: F32, p: F32, mean: F32, weight: F32, slope: F32, samples: int, result: F32,
) -> None:  # fmt: skip
    """dL/dtheta in `result`, from the slopes `u_b` of N L in R_b and `v_b` in S_b; `scale` is 1 / (2 sigma^2).

    `slope` receives N dL/do.
    """
    hidden, width = (theta.size - 1) // 3, np.float32(weight.shape[1])
    total = np.zeros(theta.size)
    for block in range(x.shape[0]):
        for s in range(BLOCK):
            slope[block, s] = ZERO
        for b in range(weight.shape[1]):
            centre = (np.float32(b) + HALF) / width
            for s in range(BLOCK):
                inner = (p[block, s] - correct[block, s]) * u[b] + v[b]
                slope[block, s] += weight[block, b, s] * (u[b] + TWO * scale * (centre - mean[block, s]) * inner)
        everywhere = ZERO
        for s in range(BLOCK):
            slope[block, s] *= chain[block, s]
            everywhere += slope[block, s]
        total[3 * hidden] += everywhere
        for h in range(hidden):
            w1, b1, w2 = theta[h], theta[hidden + h], theta[2 * hidden + h]
            plain, by_x = ZERO, ZERO
            for s in range(BLOCK):
                active = slope[block, s] if x[block, s] * w1 + b1 > ZERO else ZERO
                plain += active
                by_x += active * x[block, s]
            total[h] += w2 * by_x
            total[hidden + h] += w2 * plain
            total[2 * hidden + h] += w1 * by_x + b1 * plain
    for i in range(total.size):
        result[i] = np.float32(total[i] / samples)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=EXACT)
def charbonnier(sums: F64, delta: float, u: F32, v: F32) -> float:
    """`sum_b [sqrt(R_b^2 + delta^2 S_b^2) - delta S_b]` from S_b and R_b; its slopes in R_b in `u`, in S_b in `v`."""
    loss = 0.0
    for b in range(u.size):
        held = delta * sums[0, b]
        root = max(np.sqrt(sums[1, b] ** 2 + held**2), LEAST_ROOT)
        loss += root - held
        u[b], v[b] = np.float32(sums[1, b] / root), np.float32(delta * (held / root - 1.0))
    return loss


@dataclass(frozen=True, eq=False)
class Samples:
    """Input shared by fits on the same samples: the standardised indicator, whether each is correct, the log-partition.

    The log-partition is given by `gaps`, or by a `table` whose nodes are at `log beta = lowest + n / per_log`.
    """

    count: int
    classes: int
    x: F32
    correct: F32
    table: F32 | None = None
    lowest: float = 0.0
    per_log: float = 0.0
    gaps: F32 | None = None

    @classmethod
    def from_table(
        cls, x: Tensor, correct: Tensor, classes: int, table: Tensor, lowest: float, per_log: float
    ) -> Samples:
        """From values and slopes at nodes, (N, nodes, 2)."""
        return cls(len(x), classes, blocks(x), blocks(correct), table.numpy(), lowest, per_log)

    @classmethod
    def from_gaps(cls, x: Tensor, correct: Tensor, gaps: Tensor) -> Samples:
        """From the gaps (N, K)."""
        by_class = np.ascontiguousarray(blocks(gaps).transpose(0, 2, 1))
        return cls(len(x), gaps.shape[1], blocks(x), blocks(correct), gaps=by_class)


def blocks(values: Tensor) -> F32:
    """(N, ...) as (blocks, 256, ...), the last block padded with zeros."""
    array = values.numpy()
    whole = np.zeros((-(-len(array) // BLOCK) * BLOCK, *array.shape[1:]), dtype=np.float32)
    whole[: len(array)] = array
    return whole.reshape(-1, BLOCK, *array.shape[1:])


class Partition:
    """The log-partition of every sample: `read` fills `g` and `slope`, its derivative in log beta, from `beta`."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        shape = samples.x.shape
        self.beta, self.g, self.slope = (
            np.ones(shape, np.float32),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
        )
        self.node, self.cubic = np.full(shape, -1.0, np.float32), np.zeros((shape[0], 4, BLOCK), np.float32)

    def read(self) -> None:
        """Read them at the present `beta`, (blocks, 256)."""
        samples = self.samples
        if samples.table is not None:
            read_table(
                samples.table, np.float32(samples.lowest), np.float32(samples.per_log),
                self.beta, self.node, self.cubic, self.g, self.slope,
            )  # fmt: skip
        elif samples.gaps is not None:
            sum_gaps(samples.gaps, self.beta, self.g, self.slope)

    def at(self, beta: Tensor) -> tuple[Tensor, Tensor]:
        """`g`, within [0, log K], and `dg/dbeta` at beta (N,); a second call overwrites what the first one returned."""
        count, most = len(beta), math.log(self.samples.classes)
        self.beta.reshape(-1)[:count] = beta.numpy()
        self.read()
        g, slope = (torch.from_numpy(each.reshape(-1)[:count]) for each in (self.g, self.slope))
        held = g.clamp(0.0, most)
        return held, slope.div_(beta).mul_(held == g)


class SmartGradient:
    """`theta -> (L, dL/dtheta)` over all samples. Each instance has its own arrays, so fits can run in parallel."""

    def __init__(self, samples: Samples, sigma: float, delta: float, bins: int) -> None:
        self.samples, self.partition = samples, Partition(samples)
        self.delta = float(delta)
        self.scale = np.float32(0.5 / sigma**2)
        shape = samples.x.shape
        self.chain, self.p, self.mean = (np.zeros(shape, np.float32) for _ in range(3))
        self.weight = np.empty((shape[0], bins, BLOCK), np.float32)
        self.sums = np.empty((2, bins))
        self.u, self.v = np.empty(bins, np.float32), np.empty(bins, np.float32)

    def __call__(self, theta: Tensor) -> tuple[float, Tensor]:
        samples, read, parameters = self.samples, self.partition, theta.numpy()
        temperatures(parameters, samples.x, read.beta, self.chain)
        read.read()
        soft_bins(
            samples.count, np.float32(math.log(samples.classes)), self.scale, samples.correct,
            read.g, read.slope, self.chain, self.p, self.mean, self.weight, self.sums,
        )  # fmt: skip
        loss = charbonnier(self.sums, self.delta, self.u, self.v)
        found = np.empty_like(parameters)
        gradient(
            self.scale, parameters, samples.x, samples.correct, self.u, self.v,
            self.chain, self.p, self.mean, self.weight, read.slope, samples.count, found,
        )  # fmt: skip
        return loss / samples.count, torch.from_numpy(found)
