"""Files that would fill memory or take minutes: each is refused in one sentence, or loaded, within limits.

The memory and the CPU time are those of the process that reads the file; the calling process grows by no more than the
arrays that it accepts.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch

from smart_core.data import load, sandbox
from smart_core.errors import LogitFileError
from tests.data import parquet
from tests.data.container_bombs import CLAIM, CONTAINER_BOMBS, LARGE, TIME
from tests.data.files import Usage, example, npy, torch_bytes
from tests.data.test_hostile_files import lying_npy
from tests.timing import slowdown

Z, Y = example()
SECONDS, PEAK = 5.0, 1_000_000_000
"""CPU time and memory of the process that reads a file."""
GROWTH = 64 << 20
"""Bytes by which the calling process may grow beyond the arrays that it accepts: what an allocator keeps."""

pytestmark = pytest.mark.skipif(not sandbox.available(), reason="this platform cannot fork")


def zeros_deflated(megabytes: int) -> bytes:
    """A raw deflate stream of zeros; every block stands by itself, so one is enough to make them all."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return block * megabytes + packer.flush(zlib.Z_FINISH)


def lying_zip(members: dict[str, tuple[bytes, int, int]]) -> bytes:
    """A zip that declares anything of each member: (deflated content, size, checksum)."""
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


def long_row_denied() -> bytes:
    """The same, with a table of contents that speaks of a million values."""
    content = long_row()
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    true, false = parquet.varint(VALUES), parquet.varint(1_048_577)
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
    return MAT + struct.pack("<II", 15, len(packed)) + packed


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


def repeated_name() -> bytes:
    """200 members of one name: whoever opens them by name opens the last one, which is large, every time."""
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")
        for _ in range(200):
            archive.writestr("logits.npy", npy(Z))
        archive.writestr("logits.npy", npy(np.zeros((6_000_000, 4), np.float32)))
    return stream.getvalue()


def widened(dtype: str) -> bytes:
    """250 MB of bytes that become 1 GB of float32."""
    stream = io.BytesIO()
    arrays = {"logits": np.zeros((250_000, 1000), dtype), "labels": np.zeros(250_000, np.int8)}
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def repeated_rows() -> bytes:
    """3 million times the same 60 MB of rows, which are deflated zeros."""
    rows = torch.zeros(15_000, 1000).as_strided((3_000_000, 1000), (0, 1))
    stored = torch_bytes({"logits": rows, "labels": torch.zeros(1)})
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(stored)) as source, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return stream.getvalue()


def negated() -> bytes:
    """60 views of one number; to negate a view, all of its entries are made."""
    number = torch.zeros(1)
    return torch_bytes({f"a{i}": torch._neg_view(number.expand(60_000_000)) for i in range(60)})


def repeated_field(rows: int = 600_000_000) -> bytes:
    """Two columns of one repeated number; their headers say first that they have ten."""
    return parquet.table(rows, [parquet.data_page(10), parquet.data_page(rows)])


def bits() -> bytes:
    """100 MB of bits, which become 3.2 GB of float32."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(800_000_000, "?")), 1000)
    return written(pa.table({"logits": lists, "labels": np.zeros(800_000)}), feather, compression="zstd")


def matrix(name: bytes, matrix_class: int, sizes: tuple[int, int], *parts: bytes) -> bytes:
    """A variable of a MATLAB file."""
    head = element(6, struct.pack("<II", matrix_class, 0)) + element(5, struct.pack("<ii", *sizes)) + element(1, name)
    return element(14, b"".join([head, *parts]))


MAT = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"


def nested_cells(depth: int = 60, megabytes: int = 100) -> bytes:
    """A matrix in a cell in a cell ..., which is copied at each level by a reader that cuts the content out."""
    size, cell = megabytes << 20, matrix(b"", 1, (1, 1))
    heads = [
        matrix(b"", 9, (1, size)) + struct.pack("<II", 2, size),
        *[cell] * (depth - 1),
        matrix(b"logits", 1, (1, 1)),
    ]
    for at, head in enumerate(heads):  # each declares what it holds itself and all within it
        size += len(head) - 8
        heads[at] = struct.pack("<II", 14, size) + head[8:]
        size += 8
    packer = zlib.compressobj(1)
    packed = packer.compress(b"".join(reversed(heads)))
    for _ in range(megabytes):
        packed += packer.compress(bytes(1 << 20))
    packed += packer.flush()
    return MAT + struct.pack("<II", 15, len(packed)) + packed


def empty_variables(count: int = 1_000_000) -> bytes:
    small = struct.pack("<HH4s", 1, 1, b"a") + element(9, b"")
    flags = element(6, struct.pack("<II", 6, 0)) + element(5, struct.pack("<ii", 0, 0))
    return MAT + element(14, flags + small) * count


def long_name_mat4() -> bytes:
    name = b"logits_" + b"1" * 4_000_000 + b"x\0"
    return struct.pack("<iiiii", 0, 4, 2, 0, len(name)) + name + bytes(64)


def same_hash(count: int = 100_000) -> bytes:
    """A dict whose keys are multiples of 2^61 - 1: in Python they all have the hash 0."""
    keys = ((i * (2**61 - 1)).to_bytes(11, "little") for i in range(1, count + 1))
    return b"\x80\x02}(" + b"".join(b"\x8a\x0b" + key + b"N" for key in keys) + b"u."


def same_hash_memo(count: int = 60_000) -> bytes:
    """The same in the pickle's memo."""
    return b"N" + b"".join(b"p%d\n" % (i * (2**61 - 1)) for i in range(1, count + 1)) + b"."


