"""One reader per format, each from a `Source` to a `RawFile` of raw arrays or of the columns of a table.

The content decides which reader is used; the extension decides only where the content cannot.
To add a format, write a reader and add a line to `FORMATS` and, if its files have a signature, to `_SIGNATURES`.
"""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np

from smart_core.data.formats.limits import DAMAGED
from smart_core.data.formats.raw import MAX_CHARACTERS, RawArray, RawFile, Source
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


FORMATS = {
    "npz": Format("an npz archive", "numpy_files", "read_npz", (".npz",)),
    "npy": Format("an npy array", "numpy_files", "read_npy", (".npy",)),
    "pt": Format("a PyTorch file", "torch_file", "read_torch_zip", (".pt", ".pth")),
    "pt-legacy": Format("an old PyTorch file", "torch_file", "read_torch_legacy", (".pt", ".pth")),
    "safetensors": Format("a safetensors file", "safetensors_file", "read_safetensors", (".safetensors",)),
    "text": Format("a text table", "text_table", "read_text", (".csv", ".tsv"), is_text=True),
    "parquet": Format("a parquet table", "arrow_table", "read_parquet", (".parquet",)),
    "arrow": Format("an Arrow table", "arrow_table", "read_arrow", (".arrow", ".feather")),
    "mat": Format("a MATLAB file", "mat_file", "read_mat", (".mat",)),
    "pickle": Format("a pickle", "pickle_file", "read_pickle", (".p", ".pkl", ".pickle")),
}
EXTENSIONS = tuple(dict.fromkeys(extension for known in FORMATS.values() for extension in known.extensions))
_READABLE = ", ".join(extension[1:] for extension in EXTENSIONS[:-1]) + f" and {EXTENSIONS[-1][1:]}"

_SIGNATURES = {
    b"\x93NUMPY": "npy",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"MATLAB 5.0": "mat",
    b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.": "pt-legacy",
    **{bytes((0x80, protocol)): "pickle" for protocol in range(2, 6)},
}
"""First bytes of a file -> its format."""

_GIVE_LOGITS = f"give a logit file ({_READABLE})"
_UNREADABLE = {
    b"\x89HDF\r\n\x1a\n": ("is an HDF5 file", "save the arrays as npz (in MATLAB: save -v7)"),
    b"MATLAB 7.3": ("is a MATLAB 7.3 file, which is HDF5 inside", "save it with -v7 in MATLAB, or as npz"),
    b"\x1f\x8b": ("is compressed with gzip", "uncompress it first"),
    b"BZh": ("is compressed with bzip2", "uncompress it first"),
    b"\xfd7zXZ": ("is compressed with xz", "uncompress it first"),
    b"\x28\xb5\x2f\xfd": ("is compressed with zstd", "uncompress it first"),
    b"\x89PNG": ("is a picture", _GIVE_LOGITS),
    b"\xff\xd8\xff": ("is a picture", _GIVE_LOGITS),
    b"%PDF": ("is a PDF", _GIVE_LOGITS),
    b"FEA1": ("is a Feather file of the first version", "save it again with pyarrow.feather (version 2)"),
}


def read(source: Source) -> RawFile:
    """Parse one file; whatever is wrong with it raises `LogitFileError`."""
    if not source.data:
        raise LogitFileError("is empty", "save or copy it again", file=source.name)
    claimed, name = _claimed(source), sniff(source)
    actual = FORMATS[name]
    try:
        module = importlib.import_module(f"{__name__}.{actual.module}")
        reader: Callable[[Source], RawFile] = getattr(module, actual.reader)
        raw = reader(source)
    except (LogitFileError, MemoryError):
        raise
    except Exception as error:  # parsers raise errors of every type; the user gets one sentence
        problem = f"cannot be read as {actual.description} ({error_text(error)})"
        raise LogitFileError(problem, DAMAGED, file=source.name) from error
    if claimed != name.removesuffix("-legacy"):
        given = f"extension '{printable(source.extension)}'" if source.extension else "missing extension"
        raw.notices.append(Notice("format", f"{source.name}: read as {actual.description} despite its {given}."))
    arrays = [_with_short_texts(item, raw.notices) for item in raw.arrays]
    return replace(raw, arrays=arrays, split=source.split, folder=source.folder)


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
    names = {name for signature, name in _SIGNATURES.items() if head.startswith(signature)}
    if head.startswith(b"PK"):
        names = {"npz", "pt"}
    return {FORMATS[name].module for name in names or FORMATS.keys() - {"npz", "npy", "pt", "parquet", "arrow"}}


def sniff(source: Source) -> str:
    """Return the name of the format, from the content first; raise for a format that cannot be read."""
    data, claimed = source.data, _claimed(source)
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
        if claimed is None or FORMATS[claimed].is_text:
            return claimed or "text"
        problem = f"is text, not {FORMATS[claimed].description}"
        raise LogitFileError(problem, "rename it to .csv, or save it again", file=source.name)
    if claimed is None or claimed == "text":
        raise LogitFileError("is in an unknown format", f"save the arrays in one of {_READABLE}", file=source.name)
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
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if any(name.startswith("xl/") for name in names):
        raise LogitFileError("is an Excel workbook", "save the sheet as csv", file=source.name)
    raise LogitFileError("is a zip archive without arrays", f"save the arrays in one of {_READABLE}", file=source.name)
