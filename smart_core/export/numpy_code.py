"""A fitted calibrator as one Python file that needs nothing but NumPy.

The file holds `predict_proba` (and `temperatures`, for temperature methods), the functions of `numpy_functions`
that they call, and the learned numbers as text that gives back every bit of their float32 values.
"""

from __future__ import annotations

import ast
import base64
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from textwrap import fill, indent
from typing import Any

import numpy as np
from numpy.typing import NDArray

import smart_core
from smart_core.calibrators import Calibrator, TemperatureCalibrator, mlp
from smart_core.calibrators.beta import LEAST_DOUBT
from smart_core.calibrators.cts import HUGE
from smart_core.calibrators.pts import CLIP, T_GREATEST, T_LEAST
from smart_core.calibrators.smart import EPSILON
from smart_core.errors import ExportError
from smart_core.export import numpy_functions
from smart_core.export.checked import check_exportable
from smart_core.indicators import LARGEST

WIDTH = 110
"""Columns of the written text."""

LISTED_UP_TO = 64
"""Numbers up to which an array is written as a list; longer ones as base64."""

MOST_BYTES = 64 << 20
"""Learned numbers up to which a file of source code is reasonable: their text is a third longer."""

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Recipe:
    """What is a method's own: the functions of a chunk of rows, and the learned arrays they name.

    The text defines `row_probabilities(z)`, or `row_probabilities(z, x)` for a method that reads features; a
    temperature method defines `row_temperatures(z)` instead.
    """

    text: str
    arrays: dict[str, Array] = field(default_factory=dict)
    features: int | None = None
    """Width of the features that it reads, if it does."""


def numpy_source(calibrator: Calibrator) -> str:
    """The text of the file, for any fitted method of the registry."""
    _check(calibrator)
    recipe = RECIPES[calibrator.id](calibrator)
    size = sum(array.nbytes for array in recipe.arrays.values())
    if size > MOST_BYTES:
        raise ExportError(
            f"{calibrator.label} keeps {size // 4:,} numbers ({size / 1e6:.0f} MB), too many for a file of Python "
            "code; save the calibrator itself instead."
        )
    own = [_public(calibrator, recipe), recipe.text.strip("\n")]
    constants = "\n".join([f"CLASSES = {calibrator.classes_}", *_feature_constant(recipe)])
    arrays = [_written(name, array) for name, array in recipe.arrays.items()]
    parts = _needed([constants, *own, *arrays])
    imports = _imports([*own, *parts, *arrays])
    blocks = [_header(calibrator, recipe), imports, constants, *own, *parts, *arrays]
    return _joined(blocks)


def _check(calibrator: Calibrator) -> None:
    """Fitted, of a method known here, and with settings in order: they become part of the text."""
    if calibrator.id not in RECIPES:
        raise ExportError(f"{calibrator.label} cannot be written as NumPy code; save the calibrator itself instead.")
    check_exportable(calibrator)


# -- the methods --------------------------------------------------------------------------------------------


def _vanilla(calibrator: Calibrator) -> Recipe:
    return Recipe('''
def row_temperatures(z: np.ndarray) -> np.ndarray:
    """1 for every sample."""
    return np.ones(len(z), dtype=np.float32)
''')


def _ts(calibrator: Calibrator) -> Recipe:
    text = '''
def row_temperatures(z: np.ndarray) -> np.ndarray:
    """The same for every sample."""
    return np.full(len(z), TEMPERATURE[0])
'''
    return Recipe(text, {"TEMPERATURE": _learned(calibrator, "temperature_")})


def _ets(calibrator: Calibrator) -> Recipe:
    text = '''
def row_probabilities(z: np.ndarray) -> np.ndarray:
    """`w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K`."""
    d = gaps(z).astype(np.float64)
    tempered, plain, uniform = WEIGHTS.astype(np.float64)
    mixture = tempered * softmax(d / TEMPERATURE[0]) + plain * softmax(d) + uniform / CLASSES
    return lift_top(mixture, z)
'''
    return Recipe(
        text, {"TEMPERATURE": _learned(calibrator, "temperature_"), "WEIGHTS": _learned(calibrator, "weights_")}
    )


