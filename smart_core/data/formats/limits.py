"""What a file claims to hold, compared with its size; and zip archives.

The sandbox limits the memory and the time of a reader. What is checked here gives a better sentence, or an earlier one.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from io import BytesIO

import numpy as np

from smart_core.data.formats.raw import MAX_ARRAYS, MAX_CHARACTERS
from smart_core.data.logitset import Array, Notice
from smart_core.errors import LogitFileError
from smart_core.formatting import bytes_text

MAX_BYTES = 8 << 30
"""No file may be larger than this, nor unpack to more."""
ALWAYS_FINE_BYTES = 256 << 20
"""Content below this size is never taken for a decompression bomb, however small the file."""
MAX_RATIO = 200
"""Above that size, what is unpacked may be at most this many times larger than the bytes it came from."""
MAX_COLUMNS = 60_000
"""Of a table; more take too long to process one by one."""

DAMAGED = "it may be truncated or damaged; copy or save it again"


class Budget:
    """The memory that one file may use; what it claims is charged before it is unpacked."""

    def __init__(self, file: str, held: int) -> None:
        self.file, self.held = file, held
        self.charged = 0

    def charge(self, what: str, claimed: int) -> None:
        """Add to the total; raise if it is out of proportion to the file."""
        self.charged += claimed
        if self.charged > max(ALWAYS_FINE_BYTES, min(MAX_RATIO * self.held, MAX_BYTES)):
            claim = f"{what} claims {bytes_text(self.charged)} out of {bytes_text(self.held)} in the file"
            fix = "the file is damaged or a decompression bomb; save the arrays again"
            raise LogitFileError(claim, fix, file=self.file)


def text_array(words: Sequence[str], file: str, label: str, notices: list[Notice]) -> Array:
    """Return the words as an array of strings; long ones are cut, because NumPy makes every entry as wide as them."""
    if max(map(len, words), default=1) > MAX_CHARACTERS:
        notice = Notice("long_text", f"{file}: texts of {label} are cut at {MAX_CHARACTERS} characters.")
        notices += [] if notice in notices else [notice]  # a column may come in pieces
        words = [word[:MAX_CHARACTERS] for word in words]
    return np.array(words, dtype=np.str_)


def check_width(file: str, columns: int) -> None:
    """Raise if a table has very many columns."""
    if columns > MAX_COLUMNS:
        raise LogitFileError(f"is a table of more than {MAX_COLUMNS:,} columns", "save the matrix as npz", file=file)


def open_zip(file: str, data: bytes) -> zipfile.ZipFile:
    """Open an archive if the size that it says it unpacks to is within bounds."""
    archive = zipfile.ZipFile(BytesIO(data))
    members = archive.infolist()
    if len(members) > MAX_ARRAYS:
        problem = f"is a zip archive with {len(members):,} members"
        raise LogitFileError(problem, "save only the arrays that are needed", file=file)
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise LogitFileError("is compressed in an unusual way", "save it with numpy.savez or torch.save", file=file)
    Budget(file, len(data)).charge("the archive", sum(member.file_size for member in members))
    return archive


def unzip(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo) -> bytearray:
    """Unpack a member in pieces, no further than the size it declares: `archive.read` would unpack it first.

    A member that goes on beyond that size fails its checksum.
    """
    content = bytearray()
    with archive.open(member) as stream:
        while piece := stream.read(1 << 20):
            content += piece
    return content
