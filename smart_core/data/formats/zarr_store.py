"""zarr 3 and 2, a folder or a zip archive of chunks, read by zarr: the arrays by their paths.

zarr works with coroutines in threads; here they run one after another in this thread, because the process that reads
files may start none. An array is read when it is asked for. Its metadata are checked first: only codecs that unpack
numbers and text are allowed, because one of the others runs code (pickle).
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from smart_core.data.formats.limits import Budget, open_zip, text_array, unzip
from smart_core.data.formats.raw import ArrayPath, RawArray, RawFile, Source
from smart_core.errors import LogitFileError

CODECS = {
    *("bytes", "transpose", "gzip", "zstd", "blosc", "crc32c", "sharding_indexed", "vlen-utf8"),
    *("zlib", "bz2", "lzma", "lz4", "shuffle", "delta"),
}
MAX_METADATA = 1 << 20
MISSING = LogitFileError("is a zarr store, which needs the package zarr", 'install it with pip install "zarr>=3"')

_loop: asyncio.AbstractEventLoop | None = None
_one_at_a_time = threading.Lock()


class _Inline(ThreadPoolExecutor):
    """Runs each call at once, in the thread that asks for it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def prepare() -> None:
    """Make the event loop, which needs descriptors; called by every process that reads files, before its limits."""
    global _loop
    _loop = asyncio.new_event_loop()
    _loop.set_default_executor(_Inline(1))


def read_zarr(source: Source) -> RawFile:
    """List every array."""
    try:
        from zarr.core.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore
    except ImportError:
        raise LogitFileError(MISSING.problem, *MISSING.fixes, file=source.name) from None
    members = source.members
    if not members:
        archive = open_zip(source.name, source.data)
        members = {each.filename: bytes(unzip(archive, each)) for each in archive.infolist() if not each.is_dir()}
    wrap = default_buffer_prototype().buffer.from_bytes
    store = MemoryStore({path: wrap(content) for path, content in members.items()}, read_only=True)
    raw = RawFile(source.name)
    budget = Budget(source.name, sum(map(len, members.values())))
    found: dict[ArrayPath, Callable[[], RawArray]] = {}
    for path, version, metadata in _arrays(members):
        keys = tuple(part for part in path.split("/") if part) or (source.stem,)
        found[keys] = partial(_raw_array, raw, budget, store, keys, path, version, metadata)
    raw.unread = found
    return raw


def _arrays(members: Mapping[str, bytes]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The path, version and metadata of each array."""
    for name in sorted(members):
        folder, _, mark = f"/{name}".rpartition("/")
        if mark in ("zarr.json", ".zarray") and len(members[name]) <= MAX_METADATA:
            metadata = json.loads(members[name])
            if mark == ".zarray" or metadata.get("node_type") == "array":
                yield folder[1:], 2 if mark == ".zarray" else 3, metadata


def codecs(metadata: Mapping[str, Any], version: int) -> set[str]:
    """The names of all codecs, also of those inside a shard."""
    if version == 2:
        used = [metadata.get("compressor"), *(metadata.get("filters") or [])]
        return {str(codec.get("id")) for codec in used if codec}
    names: set[str] = set()
    waiting = list(metadata.get("codecs", []))
    while waiting:
        codec = waiting.pop()
        names.add(str(codec.get("name")))
        settings = codec.get("configuration") or {}
        waiting += settings.get("codecs", []) + settings.get("index_codecs", [])
    return names


def _raw_array(
    raw: RawFile, budget: Budget, store: Any, keys: ArrayPath, path: str, version: int, metadata: dict[str, Any]
) -> RawArray:
    other = sorted(codecs(metadata, version) - CODECS)
    if other:
        problem = f"is packed with {other[0][:40]}, which is not read here"
        return RawArray(raw.name, keys, None, "other", problem=problem, fix="save it with zarr's default codecs")
    label = RawArray(raw.name, keys, None, "").label
    budget.charge(label, math.prod(metadata["shape"]))
    values = run(_read(store, path, version, partial(budget.charge, label)))
    if values.dtype.kind == "T":  # text of any length
        values = values.astype(object)
    if values.dtype.kind == "O" and all(isinstance(word, str) for word in values.reshape(-1)):
        words = text_array(values.reshape(-1).tolist(), raw.name, label, raw.notices)
        values = words.reshape(values.shape)
    return RawArray.of(raw.name, keys, values)


async def _read(store: Any, path: str, version: Any, charge: Callable[[int], None]) -> Any:
    from zarr.api.asynchronous import open_array

    array = await open_array(store=store, path=path, zarr_format=version, mode="r")
    charge(array.size * array.dtype.itemsize)
    if not array.shape:
        return np.asarray(await array.getitem(()))
    return np.asarray(await array.getitem(tuple(slice(None) for _ in array.shape)))


def run(coroutine: Any) -> Any:
    """Run a coroutine of zarr to its end; in another thread if this one has an event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_here(coroutine)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(_run_here, coroutine).result()


def _run_here(coroutine: Any) -> Any:
    with _one_at_a_time:
        if _loop is None:
            prepare()
        assert _loop is not None
        return _loop.run_until_complete(coroutine)
