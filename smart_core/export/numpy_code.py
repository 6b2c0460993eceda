"""A fitted calibrator as one Python file that needs nothing but NumPy.

The file holds `predict_proba` (and `temperatures`, for temperature methods), the functions of `numpy_functions` that
they call, and the learned numbers as text that gives back every bit of their float32 values.
"""

from __future__ import annotations

import ast
import base64
import inspect
from collections.abc import Iterable
from functools import cache
from textwrap import dedent, fill, indent
from typing import Any

import numpy as np
from numpy.typing import NDArray

import smart_core
from smart_core.calibrators import Calibrator, TemperatureCalibrator
from smart_core.errors import ExportError
from smart_core.export import check_exportable, feature_width, numpy_functions

WIDTH = 110
"""Columns of the written text."""

LISTED_UP_TO = 64
"""Numbers up to which an array is written as a list; longer ones are base64."""

MOST_BYTES = 64 << 20
"""Learned numbers up to which a file of source code is reasonable: their text is a third longer."""

Array = NDArray[np.float32]


def numpy_source(calibrator: Calibrator) -> str:
    """The text of the file, for any fitted method that has `numpy_code`.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> text = numpy_source(sc.TS().fit(data.logits, data.labels))
    >>> "def predict_proba(logits: object) -> np.ndarray:" in text
    True
    """
    rows = row_functions(calibrator)
    arrays = {name: array for name, array in learned_arrays(calibrator).items() if name in _names([rows])}
    size = sum(array.nbytes for array in arrays.values())
    if size > MOST_BYTES:
        raise ExportError(
            f"{calibrator.label} keeps {size // 4:,} numbers ({size / 1e6:.0f} MB), too many for a file of Python "
            "code; save the calibrator itself instead."
        )
    own = [_public(calibrator), rows]
    constants = f"CLASSES = {calibrator.classes_}"
    numbers = [_written(name, array) for name, array in arrays.items()]
    parts = _needed([constants, *own, *numbers])
    imports = _imports([*own, *parts, *numbers])
    return _joined([_header(calibrator), imports, constants, *own, *parts, *numbers])


def row_functions(calibrator: Calibrator) -> str:
    """Python text of `row_probabilities`, of one chunk of rows, from the method's `numpy_code`."""
    check_exportable(calibrator)
    code = calibrator.numpy_code()
    if code is None:
        raise ExportError(f"{calibrator.label} cannot be written as code; save the calibrator itself instead.")
    formula = (type(calibrator).__doc__ or "").split("\n\n")[0]
    if calibrator.classes_ == 0:
        return f'''
def row_confidences(confidence: np.ndarray) -> np.ndarray:
    """{formula}"""
{indent(dedent(code).strip(), "    ")}
'''.strip("\n")
    tempered = isinstance(calibrator, TemperatureCalibrator)
    arguments = "z: np.ndarray" if feature_width(calibrator) is None else "z: np.ndarray, x: np.ndarray"
    text = f'''
def row_{"temperatures" if tempered else "probabilities"}({arguments}) -> np.ndarray:
    """{formula}"""
{indent(dedent(code).strip(), "    ")}
'''
    if tempered:
        text += '''

def row_probabilities(z: np.ndarray) -> np.ndarray:
    """`softmax(z / T)`, the largest logit's probability strictly largest."""
    return tempered_softmax(z, row_temperatures(z))
'''
    return text.strip("\n")


def learned_arrays(calibrator: Calibrator) -> dict[str, Array]:
    """The learned tensors under their names in `numpy_code`."""
    return {
        name.rstrip("_").upper(): np.asarray(tensor.detach().cpu().numpy(), dtype=np.float32)
        for name, tensor in calibrator.state().items()
    }


def row_namespace(calibrator: Calibrator, **replaced: Any) -> dict[str, Any]:
    """The names of an exported file up to `row_probabilities`; `replaced` ones stand for functions of that name."""
    names: dict[str, Any] = {"__name__": "exported"}
    exec(inspect.getsource(numpy_functions), names)
    names |= {"CLASSES": calibrator.classes_, **learned_arrays(calibrator), **replaced}
    exec(row_functions(calibrator), names)
    return names


# -- the file around them -----------------------------------------------------------------------------------


def _public(calibrator: Calibrator) -> str:
    """The functions that a user calls."""
    if calibrator.classes_ == 0:
        return '''
def predict_confidence(confidence: object) -> np.ndarray:
    """Calibrated confidences (N,) of confidences (N,), the confidence of each prediction."""
    return in_chunks(row_confidences, 1, checked_confidences(confidence))
'''
    classes, width = calibrator.classes_, feature_width(calibrator)
    columns, logits = calibrator._widest_row(), 'checked(logits, CLASSES, "logits")'
    if calibrator.leaves_out_classes:
        logits = 'checked(logits, CLASSES, "logits", absent=True)'
    if width is not None:
        return f'''
def predict_proba(logits: object, features: object) -> np.ndarray:
    """Calibrated probabilities (N, {classes}), float32, of logits and features (N, {width})."""
    z, x = {logits}, checked(features, {width}, "features")
    if len(z) != len(x):
        raise ValueError(f"There are {{len(x)}} rows of features for {{len(z)}} of logits.")
    return in_chunks(row_probabilities, {columns}, z, x)
'''
    text = f'''
def predict_proba(logits: object) -> np.ndarray:
    """Calibrated probabilities (N, {classes}), float32, of logits (N, {classes})."""
    return in_chunks(row_probabilities, {columns}, {logits})
'''
    if isinstance(calibrator, TemperatureCalibrator):
        text += f'''

def temperatures(logits: object) -> np.ndarray:
    """The temperature of each sample, (N,), float32."""
    return in_chunks(row_temperatures, {columns}, {logits})
'''
    return text


def _header(calibrator: Calibrator) -> str:
    """The docstring: what the file is, and how to call it."""
    classes, width = calibrator.classes_, feature_width(calibrator)
    settings = ", ".join(f"{k}={v!r}" for k, v in calibrator.settings_dict().items() if k != "device")
    call = "logits" if width is None else "logits, features"
    shapes = f"(N, {classes})" if width is None else f"(N, {classes}) and (N, {width})"
    example = f"probabilities = predict_proba({call})  # {shapes} -> (N, {classes}); every row sums to 1"
    if classes == 0:
        example = "calibrated = predict_confidence(confidence)  # (N,) -> (N,)"
    tempered = isinstance(calibrator, TemperatureCalibrator) and classes
    temperatures = f"\n    t = temperatures(logits)  # (N, {classes}) -> (N,)" if tempered else ""
    return f'''"""{calibrator.label}: calibrated {"probabilities" if classes else "confidences"} in NumPy alone.

{fill(f"Method:   {calibrator.id}. {calibrator.summary}", WIDTH, subsequent_indent=" " * 10)}
{fill(f"Settings: {settings}", WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False)}
Classes:  {classes or "any number; fitted on confidences without logits"}
Written by smart_core {smart_core.__version__}.

How to call it:

    {example}{temperatures}

It gives what the calibrator gives up to the rounding of float32. Learned numbers are at the end, long ones
as base64 of little-endian float32.
"""'''


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
    used = sorted({imports[name] for name in _names(texts) & imports.keys()})
    standard, numpy = ([text for text in used if ("numpy" in text) == third] for third in (False, True))
    return "\n\n".join("\n".join(block) for block in (["from __future__ import annotations"], standard, numpy) if block)


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
