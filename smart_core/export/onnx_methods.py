"""What each calibrator computes, as a graph: from logits (N, K), and features (N, D) where it reads them, to
probabilities (N, K).

The formulas and their precision are those of `numpy_functions`: numbers are float32 where the engine compares or
rounds them one by one, and float64 where they are summed or raised to powers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from smart_core.calibrators import mlp
from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.beta import LEAST_DOUBT
from smart_core.calibrators.cts import HUGE
from smart_core.calibrators.proximity import SAME
from smart_core.calibrators.pts import CLIP, T_GREATEST, T_LEAST
from smart_core.calibrators.smart import EPSILON
from smart_core.calibrators.toplabel import STRICTLY_BELOW
from smart_core.export.onnx_graph import Graph, Value
from smart_core.indicators import LARGEST
from smart_core.profile import GAP_FLOOR

TINY = float(np.finfo(np.float32).tiny)
ONE_UP = 1.0 + 1.25 * 2.0**-24
"""A float32 number times this, rounded, is the next larger one."""

Method = Callable[[Calibrator, Value, Value | None], Value]
"""A fitted calibrator, logits and features -> float32 probabilities."""


def learned(calibrator: Calibrator, graph: Graph, name: str, kind: str = "float32") -> Value:
    """A learned array as part of the graph."""
    return graph.constant(_array(calibrator, name), kind, f"{name.rstrip('_')}_{kind}")


def _array(calibrator: Calibrator, name: str) -> NDArray[np.float32]:
    return np.asarray(calibrator.state()[name].detach().cpu().numpy(), dtype=np.float32)


# -- pieces -------------------------------------------------------------------------------------------------


def gaps(z: Value) -> Value:
    """`d_k = z_k - max_j z_j`, in the kind of z."""
    return z - z.max()


def log_softmax(scores: Value) -> Value:
    """`d - log sum exp d`, float64."""
    d = gaps(scores).wide()
    return d - d.exp().sum().log()


def softplus(x: Value) -> Value:
    """`log(1 + exp x)` without overflow."""
    return x.maximum(0.0) + ((-x.abs()).exp() + 1.0).log()


def lift_top(probabilities: Value, z: Value) -> Value:
    """Float32 rows with the largest logit's probability strictly largest: ties from rounding are broken upwards."""
    p, top = probabilities.narrow(), z.argmax()
    stays = p.graph.apply("Equal", p.argmax(), top, kind="bool")
    lifted = (p.max().wide() * ONE_UP).narrow()
    return p.put(top, stays.where(p.picked(top), lifted))


def tempered(z: Value, temperature: Value) -> Value:
    """`softmax(z / T)` with one float64 T a row, (N, 1)."""
    return lift_top((gaps(z).wide() / temperature).softmax(), z)


def network(calibrator: Calibrator, x: Value, sizes: tuple[int, ...]) -> Value:
    """`W_n relu(... relu(W_1 x + b_1) ...) + b_n`, (N, 1), float64."""
    layers = mlp.unpack(calibrator.state()["theta_"].detach().cpu(), sizes)
    x = x.wide()
    for number, (weight, bias) in enumerate(layers, start=1):
        x = x @ x.graph.constant(weight.numpy().T, "float64", f"weight_{number}") + bias.numpy()
        x = x.maximum(0.0) if number < len(layers) else x
    return x


def standardised(calibrator: Calibrator, values: Value) -> Value:
    """`(v - mean) / std`, column by column, float32."""
    return (values - _array(calibrator, "mean_")) / _array(calibrator, "std_")


def place_among(x: Value, rising: NDArray[np.float32], *, equal_below: bool) -> Value:
    """How many of the rising numbers lie below x, those equal to it too with `equal_below`: a binary search.

    Numbers beyond the last are infinite, so that the search can run over a power of two.
    """
    steps = len(rising).bit_length()
    padded = np.full(max(1, 2**steps - 1), np.inf, dtype=np.float32)
    padded[: len(rising)] = rising
    numbers = x.graph.constant(padded, "float32")
    place = (x < -1.0).cast("int64")  # nowhere: x is never negative
    for step in (2**power for power in reversed(range(steps))):
        here = numbers.at(place + (step - 1))
        below = here <= x if equal_below else here < x
        place = place + below.cast("int64") * step
    return place


def stairs(calibrator: Calibrator, x: Value) -> Value:
    """`values[j]` for x in `[edges[j - 1], edges[j])`."""
    values = learned(calibrator, x.graph, "values_")
    return values.at(place_among(x, _array(calibrator, "edges_"), equal_below=True))


def broken_line(calibrator: Calibrator, x: Value) -> Value:
    """Linear interpolation of `values` over increasing `nodes`, constant beyond both ends."""
    nodes, values = (learned(calibrator, x.graph, name) for name in ("nodes_", "values_"))
    count = len(_array(calibrator, "nodes_"))
    if count == 1:
        return values.at((x < -1.0).cast("int64"))
    right = place_among(x, _array(calibrator, "nodes_"), equal_below=False).clip(1, count - 1)
    left = right - 1
    weight = ((x - nodes.at(left)) / (nodes.at(right) - nodes.at(left))).clip(0.0, 1.0)
    return values.at(left) + weight * (values.at(right) - values.at(left))


