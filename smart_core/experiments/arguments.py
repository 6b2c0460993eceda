"""What a study is asked to do: how often, and over which values; refused in one sentence before any work."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from smart_core.errors import CalibrationError


def check_count(value: Any, name: str) -> None:
    """Refuses a number of seeds or repetitions that is no whole number from 1 up."""
    if not _whole(value) or value < 1:
        raise CalibrationError(f"{name}={value!r} must be a whole number, at least 1.")


def several(values: Any, name: str) -> tuple[Any, ...]:
    """The values in their order; a lone number is one of them, a string lists them with commas between."""
    if isinstance(values, str):
        return tuple(part.strip() for part in values.split(",") if part.strip())
    if isinstance(values, Real):
        return (values,)
    if not isinstance(values, Iterable):
        raise CalibrationError(f"{name}={values!r} is no list.")
    return tuple(values)


def several_numbers(values: Any, name: str) -> tuple[float, ...]:
    """The same, as floats."""
    try:
        return tuple(float(value) for value in several(values, name))
    except (TypeError, ValueError) as error:
        raise CalibrationError(f"{name}={values!r} must be numbers, such as [0.01, 0.05].") from error


def several_sizes(values: Any, name: str, most: int) -> tuple[int, ...]:
    """The same, as whole numbers from 1 to `most`."""
    sizes = several(values, name)
    for size in sizes:
        if not _whole(size) or not 1 <= size <= most:
            raise CalibrationError(f"{name}: {size!r} is no whole number from 1 to {most:,}, the rows there are.")
    return tuple(int(size) for size in sizes)


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
