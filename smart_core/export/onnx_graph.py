"""The graph of an ONNX model, recorded while NumPy code runs on stand-ins for its arrays.

`Traced` takes part in NumPy's protocols for functions and operators: what is computed from it becomes nodes of the
graph. It carries an array of a few example rows, from which the dtype and the shape of every result follow, so NumPy's
own rules decide where the graph must cast.

Written by hand, with `onnx_proto`: the `onnx` package would be a dependency for this alone, and `torch.onnx` needs it
too, loads PyTorch's compiler (70 MB) and writes another graph with each version of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from smart_core.errors import ExportError
from smart_core.export.onnx_proto import ELEMENTS, Node, Port

ROWS = 3
"""Example rows; no shape that a result depends on may contain their number."""

NEXT = 1.0 + 1.25 * 2.0**-24
"""A float32 number times this, rounded, is the next larger one."""


@dataclass(eq=False)
class Graph:
    """The operations so far, in order, and the constants that they name."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)

    def input(self, name: str, width: int) -> Traced:
        """An input (N, width), float32."""
        self.inputs.append(Port(name, width))
        return Traced(self, name, np.linspace(-1.0, 1.0, ROWS * width, dtype=np.float32).reshape(ROWS, width))

    def output(self, value: Traced, name: str) -> None:
        """Give a float32 value (N, width) under a name."""
        self.nodes.append(Node("Identity", (value.name,), (name,), {}))
        self.outputs.append(Port(name, value.shape[1]))

    def node(self, op: str, inputs: list[Any], example: Any, outputs: int = 1, **attributes: Any) -> Traced:
        """One operation; its first result, whose example rows are given."""
        name = f"{op.lower()}_{len(self.nodes)}"
        names = (name, *(f"{name}_{number}" for number in range(1, outputs)))
        self.nodes.append(Node(op, tuple(self._name(value) for value in inputs), names, attributes))
        return Traced(self, name, np.asarray(example))

    def _name(self, value: Any) -> str:
        if isinstance(value, Traced):
            return value.name
        name, array = f"constant_{len(self.constants)}", np.asarray(value)
        self.constants[name] = array.astype(np.int64) if array.dtype.kind == "i" else array
        return name


class Traced(NDArrayOperatorsMixin):
    """A stand-in for an array whose first axis is the rows, unless `transpose` or a product put it elsewhere."""

    def __init__(self, graph: Graph, name: str, example: NDArray[Any]) -> None:
        self.graph, self.name, self.example = graph, name, example

    @property
    def shape(self) -> tuple[int, ...]:
        return self.example.shape

    def __len__(self) -> int:
        raise ExportError("An ONNX graph cannot depend on the number of rows.")

    def __bool__(self) -> bool:
        raise ExportError("An ONNX graph cannot depend on a value.")

    def __iter__(self) -> Iterator[Traced]:
        return (self.node("Gather", self.example[index], np.int64(index), axis=0) for index in range(self.shape[0]))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc in COMPOSED and method == "__call__":
            return COMPOSED[ufunc](*inputs)
        if ufunc not in OPERATORS or method != "__call__" or kwargs:
            raise ExportError(f"np.{ufunc.__name__} has no ONNX form here.")
        kind = np.result_type(*(value.example if isinstance(value, Traced) else value for value in inputs))
        with np.errstate(all="ignore"):
            example = ufunc(*(_example(value) for value in inputs))
        return self.graph.node(OPERATORS[ufunc], [_cast(value, kind) for value in inputs], example)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function not in FUNCTIONS:
            raise ExportError(f"np.{function.__name__} has no ONNX form here.")
        return FUNCTIONS[function](*args, **kwargs)

    def node(self, op: str, example: Any, *more: Any, **attributes: Any) -> Traced:
        return self.graph.node(op, [self, *more], example, **attributes)

    def astype(self, kind: Any) -> Traced:
        if self.example.dtype == kind:
            return self
        return self.node("Cast", self.example.astype(kind), to=ELEMENTS[np.dtype(kind).name])

    @property
    def T(self) -> Traced:
        return self.node("Transpose", self.example.T, perm=list(range(self.example.ndim))[::-1])

    def max(self, axis: int, keepdims: bool = False) -> Traced:
        return self.node("ReduceMax", self.example.max(axis, keepdims=keepdims), axes=[axis], keepdims=int(keepdims))

    def mean(self, axis: int, keepdims: bool = False) -> Traced:
        return self.node("ReduceMean", self.example.mean(axis, keepdims=keepdims), axes=[axis], keepdims=int(keepdims))

    def sum(self, axis: int, keepdims: bool = False) -> Traced:
        return self.node(
            "ReduceSum", self.example.sum(axis, keepdims=keepdims), np.array([axis]), keepdims=int(keepdims)
        )

    def argmax(self, axis: int, keepdims: bool = False) -> Traced:
        return self.node("ArgMax", self.example.argmax(axis, keepdims=keepdims), axis=axis, keepdims=int(keepdims))

    def __getitem__(self, key: tuple[Any, ...]) -> Traced:
        """Whole rows first, then for each axis a slice, one column, or a new axis."""
        found, axis = self, 0
        for part in key:
            place: tuple[Any, ...] = (slice(None),) * axis + (part,)
            example = found.example[place]
            if part is None:
                found = found.node("Unsqueeze", example, np.array([axis]))
            elif isinstance(part, int):
                found, axis = found.node("Gather", example, np.int64(part), axis=axis), axis - 1
            elif part != slice(None):
                start, stop, _ = part.indices(found.shape[axis])
                found = found.node("Slice", example, np.array([start]), np.array([stop]), np.array([axis]))
            axis += 1
        return found


