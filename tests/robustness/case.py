"""One odd file: what it is called, what it is an example of, and how its bytes are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """A file of the generator; its bytes are made when asked for, because some are large."""

    name: str
    """The file's name, which need not be unique: cases are told apart by their number."""
    kind: str
    """What is odd about it: `truncated`, `hostile pickle`, ..."""
    make: Callable[[Path], bytes]
    """The bytes; the path is the canary that a hostile file would touch."""

    @property
    def format(self) -> str:
        """The format the file claims to be in, by its extension."""
        extension = Path(self.name).suffix.lower().removeprefix(".")
        return {"pth": "pt", "p": "pickle", "pkl": "pickle", "arrow": "feather"}.get(extension, extension)


def fixed(name: str, kind: str, content: bytes) -> Case:
    """A case whose bytes are at hand."""
    return Case(name, kind, lambda _: content)
