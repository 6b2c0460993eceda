"""The errors that users see. Each carries its parts, so that every front end can word the fix for its reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Fix:
    """A fix that is an argument of `load`; the command line has an option for it, and the page a control."""

    option: Literal["roles", "values", "val", "test", "splits", "group"]
    """`splits` means `val` and `test` together."""
    role: str | None = None
    """For `roles`: the role that an array should get. None if several arrays need one."""

    @property
    def in_python(self) -> str:
        """The fix as Python users read it."""
        array = f"array holds the {self.role}" if self.role else "array is which"
        return {
            "roles": f"say which {array} with roles=",
            "values": 'set values= to "logits" or "probabilities"',
            "val": "also pass val=",
            "test": "also pass test=",
            "splits": "give the files as val= and test=",
            "group": "choose one with group=",
        }[self.option]


class SmartError(Exception):
    """Base class of every error that users see: a problem, the ways to fix it, and the file it is in.

    `str(error)` is one sentence for Python users, `file: problem; fix, or another fix.`

    >>> print(SmartError("no labels were found", "add them", Fix("roles", "labels"), file="a.npz"))
    a.npz: no labels were found; add them, or say which array holds the labels with roles=.
    """

    def __init__(self, problem: str, *fixes: str | Fix, file: str | None = None) -> None:
        super().__init__(problem, *fixes)
        self.problem, self.fixes, self.file = problem, fixes, file

    def sentence(self, word: Callable[[Fix], str | None]) -> str:
        """The same sentence with every `Fix` in the words of a front end; one that it words as None is left out."""
        start = f"{self.file}: {self.problem}" if self.file else self.problem
        if not self.fixes:
            return start
        worded = [fix if isinstance(fix, str) else word(fix) for fix in self.fixes]
        fixes = ", or ".join(fix for fix in worded if fix)
        return f"{start}; {fixes}." if fixes else f"{start}."

    def __str__(self) -> str:
        return self.sentence(lambda fix: fix.in_python)


class LogitFileError(SmartError):
    """A file cannot be used as logits; the only error that loading raises."""


class CalibrationError(SmartError):
    """A calibrator cannot be fitted to, or applied to, the arrays it was given."""


class CalibratorFileError(SmartError):
    """A saved calibrator cannot be read."""


class ExportError(SmartError):
    """A result or a calibrator cannot be written in the requested form."""


class AttackError(SmartError):
    """The model or the images cannot be attacked."""


class CollectError(SmartError):
    """A model cannot be run over a loader, or an estimator's predictions cannot be read."""


class WorkspaceError(SmartError):
    """A workspace cannot be saved or restored."""


class Cancelled(SmartError):
    """The caller set the cancel token; the caller keeps whatever had finished before."""
