"""The globals that a pickled NumPy array needs, each replaced by a function that checks what it is given.

The pickled state never reaches NumPy's own `__setstate__`: type, shape and bytes are checked here and the
array is a view of the bytes in the file.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import numpy as np

from smart_core.data.found import Found, flatten
from smart_core.data.logitset import Array
from smart_core.data.unpickle import Interpreter, Name, Table

_NUMERIC = re.compile(r"[<>|=]?(?:[biuf](?:1|2|4|8|16)|[US]\d{1,6}|[bhilqBHILQefdg?])")
_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")


class DType:
    """A NumPy type named by a pickle: numbers, booleans and text only."""

    buildable: ClassVar[bool] = True

    def __init__(self, code: object, align: object = False, copy: object = False) -> None:
        if not isinstance(code, str) or not _NUMERIC.fullmatch(code):
            raise TypeError(f"arrays of type {code!r} hold no plain numbers")
        self.dtype = np.dtype(code)

    def build(self, state: object) -> None:
        """(version, byte order, subarray, names, fields, ...): only the byte order may say something."""
        if not isinstance(state, tuple) or len(state) < 5 or any(part is not None for part in state[2:5]):
            raise TypeError("a structured type holds no plain numbers")
        if state[1] not in ("<", ">", "|", "="):
            raise TypeError("an unknown byte order")
        if state[1] in "<>":
            self.dtype = self.dtype.newbyteorder(state[1])


class ArrayShell:
    """An array in the making: (version, shape, type, Fortran order, bytes) arrive after it was created."""

    buildable: ClassVar[bool] = True

    def __init__(self) -> None:
        self.array: Array = np.empty(0, dtype=np.int8)

    def build(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise TypeError("an array without its state")
        shape, dtype, fortran, raw = state[-4:]
        self.array = view_of(raw, dtype, shape, "F" if fortran else "C")


def view_of(raw: object, dtype: object, shape: object, order: object) -> Array:
    """The array of that type and shape over exactly these bytes."""
    if isinstance(raw, str):
        raw = raw.encode("latin-1")
    if not isinstance(raw, bytes | bytearray) or not isinstance(dtype, DType) or order not in ("C", "F"):
        raise TypeError("an array that is not built from bytes")
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise TypeError("an array without a shape")
    count = math.prod(shape)
    if count * dtype.dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {shape} over {len(raw)} bytes")
    if count == 0:
        return np.empty(shape, dtype=dtype.dtype)
    return np.frombuffer(raw, dtype=dtype.dtype).reshape(shape, order=order)


def numpy_table(budget: int) -> dict[tuple[str, str], Any]:
    """The allowed globals; `budget` bounds the bytes that text may be encoded to: the size of the file."""
    left = [budget]

    def encode(text: object, encoding: object = "utf-8") -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise TypeError("text in another encoding")
        left[0] -= len(text)
        if left[0] < 0:
            raise MemoryError("one text is used over and over")
        return text.encode("latin-1")

    def reconstruct(kind: object, shape: object, code: object) -> ArrayShell:
        if kind != Name("numpy", "ndarray") or shape != (0,):
            raise TypeError("an array that does not start empty")
        return ArrayShell()

    def scalar(dtype: object, raw: object = b"") -> object:
        return view_of(raw, dtype, (1,), "C")[0].item()

    def no_bytes() -> bytes:
        return b""

    def plain_dict(items: object = ()) -> dict[Any, Any]:
        """Old Pythons pickled an OrderedDict as a list of [key, value] lists."""
        if not isinstance(items, list | tuple) or not all(isinstance(i, list) and len(i) == 2 for i in items):
            raise TypeError("a dict that is not built from pairs")
        return {str(key): value for key, value in items if isinstance(key, str | int)}

    table: dict[tuple[str, str], Any] = {
        ("numpy", "ndarray"): None,
        ("numpy", "dtype"): DType,
        ("_codecs", "encode"): encode,
        ("collections", "OrderedDict"): plain_dict,
        ("builtins", "bytes"): no_bytes,
        ("__builtin__", "bytes"): no_bytes,
    }
    for module in _MODULES:
        if module.endswith("multiarray"):
            table[module, "_reconstruct"] = reconstruct
            table[module, "scalar"] = scalar
        else:
            table[module, "_frombuffer"] = view_of
    return table


def unpickle(file: str, data: bytes, extra: Table | None = None, persistent: Any = None) -> list[Found]:
    """The arrays in the plain containers that a pickle builds."""
    interpreter = Interpreter(file, data, {**numpy_table(len(data)), **(extra or {})}, persistent)
    tree = interpreter.run()
    return flatten(file, tree, budget=interpreter.steps, unwrap=_unwrap)


def _unwrap(node: Any) -> Any:
    return node.array if isinstance(node, ArrayShell) else node
