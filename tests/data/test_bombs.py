"""Small files that would fill the memory are refused before they do: each is loaded in a process of its own."""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch

from tests.conftest import ROOT
from tests.data.files import example, torch_bytes
from tests.timing import slowdown

Z, Y = example()
PEAK, SECONDS = 700e6, 5.0
"""Bytes of memory that every bomb here would exceed, were it unpacked before it is looked at; seconds of work."""

LOADER = """
import sys, time
sys.path.insert(0, {root!r})
from smart_core.data import load
from smart_core.errors import LogitFileError

def peak():
    # getrusage would also count the process that started this one
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

try:
    said = repr(load({path!r}))
except LogitFileError as error:
    said = str(error)
print(time.process_time(), peak(), said, sep="\\n")
"""


def zeros_deflated(megabytes: int) -> bytes:
    """A raw deflate stream of zeros; every block stands by itself, so one is enough to make them all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * megabytes + packer.flush(zlib.Z_FINISH)


def lying_zip(members: dict[str, tuple[bytes, int, int]]) -> bytes:
    """A zip that declares what it likes of each member: (deflated content, size, checksum)."""
    body, directory = b"", b""
    for name, (content, size, checksum) in members.items():
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, checksum, len(content), size, len(name), 0)
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + fields
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + name.encode()
        body += b"PK\x03\x04" + fields + name.encode() + content
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


def deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def lying_npz() -> bytes:
    return lying_zip({"logits.npy": (zeros_deflated(1500), 1000, 0)})


def lying_pt() -> bytes:
    tensor = torch_bytes({"logits": torch.zeros(60, 4), "labels": torch.zeros(60)})
    with zipfile.ZipFile(io.BytesIO(tensor)) as archive:
        program = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    return lying_zip(
        {
            "a/data.pkl": (deflated(program), len(program), zlib.crc32(program)),
            "a/data/0": (zeros_deflated(1500), 960, 0),
            "a/data/1": (zeros_deflated(1500), 240, 0),
        }
    )


def written(table: pa.Table, how: Callable[..., None], **options) -> bytes:
    stream = io.BytesIO()
    how(table, stream, **options)
    return stream.getvalue()


def one_row(count: int) -> pa.Table:
    offsets = pa.array([0, count], pa.int32())
    return pa.table({"logits": pa.ListArray.from_arrays(offsets, pa.array(np.zeros(count))), "labels": [0]})


VALUES = 60_000_000


@cache
def long_row() -> bytes:
    return written(one_row(VALUES), pyarrow.parquet.write_table, write_statistics=False)


def varint(value: int) -> bytes:
    """A whole number as parquet's headers write it."""
    value <<= 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def long_row_denied() -> bytes:
    """The same, with a table of contents that speaks of a million values."""
    content = long_row()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    true, false = varint(VALUES), varint(1_048_577)
    assert len(true) == len(false)
    assert content[end:].count(true) >= 1
    return content[:end] + content[end:].replace(true, false)


def long_words(how: Callable[..., None], rows: int = 300_000) -> bytes:
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 100_000]))
    table = pa.table({"a": np.zeros(rows), "b": np.zeros(rows), "label": words})
    return written(table, how)


def viewed_words(rows: int = 100_000) -> bytes:
    """Views of one text, over and over."""
    if int(pa.__version__.split(".")[0]) < 19:
        pytest.skip(f"pyarrow {pa.__version__} cannot make a column of views from buffers")
    long = b"x" * 100_000
    view = struct.pack("<i4sii", len(long), long[:4], 0, 0)
    column = pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(view * rows), pa.py_buffer(long)])
    table = pa.table({"a": np.zeros(rows), "b": np.zeros(rows), "label": column})
    return written(table, pyarrow.feather.write_feather, compression="zstd")


def zeros_feather(codec: str) -> bytes:
    zeros = np.zeros(50_000_000)
    return written(pa.table({"a": zeros, "b": zeros, "label": zeros}), pyarrow.feather.write_feather, compression=codec)


def memoised_text(arrays: int = 600, size: int = 2_000_000) -> bytes:
    """One text under many arrays, each of which would have it encoded anew."""
    text = b"X" + struct.pack("<I", size) + b"a" * size + b"q\x000"
    shell = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1\x85R"
    state = b"(K\x01J" + struct.pack("<i", size) + b"\x85" + kind + b"\x89h\x00tb"
    return b"\x80\x02" + text + b"(" + (shell + state) * arrays + b"l."