def _linear_recipe(inputs: str, scores: str, formula: str) -> Callable[[Calibrator], Recipe]:
    text = f'''
def row_probabilities(z: np.ndarray) -> np.ndarray:
    """`{formula}`."""
    x = {inputs}(z)
    return softmax({scores}).astype(np.float32)
'''
    return lambda calibrator: Recipe(
        text, {"WEIGHT": _learned(calibrator, "weight_"), "BIAS": _learned(calibrator, "bias_")}
    )


def _smart(calibrator: Calibrator) -> Recipe:
    settings = calibrator.settings_dict()
    indicator = INDICATOR_FUNCTIONS.get(settings["indicator"])
    if indicator is None:
        raise ExportError(f"{calibrator.label} reads '{settings['indicator']}', which has no NumPy form.")
    mean = _learned(calibrator, "mean_")
    layers, arrays = _layers(calibrator, mlp.layer_sizes(len(mean), settings["hidden"], settings["layers"]))
    text = f'''
def row_temperatures(z: np.ndarray) -> np.ndarray:
    """`T = softplus(W_n relu(... W_1 x + b_1 ...) + b_n) + {EPSILON:g}`, x the standardised indicator."""
    x = standardised(np.clip({indicator}(z), -{LARGEST!r}, {LARGEST!r}), MEAN, STD)
    return (np.logaddexp(0.0, network(x, {layers})) + {EPSILON!r}).astype(np.float32)
'''
    return Recipe(text, {"MEAN": mean, "STD": _learned(calibrator, "std_"), **arrays})


def _pts(calibrator: Calibrator) -> Recipe:
    mean = _learned(calibrator, "mean_")
    layers, arrays = _layers(calibrator, mlp.layer_sizes(len(mean), 5, 2))
    text = f'''
def row_temperatures(z: np.ndarray) -> np.ndarray:
    """`T = |W_3 relu(W_2 relu(W_1 x + b_1) + b_2) + b_3|`, x the standardised largest logits."""
    x = standardised(largest_logits(z, {len(mean)}, {CLIP!r}), MEAN, STD)
    t = np.abs(network(x, {layers}))
    return np.clip(t, {T_LEAST!r}, {T_GREATEST!r}).astype(np.float32)
'''
    return Recipe(text, {"MEAN": mean, "STD": _learned(calibrator, "std_"), **arrays})


def _cts(calibrator: Calibrator) -> Recipe:
    text = f'''
def row_probabilities(z: np.ndarray) -> np.ndarray:
    """`softmax(z_k / T_k)`, one temperature a class."""
    held = np.clip(z, np.float32({-HUGE!r}), np.float32({HUGE!r}))
    return softmax(held / TEMPERATURES).astype(np.float32)
'''
    return Recipe(text, {"TEMPERATURES": _learned(calibrator, "temperatures_")})


def _top_label(call: str, *learned: str) -> Callable[[Calibrator], Recipe]:
    """Methods that map the top-1 confidence; `call` gives the new one from the doubt `u` and the learned arrays."""

    def recipe(calibrator: Calibrator) -> Recipe:
        text = f'''
def row_probabilities(z: np.ndarray) -> np.ndarray:
    """The top-1 confidence mapped as a function of the doubt u = 1 - s, the other classes in their proportions."""
    u = doubt(z)
    p, _, prediction = top1(z)
    c = {call}
    return spread(p, prediction, c, keep={calibrator.keeps_top1})
'''
        return Recipe(text, {name.rstrip("_").upper(): _learned(calibrator, name) for name in learned})

    return recipe


def _gc(calibrator: Calibrator) -> Recipe:
    arrays = {
        name.rstrip("_").upper(): _learned(calibrator, name) for name in ("weight_", "temperatures_", "mean_", "std_")
    }
    arguments, read = _reads(calibrator)
    text = f'''
def row_probabilities({arguments}) -> np.ndarray:
    """The mean over partitions p of `softmax(z / T_(p, g))`, g the group `argmax (W_p x)` of the sample."""
    group = group_of(standardised({read}, MEAN, STD), WEIGHT)
    return mean_over_partitions(z, np.take_along_axis(TEMPERATURES, group, axis=1))
'''
    return Recipe(text, arrays, len(arrays["MEAN"]) if calibrator.features_used_ else None)


