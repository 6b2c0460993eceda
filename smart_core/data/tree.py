"""Values as trees of plain JSON, with references to what JSON cannot hold.

The sandbox sends its results as such trees, and a workspace keeps its studies as such trees. A reference is an object
with one key that begins with `$`, such as `{"$array": 0}`. Of classes, a tree holds only those that both sides list;
their objects are built by their constructors alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

NOT_FINITE = ("nan", "inf", "-inf")


def encode(value: Any, refer: Callable[[Any], Any], kinds: Mapping[str, type[Any]]) -> Any:
    """Return the tree of a value.

    `refer` stores an array or another object elsewhere and returns the reference to it, or None. Dataclasses of `kinds`
    become their fields. TypeError for anything else.

    >>> encode({"sizes": (1, 2), "worst": math.inf}, lambda value: None, {})
    {'sizes': {'$tuple': [1, 2]}, 'worst': {'$float': 'inf'}}
    """

    def tree(item: Any) -> Any:
        return encode(item, refer, kinds)

    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list):
        return list(map(tree, value))
    if isinstance(value, tuple):
        return {"$tuple": list(map(tree, value))}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: tree(item) for key, item in value.items()}
        return {"$map": [[tree(key), tree(item)] for key, item in value.items()]}
    reference = refer(value)
    if reference is None and kinds.get(type(value).__name__) is type(value):
        given = {item.name: tree(getattr(value, item.name)) for item in fields(value) if item.init}
        return {"$object": type(value).__name__, "fields": given}
    if reference is None:
        raise TypeError(f"holds a {type(value).__name__}, which cannot be kept; leave it out.")
    return reference


def decode(tree: Any, resolve: Mapping[str, Callable[[Any], Any]], build: Callable[[str, dict[str, Any]], Any]) -> Any:
    """Return the value of a tree; ValueError for a reference that is unknown.

    `resolve` has a function for each kind of reference; `build` makes an object of its class and fields.

    >>> decode({"sizes": {"$tuple": [1, 2]}, "worst": {"$float": "inf"}}, {}, dict)
    {'sizes': (1, 2), 'worst': inf}
    """

    def value(item: Any) -> Any:
        return decode(item, resolve, build)

    if isinstance(tree, list):
        return list(map(value, tree))
    if not isinstance(tree, dict):
        return tree
    mark = next((key for key in tree if key.startswith("$")), None)
    if mark is None:
        return {key: value(item) for key, item in tree.items()}
    content = tree[mark]
    if tree.keys() == {"$object", "fields"}:
        return build(tree["$object"], value(tree["fields"]))
    if len(tree) == 1 and mark == "$tuple":
        return tuple(map(value, content))
    if len(tree) == 1 and mark == "$map":
        return {value(key): value(item) for key, item in content}
    if len(tree) == 1 and mark == "$float" and content in NOT_FINITE:
        return float(content)
    if len(tree) == 1 and mark in resolve:
        return resolve[mark](content)
    raise ValueError(f"it refers to an unknown {mark[:20]!r}")
