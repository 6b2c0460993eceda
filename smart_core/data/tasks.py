"""What a child of the sandbox does with the files it holds, and how its results travel back.

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
from smart_core.data.parsed import ArrayInfo, Labelled, ParsedDocument
from smart_core.errors import Fix, LogitFileError

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (ArrayInfo, Labelled, Unlabelled, LogitSet, Part, Head, Notice, Cure, Fix)
}
READ_WHOLE = {"calibrator": "smart_core.data.saved", "workspace": "smart_core.export.workspace_file"}
"""Task that is not about logits -> the module with a function of that name, from the content of the file to a value."""
TOO_LARGE = "does not fit in the memory that a file of its size may take", "save fewer rows, or save the arrays again"


class Tasks:
    """The tasks of one child, which parses its files once."""

    def __init__(self, files: Sequence[bytes]) -> None:
        self.files = files
        self.document: ParsedDocument | None = None

    def prepare(self, task: str) -> None:
        """Import what a task needs: while it works it cannot open a file. Only the first bytes are looked at."""
        if task == "open":
            for module in {module for file in self.files for module in modules_of(file[:16])}:
                load_reader(module)
        elif task in READ_WHOLE:
            load_reader("safetensors_file")

    def run(self, task: str, arguments: Any) -> tuple[Any, list[Array]]:
        """The tree and the arrays of the result, or of the error."""
        arrays: list[Array] = []
        try:
            if task == "open":
                described = zip(self.files, arguments["files"], strict=True)
                sources = [Source(name, file, split, folder) for file, (name, split, folder) in described]
                self.document = ParsedDocument.of(sources, arguments["name"])
                value: Any = self.document.name
            elif task in READ_WHOLE:
                value = getattr(importlib.import_module(READ_WHOLE[task]), task)(self.files[0])
            else:
                value = getattr(self.document, task)(**decode(arguments, []))
            return {"value": encode(value, arrays)}, arrays
        except LogitFileError as error:
            return {"error": [error.problem, encode(list(error.fixes), arrays), error.file]}, []
        except MemoryError:
            return {"error": [TOO_LARGE[0], [TOO_LARGE[1]], None]}, []


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
        document = ParsedDocument.of([source])
        document.describe()
        document.load()
        document.logits()
    return True


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


def encode(value: Any, arrays: list[Array]) -> Any:
    """Return the tree of a value; its arrays are appended to `arrays`."""

    def refer(item: Any) -> Any:
        if not isinstance(item, np.ndarray):
            return None
        arrays.append(np.ascontiguousarray(item))
        return {"$array": len(arrays) - 1}

    return tree.encode(value, refer, KINDS)


def decode(value: Any, arrays: Sequence[Array]) -> Any:
    """Return the value of a tree."""
    return tree.decode(value, {"$array": arrays.__getitem__}, lambda kind, given: KINDS[kind](**given))