def doubt(z: Value) -> Value:
    """`u = 1 - s`, what the top-1 confidence s leaves to the other classes, (N, 1) float32."""
    powers = gaps(z).wide().exp()
    top = z.argmax()
    others = powers.put(top, powers.picked(top) * 0.0).sum().narrow()
    return others / (others + 1.0)


def spread(z: Value, wanted: Value, classes: int, *, keep: bool) -> Value:
    """Rows with the `wanted` confidence (N, 1) at the prediction, the other classes in their old proportions.

    With `keep`, no other class may reach the prediction: its share is capped and the excess goes to the rest.
    """
    p, top = gaps(z).wide().softmax().narrow().wide(), z.argmax()
    floor = float(np.float32((2.0 - STRICTLY_BELOW) / classes)) if keep else 0.0
    c = wanted.narrow().clip(floor, 1.0).wide()
    nothing = c * 0.0
    others = p.put(top, nothing)
    left = others.sum()
    even = (p * 0.0 + 1.0 / (classes - 1)).put(top, nothing)
    rest = (left < TINY).where(even, others / left.maximum(TINY)) * (1.0 - c)
    if keep:
        ceiling = c * STRICTLY_BELOW
        highest, level = rest.max(), (1.0 - c) / (classes - 1)
        weight = ((highest - ceiling) / (highest - level).maximum(1e-12)).clip(0.0, 1.0)
        rest = ((1.0 - weight) * rest + weight * even * (1.0 - c)).minimum(ceiling)
    return rest.put(top, c).narrow()


# -- indicators ---------------------------------------------------------------------------------------------


def margin(z: Value) -> Value:
    """The largest minus the second largest logit, (N, 1)."""
    top = z.graph.largest(z, 2)
    return top.columns(0, 1) - top.columns(1, 2)


def entropy(z: Value) -> Value:
    """`-sum_k q_k log q_k` of the softmax, (N, 1)."""
    log_q = log_softmax(z)
    return -(log_q.exp() * log_q.maximum(-1e4)).sum().narrow()


INDICATORS: dict[str, Callable[[Value], Value]] = {
    "margin": margin,
    "entropy": entropy,
    "confidence": lambda z: gaps(z).wide().softmax().max().narrow(),
    "max_logit": lambda z: z.max(),
    "max_minus_mean": lambda z: z.max() - z.wide().mean().narrow(),
    "all_logits": lambda z: z,
}


# -- methods ------------------------------------------------------------------------------------------------


