"""Zip archives that are more, or other, than a bundle: nested, climbing, linked, explosive, contradictory."""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator

import torch

from tests.data.files import npy, npz, torch_bytes
from tests.data.test_bombs import BOMBS, deflated, lying_zip, zeros_deflated
from tests.robustness.arrays import Y, Z
from tests.robustness.case import Case, fixed
from tests.robustness.names import HOSTILE_NAMES

GOOD = {"logits.npy": npy(Z), "labels.npy": npy(Y)}
CLIMBING = ("../../escaped.npy", "/tmp/escaped.npy", "..\\..\\escaped.npy", "C:\\escaped.npy", "a/../../../b.npy", "")


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as target:
        for name, content in members.items():
            target.writestr(zipfile.ZipInfo(name), content, method)
    return stream.getvalue()


def linked(to: str, name: str = "logits.npy") -> bytes:
    """One member is a symbolic link."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        info = zipfile.ZipInfo(name)
        info.create_system = 3
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        target.writestr(info, to)
        target.writestr(zipfile.ZipInfo("labels.npy"), npy(Y))
    return stream.getvalue()


def nested(depth: int, extension: str) -> bytes:
    content = npz(logits=Z, labels=Y)
    for level in range(depth):
        content = archive({f"level{level}.{extension}": content})
    return content


def tarred(mode: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as target:
        for name, content in GOOD.items():
            info = tarfile.TarInfo(f"../{name}")
            info.size = len(content)
            target.addfile(info, io.BytesIO(content))
        info = tarfile.TarInfo("link.npy")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        target.addfile(info)
    return stream.getvalue()


def zip_of_torch(change: Callable[[str, bytes], tuple[str, bytes]]) -> bytes:
    """A torch file with its members renamed or replaced."""
    good = torch_bytes({"logits": torch.from_numpy(Z), "labels": torch.from_numpy(Y)})
    with zipfile.ZipFile(io.BytesIO(good)) as source:
        return archive(dict(change(name, source.read(name)) for name in source.namelist()), zipfile.ZIP_STORED)


def quine_like(megabytes: int) -> bytes:
    """A bomb whose members all claim the same compressed bytes (overlapping entries)."""
    packed = zeros_deflated(megabytes)
    head = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(packed), megabytes << 20, 5, 0)
    body = b"PK\x03\x04" + head + b"a.npy" + packed
    directory = b""
    for _ in range(200):
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + head + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"a.npy"
    return body + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 200, 200, len(directory), len(body), 0)


def odd_archives() -> Iterator[Case]:
    for extension in ("npz", "pt"):
        for name in CLIMBING:
            yield fixed(f"climbing.{extension}", "climbing archive", archive({**GOOD, name: npy(Z)}))
            if name:
                renamed = archive({name: npy(Z), name.replace("escaped", "labels"): npy(Y)})
                yield fixed(f"climber.{extension}", "climbing archive", renamed)
        for to in ("/etc/passwd", "../../secret.npy", "labels.npy", "/dev/zero"):
            yield fixed(f"linked.{extension}", "symlink in archive", linked(to))
        for depth in (1, 3, 30):
            yield fixed(f"nested.{extension}", "nested archive", nested(depth, extension))
        for name in HOSTILE_NAMES:
            member = name.encode("utf-8", "replace").decode()[:1000]
            yield fixed(f"member.{extension}", "odd member name", archive({**GOOD, f"{member}.npy": npy(Z)}))
        yield fixed(f"long.{extension}", "odd member name", archive({**GOOD, "x" * 60_000 + ".npy": npy(Z)}))
        for mode in ("w", "w:gz", "w:bz2", "w:xz"):
            yield fixed(f"tarred.{extension}", "other archive", tarred(mode))
        yield fixed(f"gzipped.{extension}", "other archive", gzip.compress(npz(logits=Z, labels=Y), mtime=0))
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            yield fixed(f"method{method}.{extension}", "other archive", archive(GOOD, method))
        yield fixed(f"many.{extension}", "many members", archive({f"a{i}.npy": b"" for i in range(12_000)}))
        yield fixed(f"empty.{extension}", "many members", archive({f"a{i}/": b"" for i in range(50)}))
        twice = archive(GOOD) + archive({"logits.npy": npy(-Z), "labels.npy": npy(Y)})
        yield fixed(f"twice.{extension}", "contradictory archive", twice)
        yield fixed(f"locked.{extension}", "contradictory archive", _flagged(archive(GOOD), 1))
        yield fixed(f"strong.{extension}", "contradictory archive", _flagged(archive(GOOD), 0x41))
        for size in (0, 1, 2**32 - 2):
            members = {name: (deflated(content), size, zlib.crc32(content)) for name, content in GOOD.items()}
            yield fixed(f"sizes.{extension}", "contradictory archive", lying_zip(members))
        yield Case(f"overlapping.{extension}", "zip bomb", lambda _: quine_like(400))
        yield Case(f"deflated.{extension}", "zip bomb", lambda _: archive({**GOOD, "x.npy": bytes(600 << 20)}))
        packed = archive({"a.npz": archive({"b.npy": bytes(50 << 20)})})
        yield fixed(f"bomb_in_zip.{extension}", "zip bomb", packed)
    for new in ("data.pkl", "../data.pkl", "a/../data.pkl", "x/data/0", "a/version", "a/constants.pkl"):
        yield fixed("renamed.pt", "odd torch member", zip_of_torch(lambda name, data, new=new: (new, data)))
    for fill in (b"", b"\x80\x02}.", b"\x80\x02N.", b"\x80\x02K\x01."):
        spoiled = zip_of_torch(lambda name, data, fill=fill: (name, fill if name.endswith("data.pkl") else data))
        yield fixed("program.pt", "odd torch member", spoiled)
    for name, (make, _) in BOMBS.items():
        yield Case(name, "bomb", lambda _, make=make: make())


def _flagged(content: bytes, flag: int) -> bytes:
    """The same with a general purpose flag set in every header: `encrypted`, say."""
    marked = bytearray(content)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(signature)
        while place >= 0:
            marked[place + offset] |= flag
            place = content.find(signature, place + 1)
    return bytes(marked)
