"""Settings that describe themselves: the command line, the pages and the docs are drawn from them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

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
        if isinstance(value, bool) or not isinstance(value, int | float) or (whole and int(value) != value):
            wanted = "a whole number" if whole else "a number"
            raise CalibrationError(f"{owner}: {self.name}={value!r} must be {wanted}.")
        if (self.low is not None and not value >= self.low) or (self.high is not None and not value <= self.high):
            raise CalibrationError(f"{owner}: {self.name}={value!r} is outside its range, {self.low} to {self.high}.")

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
