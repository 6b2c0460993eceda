"""Pickles of NumPy arrays in plain containers, the form of many published logits.

Each global that a pickled array needs is replaced by a function that checks its arguments. The pickled state never
reaches NumPy's own `__setstate__`: type, shape and bytes are checked here, and the array is a view of the bytes in the
file. Arrays of objects or records are marked unusable, and what is in them is dropped.
"""

from __future__ import annotations

import io
import math
import re
from typing import Any, ClassVar

import numpy as np

from smart_core.data.formats.nested import flatten
from smart_core.data.formats.raw import RawArray, RawFile, Source
from smart_core.data.formats.unpickler import Interpreter, Name, Table
from smart_core.data.logitset import Array

_NUMERIC = re.compile(r"[<>|=]?(?:[biuf](?:1|2|4|8|16)|[US]\d{1,6}|[bhilqBHILQefdg?])")
_OTHER = re.compile(r"[<>|=]?(?:O\d?|c(?:8|16|32)|[mM]8(?:\[\w{1,6}\])?|V\d{1,6})")


class DType:
    """A NumPy type named by a pickle; types of numbers, booleans and text are `plain`."""

    buildable: ClassVar[bool] = True

    def __init__(self, code: object, align: object = False, copy: object = False) -> None:
        if not isinstance(code, str) or not (_NUMERIC.fullmatch(code) or _OTHER.fullmatch(code)):
            raise TypeError(f"arrays of type {code!r} do not hold plain numbers")
        self.dtype = np.dtype(code)

    @property
    def plain(self) -> bool:
        return self.dtype.kind in "biufUS"

    def build(self, state: object) -> None:
        """(version, byte order, subarray, names, fields, ...): only the byte order may be set."""
        if not isinstance(state, tuple) or len(state) < 5:
            raise TypeError("a type without its state")
        if not self.plain:
            return
        if any(part is not None for part in state[2:5]):
            raise TypeError("a structured type does not hold plain numbers")
        if state[1] not in ("<", ">", "|", "="):
            raise TypeError("an unknown byte order")
        if state[1] in "<>":
            self.dtype = self.dtype.newbyteorder(state[1])


class ArrayShell:
    """An array that is created empty; its state (version, shape, type, Fortran order, bytes) follows."""

    buildable: ClassVar[bool] = True

    def __init__(self) -> None:
        self.array: Array | RawArray | dict[str, Any] = np.empty(0, dtype=np.int8)

    def build(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) not in (4, 5):
            raise TypeError("an array without its state")
        shape, dtype, fortran, raw = state[-4:]
        if shape == () and isinstance(raw, list) and len(raw) == 1 and isinstance(raw[0], dict):
            self.array = raw[0]  # np.save of a dict
            return
        self.array = view_of(raw, dtype, shape, "F" if fortran else "C")


def view_of(raw: object, dtype: object, shape: object, order: object) -> Array | RawArray:
    """Return the array of that type and shape over exactly these bytes; Python 2 wrote bytes as text."""
    if not isinstance(dtype, DType) or order not in ("C", "F"):
        raise TypeError("an array without a type")
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise TypeError("an array without a shape")
    if not dtype.plain:
        return RawArray.unusable("", (), dtype.dtype, shape)
    if isinstance(raw, str):
        raw = raw.encode("latin-1")
    if not isinstance(raw, bytes | bytearray):
        raise TypeError("an array that is not built from bytes")
    count = math.prod(shape)
    if count * dtype.dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {shape} over {len(raw)} bytes")
    if count == 0:
        return np.empty(shape, dtype=dtype.dtype)
    return np.frombuffer(raw, dtype=dtype.dtype).reshape(shape, order=order)


def _encode(text: object, encoding: object = "utf-8") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise TypeError("text in another encoding")
    return text.encode("latin-1")


def _reconstruct(kind: object, shape: object, code: object) -> ArrayShell:
    if kind != Name("numpy", "ndarray") or shape != (0,):
        raise TypeError("an array that does not start empty")
    return ArrayShell()


def _scalar(dtype: object, raw: object = b"") -> object:
    value = view_of(raw, dtype, (1,), "C")
    return value[0].item() if isinstance(value, np.ndarray) else value


def _plain_dict(items: object = ()) -> dict[str, Any]:
    """Python 2 pickled an OrderedDict as a list of [key, value] lists."""
    if not isinstance(items, list | tuple) or not all(isinstance(i, list) and len(i) == 2 for i in items):
        raise TypeError("a dict that is not built from pairs")
    return {str(key): value for key, value in items if isinstance(key, str | int)}


NUMPY_TABLE: Table = {
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): DType,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): _plain_dict,
    **{(module, "bytes"): lambda: b"" for module in ("builtins", "__builtin__")},
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): view_of for core in ("core", "_core")},
}
"""The allowed globals."""


def read_pickle(source: Source) -> RawFile:
    """Read the arrays of ((logits, labels), (logits, labels)), of a dict of arrays, or of both nested."""
    tree = Interpreter(io.BytesIO(source.data), source.name, NUMPY_TABLE).run()
    return flatten(tree, source.name, len(source.data), unwrap)


def unwrap(node: Any) -> Any:
    """Return the array of an `ArrayShell`; anything else as it is."""
    return node.array if isinstance(node, ArrayShell) else node
