"""What the calibrators compute, in NumPy alone: the pieces that an exported file is put together from.

An exported file carries the text of the functions it needs, so each must stand on NumPy, on the standard library
and on other names of this module. Rows are float32, as in the engine, and so are the operations that round them
one number at a time, which are the same there bit for bit; sums and powers are taken in float64, which is nearest
to what any order of summing gives. The engine does the same (`device.precise`) where the rounding would show.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np

CHUNK = 1 << 20
"""Numbers of a row chunk."""

GAP_FLOOR = np.float32(-1e4)
"""Gaps below this count as this where they are summed."""

STRICTLY_BELOW = 1.0 - 2.0**-18
"""How close to the prediction's probability another class may come."""

TINY = np.finfo(np.float32).tiny
"""Below it, numbers have too few digits to hold proportions."""

SAME = 1e-6
"""Squared distance below which a reference row is taken for the query itself."""


def decoded(text: str, *shape: int) -> np.ndarray:
    """Float32 numbers from the base64 text of their little-endian bytes."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float32).reshape(shape)


def checked(values: object, columns: int, name: str) -> np.ndarray:
    """The values as float32 rows; an error in one sentence where they cannot be."""
    with np.errstate(over="ignore"):
        rows = np.asarray(values, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise ValueError(f"{name} must be (N, {columns}), one row a sample, not {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError(f"The {name} hold NaN or infinity; remove those rows.")
    return rows


def in_chunks(function: Callable[..., np.ndarray], rows: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """`function(rows, ...)`, a few rows at a time."""
    size = max(1, CHUNK // rows.shape[1])
    starts = range(0, max(len(rows), 1), size)
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([function(*(a[i : i + size] for a in (rows, *others))) for i in starts])


def gaps(z: np.ndarray) -> np.ndarray:
    """`d_k = z_k - max_j z_j`, row by row."""
    return z - z.max(axis=1, keepdims=True)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Rows of probabilities, float64."""
    powers = np.exp(gaps(scores).astype(np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Logarithms of `softmax`, float64."""
    d = gaps(scores).astype(np.float64)
    return d - np.log(np.exp(d).sum(axis=1, keepdims=True))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """`1 / (1 + exp(-x))`, float64."""
    return np.exp(-np.logaddexp(0.0, -x.astype(np.float64)))


def lift_top(probabilities: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Float32 rows with the largest logit's probability strictly largest: ties from rounding are broken upwards."""
    p = probabilities.astype(np.float32)
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    lifted = np.nextafter(p.max(axis=1), np.float32(2.0))
    p[rows, top] = np.where(p.argmax(axis=1) != top, lifted, p[rows, top])
    return p


def tempered_softmax(z: np.ndarray, temperature: np.ndarray) -> np.ndarray:
    """`softmax(z / T)` with one T a row."""
    return lift_top(softmax(gaps(z).astype(np.float64) / temperature[:, None]), z)


def standardised(values: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """`(v - mean) / std`, column by column."""
    return (values - mean) / std


def network(x: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """`W_n relu(... relu(W_1 x + b_1) ...) + b_n`, (N,)."""
    x = x.astype(np.float64)
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight.T.astype(np.float64) + bias, 0.0)
    weight, bias = layers[-1]
    return (x @ weight.T.astype(np.float64) + bias)[:, 0]


def margin(z: np.ndarray) -> np.ndarray:
    """The largest minus the second largest logit, (N, 1)."""
    top = np.partition(z, -2, axis=1)
    return top[:, -1:] - top[:, -2:-1]


def entropy(z: np.ndarray) -> np.ndarray:
    """`-sum_k q_k log q_k` of the softmax, (N, 1)."""
    log_q = log_softmax(z)
    return -(np.exp(log_q) * np.maximum(log_q, -1e4)).sum(axis=1, keepdims=True).astype(np.float32)


def max_probability(z: np.ndarray) -> np.ndarray:
    """The largest probability of the softmax, (N, 1)."""
    return softmax(z).max(axis=1, keepdims=True).astype(np.float32)


def max_logit(z: np.ndarray) -> np.ndarray:
    """The largest logit, (N, 1)."""
    return z.max(axis=1, keepdims=True)


def max_minus_mean(z: np.ndarray) -> np.ndarray:
    """The largest minus the mean logit, (N, 1)."""
    return z.max(axis=1, keepdims=True) - z.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)


def all_logits(z: np.ndarray) -> np.ndarray:
    """The whole row."""
    return z


def largest_logits(z: np.ndarray, count: int, clip: float) -> np.ndarray:
    """The largest logits in descending order, clipped to +-clip."""
    return np.clip(np.sort(z, axis=1)[:, ::-1][:, :count], -np.float32(clip), np.float32(clip))


def centred(z: np.ndarray) -> np.ndarray:
    """`d_k - mean_j d_j` of the gaps, which are held at -10,000; float64."""
    d = np.maximum(gaps(z), GAP_FLOOR).astype(np.float64)
    return d - d.mean(axis=1, keepdims=True)


def log_probabilities(z: np.ndarray) -> np.ndarray:
    """`log softmax(z)` of the gaps, which are held at -10,000; float64."""
    return log_softmax(np.maximum(gaps(z), GAP_FLOOR))


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """`W x + b` row by row, float64."""
    return x.astype(np.float64) @ weight.T.astype(np.float64) + bias


def doubt(z: np.ndarray) -> np.ndarray:
    """`u = 1 - s`, what the top-1 confidence s leaves to the other classes: `r / (1 + r)`, r their sum of exp(d_k)."""
    powers = np.exp(gaps(z).astype(np.float64))
    powers[np.arange(len(z)), z.argmax(axis=1)] = 0.0
    others = powers.sum(axis=1).astype(np.float32)
    return others / (np.float32(1.0) + others)


def stairs(x: np.ndarray, edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`values[j]` for x in `[edges[j - 1], edges[j])`."""
    return values[np.searchsorted(edges, x, side="right")]


def broken_line(x: np.ndarray, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Linear interpolation of `values` over increasing `nodes`, constant beyond both ends."""
    if len(nodes) == 1:
        return np.broadcast_to(values, x.shape)
    right = np.clip(np.searchsorted(nodes, x), 1, len(nodes) - 1)
    low, high = nodes[right - 1], nodes[right]
    weight = np.clip((x - low) / (high - low), np.float32(0.0), np.float32(1.0))
    return values[right - 1] + weight * (values[right] - values[right - 1])


def top1(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The softmax as float32, and the confidence and place of the largest logit."""
    p, prediction = softmax(z).astype(np.float32), z.argmax(axis=1)
    return p, p[np.arange(len(z)), prediction], prediction


def spread(p: np.ndarray, prediction: np.ndarray, wanted: np.ndarray, keep: bool) -> np.ndarray:
    """Rows with the `wanted` confidence at `prediction`, the other classes in their old proportions.

    With `keep`, no other class may reach the prediction: its share is capped and the excess goes to the rest.
    """
    rows, classes = np.arange(len(p)), p.shape[1]
    floor = (2.0 - STRICTLY_BELOW) / classes if keep else 0.0
    c = np.clip(wanted.astype(np.float32), np.float32(floor), np.float32(1.0))[:, None].astype(np.float64)
    others = p.astype(np.float64)
    others[rows, prediction] = 0.0
    left = others.sum(axis=1, keepdims=True)
    even = np.full_like(others, 1.0 / (classes - 1))
    even[rows, prediction] = 0.0
    rest = np.where(left >= TINY, others / np.maximum(left, TINY), even) * (1.0 - c)
    if keep:
        ceiling = c * STRICTLY_BELOW
        highest = rest.max(axis=1, keepdims=True)
        level = (1.0 - c) / (classes - 1)
        weight = np.clip((highest - ceiling) / np.maximum(highest - level, 1e-12), 0.0, 1.0)
        rest = np.minimum((1.0 - weight) * rest + weight * even * (1.0 - c), ceiling)
    rest[rows, prediction] = c[:, 0]
    return rest.astype(np.float32)


def group_of(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(P, N) index of each sample's group in each partition, `argmax_g (W_p x)_g`."""
    return (weight.astype(np.float64) @ x.T.astype(np.float64)).argmax(axis=1)


def mean_over_partitions(z: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The mean of `softmax(z / T_p)` over partitions p, from the temperatures chosen, (P, N)."""
    d = gaps(z).astype(np.float64)
    total = np.zeros(d.shape)
    for t in chosen:
        total += softmax(d / t[:, None])
    return lift_top(total / len(chosen), z)


def unit_rows(values: np.ndarray) -> np.ndarray:
    """Rows divided by their L2 norm, float64."""
    wide = values.astype(np.float64)
    scaled = wide / np.maximum(np.abs(wide).max(axis=1, keepdims=True), TINY)
    return scaled / np.maximum(np.sqrt((scaled**2).sum(axis=1, keepdims=True)), TINY)


def proximity(queries: np.ndarray, reference: np.ndarray, neighbours: int) -> np.ndarray:
    """(N,) means of `exp(-d^2)` over the nearest reference rows, without one at distance 0: the query itself."""
    if len(reference) < 2:
        return np.ones(len(queries))
    wanted = min(neighbours, len(reference) - 1)
    means = np.empty(len(queries))
    size = max(1, CHUNK // len(reference))
    r = reference.astype(np.float64)
    half = 0.5 * (r * r).sum(axis=1)
    for start in range(0, len(queries), size):
        q = queries[start : start + size]
        closeness = q @ r.T - half
        nearest = -np.sort(-np.partition(closeness, -wanted - 1, axis=1)[:, -wanted - 1 :], axis=1)
        square = np.maximum((q * q).sum(axis=1, keepdims=True) - 2.0 * nearest, 0.0)
        kernel = np.exp(-square)
        means[start : start + size] = np.where(square[:, :1] < SAME, kernel[:, 1:], kernel[:, :-1]).mean(axis=1)
    return means


def log_mass(queries: np.ndarray, points: np.ndarray, bandwidth: np.ndarray) -> np.ndarray:
    """`log sum_i prod_j N(x_j; p_ij, h_j^2)` over points (n, 2), up to a constant."""
    p, h = points.astype(np.float64) / bandwidth, bandwidth.astype(np.float64)
    masses = np.empty(len(queries))
    size = max(1, CHUNK // len(points))
    for start in range(0, len(queries), size):
        x = queries[start : start + size] / h
        exponent = -0.5 * ((x[:, :1] - p[:, 0]) ** 2 + (x[:, 1:] - p[:, 1]) ** 2)
        largest = exponent.max(axis=1)
        masses[start : start + size] = np.log(np.exp(exponent - largest[:, None]).sum(axis=1)) + largest
    return masses - np.log(h).sum()


def beta_features(u: np.ndarray, least: float) -> np.ndarray:
    """`(log s, -log(1 - s))` from the doubts `u = 1 - s`, (N, 2)."""
    wide = u.astype(np.float64)
    return np.stack([np.log1p(-wide), -np.log(np.maximum(wide, least))], axis=1)
