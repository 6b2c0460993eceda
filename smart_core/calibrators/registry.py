"""The one list of methods. A method is a module of this package with a `Calibrator` that has an `id`."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Sequence
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


def get(id: str, **settings: Any) -> Calibrator:
    """A calibrator by its id, with settings by name."""
    try:
        method = methods()[id]
    except KeyError:
        raise CalibrationError(f"There is no method '{id}'; the methods are {' '.join(methods())}.") from None
    known = {described.name for described in method.settings()}
    for name in settings:
        if name not in known:
            raise CalibrationError(f"{method.label} has no setting '{name}'; it has {', '.join(sorted(known))}.")
    return method(**settings)


def select(ids: str | Sequence[str]) -> list[str]:
    """Ids from `all`, a comma-separated string, or a sequence, each once; none at all or an unknown one is an error."""
    if ids == "all":
        return list(methods())
    wanted = [part.strip() for part in ids.split(",") if part.strip()] if isinstance(ids, str) else list(ids)
    if not wanted:
        raise CalibrationError(f"No method was given; the methods are {' '.join(methods())}, or all of them: all.")
    for id in wanted:
        if id not in methods():
            raise CalibrationError(f"There is no method '{id}'; the methods are {' '.join(methods())}.")
    return list(dict.fromkeys(wanted))