def _example(value: Any) -> Any:
    return value.example if isinstance(value, Traced) else value


def _cast(value: Any, kind: np.dtype[Any]) -> Any:
    return value.astype(kind) if isinstance(value, Traced) else np.asarray(value, dtype=kind)


OPERATORS = {
    np.add: "Add", np.subtract: "Sub", np.multiply: "Mul", np.divide: "Div", np.matmul: "MatMul",
    np.maximum: "Max", np.minimum: "Min", np.negative: "Neg", np.absolute: "Abs", np.sqrt: "Sqrt",
    np.exp: "Exp", np.log: "Log", np.less: "Less", np.less_equal: "LessOrEqual", np.greater: "Greater",
    np.greater_equal: "GreaterOrEqual", np.equal: "Equal", np.bitwise_and: "And", np.invert: "Not",
}  # fmt: skip
"""NumPy's function -> the ONNX operation that computes it."""

COMPOSED: dict[np.ufunc, Callable[..., Any]] = {
    np.square: lambda x: x * x,
    np.log1p: lambda x: np.log(x + 1.0),
    np.logaddexp: lambda a, b: np.maximum(a, b) + np.log(np.exp(-np.abs(a - b)) + 1.0),
    np.nextafter: lambda x, towards: (x.astype(np.float64) * NEXT).astype(np.float32),  # upwards, of a float32 >= 0
}
"""NumPy's function -> the same in terms of others."""


def _where(condition: Traced, yes: Any, no: Any) -> Traced:
    kind = np.result_type(_example(yes), _example(no))
    example = np.where(condition.example, _example(yes), _example(no))
    return condition.node("Where", example, _cast(yes, kind), _cast(no, kind))


def _full_like(like: Traced, value: Any, dtype: Any = None) -> Traced:
    kind = np.dtype(dtype or like.example.dtype)
    return (like * 0.0).astype(kind) + kind.type(value)


def _take_along_axis(array: Any, indices: Traced, axis: int) -> Traced:
    example = np.take_along_axis(_example(array), indices.example, axis)
    return indices.graph.node("GatherElements", [array, indices], example, axis=axis)


def _searchsorted(rising: NDArray[np.float32], x: Traced, side: str) -> Traced:
    """How many of the rising numbers lie below x, for side "right" also those equal to it: a binary search.

    Numbers beyond the last are infinite, so that the search can run over a power of two.
    """
    steps = len(rising).bit_length()
    padded = np.full(max(1, 2**steps - 1), np.inf, dtype=np.float32)
    padded[: len(rising)] = rising
    place = _full_like(x, 0, np.int64)
    for step in (2**power for power in reversed(range(steps))):
        here = taken(padded, place + (step - 1))
        below = here <= x if side == "right" else here < x
        place = place + below.astype(np.int64) * step
    return place


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.where: _where,
    np.clip: lambda x, low, high: np.minimum(np.maximum(x, low), high),
    np.full_like: _full_like,
    np.ones_like: lambda like: _full_like(like, 1.0),
    np.take_along_axis: _take_along_axis,
    np.searchsorted: _searchsorted,
}
"""NumPy's function -> how it is recorded."""


def softmax(scores: Traced) -> Traced:
    """`numpy_functions.softmax` as ONNX's own operation."""
    d = (scores - scores.max(axis=1, keepdims=True)).astype(np.float64)
    return d.node("Softmax", np.exp(d.example), axis=1)


def largest(rows: Traced, count: int) -> Traced:
    """`numpy_functions.largest` as ONNX's own operation."""
    example = -np.sort(-rows.example, axis=1)[:, :count]
    return rows.graph.node("TopK", [rows, np.array([count])], example, outputs=2, axis=1)


def taken(values: NDArray[Any], index: Traced) -> Traced:
    """`numpy_functions.taken` as ONNX's own operation."""
    return index.graph.node("Gather", [values, index], values[index.example], axis=0)
