"""The registry of methods: every module of this package with a `Calibrator` that has an `id`."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from smart_core.calibrators.base import Calibrator
from smart_core.errors import CalibrationError


@cache
def methods() -> dict[str, type[Calibrator]]:
    """Every method by id, in the order of tables."""
    package = import_module("smart_core.calibrators")
    found: dict[str, type[Calibrator]] = {}
    for module in pkgutil.iter_modules(package.__path__):
        for candidate in vars(import_module(f"smart_core.calibrators.{module.name}")).values():
            if inspect.isclass(candidate) and issubclass(candidate, Calibrator) and "id" in vars(candidate):
                found[candidate.id] = candidate
    return dict(sorted(found.items(), key=lambda item: item[1].position))


def families() -> dict[str, list[str]]:
    """The ids of each family's methods; families and methods are in the order of tables."""
    found: dict[str, list[str]] = {}
    for id, method in methods().items():
        found.setdefault(method.family, []).append(id)
    return found


CHAINED = "+"
"""Between the ids of a chain's two methods: `svs+smart`."""


def method_named(id: str) -> type[Calibrator]:
    """The class of a method, or of a chain of two.

    >>> method_named("svs+smart").label
    'SVS then SMART'
    """
    (known_id,) = select([id])
    if CHAINED not in known_id:
        return methods()[known_id]
    from smart_core.calibrators.chain import chain_of

    return chain_of(*known_id.split(CHAINED))


def is_method(id: object) -> bool:
    """Whether this is the id of a method or of a chain."""
    if not isinstance(id, str):
        return False
    first, chained, second = id.partition(CHAINED)
    return first in methods() and (second in methods() if chained else True)


def in_order(ids: Iterable[str]) -> list[str]:
    """Ids of methods and chains, each once, in the order of tables."""
    return sorted(dict.fromkeys(ids), key=lambda id: method_named(id).position)


def get(id: str, **settings: Any) -> Calibrator:
    """A calibrator by its id, with settings by name, or those of a preset.

    >>> get("ts", bins=10).settings_dict()["bins"]
    10
    >>> get("smart", preset="paper").settings_dict()["batch_size"]
    1024
    >>> get("svs+smart", **{"second.sigma": 0.1}).label
    'SVS then SMART'
    """
    method = method_named(id)
    settings = {**method.preset(settings.pop("preset", None)), **settings}
    known = {described.name for described in method.settings()}
    for name in settings:
        if name not in known:
            raise CalibrationError(f"{method.label} has no setting '{name}'; it has {', '.join(sorted(known))}.")
    return method(**settings)


def select(ids: str | Sequence[str]) -> list[str]:
    """Ids from `all`, a comma-separated string, or a sequence, each once; none at all or an unknown one is an error.

    Two ids with a plus between them are a chain: the second method on the outputs of the first.

    >>> select("ts, svs+smart")
    ['ts', 'svs+smart']
    """
    if ids == "all":
        return list(methods())
    wanted = [part.strip() for part in ids.split(",") if part.strip()] if isinstance(ids, str) else list(ids)
    if not wanted:
        raise CalibrationError(f"No method was given; the methods are {' '.join(methods())}, or all of them: all.")
    for id in wanted:
        if not is_method(id):
            raise CalibrationError(
                f"There is no method '{id}'; the methods are {' '.join(methods())}, or a chain of two of them, such as "
                "svs+smart."
            )
    return list(dict.fromkeys(wanted))


HEADINGS = ("id", "method", "keeps top-1", "needs", "what it does")


def method_rows() -> list[tuple[str, ...]]:
    """The rows of the tables in `smart methods`, the README and the documentation, under `HEADINGS`."""
    return [
        (
            id,
            method.label,
            "yes" if method().keeps_top1 else "no",
            ", ".join([*method.needs, *(f"{name} (optional)" for name in method.uses)]),
            method.summary,
        )
        for id, method in methods().items()
    ]


def method_table() -> str:
    """The methods as a Markdown table."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *((f"`{id}`", *others) for id, *others in method_rows())]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