def _procal(calibrator: Calibrator) -> Recipe:
    names = ("reference_", "hits_", "misses_", "hit_bandwidth_", "miss_bandwidth_")
    arrays = {name.rstrip("_").upper(): _learned(calibrator, name) for name in names}
    neighbours = int(calibrator.settings_dict()["neighbours"])
    width = arrays["REFERENCE"].shape[1] if calibrator.features_used_ else None
    arguments, read = _reads(calibrator)
    if len(arrays["HITS"]) == 0 or len(arrays["MISSES"]) == 0:
        text = f'''
def row_probabilities({arguments}) -> np.ndarray:
    """The softmax: without both hits and misses in validation there is no density ratio."""
    p, confidence, prediction = top1(z)
    return spread(p, prediction, confidence, keep=True)
'''
        return Recipe(text, {}, width)
    text = f'''
def row_probabilities({arguments}) -> np.ndarray:
    """`c = f+ / (f+ + f- n-/n+)`, densities of (confidence, proximity) among the hits and the misses."""
    p, _, prediction = top1(z)
    near = proximity(unit_rows({read}), REFERENCE, {neighbours})
    points = np.stack([softmax(z).max(axis=1), near], axis=1)
    for_hit = log_mass(points, HITS, HIT_BANDWIDTH)
    for_miss = log_mass(points, MISSES, MISS_BANDWIDTH)
    return spread(p, prediction, sigmoid(for_hit - for_miss), keep=True)
'''
    return Recipe(text, arrays, width)


def _fc(calibrator: Calibrator) -> Recipe:
    if not calibrator.features_used_:
        return Recipe('''
def row_probabilities(z: np.ndarray) -> np.ndarray:
    """`softmax(z)`: no threshold kept the accuracy, so nothing is clipped."""
    return softmax(z).astype(np.float32)
''')
    arrays = {name.rstrip("_").upper(): _learned(calibrator, name) for name in ("clip_", "weight_", "bias_")}
    text = '''
def row_probabilities(z: np.ndarray, x: np.ndarray) -> np.ndarray:
    """`softmax(W clip(x, -C, C) + b)`; the logits themselves are not read."""
    return softmax(linear(np.clip(x, -CLIP, CLIP), WEIGHT, BIAS)).astype(np.float32)
'''
    return Recipe(text, arrays, arrays["WEIGHT"].shape[1])


BETA_MAP = f"sigmoid(COEFFICIENTS[2] + beta_features(u, {LEAST_DOUBT!r}) @ COEFFICIENTS[:2].astype(np.float64))"

RECIPES: dict[str, Callable[[Calibrator], Recipe]] = {
    "vanilla": _vanilla,
    "ts": _ts,
    "ets": _ets,
    "vector": _linear_recipe("centred", "x.astype(np.float64) * WEIGHT + BIAS", "softmax(w * z + b)"),
    "matrix": _linear_recipe("centred", "linear(x, WEIGHT, BIAS)", "softmax(W z + b)"),
    "dirichlet": _linear_recipe("log_probabilities", "linear(x, WEIGHT, BIAS)", "softmax(W log p + b)"),
    "pts": _pts,
    "cts": _cts,
    "spline": _top_label("np.clip(broken_line(u, NODES, VALUES), 0.0, 1.0)", "nodes_", "values_"),
    "gc": _gc,
    "procal": _procal,
    "fc": _fc,
    "histogram": _top_label("stairs(u, EDGES, VALUES)", "edges_", "values_"),
    "isotonic": _top_label("broken_line(u, NODES, VALUES)", "nodes_", "values_"),
    "bbq": _top_label("stairs(u, EDGES, VALUES)", "edges_", "values_"),
    "beta": _top_label(BETA_MAP, "coefficients_"),
    "smart": _smart,
}
"""Method id -> what is its own in the file."""

