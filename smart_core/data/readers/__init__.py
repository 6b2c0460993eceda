"""One reader a format; the content decides which, the extension only where the content cannot."""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Callable
from io import BytesIO

from smart_core.data.found import Contents, reason, refuse, shown
from smart_core.data.logitset import Notice
from smart_core.data.readers.text_table import encoding_of
from smart_core.data.source import Source
from smart_core.errors import LogitFileError

READ = "npz, npy, pt, pth, safetensors, csv, tsv, parquet, arrow, feather, mat, p, pkl and pickle"

FORMAT_OF_EXTENSION = {
    ".npz": "npz",
    ".npy": "npy",
    ".pt": "pt",
    ".pth": "pt",
    ".safetensors": "safetensors",
    ".csv": "text",
    ".tsv": "text",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".mat": "mat",
    ".p": "pickle",
    ".pkl": "pickle",
    ".pickle": "pickle",
}

_READERS = {
    "npz": ("numpy_files", "read_npz", "an npz archive"),
    "npy": ("numpy_files", "read_npy", "an npy array"),
    "pt": ("torch_file", "read_torch_zip", "a PyTorch file"),
    "pt-legacy": ("torch_file", "read_torch_legacy", "an old PyTorch file"),
    "safetensors": ("safetensors_file", "read_safetensors", "a safetensors file"),
    "text": ("text_table", "read_text", "a table of text"),
    "parquet": ("arrow_table", "read_parquet", "a parquet table"),
    "arrow": ("arrow_table", "read_arrow", "an Arrow table"),
    "mat": ("mat_file", "read_mat", "a MATLAB file"),
    "pickle": ("pickle_file", "read_pickle", "a pickle"),
}

_UNREADABLE = {
    b"\x89HDF\r\n\x1a\n": ("is an HDF5 file", "save the arrays as npz (in MATLAB: save -v7)"),
    b"MATLAB 7.3": ("is a MATLAB 7.3 file, which is HDF5 inside", "save it with -v7 in MATLAB, or as npz"),
    b"\x1f\x8b": ("is compressed with gzip", "uncompress it first"),
    b"BZh": ("is compressed with bzip2", "uncompress it first"),
    b"\xfd7zXZ": ("is compressed with xz", "uncompress it first"),
    b"\x28\xb5\x2f\xfd": ("is compressed with zstd", "uncompress it first"),
    b"\x89PNG": ("is a picture", f"give a logit file ({READ})"),
    b"\xff\xd8\xff": ("is a picture", f"give a logit file ({READ})"),
    b"%PDF": ("is a PDF", f"give a logit file ({READ})"),
    b"FEA1": ("is a Feather file of the first version", "save it again with pyarrow.feather (version 2)"),
}

_LEGACY_TORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."


def read(source: Source) -> Contents:
    """Everything in one file, or one sentence on why not."""
    if not source.data:
        raise refuse(source.name, "is empty", "save or copy it again")
    claimed = FORMAT_OF_EXTENSION.get(source.extension)
    actual = sniff(source)
    module, function, what = _READERS[actual]
    try:
        reader: Callable[[Source], Contents] = getattr(importlib.import_module(f"{__name__}.{module}"), function)
        contents = reader(source)
    except LogitFileError:
        raise
    except Exception as error:  # parsers fail in every way there is; the user gets one sentence
        cure = "it may be truncated or damaged; copy or save it again"
        raise refuse(source.name, f"cannot be read as {what} ({reason(error)})", cure) from error
    if actual != claimed and actual.removesuffix("-legacy") != claimed:
        given = f"extension '{shown(source.extension)}'" if source.extension else "missing extension"
        contents.notices.append(Notice("format", f"{source.name}: read as {what} despite its {given}."))
    return contents


def sniff(source: Source) -> str:
    """The format, by content first; refuses what is recognised but not read, and what is not recognised."""
    data, claimed = source.data, FORMAT_OF_EXTENSION.get(source.extension)
    for magic, (what, cure) in _UNREADABLE.items():
        if data.startswith(magic):
            raise refuse(source.name, what, cure)
    by_magic = _by_magic(source)
    if by_magic is not None:
        return by_magic
    if claimed in ("mat", "pickle"):
        return claimed  # their oldest versions have no mark of their own
    encoding = encoding_of(data)
    if encoding == "cp1252" and claimed != "text" and source.extension != ".txt":
        encoding = None  # any noise without control bytes would pass for such text
    if encoding is not None:
        if claimed in ("text", None):
            return "text"
        raise refuse(source.name, f"is text, not {_READERS[claimed][2]}", "rename it to .csv, or save it again")
    if claimed is None or claimed == "text":
        raise refuse(source.name, "is in no format that is known here", f"save the arrays in one of {READ}")
    return claimed


def _by_magic(source: Source) -> str | None:
    data = source.data
    if data.startswith(b"\x93NUMPY"):
        return "npy"
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _kind_of_zip(source)
    if data.startswith(b"PAR1"):
        return "parquet"
    if data.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if data.startswith(b"MATLAB 5.0"):
        return "mat"
    if data.startswith(_LEGACY_TORCH):
        return "pt-legacy"
    if data[:1] == b"\x80" and 2 <= data[1] <= 5 if len(data) > 1 else False:
        return "pickle"
    if len(data) > 8 and data[8:9] == b"{" and int.from_bytes(data[:8], "little") < 1 << 48:
        return "safetensors"
    return None


def _kind_of_zip(source: Source) -> str:
    try:
        names = zipfile.ZipFile(BytesIO(source.data)).namelist()
    except Exception as error:
        cure = "it may be truncated; copy or save it again"
        raise refuse(source.name, "is a damaged zip archive", cure) from error
    if any(name.endswith("/constants.pkl") for name in names):
        raise refuse(source.name, "is a TorchScript model, not logits", "save the logits and labels as tensors")
    if any(name.endswith("data.pkl") for name in names):
        return "pt"
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if any(name.startswith("xl/") for name in names):
        raise refuse(source.name, "is an Excel workbook", "save the sheet as csv")
    raise refuse(source.name, "is a zip archive without arrays", f"save the arrays in one of {READ}")