def long_word_in_a_list() -> bytes:
    return pickle.dumps({"logits": Z, "labels": ["x" * 2_000_000, *["a"] * 2_000]})


def long_cell() -> bytes:
    rows = [f"{a},{b},cat\n" for a, b in Z[:, :2]] * 40
    return ("a,b,label\n" + "".join(rows) + f"1,2,{'x' * 2_000_000}\n").encode()


def wide_line() -> bytes:
    return b"0," * 3_000_000 + b"0\n" + b"1," * 3_000_000 + b"1\n"


def long_group_name() -> bytes:
    header = {
        "val_group": {"dtype": "I8", "shape": [1000], "data_offsets": [0, 1000]},
        "__metadata__": {"val_group_names": json.dumps(["x" * 1_000_000])},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(1000)


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def packed_mat(matrix_class: int, stored: int, megabytes: int) -> bytes:
    """Zeros stored in a byte each, to be widened to what the class of the matrix needs."""
    count = megabytes << 20
    head = element(6, struct.pack("<II", matrix_class, 0)) + element(5, struct.pack("<ii", 1, count))
    head += element(1, b"logits")
    packer = zlib.compressobj(1)
    packed = packer.compress(struct.pack("<II", 14, len(head) + 8 + count) + head + struct.pack("<II", stored, count))
    for _ in range(megabytes):
        packed += packer.compress(bytes(1 << 20))
    packed += packer.flush()
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed


class Bytes:
    def __init__(self, size: int) -> None:
        self.size = size

    def __reduce__(self):
        return bytearray, (self.size,)


def old_torch() -> bytes:
    return torch_bytes({"logits": Bytes(1_500_000_000)}, _use_new_zipfile_serialization=False)


def many_containers() -> bytes:
    return b"\x80\x02(" + b"}" * 15_000_000 + b"l."


def deep_header() -> bytes:
    text = b'{"__metadata__":{},"a":[' + b"[]," * 15_000_000 + b"[]]}"
    return struct.pack("<Q", len(text)) + text


BOMB = "claims .* bomb"
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "lying.npz": (lying_npz, "Bad CRC-32 for file 'logits.npy'"),
    "lying.pt": (lying_pt, "Bad CRC-32 for file 'a/data/0'"),
    "row.parquet": (long_row, BOMB),
    "denied.parquet": (long_row_denied, BOMB),
    "words.parquet": (lambda: long_words(pyarrow.parquet.write_table), BOMB),
    "words.feather": (lambda: long_words(pyarrow.feather.write_feather), BOMB),
    "views.feather": (viewed_words, BOMB),
    "zstd.feather": (lambda: zeros_feather("zstd"), BOMB),
    "lz4.feather": (lambda: zeros_feather("lz4"), BOMB),
    "text.pkl": (memoised_text, BOMB),
    "word.pkl": (long_word_in_a_list, "has 60 rows but array 'labels' has 2,001 entries"),
    "containers.pkl": (many_containers, BOMB),
    "cell.csv": (long_cell, "which is not a class name"),
    "wide.csv": (wide_line, "more than 100,000 columns"),
    "group.safetensors": (long_group_name, "no labels were found"),
    "header.safetensors": (deep_header, "its header takes 45.0 MB"),
    "doubles.mat": (lambda: packed_mat(6, 2, 200), BOMB),
    "letters.mat": (lambda: packed_mat(4, 16, 200), BOMB),
    "old.pth": (old_torch, "asks for __builtin__.bytearray"),
}


def measured(content: bytes, name: str, folder) -> tuple[float, int, str]:
    """(seconds of work, peak memory, what was said) of a process that loads the file and nothing else."""
    path = folder / name
    path.write_bytes(content)
    script = LOADER.format(root=str(ROOT), path=str(path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    seconds, peak, said = done.stdout.strip().split("\n")
    return float(seconds), int(peak), said


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_stay_within_memory_and_time(name, tmp_path):
    make, words = BOMBS[name]
    content = make()
    assert len(content) < 50_000_000
    seconds, peak, said = measured(content, name, tmp_path)
    assert re.search(words, said), said
    assert peak < PEAK
    assert seconds < SECONDS * slowdown()
