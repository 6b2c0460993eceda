"""The tasks of a child of the sandbox: from its files to results, encoded to be sent back.

A result is a tree of plain JSON with references to arrays; of classes, it holds only those in `KINDS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from smart_core.data import tree
from smart_core.data.formats import FORMATS, modules_of
from smart_core.data.formats.raw import Source
from smart_core.data.logitset import Array, Cure, Head, LogitSet, Notice, Part
from smart_core.data.normalize.parts import Unlabelled
from smart_core.data.opened_files import OpenedFiles
from smart_core.data.parsed import ArrayInfo, Labelled
from smart_core.data.sandbox import Content
from smart_core.errors import Fix, LogitFileError

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (ArrayInfo, Labelled, Unlabelled, LogitSet, Part, Head, Notice, Cure, Fix)
}
READ_WHOLE = {
    "calibrator": "smart_core.data.saved",
    "json_lines": "smart_core.data.saved",
    "json_value": "smart_core.data.saved",
    "weights": "smart_core.data.weights",
    "workspace": "smart_core.export.workspace_file",
}
"""Task that is not about logits -> the module with a function of that name, from the content of the file to a value."""
FILES_SNIFFED = 100
"""Most files whose first bytes are read to decide which readers to load."""
TOO_LARGE = "does not fit in the memory that a file of its size may take", "save fewer rows, or save the arrays again"


class Tasks:
    """The tasks of one child, which parses its files once."""

    def __init__(self, files: Sequence[Content]) -> None:
        self.files = files
        self.opened: OpenedFiles | None = None

    def prepare(self, task: str) -> None:
        """Import what a task needs: while it works it cannot open a file. Only the first bytes are read."""
        if task == "open":
            for module in {module for file in self.files[:FILES_SNIFFED] for module in modules_of(file[:16])}:
                load_reader(module)
                prepare_reader(module)
        elif task in READ_WHOLE:
            load_reader("safetensors_file")

    def run(self, task: str, arguments: Any) -> tuple[Any, list[Array]]:
        """The tree and the arrays of the result, or of the error."""
        arrays: list[Array] = []
        try:
            if task == "open":
                self.opened = OpenedFiles(sources_of(self.files, arguments["files"]), arguments["name"])
                value: Any = self.opened.groups
            elif task in READ_WHOLE:
                value = getattr(importlib.import_module(READ_WHOLE[task]), task)(self.files[0][:])
            else:
                assert self.opened is not None
                value = answer(self.opened, task, **decode(arguments, []))
            return {"value": encode(value, arrays)}, arrays
        except LogitFileError as error:
            return {"error": [error.problem, encode(list(error.fixes), arrays), error.file]}, []
        except MemoryError:
            return {"error": [TOO_LARGE[0], [TOO_LARGE[1]], None]}, []


def answer(opened: OpenedFiles, task: str, group: str | None = None, **arguments: Any) -> Any:
    """Return the answer of a task about logits: the name of the set, or what a method of `ParsedDocument` returns."""
    document = opened.document(group)
    return document.name if task == "name" else getattr(document, task)(**arguments)


def sources_of(files: Sequence[Content], described: Sequence[Sequence[Any]]) -> list[Source]:
    """Return a source for each file, or for each zarr store, from (name, split, folder, path, store) of the files."""
    sources: dict[Any, Source] = {}
    members: dict[Any, dict[str, bytes]] = {}
    for place, (content, (name, split, folder, path, store)) in enumerate(zip(files, described, strict=True)):
        key = (split, tuple(path[: len(path) - store])) if store else place
        if store:
            members.setdefault(key, {})["/".join(path[len(path) - store :])] = content[:]
            sources[key] = Source(name, b"", split, folder, members[key])
        else:
            sources[key] = Source(name, content, split, folder)
    return list(sources.values())


READERS = tuple(dict.fromkeys(known.module for known in FORMATS.values()))
"""The modules of all readers, for a warm start."""

_ENCODINGS = (
    *("ascii", "cp1252", "cp437", "latin_1", "raw_unicode_escape", "unicode_escape"),
    *("utf_8", "utf_8_sig", "utf_16", "utf_16_be", "utf_16_le", "utf_32"),
)

_loaded: set[str] = set()


def load_reader(module: str | None) -> bool:
    """Import the reader of a format and whatever it imports when it is first used; False if `module` is None."""
    if module is None or module in _loaded:
        return module is not None
    _loaded.add(module)
    for encoding in _ENCODINGS:
        importlib.import_module(f"encodings.{encoding}")
    np.char, np.ma, np.random  # noqa: B018 - NumPy 2 imports them when they are first asked for
    importlib.import_module(f"smart_core.data.formats.{module}")
    if module == "safetensors_file":
        for late in (*READ_WHOLE.values(), "safetensors.numpy"):
            importlib.import_module(late)
    for source in _small_files(module):
        document = OpenedFiles([source]).document()
        document.describe()
        document.load()
        document.logits()
    return True


def prepare_reader(module: str) -> None:
    """Let a reader make what it needs in each process before the limits apply."""
    prepare = getattr(importlib.import_module(f"smart_core.data.formats.{module}"), "prepare", None)
    if prepare is not None:
        prepare()


def _small_files(module: str) -> Iterator[Source]:
    """Valid files that lead a reader through what it imports late."""
    if module == "numpy_files":
        logits, labels = np.tile([[2.0, 0.5], [0.0, 1.0]], (5, 1)), np.tile(["a", "b"], 5)
        buffer = BytesIO()
        more = {"class_names": ["a", "b"], "group": labels, "features": logits, "cw_l2": logits[:, 0]}
        np.savez_compressed(buffer, logits=logits, labels=labels, **more)  # type: ignore[arg-type]
        yield Source("small.npz", buffer.getvalue())
    elif module == "text_table":
        yield Source("small.csv", b"logit_0,logit_1,label,group\n" + 4 * b"0.5,1,0,a\n-0.5,1e-3,1,b\n")
    elif module == "arrow_table":
        import pyarrow
        from pyarrow import feather, parquet

        pyarrow.set_cpu_count(1)
        table = pyarrow.table({"logits": 4 * [[0.5, 1.0], [0.5, 1.0]], "label": 4 * [0, 1], "group": 4 * ["a", "b"]})
        for writer, name in ((parquet.write_table, "small.parquet"), (feather.write_feather, "small.feather")):
            buffer = BytesIO()
            writer(table, buffer)
            yield Source(name, buffer.getvalue())
    elif module == "mat_file":
        import scipy.io
        import scipy.sparse

        arrays = {"logits": np.tile([[2.0, 0.5], [0.0, 1.0]], (5, 1)), "labels": np.tile([0, 1], 5)}
        more = {"names": np.array(["a", "b"], object), "sparse": scipy.sparse.csc_array(np.eye(2)), "struct": {"a": 1}}
        for content, version in ((arrays | more, "5"), (arrays, "4")):
            buffer = BytesIO()
            scipy.io.savemat(buffer, content, format=version, do_compression=version == "5")
            yield Source("small.mat", buffer.getvalue())

    elif module == "json_file":
        yield Source(
            "small.jsonl", 4 * b'{"logits": [0.5, 1], "label": 0, "group": "a"}\n{"logits": [1, 0.5], "label": 1}\n'
        )
    elif module == "hdf5_file":
        import h5py

        buffer = BytesIO()
        with h5py.File(buffer, "w") as file:
            options = {"compression": "gzip", "shuffle": True, "fletcher32": True}
            file.create_dataset("logits", data=np.tile([[2.0, 0.5], [0.0, 1.0]], (5, 1)), **options)
            file["labels"], file["class_names"] = np.tile([0, 1], 5), ["a", "b"]
        yield Source("small.h5", buffer.getvalue())
    elif module == "zarr_store":
        yield from _small_stores()


def _small_stores() -> Iterator[Source]:
    """zarr stores of both versions, with the usual codecs."""
    try:
        import zarr.api.asynchronous as zarr
        from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
        from zarr.storage import MemoryStore
    except ImportError:
        return
    from smart_core.data.formats.zarr_store import run

    async def filled(content: Any, version: Any, options: dict[str, Any]) -> None:
        root = await zarr.create_group(store=MemoryStore(content), zarr_format=version)
        scores = await root.create_array("logits", shape=(10, 2), dtype="f8", chunks=(5, 2), **options)
        await scores.setitem(slice(None), np.tile([[2.0, 0.5], [0.0, 1.0]], (5, 1)))
        labels = await root.create_array("labels", shape=(10,), dtype="i8")
        await labels.setitem(slice(None), np.tile([0, 1], 5))

    packed: list[tuple[int, dict[str, Any]]] = [
        (3, {"compressors": codec()}) for codec in (ZstdCodec, BloscCodec, GzipCodec)
    ]
    for version, options in [*packed, (3, {"shards": (10, 2)}), (2, {})]:
        store: dict[str, Any] = {}
        run(filled(store, version, options))
        yield Source("small.zarr", b"", members={name: content.to_bytes() for name, content in store.items()})


def encode(value: Any, arrays: list[Array]) -> Any:
    """Return the tree of a value; its arrays are appended to `arrays`."""

    def refer(item: Any) -> Any:
        if not isinstance(item, np.ndarray):
            return None
        arrays.append(np.asarray(item, order="C"))  # `ascontiguousarray` would make a vector of a single number
        return {"$array": len(arrays) - 1}

    return tree.encode(value, refer, KINDS)


def decode(value: Any, arrays: Sequence[Array]) -> Any:
    """Return the value of a tree."""
    return tree.decode(value, {"$array": arrays.__getitem__}, lambda kind, given: KINDS[kind](**given))