LONG = "1" * 3_000_000 + "x"


def long_name_safetensors() -> bytes:
    header = {LONG: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}, "__metadata__": {LONG: "[]", "a": LONG}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


def long_column() -> bytes:
    """A name on which the search for a number at its end took quadratic time."""
    header = f"{'1' * 45_000}x,b,label\n"
    return (header + "".join(f"{a},{b},{k}\n" for a, b, k in zip(*Z[:, :2].T, Y % 2, strict=True))).encode()


def long_header(columns: int) -> bytes:
    """The line of names alone takes more than 1 MB."""
    names = [f"logit_{'0' * 30}{i}" for i in range(columns)]
    rows = "".join(f"{','.join(['0.5'] * columns)},{k}\n" for k in (0, 1, 0, 1))
    return (",".join([*names, "label"]) + "\n" + rows).encode()


def many_columns(how: Callable[..., None], columns: int) -> bytes:
    zeros = pa.array(np.zeros(4))
    table = pa.Table.from_arrays([zeros] * columns, names=[f"logit_{i}" for i in range(columns)])
    return written(table, how)


parquet_table = pyarrow.parquet.write_table
feather = pyarrow.feather.write_feather

BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "lying.npz": (lying_npz, "Bad CRC-32 for file 'logits.npy'"),
    "lying.pt": (lying_pt, "Bad CRC-32 for file 'a/data/0'"),
    "names.npz": (repeated_name, "both array 'logits' and array 'logits' of names.npz could be the logits"),
    "int8.npz": (lambda: widened("i1"), LARGE),
    "bool.npz": (lambda: widened("?"), LARGE),
    "empty_text.npy": (lambda: lying_npy("(600000000,)", "<U0"), "claims 600.0 MB but the file holds"),
    "rows.pt": (repeated_rows, CLAIM),
    "negated.pt": (negated, LARGE),
    "old.pth": (old_torch, "asks for __builtin__.bytearray"),
    "row.parquet": (long_row, LARGE),
    "denied.parquet": (long_row_denied, f"{LARGE}|holds a single row"),  # pyarrow 16 reads what the file says
    "words.parquet": (lambda: long_words(parquet_table), "which is not a class name"),
    "field.parquet": (repeated_field, LARGE),
    "columns.parquet": (lambda: many_columns(parquet_table, 100_000), "more than 60,000 columns"),
    "columns.feather": (lambda: many_columns(feather, 100_000), "more than 60,000 columns"),
    "words.feather": (lambda: long_words(feather), "which is not a class name"),
    "views.feather": (viewed_words, LARGE),
    "zstd.feather": (lambda: zeros_feather("zstd"), LARGE),
    "lz4.feather": (lambda: zeros_feather("lz4"), LARGE),
    "bits.feather": (bits, LARGE),
    "text.pkl": (memoised_text, LARGE),
    "word.pkl": (long_word_in_a_list, "has 60 rows but array 'labels' has 2,001 entries"),
    "containers.pkl": (many_containers, f"{LARGE}|{TIME}"),
    "hashes.pkl": (same_hash, "no arrays were found"),
    "memo.pkl": (same_hash_memo, "no arrays were found"),
    "name.pkl": (lambda: pickle.dumps({LONG: Z, "labels": Y, "b": {LONG: Y}}), "LogitSet"),
    "cell.csv": (long_cell, "which is not a class name"),
    "wide.csv": (wide_line, "more than 60,000 columns"),
    "name.csv": (long_column, "LogitSet"),
    "names.csv": (lambda: long_header(30_000), "LogitSet"),
    "many_names.csv": (lambda: long_header(99_000), "more than 60,000 columns"),
    "group.safetensors": (long_group_name, "no labels were found"),
    "header.safetensors": (deep_header, "its header takes 45.0 MB"),
    "name.safetensors": (long_name_safetensors, "no labels were found|no logits were found"),
    "doubles.mat": (lambda: packed_mat(6, 2, 200), LARGE),
    "letters.mat": (lambda: packed_mat(4, 16, 200), LARGE),
    "cells.mat": (nested_cells, "holds cells"),
    "variables.mat": (empty_variables, f"no labels were found|{TIME}"),
    "name.mat": (long_name_mat4, "no labels were found"),
    **CONTAINER_BOMBS,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_stay_within_memory_and_time(name: str, tmp_path: Path) -> None:
    make, words = BOMBS[name]
    path = tmp_path / name
    path.write_bytes(make())
    assert path.stat().st_size < 60_000_000
    accepted = 0
    with Usage() as usage:
        try:
            data = load(path)
            said, accepted = repr(data), sum(array.nbytes for _, array in data.arrays())
        except LogitFileError as error:
            said = str(error)
    assert re.search(words, said), said
    assert "\n" not in said
    assert usage.peak < max(PEAK, 4 * path.stat().st_size)
    assert usage.seconds < SECONDS * slowdown()
    assert usage.growth < accepted + GROWTH
