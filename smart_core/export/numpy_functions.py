"""NumPy implementations of the calibrators: the functions that `Calibrator.numpy_code` may call.

An exported file carries the text of those that it needs, so each must depend on NumPy, the standard library and names
of this module only. The ONNX graph is recorded while they run on stand-ins for arrays (`onnx_graph`), so they change
nothing in place and take no decision from values or from the number of rows.

Rows are float32, as in the engine, and so are the operations that round single numbers, which are the same there bit
for bit. Sums and powers are float64, the closest to what any order of summing gives; the engine does the same
(`device.precise`) where the rounding would show.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from itertools import pairwise

import numpy as np

CHUNK = 1 << 20
"""Numbers in the widest array of one chunk of rows."""

ABSENT = np.finfo(np.float32).min
"""Takes the place of -inf, the logit of a class that a row does not have."""

GAP_FLOOR = np.float32(-1e4)
"""Smaller gaps are raised to this before they are summed."""

STRICTLY_BELOW = 1.0 - 2.0**-18
"""How close to the prediction's probability another class may come."""

TINY = float(np.finfo(np.float32).tiny)
"""Smaller numbers have too few digits to hold proportions."""

SAME = 1e-6
"""Squared distance below which a reference row counts as the query itself."""


# -- files --------------------------------------------------------------------------------------------------


def decoded(text: str, *shape: int) -> np.ndarray:
    """Float32 numbers from the base64 text of their little-endian bytes."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float32).reshape(shape)


def checked(values: object, columns: int, name: str, absent: bool = False) -> np.ndarray:
    """The values as float32 rows of this many finite numbers; with `absent`, -inf is a class that the row lacks."""
    with np.errstate(over="ignore"):
        rows = np.asarray(values, dtype=np.float32)
    rows = np.maximum(rows, ABSENT) if absent else rows
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise ValueError(f"{name} must be (N, {columns}), one row per sample, not {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError(f"The {name} hold NaN or infinity; remove those rows.")
    return rows


def checked_confidences(values: object) -> np.ndarray:
    """The values as a vector of numbers from 0 to 1, float64."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not ((vector >= 0.0) & (vector <= 1.0)).all():
        raise ValueError("The confidences must be a vector (N,) of numbers from 0 to 1.")
    return vector


