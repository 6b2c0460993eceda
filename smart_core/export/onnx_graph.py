"""A computation graph put together by writing its formula: values know `+ - * /` and comparisons.

Values are float32 or float64 and are never mixed unseen: `wide` and `narrow` change their kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smart_core.export.onnx_proto import ELEMENTS, Node, Port


@dataclass(eq=False)
class Graph:
    """The operations so far, in order, and the numbers that they name."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)

    def input(self, name: str, width: int) -> Value:
        """An input (N, width), float32."""
        self.inputs.append(Port(name, width))
        return Value(self, name, "float32")

    def output(self, value: Value, name: str, width: int) -> None:
        """Give a float32 value (N, width) under a name."""
        self.nodes.append(Node("Identity", (value.name,), (name,), {}))
        self.outputs.append(Port(name, width))

    def constant(self, numbers: ArrayLike, kind: str, name: str | None = None) -> Value:
        """Numbers that are part of the graph."""
        known = name or f"constant_{len(self.constants)}"
        self.constants[known] = np.asarray(numbers, dtype=kind)
        return Value(self, known, kind)

    def apply(self, op: str, *inputs: Value, kind: str | None = None, **attributes: int | list[int]) -> Value:
        """One operation with one result, of the first input's kind unless told otherwise."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(Node(op, tuple(value.name for value in inputs), (name,), attributes))
        return Value(self, name, kind or inputs[0].kind)

    def largest(self, value: Value, count: int) -> Value:
        """The `count` largest of each row, in descending order."""
        name = f"topk_{len(self.nodes)}"
        places = self.constant([count], "int64")
        self.nodes.append(Node("TopK", (value.name, places.name), (name, f"{name}_places"), {"axis": 1}))
        return Value(self, name, value.kind)


@dataclass(frozen=True, eq=False)
class Value:
    """What an operation gives: a name in its graph, and a kind of number."""

    graph: Graph
    name: str
    kind: str

    def __add__(self, other: Operand) -> Value:
        return self._with("Add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._with("Sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._with("Mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._with("Div", other)

    def __matmul__(self, other: Value) -> Value:
        return self._with("MatMul", other)

    def __neg__(self) -> Value:
        return self.graph.apply("Neg", self)

    def __rsub__(self, other: float) -> Value:
        return self._same(other) - self

    def __lt__(self, other: Operand) -> Value:
        return self.graph.apply("Less", self, self._same(other), kind="bool")

    def __le__(self, other: Operand) -> Value:
        return self.graph.apply("LessOrEqual", self, self._same(other), kind="bool")

    def maximum(self, other: Operand) -> Value:
        return self._with("Max", other)

    def minimum(self, other: Operand) -> Value:
        return self._with("Min", other)

    def clip(self, low: float, high: float) -> Value:
        return self.maximum(low).minimum(high)

    def wide(self) -> Value:
        """In float64."""
        return self.cast("float64")

    def narrow(self) -> Value:
        """In float32."""
        return self.cast("float32")

    def cast(self, kind: str) -> Value:
        return self if kind == self.kind else self.graph.apply("Cast", self, kind=kind, to=ELEMENTS[kind])

    def exp(self) -> Value:
        return self.graph.apply("Exp", self)

    def log(self) -> Value:
        return self.graph.apply("Log", self)

    def abs(self) -> Value:
        return self.graph.apply("Abs", self)

    def sqrt(self) -> Value:
        return self.graph.apply("Sqrt", self)

    def sum(self) -> Value:
        """(N, 1) sums of rows."""
        return self.graph.apply("ReduceSum", self, self.graph.constant([1], "int64"), keepdims=1)

    def mean(self, axis: int = 1) -> Value:
        """Along an axis, which stays with length 1 where it is the rows' own."""
        return self.graph.apply("ReduceMean", self, axes=[axis], keepdims=int(axis == 1))

    def max(self) -> Value:
        """(N, 1) largest of rows."""
        return self.graph.apply("ReduceMax", self, axes=[1], keepdims=1)

    def argmax(self) -> Value:
        """(N, 1) places of the first largest of rows."""
        return self.graph.apply("ArgMax", self, kind="int64", axis=1, keepdims=1)

    def softmax(self, axis: int = 1) -> Value:
        return self.graph.apply("Softmax", self, axis=axis)

    def transposed(self, *order: int) -> Value:
        return self.graph.apply("Transpose", self, perm=list(order))

    def unsqueezed(self, axis: int) -> Value:
        return self.graph.apply("Unsqueeze", self, self.graph.constant([axis], "int64"))

    def columns(self, start: int, stop: int) -> Value:
        """The columns from `start` up to `stop`."""
        ends = [self.graph.constant([number], "int64") for number in (start, stop, 1)]
        return self.graph.apply("Slice", self, *ends)

    def at(self, places: Value) -> Value:
        """The entries of a vector at places of any shape."""
        return self.graph.apply("Gather", self, places, axis=0)

    def picked(self, places: Value) -> Value:
        """One entry a row, at the row's place."""
        return self.graph.apply("GatherElements", self, places, axis=1)

    def put(self, places: Value, entries: Value) -> Value:
        """The rows with other entries at their places."""
        return self.graph.apply("ScatterElements", self, places, entries, axis=1)

    def where(self, yes: Value, no: Value) -> Value:
        """For truth values: `yes` where they hold, else `no`."""
        return self.graph.apply("Where", self, yes, no, kind=yes.kind)

    def _with(self, op: str, other: Operand) -> Value:
        return self.graph.apply(op, self, self._same(other))

    def _same(self, other: Operand) -> Value:
        """The other operand as a value of this kind; a value of another kind is an error of the graph's author."""
        if not isinstance(other, Value):
            return self.graph.constant(other, self.kind)
        if other.kind != self.kind:
            raise TypeError(f"{self.kind} and {other.kind} are mixed")
        return other


Operand = Value | float | int | Sequence[Any] | NDArray[Any]
