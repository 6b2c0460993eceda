"""Zip archives (npz and pt are zips), opened only after their sizes have been looked at."""

from __future__ import annotations

import zipfile
from io import BytesIO

from smart_core.data.found import MAX_ARRAYS, refuse
from smart_core.data.limits import check_claim

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PIECE = 1 << 20


def open_zip(file: str, data: bytes) -> zipfile.ZipFile:
    """The archive, in memory, if what it says it unpacks to is within bounds."""
    archive = zipfile.ZipFile(BytesIO(data))
    members = archive.infolist()
    if len(members) > MAX_ARRAYS:
        raise refuse(file, f"is a zip archive with {len(members):,} members", "save only the arrays that are needed")
    if any(member.compress_type not in _METHODS for member in members):
        raise refuse(file, "is compressed in an unusual way", "save it with numpy.savez or torch.save")
    check_claim(file, "the archive", sum(member.file_size for member in members), len(data))
    return archive


def unpacked(archive: zipfile.ZipFile, name: str) -> bytearray:
    """A member, unpacked in pieces and no further than the size it declares: `archive.read` would unpack first.

    A member that goes on beyond that size fails its checksum.
    """
    content = bytearray()
    with archive.open(name) as stream:
        while piece := stream.read(_PIECE):
            content += piece
    return content
