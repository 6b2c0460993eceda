"""One reader per format, each from a `Source` to a `RawFile` of raw arrays or of the columns of a table.

The content decides which reader is used; the extension decides only where the content cannot.
To add a format, write a reader and add a line to `FORMATS` and, if its files have a signature, to `_SIGNATURES`. The
module of a reader may have a function `prepare()`, which runs in each process before its limits apply.
"""

from __future__ import annotations

import codecs
import importlib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import PurePosixPath

import numpy as np

from smart_core.data.formats.compressed import is_compressed, unpacked
from smart_core.data.formats.limits import DAMAGED
from smart_core.data.formats.raw import MAX_CHARACTERS, ArrayPath, RawArray, RawFile, Source
from smart_core.data.logitset import Notice
from smart_core.errors import LogitFileError
from smart_core.formatting import error_text, printable


@dataclass(frozen=True)
class Format:
    """A format that can be read; its reader is imported when needed."""

    description: str
    module: str
    reader: str
    extensions: tuple[str, ...]
    is_text: bool = False
    signed: bool = False
    """Whether all its files have a signature, or are zip archives: other files then do not import its reader."""
    mapped: bool = False
    """Whether its files are mapped into memory, and read as far as needed."""


FORMATS = {
    "npz": Format("an npz archive", "numpy_files", "read_npz", (".npz",), signed=True),
    "npy": Format("an npy array", "numpy_files", "read_npy", (".npy",), signed=True),
    "pt": Format("a PyTorch file", "torch_file", "read_torch_zip", (".pt", ".pth"), signed=True),
    "pt-legacy": Format("an old PyTorch file", "torch_file", "read_torch_legacy", (".pt", ".pth")),
    "safetensors": Format("a safetensors file", "safetensors_file", "read_safetensors", (".safetensors",)),
    "text": Format("a text table", "text_table", "read_text", (".csv", ".tsv"), is_text=True),
    "parquet": Format("a parquet table", "arrow_table", "read_parquet", (".parquet",), signed=True),
    "arrow": Format("an Arrow table", "arrow_table", "read_arrow", (".arrow", ".feather"), signed=True),
    "json": Format("JSON", "json_file", "read_json", (".json", ".jsonl", ".ndjson"), is_text=True),
    "mat": Format("a MATLAB file", "mat_file", "read_mat", (".mat",)),
    "hdf5": Format("an HDF5 file", "hdf5_file", "read_hdf5", (".h5", ".hdf5", ".mat"), signed=True, mapped=True),
    "zarr": Format("a zarr store", "zarr_store", "read_zarr", (".zarr",), signed=True),
    "pickle": Format("a pickle", "pickle_file", "read_pickle", (".p", ".pkl", ".pickle")),
}
EXTENSIONS = tuple(dict.fromkeys(extension for known in FORMATS.values() for extension in known.extensions))
READABLE = ", ".join(extension[1:] for extension in EXTENSIONS[:-1]) + f" and {EXTENSIONS[-1][1:]}"

STORE_MARKS = ("zarr.json", ".zgroup", ".zarray")
"""Files that make a folder a zarr store."""

_SIGNATURES = {
    b"\x93NUMPY": "npy",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"MATLAB 5.0": "mat",
    b"MATLAB 7.3": "hdf5",
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.": "pt-legacy",
    **{bytes((0x80, protocol)): "pickle" for protocol in range(2, 6)},
}
"""First bytes of a file -> its format."""

_GIVE_LOGITS = f"give a logit file ({READABLE})"
_UNREADABLE = {
    b"\x89PNG": ("is a picture", _GIVE_LOGITS),
    b"\xff\xd8\xff": ("is a picture", _GIVE_LOGITS),
    b"%PDF": ("is a PDF", _GIVE_LOGITS),
    b"FEA1": ("is a Feather file of the first version", "save it again with pyarrow.feather (version 2)"),
}


def read(source: Source) -> RawFile:
    """Parse one file; whatever is wrong with it raises `LogitFileError`."""
    if not source.members and not source.content:
        raise LogitFileError("is empty", "save or copy it again", file=source.name)
    if is_compressed(source.head):
        source = unpacked(source)
    claimed, name = _claimed(source), sniff(source)
    actual = FORMATS[name]
    with _reader_errors(source.name, actual):
        module = importlib.import_module(f"{__name__}.{actual.module}")
        reader: Callable[[Source], RawFile] = getattr(module, actual.reader)
        raw = reader(source)
    if claimed != name.removesuffix("-legacy") and source.extension not in actual.extensions:
        given = f"extension '{printable(source.extension)}'" if source.extension else "missing extension"
        raw.notices.append(Notice("format", f"{source.name}: read as {actual.description} despite its {given}."))
    arrays = [_with_short_texts(item, raw.notices) for item in raw.arrays]
    return replace(raw, arrays=arrays, split=source.split, folder=source.folder)


