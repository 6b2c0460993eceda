"""Results as a tree of JSON, with references to what JSON cannot hold: arrays, calibrators, evaluations, data sets.

A reference is an object with one key that begins with `$`. Only the classes listed in `KINDS` are ever built from a
tree, only by their constructors, and each is checked against the schema. What was one object before is one object
again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smart_core.calibrators.base import Calibrator
from smart_core.data.logitset import LogitSet
from smart_core.errors import WorkspaceError
from smart_core.evaluation import Evaluation
from smart_core.experiments.results import Result, json_value
from smart_core.export.workspace_schema import SCHEMA, check
from smart_core.metrics.classwise import ClasswiseCells

Array = NDArray[Any]

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in SCHEMA if kind not in (LogitSet, Evaluation, ClasswiseCells)
}
"""The dataclasses that a tree may hold, by name."""


@dataclass(eq=False)
class Parts:
    """What the references of a tree point to, in the order of their numbers."""

    sets: list[LogitSet] = field(default_factory=list)
    calibrators: list[Calibrator] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)


class Writer:
    """From values to trees; the parts that they refer to gather in `parts`, each once."""

    def __init__(self, sets: list[LogitSet]) -> None:
        self.parts = Parts(sets=list(sets))
        self._places: dict[tuple[Any, ...], int] = {}

    def tree(self, value: Any, where: str) -> Any:
        """The tree of a value; one sentence that names `where` if it holds what cannot be kept."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, dict):
            return self._mapping(value, where)
        if isinstance(value, list):
            return [self.tree(item, where) for item in value]
        if isinstance(value, tuple):
            return {"$tuple": [self.tree(item, where) for item in value]}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
            return {"$array": self._number(self.parts.arrays, value, id(value))}
        if isinstance(value, Calibrator):
            return {"$calibrator": self.calibrator(value)}
        if isinstance(value, Evaluation):
            return {"$evaluation": self.evaluation(value)}
        if isinstance(value, LogitSet):
            return {"$set": self._set(value, where)}
        if KINDS.get(type(value).__name__) is type(value):
            kept = {item.name: getattr(value, item.name) for item in fields(value) if item.init}
            return {"$object": type(value).__name__, "fields": self._mapping(kept, where)}
        raise WorkspaceError(f"{where} holds a {type(value).__name__}, which a workspace cannot keep; leave it out.")

    def calibrator(self, value: Calibrator) -> int:
        """The number of a calibrator."""
        return self._number(self.parts.calibrators, value, id(value))

    def evaluation(self, value: Evaluation) -> int:
        """The number of an evaluation; two that share all their arrays are one."""
        return self._number(self.parts.evaluations, value, *(id(getattr(value, item.name)) for item in fields(value)))

    def _mapping(self, value: dict[Any, Any], where: str) -> dict[str, Any]:
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: self.tree(item, where) for key, item in value.items()}
        return {"$map": [[self.tree(key, where), self.tree(item, where)] for key, item in value.items()]}

    def _number(self, parts: list[Any], value: Any, *identity: int) -> int:
        key = (id(parts), *identity)
        if key not in self._places:
            self._places[key] = len(parts)
            parts.append(value)
        return self._places[key]

    def _set(self, value: LogitSet, where: str) -> int:
        """The set itself among the workspace's, or one of the same name and content."""
        for same in (lambda known: known is value, lambda known: _same_set(known, value)):
            for number, known in enumerate(self.parts.sets):
                if same(known):
                    return number
        raise WorkspaceError(f"{where} is about the data set '{value.name}', which is not in the workspace; add it.")


class Reader:
    """From trees back to values."""

    def __init__(self, parts: Parts) -> None:
        self._builders: dict[str, Callable[[Any], Any]] = {
            "$float": _special,
            "$numbers": _numbers,
            "$tuple": lambda items: tuple(self.value(item) for item in items),
            "$map": lambda pairs: {self.value(key): self.value(item) for key, item in pairs},
            "$array": lambda number: _at(parts.arrays, number),
            "$calibrator": lambda number: _at(parts.calibrators, number),
            "$evaluation": lambda number: _at(parts.evaluations, number),
            "$set": lambda number: _at(parts.sets, number),
        }

    def value(self, tree: Any) -> Any:
        """The value of a tree; ValueError where it is none."""
        if isinstance(tree, list):
            return [self.value(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if "$object" in tree:
            return self._object(tree)
        marks = [key for key in tree if key.startswith("$")]
        if not marks:
            return {key: self.value(item) for key, item in tree.items()}
        if len(tree) != 1 or marks[0] not in self._builders:
            raise ValueError(f"it refers to an unknown {marks[0][:20]!r}")
        return self._builders[marks[0]](tree[marks[0]])

    def _object(self, tree: dict[str, Any]) -> Any:
        kind = KINDS.get(str(tree["$object"]))
        if kind is None or set(tree) != {"$object", "fields"}:
            raise ValueError("it holds an object of an unknown kind")
        made = check(kind(**self.value(tree["fields"])))
        if isinstance(made, Result):
            json_value(made.to_dict())  # a result that cannot even be told is none
        return made


def _special(name: Any) -> float:
    if name not in ("nan", "inf", "-inf"):
        raise ValueError("a number in it is of a wrong kind")
    return float(name)


def _numbers(array: Any) -> list[float]:
    if not isinstance(array, np.ndarray):
        raise ValueError("a list of numbers in it is of a wrong kind")
    numbers: list[float] = array.tolist()
    return numbers


def _same_set(known: LogitSet, value: LogitSet) -> bool:
    return known.name == value.name and known.content_hash == value.content_hash


def _at(parts: list[Any], number: Any) -> Any:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(parts):
        raise ValueError("it refers to a part that is not there")
    return parts[number]