INDICATOR_FUNCTIONS = {
    "margin": "margin",
    "entropy": "entropy",
    "confidence": "max_probability",
    "max_logit": "max_logit",
    "max_minus_mean": "max_minus_mean",
    "all_logits": "all_logits",
}


def _learned(calibrator: Calibrator, name: str) -> Array:
    return np.asarray(calibrator.state()[name].detach().cpu().numpy(), dtype=np.float32)


def _layers(calibrator: Calibrator, sizes: tuple[int, ...]) -> tuple[str, dict[str, Array]]:
    """The network's layers as the text of a list, and their weights and biases by name."""
    theta = calibrator.state()["theta_"].detach().cpu()
    pairs = []
    arrays: dict[str, Array] = {}
    for number, (weight, bias) in enumerate(mlp.unpack(theta, sizes), start=1):
        arrays |= {f"WEIGHT_{number}": weight.numpy(), f"BIAS_{number}": bias.numpy()}
        pairs.append(f"(WEIGHT_{number}, BIAS_{number})")
    return f"[{', '.join(pairs)}]", arrays


def _reads(calibrator: Calibrator) -> tuple[str, str]:
    """Arguments of the row function, and which of them a method that takes features or logits reads."""
    if calibrator.features_used_:
        return "z: np.ndarray, x: np.ndarray", "x"
    return "z: np.ndarray", "z"


# -- the file around them -----------------------------------------------------------------------------------


def _public(calibrator: Calibrator, recipe: Recipe) -> str:
    """The functions a user calls."""
    logits = 'checked(logits, CLASSES, "logits")'
    if isinstance(calibrator, TemperatureCalibrator):
        return f'''
def predict_proba(logits: object) -> np.ndarray:
    """Calibrated probabilities (N, {calibrator.classes_}), float32, of logits (N, {calibrator.classes_})."""
    return in_chunks(lambda z: tempered_softmax(z, row_temperatures(z)), {logits})


def temperatures(logits: object) -> np.ndarray:
    """The temperature of each sample, (N,), float32."""
    return in_chunks(row_temperatures, {logits})
'''
    if recipe.features is None:
        return f'''
def predict_proba(logits: object) -> np.ndarray:
    """Calibrated probabilities (N, {calibrator.classes_}), float32, of logits (N, {calibrator.classes_})."""
    return in_chunks(row_probabilities, {logits})
'''
    return f'''
def predict_proba(logits: object, features: object) -> np.ndarray:
    """Calibrated probabilities (N, {calibrator.classes_}), float32, of logits and features (N, {recipe.features})."""
    z, x = {logits}, checked(features, WIDTH, "features")
    if len(z) != len(x):
        raise ValueError(f"There are {{len(x)}} rows of features for {{len(z)}} of logits.")
    return in_chunks(row_probabilities, z, x)
'''


def _feature_constant(recipe: Recipe) -> list[str]:
    return [] if recipe.features is None else [f"WIDTH = {recipe.features}"]


def _header(calibrator: Calibrator, recipe: Recipe) -> str:
    """The docstring: what the file is, and how to call it."""
    classes = calibrator.classes_
    settings = {k: _number(v) for k, v in calibrator.settings_dict().items() if k != "device"}
    call = "logits" if recipe.features is None else "logits, features"
    shapes = f"(N, {classes})" if recipe.features is None else f"(N, {classes}) and (N, {recipe.features})"
    lines = [
        f"{calibrator.label}: calibrated probabilities in NumPy alone.",
        "",
        fill(f"Method:   {calibrator.id}. {calibrator.summary}", WIDTH, subsequent_indent=" " * 10),
        fill(
            f"Settings: {', '.join(f'{name}={value!r}' for name, value in settings.items())}",
            WIDTH,
            subsequent_indent=" " * 10,
            break_on_hyphens=False,
        ),
        f"Classes:  {classes}",
        f"Written by smart_core {smart_core.__version__}.",
        "",
        "How to call it:",
        "",
        f"    probabilities = predict_proba({call})  # {shapes} -> (N, {classes}); every row sums to 1",
    ]
    if isinstance(calibrator, TemperatureCalibrator):
        lines.append(f"    t = temperatures(logits)  # (N, {classes}) -> (N,)")
    lines += [
        "",
        fill(
            "It gives what the calibrator gives up to the rounding of float32. Learned numbers stand at the end, "
            "long ones as base64 of little-endian float32.",
            WIDTH,
        ),
    ]
    body = "\n".join(lines)
    return f'"""{body}\n"""'


