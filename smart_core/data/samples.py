"""The files that come with the package: the dashboard and the sample logits."""

from __future__ import annotations

import os
from pathlib import Path

from smart_core.errors import LogitFileError

_PACKAGE = Path(__file__).resolve().parents[1]

APP = _PACKAGE / "app" if (_PACKAGE / "app").is_dir() else _PACKAGE.parent
"""The folder of dashboard.py, pages/ and sample_logits/: inside an installed package, else the repository."""

SAMPLES = APP / "sample_logits"

PREFIX = "sample:"
"""`sample:digits` stands for the file of a bundled sample."""


def is_sample(source: object) -> bool:
    """Return whether the source is the name of a sample and not a path."""
    return isinstance(source, str) and source.startswith(PREFIX)


def sample_names() -> list[str]:
    """Return the names of all samples, without the prefix."""
    return sorted(path.stem for path in SAMPLES.glob("*.npz"))


def located(source: str | os.PathLike[str]) -> Path:
    """Return the path of a file or of a named sample."""
    if not is_sample(source):
        return Path(source)
    name, known = str(source).removeprefix(PREFIX), sample_names()
    if name not in known:
        listed = f"the samples are {', '.join(known)}" if known else f"there is none in {SAMPLES}"
        raise LogitFileError(f"There is no sample named {name[:80]!r}; {listed}.")
    return SAMPLES / f"{name}.npz"