def read_arrays(raw: RawFile, paths: Iterable[ArrayPath]) -> RawFile:
    """Read arrays that a reader has only listed; whatever is wrong with them raises `LogitFileError`."""
    unread = raw.unread or {}
    with _reader_errors(raw.name, None):
        arrays = [_with_short_texts(unread[path](), raw.notices) for path in paths]
    return replace(raw, arrays=arrays, unread=None)


@contextmanager
def _reader_errors(file: str, known: Format | None) -> Iterator[None]:
    """Parsers raise errors of every type; the user gets one sentence."""
    try:
        yield
    except (LogitFileError, MemoryError):
        raise
    except Exception as error:
        kind = f" as {known.description}" if known else ""
        problem = f"cannot be read{kind} ({error_text(error)})"
        raise LogitFileError(problem, DAMAGED, file=file) from error


def _with_short_texts(item: RawArray, notices: list[Notice]) -> RawArray:
    """Return the array with its texts cut to MAX_CHARACTERS."""
    if item.array is None or item.kind not in ("U", "S"):
        return item
    cut = np.dtype(f"{item.kind}{MAX_CHARACTERS}")
    if item.array.itemsize <= cut.itemsize:
        return item
    short = item.array.astype(cut)
    if not np.array_equal(short, item.array):
        notices.append(item.notice("long_text", f"holds texts that are cut at {MAX_CHARACTERS} characters."))
    return replace(item, array=short)


def _claimed(source: Source) -> str | None:
    """Return the format that the extension stands for."""
    return next((name for name, known in FORMATS.items() if source.extension in known.extensions), None)


def modules_of(head: bytes) -> set[str]:
    """The modules that may read a file with these first bytes."""
    names = _marked(head)
    if head.startswith(b"PK"):
        names = {"npz", "pt", "zarr"}
    if is_compressed(head):
        names = set(FORMATS)
    return {FORMATS[name].module for name in names or (name for name, known in FORMATS.items() if not known.signed)}


def is_mapped(head: bytes) -> bool:
    """Whether a file with these first bytes is mapped into memory, and read as far as needed."""
    return any(FORMATS[name].mapped for name in _marked(head))


def _marked(head: bytes) -> set[str]:
    """The formats whose signature these bytes have."""
    return {name for signature, name in _SIGNATURES.items() if head.startswith(signature)}


def sniff(source: Source) -> str:
    """Return the name of the format, from the content first; raise for a format that cannot be read."""
    if source.members:
        return "zarr"
    data, claimed = source.head, _claimed(source)
    for signature, (problem, fix) in _UNREADABLE.items():
        if data.startswith(signature):
            raise LogitFileError(problem, fix, file=source.name)
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _kind_of_zip(source)
    for signature, name in _SIGNATURES.items():
        if data.startswith(signature):
            return name
    if len(data) > 8 and data[8:9] == b"{" and int.from_bytes(data[:8], "little") < 1 << 48:
        return "safetensors"
    if claimed in ("mat", "pickle"):
        return claimed  # their oldest versions have no signature
    encoding = source.encoding
    if encoding == "cp1252" and claimed != "text" and source.extension != ".txt":
        encoding = None  # any bytes without control characters would pass as such text
    if encoding is not None:
        if claimed is None:
            start = b"".join(data[:200].removeprefix(codecs.BOM_UTF8).split())
            return "json" if start.startswith((b"{", b"[{", b"[[")) else "text"
        if FORMATS[claimed].is_text:
            return claimed
        problem = f"is text, not {FORMATS[claimed].description}"
        raise LogitFileError(problem, "rename it to .csv, or save it again", file=source.name)
    if claimed is None or claimed == "text":
        raise LogitFileError("is in an unknown format", f"save the arrays in one of {READABLE}", file=source.name)
    return claimed


def _kind_of_zip(source: Source) -> str:
    try:
        names = zipfile.ZipFile(BytesIO(source.data)).namelist()
    except Exception as error:
        raise LogitFileError("is a damaged zip archive", DAMAGED, file=source.name) from error
    if any(name.endswith("/constants.pkl") for name in names):
        fix = "save the logits and labels as tensors"
        raise LogitFileError("is a TorchScript model, not logits", fix, file=source.name)
    if any(name.endswith("data.pkl") for name in names):
        return "pt"
    if any(PurePosixPath(name).name in ("zarr.json", ".zarray") for name in names):
        return "zarr"
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if any(name.startswith("xl/") for name in names):
        raise LogitFileError("is an Excel workbook", "save the sheet as csv", file=source.name)
    raise LogitFileError("is a zip archive without arrays", f"save the arrays in one of {READABLE}", file=source.name)
