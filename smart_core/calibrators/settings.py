"""Settings that describe themselves: the command line, the pages and the docs are drawn from them."""

from __future__ import annotations

import dataclasses
import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from smart_core.errors import CalibrationError

_KEY = "setting"


@dataclass(frozen=True)
class Setting:
    """One constructor argument: its default, its meaning, and the values it may take."""

    name: str
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] | None = None
    logarithmic: bool = False
    optional: bool = False
    kind: type = float

    def plain(self, value: Any) -> Any:
        """The value as Python's own number of the setting's kind, where that changes nothing: NumPy's scalars, 3.0
        for 3, 1 for 1.0."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if self.kind is int and isinstance(value, float) and value.is_integer():
            return int(value)
        if self.kind is float and abs(value) < 2**53:
            return float(value)
        return value

    def check(self, value: Any, owner: str) -> None:
        """Raise one sentence if the value is not allowed."""
        if value is None and self.optional:
            return
        if self.choices is not None:
            if value not in self.choices:
                allowed = ", ".join(str(choice) for choice in self.choices)
                raise CalibrationError(f"{owner}: {self.name}={value!r} is not one of {allowed}.")
            return
        if self.kind in (int, float):
            self._check_number(value, owner)

    def _check_number(self, value: Any, owner: str) -> None:
        whole = self.kind is int
        value = self.plain(value)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            wanted = "a whole number" if whole else "a number"
            raise CalibrationError(f"{owner}: {self.name}={value!r} must be {wanted}.")
        if (self.low is not None and not value >= self.low) or (self.high is not None and not value <= self.high):
            raise CalibrationError(f"{owner}: {self.name}={value!r} is outside its range, {self.low} to {self.high}.")

    def describe(self) -> str:
        """The setting in one line: name, default, meaning, and the values it may take."""
        allowed = ""
        if self.choices is not None:
            allowed = f" One of {', '.join(repr(choice) for choice in self.choices)}."
        elif self.low is not None:
            allowed = f" At least {self.low}." if self.high is None else f" {self.low} to {self.high}."
        return f"{self.name} = {self.default!r}: {self.help}{allowed}"

    def parse(self, text: str) -> Any:
        """The value a command line means by `text`."""
        if text.lower() == "none" and self.optional:
            return None
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise CalibrationError(f"{self.name}={text!r} must be true or false.")
            return text.lower() == "true"
        try:
            return self.kind(text)
        except ValueError as error:
            wanted = "a whole number" if self.kind is int else "a number"
            raise CalibrationError(f"{self.name}={text!r} must be {wanted}.") from error


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[Any, ...] | None = None,
    logarithmic: bool = False,
    optional: bool = False,
    kind: type | None = None,
) -> Any:
    """A dataclass field that carries its own description; `kind` is told from the default where it can be."""
    described = Setting("", default, help, low, high, choices, logarithmic, optional, kind or type(default))
    return dataclasses.field(default=default, metadata={_KEY: described})


def settings_of(owner: Any) -> tuple[Setting, ...]:
    """The settings of a calibrator class or instance, in the order of its constructor."""
    return tuple(
        dataclasses.replace(field.metadata[_KEY], name=field.name)
        for field in dataclasses.fields(owner)
        if _KEY in field.metadata
    )


def with_settings(owner: type) -> str:
    """A calibrator class's documentation, followed by its settings.

    It is called while the class is made, when a base's fields are known and its own are still plain attributes.
    """
    bases = [base for base in owner.__bases__ if dataclasses.is_dataclass(base)]
    inherited = {item.name: item for base in bases for item in settings_of(base)}
    own = {
        name: dataclasses.replace(value.metadata[_KEY], name=name)
        for name, value in vars(owner).items()
        if isinstance(value, dataclasses.Field) and _KEY in value.metadata
    }
    lines = [f"    {item.describe()}" for item in (inherited | own).values()]
    return "\n".join([inspect.cleandoc(vars(owner).get("__doc__") or ""), "", "Settings:", *lines])
