"""Writing files: whole or not at all, and a data set as a bundle."""

from __future__ import annotations

import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from smart_core.data.logitset import Array, LogitSet
from smart_core.errors import LogitFileError

LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every member of an archive: what is in a file does not depend on the clock."""

SAMPLE = 1 << 16
"""Bytes of an array that are compressed to see whether compressing the rest is worth the time."""

WORTH = 0.75
"""It is, if they shrink to this share or less."""

Target = str | os.PathLike[str] | IO[bytes]
"""Where to write: a path, or an open binary file."""


@contextmanager
def atomic_write(target: Target) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of the target when the block ends without an error.

    If the block fails, an old file stays as it was. An open file, and a path that is not a regular file, such as
    /dev/stdout, are written to directly.
    """
    if not isinstance(target, str | os.PathLike):
        yield target
        return
    path = Path(target)
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as handle:  # its permissions are those of the user's umask
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)  # Windows cannot rename an open file
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_member(archive: zipfile.ZipFile, name: str, compression: int = zipfile.ZIP_STORED) -> IO[bytes]:
    """Open a member of an archive for writing."""
    info = zipfile.ZipInfo(name, LONG_AGO)
    info.compress_type, info.external_attr = compression, 0o644 << 16
    return archive.open(info, "w", force_zip64=True)


def write_npz(handle: IO[bytes], arrays: Mapping[str, Array], *, compressed: bool = False) -> None:
    """Write an npz that depends on nothing but the arrays: equal arrays make equal files, whenever they are written.

    With `compressed`, arrays are compressed where that makes them much smaller.
    """
    with zipfile.ZipFile(handle, "w") as archive:
        for name, array in arrays.items():
            compression = zipfile.ZIP_DEFLATED if compressed and _shrinks(array) else zipfile.ZIP_STORED
            with open_member(archive, f"{name}.npy", compression) as member:
                npy.write_array(member, array, allow_pickle=False)


def _shrinks(array: Array) -> bool:
    sample = array.reshape(-1)[: max(1, SAMPLE // max(array.itemsize, 1))].tobytes()
    return len(zlib.compress(sample, 1)) <= WORTH * len(sample)


def save_bundle(data: LogitSet, path: str | os.PathLike[str]) -> Path:
    """Save a set as npz or safetensors; `load` gives the same content back.

    >>> import tempfile
    >>> import smart_core as sc
    >>> data = sc.simulate_set(60, 40, classes=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = sc.load(sc.data.save_bundle(data, f"{folder}/model.npz"))
    >>> again.content_hash == data.content_hash
    True
    """
    path = Path(path)
    if path.suffix.lower() not in (".npz", ".safetensors"):
        raise ValueError(f"a bundle is saved as .npz or .safetensors, not {path.suffix or 'without an extension'}")
    if data.kind == "reduced":
        raise LogitFileError("a reduced set is saved as parquet, by reduce", file=data.name)
    with atomic_write(path) as stream:
        if path.suffix.lower() == ".npz":
            np.savez_compressed(stream, **dict(data.arrays()))  # type: ignore[arg-type]
        else:
            stream.write(_safetensors(data))
    return path


def _safetensors(data: LogitSet) -> bytes:
    """Return the bytes of the bundle. The format holds numbers only: names are metadata, groups codes into names."""
    from safetensors.numpy import save

    tensors: dict[str, Array] = {}
    metadata: dict[str, str] = {}
    for key, array in data.arrays():
        if array.dtype.kind != "U":
            tensors[key] = np.ascontiguousarray(array)
        elif key == "class_names":
            metadata[key] = json.dumps(array.tolist())
        else:
            names, codes = np.unique(array, return_inverse=True)
            tensors[key] = codes.astype(np.int32)
            metadata[f"{key}_names"] = json.dumps(names.tolist())
    return save(tensors, metadata)
