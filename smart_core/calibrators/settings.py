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
        """The value as a Python number of the setting's kind, if that changes nothing: NumPy's scalars, 3 for 3.0."""
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
        """Raise `CalibrationError` if the value is not allowed."""
        value = self.plain(value)
        given = f"{owner}: {self.name}={value!r}"
        if value is None and self.optional:
            return
        if self.choices is not None:
            if value not in self.choices:
                raise CalibrationError(f"{given} is not one of {', '.join(map(str, self.choices))}.")
        elif self.kind in (int, float):
            if isinstance(value, bool) or not isinstance(value, int if self.kind is int else int | float):
                raise CalibrationError(f"{given} must be {self._wanted()}.")
            if (self.low is not None and not value >= self.low) or (self.high is not None and not value <= self.high):
                raise CalibrationError(f"{given} is outside its range, {self.low} to {self.high}.")

    def _wanted(self) -> str:
        return "a whole number" if self.kind is int else "a number"

    def describe(self) -> str:
        """The setting in one line: name, default, meaning, and the values it may take."""
        allowed = ""
        if self.choices is not None:
            allowed = f" One of {', '.join(map(repr, self.choices))}."
        elif self.low is not None:
            allowed = f" At least {self.low}." if self.high is None else f" {self.low} to {self.high}."
        return f"{self.name} = {self.default!r}: {self.help}{allowed}"

    def parse(self, text: str) -> Any:
        """The value that `text` means on a command line."""
        if text.lower() == "none" and self.optional:
            return None
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise CalibrationError(f"{self.name}={text!r} must be true or false.")
            return text.lower() == "true"
        try:
            return self.kind(text)
        except ValueError as error:
            raise CalibrationError(f"{self.name}={text!r} must be {self._wanted()}.") from error


def setting(default: Any, help: str, *, kind: type | None = None, **allowed: Any) -> Any:
    """A dataclass field that carries its own `Setting`; its kind is the default's type unless given."""
    described = Setting("", default, help, kind=kind or type(default), **allowed)
    return dataclasses.field(default=default, metadata={_KEY: described})


def settings_of(owner: Any) -> tuple[Setting, ...]:
    """The settings of a calibrator class or instance, in the order of its constructor."""
    return _described({field.name: field for field in dataclasses.fields(owner)})


def with_settings(owner: type) -> str:
    """A calibrator class's documentation, followed by its settings.

    It is called while the class is made: the fields of its bases are known, its own are still plain attributes.
    """
    bases = [base for base in owner.__bases__ if dataclasses.is_dataclass(base)]
    inherited = {field.name: field for base in bases for field in dataclasses.fields(base)}
    own = {name: value for name, value in vars(owner).items() if isinstance(value, dataclasses.Field)}
    lines = [f"    {item.describe()}" for item in _described(inherited | own)]
    return "\n".join([inspect.cleandoc(vars(owner).get("__doc__") or ""), "", "Settings:", *lines])


def _described(fields: dict[str, Any]) -> tuple[Setting, ...]:
    return tuple(
        dataclasses.replace(field.metadata[_KEY], name=name) for name, field in fields.items() if _KEY in field.metadata
    )