def in_chunks(function: Callable[..., np.ndarray], columns: int, *arrays: np.ndarray) -> np.ndarray:
    """`function(*arrays)`, a few rows at a time; `columns` are the numbers per row of the widest array."""
    size = max(1, CHUNK // columns)
    starts = range(0, max(len(arrays[0]), 1), size)
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([function(*(rows[i : i + size] for rows in arrays)) for i in starts])


# -- rows of logits -----------------------------------------------------------------------------------------


def gaps(z: np.ndarray) -> np.ndarray:
    """`d_k = z_k - max_j z_j`, row by row."""
    return z - z.max(axis=1, keepdims=True)


def class_counts(z: np.ndarray) -> np.ndarray:
    """How many classes each row has, (N, 1), float64."""
    return (z > ABSENT).astype(np.float64).sum(axis=1, keepdims=True)


def even_shares(z: np.ndarray) -> np.ndarray:
    """The uniform distribution over the classes that each row has, float64."""
    return (z > ABSENT).astype(np.float64) / class_counts(z)


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


def top_mask(rows: np.ndarray) -> np.ndarray:
    """True at the first largest entry of each row."""
    return np.arange(rows.shape[1]) == rows.argmax(axis=1, keepdims=True)


def largest(rows: np.ndarray, count: int) -> np.ndarray:
    """The `count` largest entries of each row, in descending order."""
    return -np.sort(-np.partition(rows, -count, axis=1)[:, -count:], axis=1)


def lift_top(probabilities: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Float32 rows with the largest logit's probability strictly largest: ties from rounding are broken upwards."""
    p = probabilities.astype(np.float32)
    lifted = np.nextafter(p.max(axis=1, keepdims=True), np.float32(2.0))
    return np.where(top_mask(z) & ~top_mask(p), lifted, p)


def tempered_softmax(z: np.ndarray, temperature: np.ndarray) -> np.ndarray:
    """`softmax(z / T)` with one T per row."""
    return lift_top(softmax(gaps(z).astype(np.float64) / temperature[:, None]), z)


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """`W x + b` row by row, float64."""
    return x.astype(np.float64) @ weight.T.astype(np.float64) + bias


def layers(theta: np.ndarray, sizes: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weight (out, in) and bias (out,) of each layer of a network of these widths, from one flat vector."""
    found, start = [], 0
    for inputs, outputs in pairwise(sizes):
        stop = start + inputs * outputs
        found.append((theta[start:stop].reshape(outputs, inputs), theta[stop : stop + outputs]))
        start = stop + outputs
    return found


def network_outputs(x: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """`W_n relu(... relu(W_1 x + b_1) ...) + b_n`, (N, outputs)."""
    for weight, bias in layers[:-1]:
        x = np.maximum(linear(x, weight, bias), 0.0)
    return linear(x, *layers[-1])


def network(x: np.ndarray, layers: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The one output of a network, (N,)."""
    return network_outputs(x, layers)[:, 0]


def stretched(y: np.ndarray, nodes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Scores of y with the gaps between the nodes, in descending order, multiplied by the factors; float64."""
    scores, count = np.full_like(y, 0.0), nodes.shape[1]
    for j in range(count):
        length = nodes[:, j : j + 1] - y
        if j + 1 < count:
            length = np.minimum(length, nodes[:, j : j + 1] - nodes[:, j + 1 : j + 2])
        scores = scores - factors[:, j : j + 1] * np.maximum(length, 0.0)
    return scores


def centred(z: np.ndarray) -> np.ndarray:
    """`d_k - mean_j d_j` of the gaps, kept above -10,000; float64."""
    d = np.maximum(gaps(z), GAP_FLOOR).astype(np.float64)
    return d - d.mean(axis=1, keepdims=True)


def log_probabilities(z: np.ndarray) -> np.ndarray:
    """`log softmax(z)` of the gaps, kept above -10,000; float64."""
    return log_softmax(np.maximum(gaps(z), GAP_FLOOR))


def log_rows(p: np.ndarray) -> np.ndarray:
    """`log p`, float32, of probabilities, which are kept above the least normal float32."""
    return np.log(np.maximum(p, np.float32(TINY)).astype(np.float64)).astype(np.float32)


def smoothed_log_probabilities(z: np.ndarray, temperature: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """`log((1 - u) softmax(z / T) + u / K)`, float64."""
    u = uniform.astype(np.float64)
    return np.log((1.0 - u) * softmax(gaps(z).astype(np.float64) / temperature) + u / z.shape[1])


# -- indicators of SMART, by their names in `smart_core.fitting.indicators` -----------------------------------------


def margin(z: np.ndarray) -> np.ndarray:
    """The largest minus the second largest logit, (N, 1)."""
    top = largest(z, 2)
    return top[:, :1] - top[:, 1:]


def entropy(z: np.ndarray) -> np.ndarray:
    """`-sum_k q_k log q_k` of the softmax, (N, 1)."""
    log_q = log_softmax(z)
    return -(np.exp(log_q) * np.maximum(log_q, -1e4)).sum(axis=1, keepdims=True).astype(np.float32)


def confidence(z: np.ndarray) -> np.ndarray:
    """The largest probability of the softmax, (N, 1)."""
    return softmax(z).max(axis=1, keepdims=True).astype(np.float32)


def max_logit(z: np.ndarray) -> np.ndarray:
    """The largest logit, (N, 1)."""
    return z.max(axis=1, keepdims=True)


def max_minus_mean(z: np.ndarray) -> np.ndarray:
    """The largest minus the mean logit of the classes that the row has, (N, 1)."""
    mean = np.where(z > ABSENT, z.astype(np.float64), 0.0).sum(axis=1, keepdims=True) / class_counts(z)
    return z.max(axis=1, keepdims=True) - mean.astype(np.float32)


def all_logits(z: np.ndarray) -> np.ndarray:
    """The whole row."""
    return z


# -- maps of the top-1 confidence ---------------------------------------------------------------------------


def complement(z: np.ndarray) -> np.ndarray:
    """`u = 1 - s`, s the top-1 confidence: `r / (1 + r)`, r the sum of `exp(d_k)` over the other classes, (N,)."""
    others = np.where(top_mask(z), 0.0, np.exp(gaps(z).astype(np.float64))).sum(axis=1).astype(np.float32)
    return others / (others + np.float32(1.0))


def taken(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """`values[index]`, the index of any shape."""
    return values[index]


def complement_of(confidence: np.ndarray) -> np.ndarray:
    """`u = 1 - s` of confidences s (N,), float32 and below 1."""
    return np.minimum((1.0 - confidence.astype(np.float64)).astype(np.float32), np.float32(1.0 - 2.0**-24))


def platt_map(u: np.ndarray, coefficients: np.ndarray, least: float) -> np.ndarray:
    """`sigmoid(a log(s / (1 - s)) + b)` of complements `u = 1 - s`, kept above `least`, float64."""
    u = u.astype(np.float64)
    a, b = coefficients.astype(np.float64)
    return sigmoid(a * (np.log1p(-u) - np.log(np.maximum(u, least))) + b)


def beta_map(u: np.ndarray, coefficients: np.ndarray, least: float) -> np.ndarray:
    """`sigmoid(a log s - b log(1 - s) + c)` of complements `u = 1 - s`, kept above `least`, float64."""
    u = u.astype(np.float64)
    a, b, c = coefficients.astype(np.float64)
    return sigmoid(a * np.log1p(-u) - b * np.log(np.maximum(u, least)) + c)


def stairs(x: np.ndarray, edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`values[j]` for x in `[edges[j - 1], edges[j])`."""
    return taken(values, np.searchsorted(edges, x, side="right"))


def broken_line(x: np.ndarray, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Linear interpolation of `values` over increasing `nodes`, constant beyond both ends."""
    if len(nodes) == 1:
        return np.full_like(x, values[0])
    right = np.clip(np.searchsorted(nodes, x, side="left"), 1, len(nodes) - 1)
    low, high = (taken(nodes, place) for place in (right - 1, right))
    below, above = (taken(values, place) for place in (right - 1, right))
    return below + np.clip((x - low) / (high - low), 0.0, 1.0) * (above - below)


def venn_abers(
    u: np.ndarray, low_edges: np.ndarray, low: np.ndarray, high_edges: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """`p1 / (1 - p0 + p1)`, p0 and p1 being steps of u: p0 those of the edges below u, p1 also of those equal to it."""
    p0 = taken(low, np.searchsorted(low_edges, u, side="left"))
    p1 = np.maximum(stairs(u, high_edges, high), p0)
    return p1 / (p1 - p0 + np.float32(1.0))


def spread(z: np.ndarray, wanted: np.ndarray, keep: bool) -> np.ndarray:
    """Rows with the `wanted` confidence (N,) at the prediction, the other classes in their old proportions.

    With `keep`, no other class may reach the prediction: its share is capped and the excess goes to the rest.
    """
    top, here, classes = top_mask(z), z > ABSENT, class_counts(z)
    c = np.clip(wanted.astype(np.float32), np.float32(0.0), np.float32(1.0)).astype(np.float64)[:, None]
    if keep:
        c = np.maximum(c, ((2.0 - STRICTLY_BELOW) / classes).astype(np.float32).astype(np.float64))
    others = np.where(top, 0.0, softmax(z).astype(np.float32).astype(np.float64))
    left = others.sum(axis=1, keepdims=True)
    even = np.where(top, 0.0, here.astype(np.float64) / (classes - 1.0))
    rest = np.where(left >= TINY, others / np.maximum(left, TINY), even) * (1.0 - c)
    if keep:
        ceiling = c * STRICTLY_BELOW
        highest = rest.max(axis=1, keepdims=True)
        level = (1.0 - c) / (classes - 1.0)
        weight = np.clip((highest - ceiling) / np.maximum(highest - level, 1e-12), 0.0, 1.0)
        rest = np.minimum((1.0 - weight) * rest + weight * even * (1.0 - c), ceiling)
    return np.where(top, c, rest).astype(np.float32)


# -- groups and neighbours ----------------------------------------------------------------------------------


def group_of(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(P, N) index of each sample's group in each partition, `argmax_g (W_p x)_g`."""
    return (weight.astype(np.float64) @ x.T.astype(np.float64)).argmax(axis=1)


def mean_over_partitions(z: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The mean of `softmax(z / T_p)` over partitions p, from the temperatures chosen, (P, N)."""
    d = gaps(z).astype(np.float64)
    return lift_top(sum(softmax(d / t[:, None]) for t in chosen) / chosen.shape[0], z)


def unit_rows(values: np.ndarray) -> np.ndarray:
    """Rows divided by their L2 norm, float64."""
    wide = values.astype(np.float64)
    scaled = wide / np.maximum(np.abs(wide).max(axis=1, keepdims=True), TINY)
    return scaled / np.maximum(np.sqrt(np.square(scaled).sum(axis=1, keepdims=True)), TINY)


def nearest_squares(queries: np.ndarray, reference: np.ndarray, neighbours: int) -> np.ndarray:
    """(N, neighbours) squared distances to the nearest reference rows, without one at distance 0: the query itself."""
    if len(reference) < 2:
        return 0.0 * queries[:, :1]
    r = reference.astype(np.float64)
    nearest = largest(queries @ r.T - 0.5 * np.square(r).sum(axis=1), min(neighbours, len(r) - 1) + 1)
    square = np.maximum(np.square(queries).sum(axis=1, keepdims=True) - 2.0 * nearest, 0.0)
    return np.where(square[:, :1] < SAME, square[:, 1:], square[:, :-1])


def proximity(queries: np.ndarray, reference: np.ndarray, neighbours: int) -> np.ndarray:
    """(N,) means of `exp(-d^2)` over the nearest reference rows."""
    return np.exp(-nearest_squares(queries, reference, neighbours)).mean(axis=1)


def log_mass(first: np.ndarray, second: np.ndarray, points: np.ndarray, bandwidth: np.ndarray) -> np.ndarray:
    """`log sum_i prod_j N(x_j; p_ij, h_j^2)` at x = (first, second) over points (n, 2), up to a constant, (N,)."""
    h, points = bandwidth.astype(np.float64), points.astype(np.float64)  # NumPy 1 divides float32 by float64 in float32
    across, up = (x[:, None] / h[j] - points[:, j] / h[j] for j, x in enumerate((first, second)))
    exponent = -0.5 * (np.square(across) + np.square(up))
    highest = exponent.max(axis=1, keepdims=True)
    return np.log(np.exp(exponent - highest).sum(axis=1)) + highest[:, 0] - np.log(h).sum()
