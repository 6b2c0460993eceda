"""Small HDF5, zarr, JSON and compressed files that claim to be large, or unpack to much."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pyarrow as pa

from tests.data.containers import zarr_store, zipped_store
from tests.data.files import example

Z, Y = example()


def unwritten_h5() -> bytes:
    """A dataset of a terabyte of which no chunk was written."""
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_dataset("logits", (10**9, 250), "f4", chunks=(1000, 250))
        file["labels"] = Y
    return stream.getvalue()


def one_chunk_h5(megabytes: int = 1500) -> bytes:
    """A chunk that is larger than the memory that a file may take, deflated."""
    stream = io.BytesIO()
    block = zlib.compress(bytes(1 << 20), 9)
    with h5py.File(stream, "w") as file:
        made = file.create_dataset(
            "logits", (megabytes << 18, 1), "f4", chunks=(megabytes << 18, 1), compression="gzip"
        )
        made.id.write_direct_chunk((0, 0), block)
        file["labels"] = Y
    return stream.getvalue()


def zeros_h5(chunks: int = 100) -> bytes:
    """Each chunk is a megabyte of zeros, deflated to a kilobyte."""
    stream = io.BytesIO()
    block = zlib.compress(bytes(1 << 20), 9)
    with h5py.File(stream, "w") as file:
        made = file.create_dataset("logits", (chunks << 8, 1024), "f4", chunks=(256, 1024), compression="gzip")
        for number in range(chunks):
            made.id.write_direct_chunk((number << 8, 0), block)
        file["labels"] = np.zeros(chunks << 8, np.int8)
    return stream.getvalue()


def many_groups_h5(count: int = 5_000) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w", libver="latest") as file:
        for number in range(count):
            file.create_group(f"g{number}").create_dataset("logits", data=0)
    return stream.getvalue()


def linked_h5() -> bytes:
    """A group that contains itself, links to nothing, to other files, and to itself."""
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        group = file.create_group("a")
        group["a"] = group
        group["soft"] = h5py.SoftLink("/a/soft")
        group["logits"] = h5py.ExternalLink("/etc/passwd", "/")
        group["labels"] = Y
    return stream.getvalue()


def unwritten_zarr() -> bytes:
    files = zarr_store({"logits": Z, "labels": Y})
    metadata = json.loads(files["logits/zarr.json"])
    metadata |= {"shape": [10**9, 250]}
    return zipped_store({**files, "logits/zarr.json": json.dumps(metadata).encode()})


def large_chunk_zarr() -> bytes:
    files = zarr_store({"logits": Z, "labels": Y})
    metadata = json.loads(files["logits/zarr.json"])
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = [10**9, 10]
    return zipped_store({**files, "logits/zarr.json": json.dumps(metadata).encode()})


def many_chunks_zarr() -> bytes:
    files = zarr_store({"logits": Z, "labels": Y})
    metadata = json.loads(files["logits/zarr.json"])
    metadata |= {"shape": [3_000_000, 4]}
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = [1, 1]
    return zipped_store({**files, "logits/zarr.json": json.dumps(metadata).encode()})


def own_names_jsonl(records: int = 70_000) -> bytes:
    return "".join(f'{{"k{number}": 1}}\n' for number in range(records)).encode()


def empty_objects_json() -> bytes:
    return b"[" + b"[{}]," * 7_000_000 + b"{}]"


def one_wide_row_jsonl(rows: int = 60_000) -> bytes:
    wide = json.dumps({"logits": [0.5] * rows, "label": 0})
    return (f"{wide}\n" + '{"logits": [0.5, 1.5], "label": 1}\n' * rows).encode()


def wide_samples_jsonl(rows: int = 60_000) -> bytes:
    sample = {"target": 0, "filtered_resps": [["-1.5", "False"]] * rows}
    small = {"target": 0, "filtered_resps": [["-1.5", "False"]] * 2}
    return (json.dumps(sample) + "\n" + f"{json.dumps(small)}\n" * rows).encode()


def compressed_zeros(how: Callable[[bytes], Any], megabytes: int = 600) -> bytes:
    """A table of zeros; the parts of most compressions can be repeated."""
    block = b"0,0\n" * (1 << 18)
    return bytes(how(block)) * megabytes


LARGE = "does not fit in the memory that a file of its size may take"
TIME = "it takes (more computing time|longer) than a file of its size may"  # whichever limit a busy machine meets first
CLAIM = "claims .* bomb"
CONTAINER_BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "unwritten.h5": (unwritten_h5, CLAIM),
    "chunk.h5": (one_chunk_h5, f"{CLAIM}|{LARGE}"),
    "zeros.h5": (zeros_h5, f"{CLAIM}|{LARGE}|LogitSet"),
    "groups.h5": (many_groups_h5, f"holds 5,000 experiments|{TIME}"),
    "links.h5": (linked_h5, "refers to another file"),
    "unwritten.zip": (unwritten_zarr, CLAIM),
    "chunk.zip": (large_chunk_zarr, f"{LARGE}|cannot be read"),
    "chunks.zip": (many_chunks_zarr, f"{TIME}|{LARGE}"),
    "names.jsonl": (own_names_jsonl, "more than 60,000 columns"),
    "depth.json": (lambda: b"[" * 200_000, "cannot be read as JSON"),
    "number.json": (lambda: b'{"logits": [' + b"1" * 3_000_000 + b"]}", "cannot be read as JSON"),
    "objects.json": (empty_objects_json, f"{LARGE}|{TIME}|{CLAIM}"),
    "row.jsonl": (one_wide_row_jsonl, CLAIM),
    "samples.jsonl": (wide_samples_jsonl, CLAIM),
    "zeros.csv.gz": (lambda: compressed_zeros(lambda data: gzip.compress(data, mtime=0)), CLAIM),
    "zeros.csv.bz2": (lambda: compressed_zeros(bz2.compress), f"{CLAIM}|{TIME}"),
    "zeros.csv.xz": (lambda: compressed_zeros(lzma.compress), CLAIM),
    "zeros.csv.zst": (lambda: compressed_zeros(lambda data: pa.compress(data, "zstd", asbytes=True)), CLAIM),
    "twice.csv.gz": (lambda: gzip.compress(gzip.compress(b"0,0\n" * 100)), "is compressed twice"),
}
"""Name -> what makes the file, and what is said of it."""