def _number(value: Any) -> Any:
    """A setting's value without its NumPy type."""
    return value.item() if isinstance(value, np.generic) else value


def _written(name: str, array: Array) -> str:
    """`NAME = ...`, from which the array comes back bit for bit."""
    shape = ", ".join(str(length) for length in array.shape)
    numbers = [str(number) for number in array.ravel()] if array.size <= LISTED_UP_TO else []
    if numbers and _gives_back(numbers, array):
        listed = ", ".join(numbers)
        shaped = "" if array.ndim == 1 else f".reshape({shape})"
        line = f"{name} = np.array([{listed}], dtype=np.float32){shaped}"
        if len(line) <= WIDTH:
            return line
        listed = indent(fill(listed, WIDTH - 8), " " * 8)
        return f"{name} = np.array(\n    [\n{listed}\n    ],\n    dtype=np.float32,\n){shaped}"
    encoded = base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()
    lines = "\n".join(encoded[start : start + WIDTH] for start in range(0, len(encoded), WIDTH))
    return f'{name} = decoded(\n    """\n{lines}\n""",\n    {shape},\n)'


def _gives_back(numbers: list[str], array: Array) -> bool:
    """Whether the shortest texts, read as Python numbers and rounded to float32, are the array again."""
    read = np.array([float(number) for number in numbers], dtype=np.float32)
    return bool(np.isfinite(array).all()) and read.tobytes() == np.ascontiguousarray(array).tobytes()


@cache
def _toolbox() -> tuple[dict[str, str], dict[str, str]]:
    """Name -> text of every function and constant of `numpy_functions`, and bound name -> text of its imports."""
    source = inspect.getsource(numpy_functions)
    parts: dict[str, str] = {}
    imports: dict[str, str] = {}
    last = None
    for node in ast.parse(source).body:
        text = ast.get_source_segment(source, node) or ""
        if isinstance(node, ast.FunctionDef):
            last = None
            parts[node.name] = text
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            last = node.targets[0].id
            parts[last] = text
        elif isinstance(node, ast.Expr) and last is not None:
            parts[last] += f"\n{text}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports |= {alias.asname or alias.name: text for alias in node.names}
    return parts, imports


def _needed(texts: Iterable[str]) -> list[str]:
    """The functions and constants that the texts name, and those that these name, in their order."""
    parts, _ = _toolbox()
    found: set[str] = set()
    waiting = _names(texts)
    while waiting:
        new = (waiting & parts.keys()) - found
        found |= new
        waiting = _names(parts[name] for name in new) - found if new else set()
    return [text for name, text in parts.items() if name in found]


def _imports(texts: Iterable[str]) -> str:
    """The imports that the texts use: the standard library's, then NumPy's."""
    _, imports = _toolbox()
    used = sorted({imports[name] for name in _names(texts) & imports.keys()}, key=lambda text: ("numpy" in text, text))
    standard, others = ([text for text in used if ("numpy" in text) == third] for third in (False, True))
    return "\n\n".join(
        "\n".join(block) for block in (["from __future__ import annotations"], standard, others) if block
    )


def _names(texts: Iterable[str]) -> set[str]:
    return {node.id for text in texts for node in ast.walk(ast.parse(text.strip("\n"))) if isinstance(node, ast.Name)}


def _joined(blocks: Iterable[str]) -> str:
    """Blocks at the usual distance: two empty lines before and after functions, one elsewhere."""
    text, after_function = "", False
    for block in (block.strip("\n") for block in blocks):
        function = block.startswith("def ")
        text += ("\n\n\n" if function or after_function else "\n\n") * bool(text) + block
        after_function = function
    return text + "\n"