def _vanilla(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    return lift_top(gaps(z).wide().softmax(), z)


def _ts(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    return tempered(z, learned(calibrator, z.graph, "temperature_", "float64"))


def _ets(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """`w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K`."""
    d = gaps(z).wide()
    weights = _array(calibrator, "weights_").astype(np.float64)
    cool = (d / learned(calibrator, z.graph, "temperature_", "float64")).softmax()
    return lift_top(cool * weights[0] + d.softmax() * weights[1] + weights[2] / calibrator.classes_, z)


def _smart(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """`T = softplus(mlp(x)) + 0.1`, x the standardised indicator."""
    settings = calibrator.settings_dict()
    values = INDICATORS[settings["indicator"]](z).clip(-LARGEST, LARGEST)
    sizes = mlp.layer_sizes(len(_array(calibrator, "mean_")), settings["hidden"], settings["layers"])
    temperature = softplus(network(calibrator, standardised(calibrator, values), sizes)) + EPSILON
    return tempered(z, temperature.narrow().wide())


def _pts(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """`T = |mlp(x)|`, x the standardised largest logits."""
    count = len(_array(calibrator, "mean_"))
    values = z.graph.largest(z, count).clip(-CLIP, CLIP)
    raw = network(calibrator, standardised(calibrator, values), mlp.layer_sizes(count, 5, 2))
    return tempered(z, raw.abs().clip(T_LEAST, T_GREATEST).narrow().wide())


def _cts(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """`softmax(z_k / T_k)`."""
    scaled = z.clip(-HUGE, HUGE) / _array(calibrator, "temperatures_")
    return gaps(scaled).wide().softmax().narrow()


def _linear(calibrator: Calibrator, x: Value) -> Value:
    """`softmax(W x + b)`, W full or diagonal."""
    weight = _array(calibrator, "weight_")
    scores = x.wide() @ x.graph.constant(weight.T, "float64", "weight") if weight.ndim == 2 else x.wide() * weight
    return (scores + _array(calibrator, "bias_")).softmax().narrow()


def _on_centred(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """A linear map of `d_k - mean_j d_j`, gaps held at -10,000."""
    d = gaps(z).maximum(GAP_FLOOR).wide()
    return _linear(calibrator, d - d.mean())


def _on_log_probabilities(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """A linear map of `log softmax(z)`, gaps held at -10,000."""
    return _linear(calibrator, log_softmax(gaps(z).maximum(GAP_FLOOR)))


def _top_label(mapped: Callable[[Calibrator, Value], Value]) -> Method:
    """Methods that map the top-1 confidence; `mapped` gives the new one from the doubt."""

    def method(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
        return spread(z, mapped(calibrator, doubt(z)), calibrator.classes_, keep=calibrator.keeps_top1)

    return method


def _beta(calibrator: Calibrator, u: Value) -> Value:
    """`sigmoid(a log s - b log(1 - s) + c)`."""
    a, b, c = _array(calibrator, "coefficients_").astype(np.float64)
    wide = u.wide()
    score = (1.0 - wide).log() * a - wide.maximum(LEAST_DOUBT).log() * b + c
    return (-softplus(-score)).exp()


def _gc(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """The mean over partitions p of `softmax(z / T_(p, g))`, g the group `argmax (W_p x)` of the sample."""
    read = standardised(calibrator, z if x is None else x).wide()
    scores = learned(calibrator, z.graph, "weight_", "float64") @ read.transposed(1, 0)
    group = z.graph.apply("ArgMax", scores, kind="int64", axis=1, keepdims=0)
    chosen = learned(calibrator, z.graph, "temperatures_", "float64").picked(group).unsqueezed(2)
    return lift_top((gaps(z).wide() / chosen).softmax(axis=2).mean(axis=0), z)


def _fc(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """`softmax(W clip(x, -C, C) + b)`; without features nothing is clipped."""
    if x is None:
        return gaps(z).wide().softmax().narrow()
    clip = float(_array(calibrator, "clip_")[0])
    return _linear(calibrator, x.clip(-clip, clip))


def _procal(calibrator: Calibrator, z: Value, x: Value | None) -> Value:
    """`c = f+ / (f+ + f- n-/n+)`, densities of (confidence, proximity) among the hits and the misses."""
    confidence = gaps(z).wide().softmax().max()
    if len(_array(calibrator, "hits_")) == 0 or len(_array(calibrator, "misses_")) == 0:
        return spread(z, confidence, calibrator.classes_, keep=True)
    near = _proximity(calibrator, _unit_rows(z if x is None else x))
    masses = [_log_mass(calibrator, confidence, near, kind) for kind in ("hit", "miss")]
    wanted = (-softplus(masses[1] - masses[0])).exp()
    return spread(z, wanted, calibrator.classes_, keep=True)


def _unit_rows(values: Value) -> Value:
    wide = values.wide()
    scaled = wide / wide.abs().max().maximum(TINY)
    return scaled / (scaled * scaled).sum().sqrt().maximum(TINY)


def _proximity(calibrator: Calibrator, queries: Value) -> Value:
    """(N, 1) means of `exp(-d^2)` over the nearest reference rows, without one at distance 0: the query itself."""
    reference = _array(calibrator, "reference_").astype(np.float64)
    q = queries
    if len(reference) < 2:
        return q.mean() * 0.0 + 1.0
    wanted = min(int(calibrator.settings_dict()["neighbours"]), len(reference) - 1)
    closeness = q @ q.graph.constant(reference.T, "float64", "reference") - 0.5 * (reference**2).sum(axis=1)
    nearest = q.graph.largest(closeness, wanted + 1)
    square = ((q * q).sum() - nearest * 2.0).maximum(0.0)
    kernel = (-square).exp()
    met = square.columns(0, 1) < SAME
    return met.where(kernel.columns(1, wanted + 1), kernel.columns(0, wanted)).mean()


def _log_mass(calibrator: Calibrator, confidence: Value, near: Value, kind: str) -> Value:
    """(N, 1) `log sum_i prod_j N(x_j; p_ij, h_j^2)` over the hits or misses, up to a constant."""
    points = _array(calibrator, "hits_" if kind == "hit" else "misses_").astype(np.float64)
    h = _array(calibrator, f"{kind}_bandwidth_").astype(np.float64)
    first, second = (x / h[j] - (points[:, j] / h[j]) for j, x in enumerate((confidence, near)))
    exponent = (first * first + second * second) * -0.5
    largest = exponent.max()
    return (exponent - largest).exp().sum().log() + largest - float(np.log(h).sum())


METHODS: dict[str, Method] = {
    "vanilla": _vanilla,
    "ts": _ts,
    "ets": _ets,
    "vector": _on_centred,
    "matrix": _on_centred,
    "dirichlet": _on_log_probabilities,
    "pts": _pts,
    "cts": _cts,
    "spline": _top_label(lambda calibrator, u: broken_line(calibrator, u).clip(0.0, 1.0)),
    "gc": _gc,
    "procal": _procal,
    "fc": _fc,
    "histogram": _top_label(stairs),
    "isotonic": _top_label(broken_line),
    "bbq": _top_label(stairs),
    "beta": _top_label(_beta),
    "smart": _smart,
}
"""Method id -> its graph."""
