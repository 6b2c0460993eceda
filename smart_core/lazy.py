"""Packages whose names are imported on first use: `import smart_core` stays fast, and `--help` faster still."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from its modules and the names of each.

    >>> getattr_, dir_, all_ = attach("smart_core.metrics", {"binned": "ece mce", "proper": "nll"})
    >>> all_, getattr_("mce").__module__
    (['ece', 'mce', 'nll'], 'smart_core.metrics.binned')
    """
    homes = {name: f"{package}.{module}" for module, listed in names.items() for name in listed.split()}

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted(homes), sorted(homes)
