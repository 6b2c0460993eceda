"""The bytes of an ONNX file: a computation graph in Protocol Buffers, written without their library.

A message is a row of fields, each the key `number << 3 | wire type` and its value: a varint (type 0), or a length and
that many bytes (type 2). The numbers are those of `onnx.proto`, which no version of the format changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IR_VERSION = 8
OPSET = 17

ELEMENTS = {"float32": 1, "int64": 7, "bool": 9, "float64": 11}
"""Kind of number -> `TensorProto.DataType`."""

INT, INTS = 2, 7
"""`AttributeProto.AttributeType`."""

Attributes = Mapping[str, int | list[int]]


@dataclass(frozen=True)
class Node:
    """One operation: its kind, the names of what it reads and of what it gives."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Attributes


@dataclass(frozen=True)
class Port:
    """An input or output of the graph: (N, `width`) float32 numbers."""

    name: str
    width: int


def model(
    nodes: Iterable[Node],
    constants: Mapping[str, NDArray[np.generic]],
    inputs: Iterable[Port],
    outputs: Iterable[Port],
    *,
    words: str,
    producer: tuple[str, str],
    metadata: Mapping[str, str],
) -> bytes:
    """A `ModelProto`; `producer` is a name and a version, `words` describe the graph."""
    graph = b"".join(
        [
            *(_block(1, _node(node)) for node in nodes),
            _text(2, "calibrator"),
            *(_block(5, _tensor(name, array)) for name, array in constants.items()),
            _text(10, words),
            *(_block(11, _port(port)) for port in inputs),
            *(_block(12, _port(port)) for port in outputs),
        ]
    )
    return b"".join(
        [
            _number(1, IR_VERSION),
            _text(2, producer[0]),
            _text(3, producer[1]),
            _block(7, graph),
            _block(8, _text(1, "") + _number(2, OPSET)),
            *(_block(14, _text(1, key) + _text(2, value)) for key, value in metadata.items()),
        ]
    )


def _node(node: Node) -> bytes:
    return b"".join(
        [
            *(_text(1, name) for name in node.inputs),
            *(_text(2, name) for name in node.outputs),
            _text(3, node.outputs[0]),
            _text(4, node.op),
            *(_block(5, _attribute(name, value)) for name, value in node.attributes.items()),
        ]
    )


def _attribute(name: str, value: int | list[int]) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, INT)
    return _text(1, name) + b"".join(_number(8, item) for item in value) + _number(20, INTS)


def _tensor(name: str, array: NDArray[np.generic]) -> bytes:
    """Numbers as they lie in memory, little-endian."""
    raw = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
    dims = b"".join(_number(1, length) for length in array.shape)
    return dims + _number(2, ELEMENTS[array.dtype.name]) + _text(8, name) + _block(9, raw)


def _port(port: Port) -> bytes:
    """A `ValueInfoProto`: any number of rows, named N."""
    shape = _block(1, _text(2, "N")) + _block(1, _number(1, port.width))
    return _text(1, port.name) + _block(2, _block(1, _number(1, ELEMENTS["float32"]) + _block(2, shape)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, text: str) -> bytes:
    return _block(field, text.encode())


def _block(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first, the eighth set on all but the last; negative numbers as 64 bits."""
    left = value & 0xFFFF_FFFF_FFFF_FFFF
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)
