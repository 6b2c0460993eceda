"""The limits that keep a file from filling memory: what it claims to hold is compared with the bytes it has."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from io import BytesIO

import numpy as np

from smart_core.data.formats.raw import MAX_ARRAYS
from smart_core.data.logitset import Array, Notice
from smart_core.errors import LogitFileError
from smart_core.formatting import bytes_text

MAX_BYTES = 8 << 30
"""No file may be larger than this, nor unpack to more."""
ALWAYS_FINE_BYTES = 256 << 20
"""Content below this size is never taken for a decompression bomb, however small the file."""
MAX_RATIO = 200
"""Above that size, what is unpacked may be at most this many times larger than the bytes it came from."""
PLAIN_RATIO = 8
"""How many times larger even uncompressed content may become on its way to an array."""
MAX_CHARACTERS = 256
"""Names of classes, groups and labels are cut after this many characters, with a notice."""
MAX_COLUMNS = 100_000
"""Of a table; more take minutes to process one by one."""

DAMAGED = "it may be truncated or damaged; copy or save it again"


class Budget:
    """The memory that one file may use; each array is charged to it before it is made."""

    def __init__(self, file: str, held: int, ratio: int = MAX_RATIO) -> None:
        self.file, self.held, self.ratio = file, held, ratio
        self.charged = 0

    def charge(self, what: str, claimed: int) -> None:
        """Add to the total; raise if it is out of proportion to the file."""
        self.charged += claimed
        if self.charged > max(ALWAYS_FINE_BYTES, PLAIN_RATIO * self.held, min(self.ratio * self.held, MAX_BYTES)):
            claim = f"{what} claims {bytes_text(self.charged)} out of {bytes_text(self.held)} in the file"
            fix = "the file is damaged or a decompression bomb; save the arrays again"
            raise LogitFileError(claim, fix, file=self.file)


def text_array(words: Sequence[str], label: str, budget: Budget, notices: list[Notice]) -> Array:
    """The words as an array of strings, charged to the file's budget.

    NumPy makes every entry as wide as the longest, so a single long one could fill memory.
    """
    longest = max(map(len, words), default=1)
    if longest > MAX_CHARACTERS:
        text = f"{budget.file}: texts of {label} are cut at {MAX_CHARACTERS} characters (the longest has {longest:,})."
        notices.append(Notice("long_text", text))
        words = [word[:MAX_CHARACTERS] for word in words]
    budget.charge(label, text_bytes(len(words), longest))
    return np.array(words, dtype=np.str_)


def text_bytes(count: int, longest: int) -> int:
    """What NumPy takes for `count` strings: four bytes per character, all as wide as the longest."""
    return 4 * count * min(max(longest, 1), MAX_CHARACTERS)


def decode_categories(words: Array, codes: Array, label: str, budget: Budget) -> Array:
    """words[codes]: a categorical column from its categories and their codes."""
    budget.charge(label, codes.size * words.dtype.itemsize)
    return words[codes]


def check_width(file: str, columns: int) -> None:
    """Raise if a table has very many columns."""
    if columns > MAX_COLUMNS:
        raise LogitFileError(f"is a table of more than {MAX_COLUMNS:,} columns", "save the matrix as npz", file=file)


def open_zip(file: str, data: bytes) -> zipfile.ZipFile:
    """The archive, if the size that it says it unpacks to is within bounds."""
    archive = zipfile.ZipFile(BytesIO(data))
    members = archive.infolist()
    if len(members) > MAX_ARRAYS:
        problem = f"is a zip archive with {len(members):,} members"
        raise LogitFileError(problem, "save only the arrays that are needed", file=file)
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise LogitFileError("is compressed in an unusual way", "save it with numpy.savez or torch.save", file=file)
    Budget(file, len(data)).charge("the archive", sum(member.file_size for member in members))
    return archive


def unzip(archive: zipfile.ZipFile, name: str) -> bytearray:
    """A member, unpacked in pieces and no further than the size it declares: `archive.read` would unpack first.

    A member that goes on beyond that size fails its checksum.
    """
    content = bytearray()
    with archive.open(name) as stream:
        while piece := stream.read(1 << 20):
            content += piece
    return content
