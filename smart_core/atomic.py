"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

Target = str | os.PathLike[str] | IO[bytes]
"""Where to write: a path, or an open binary file."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file beside the path that takes its place when the block ends well; an old file stays whole if it does not.

    What is there and no file, such as `/dev/stdout`, is written to as it is: a device must not be replaced by a file.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        with target.open("wb") as device:
            yield device
        return
    with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name[:100]}.", delete=False) as handle:
        temporary = Path(handle.name)
        try:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
            temporary.chmod(0o644)  # a temporary file is its owner's alone, what is saved is for sharing
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def opened(target: Target) -> AbstractContextManager[IO[bytes]]:
    """The open file itself, or a `replacing` one for a path."""
    return replacing(target) if isinstance(target, str | os.PathLike) else nullcontext(target)
