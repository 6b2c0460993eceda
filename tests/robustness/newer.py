"""Misleading JSON, JSON lines, logged samples, HDF5, MATLAB 7.3, zarr and compressed files."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np
import pyarrow as pa

from tests.data.containers import hdf5, json_lines, lm_eval_sample, mat73, zarr_store
from tests.robustness.arrays import Y, Z

Made = Iterator[tuple[str, Callable[[], bytes]]]
"""A file's name and what makes its bytes."""

ROWS = [{"logits": row, "label": int(k)} for row, k in zip(Z.tolist(), Y, strict=True)]
COLUMNS = {"logits": Z.tolist(), "labels": Y.tolist()}
ODD = (None, True, "", "x" * 3000, "\ud800", "\x00\x1b[31m", -1, 2**70, 1e300, [], {}, [[]], [None], {"a": {"b": []}})
"""What a field may hold in place of what it should."""


def json_files() -> Made:
    logits = json.dumps(Z.tolist())
    for times in (2, 20_000):
        entries = ",".join(['"logits":' + (logits if times == 2 else "[]")] * times)
        yield "repeated.json", lambda entries=entries: f'{{{entries},"labels":{Y.tolist()}}}'.encode()
    for number in (
        "NaN",
        "-Infinity",
        "1e999",
        "9" * 400,
        "9" * 5000,
        "-0",
        "1E-400",
        '"1"',
        "null",
        "true",
        "01",
        "1.",
    ):
        text = f'{{"logits":[[{number},1],[2,{number}]],"labels":[0,1]}}'
        yield "number.json", lambda text=text: text.encode()
        yield "number.jsonl", lambda number=number: f'{{"logits":[{number},1],"label":1}}\n'.encode() * 6
    for name in ("1" * 45_000 + "x", "val_logits_" * 100_000, "\ud800", "\x00\n\x1b", "logits[1", "", " ", "$array"):
        yield "name.json", lambda name=name: json.dumps({name: Z.tolist(), "labels": Y.tolist()}).encode()
        short = name[:45_001]
        yield "name.jsonl", lambda name=short: json_lines([{**row, name: 1} for row in ROWS])
        yield "word.jsonl", lambda name=short: json_lines([{**row, "label": f"{name}{row['label']}"} for row in ROWS])
    for levels in (10, 100, 3000, 100_000):
        yield "deep.json", lambda n=levels: b'{"logits":' + b"[" * n + b"]" * n + b"}"
        yield "deep_objects.json", lambda n=levels: b'{"a":' * n + b"1" + b"}" * n
        yield "deep.jsonl", lambda n=levels: (b'{"logits":[1,2],"a":' + b"[" * n + b"]" * n + b"}\n") * 3
    for odd in ODD:
        for key in ("logits", "labels"):
            yield "field.json", lambda key=key, odd=odd: json.dumps({**COLUMNS, key: odd}).encode()
            record = {"logits": "logits", "labels": "label"}[key]
            yield "field.jsonl", lambda key=record, odd=odd: json_lines([*ROWS[:9], {**ROWS[9], key: odd}, *ROWS[10:]])
        yield "rows.json", lambda odd=odd: json.dumps({**COLUMNS, "logits": [*Z.tolist()[:-1], odd]}).encode()
        yield "split.json", lambda odd=odd: json.dumps({"columns": ["a", odd], "data": [[1, 2], odd]}).encode()
        yield "indexed.json", lambda odd=odd: json.dumps({"a": {"0": 1, "1": odd}, "b": {"0": 1, "1": 2}}).encode()
    for encoding in ("utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1252"):
        yield "encoding.json", lambda e=encoding: json.dumps({**COLUMNS, "ä": "é"}, ensure_ascii=False).encode(e)
    yield "keys.jsonl", lambda: json_lines([{**row, f"k{i}": i} for i, row in enumerate(ROWS * 60)])
    yield "unequal.jsonl", lambda: json_lines([{"logits": [0.5] * (i % 50), "label": 0} for i in range(400)])
    for odd in ODD:
        samples = [lm_eval_sample(i, i % 4, [-1.0, -2, -3, -4]) for i in range(12)]
        for key in ("target", "filtered_resps", "doc", "arguments", "filter", "resps", "doc_id"):
            changed = [*samples[:6], {**samples[6], key: odd}, *samples[7:]]
            yield "samples.jsonl", lambda changed=changed: json_lines(changed)
    nested: Any = -1.0
    for _ in range(400):
        nested = [nested]
    yield "samples.jsonl", lambda: json_lines([lm_eval_sample(0, 0, [0]) | {"filtered_resps": [nested, nested]}] * 4)


def hdf5_files() -> Made:
    for name, array in {
        "half": Z.astype("f2"), "big": Z.astype(">f8"), "long": Z.astype("g"), "complex": Z.astype("c8"),
        "bool": Z > 0, "scalar": 3.5, "void": np.zeros(4, [("a", "f4"), ("b", "i4", 3)]), "opaque": np.zeros(60, "V9"),
        "bytes": np.full((60, 4), b"\xff\xfe"), "flat": np.zeros((60, 0)), "axes": np.zeros((2,) * 18, "i1"),
        "wide": np.zeros((2, 70_000), "i1"), "nan": np.full((60, 4), np.nan), "unsigned": Z.astype("u8"),
    }.items():  # fmt: skip
        yield f"{name}.h5", lambda array=array: hdf5({"logits": array, "labels": Y})
        yield f"{name}_labels.h5", lambda array=array: hdf5({"logits": Z, "labels": array})
    kinds = {
        "enum": h5py.enum_dtype({"a": 0, "b": 1}), "vlen": h5py.vlen_dtype(np.int32), "words": h5py.string_dtype(),
        "reference": h5py.ref_dtype, "region": h5py.regionref_dtype, "rows": h5py.vlen_dtype(np.dtype("f8")),
        "texts": h5py.vlen_dtype(h5py.string_dtype()),
    }  # fmt: skip
    for name, kind in kinds.items():
        yield f"{name}.h5", lambda kind=kind: _h5(lambda f: (f.create_dataset("logits", (60,), kind), _labels(f)))
        yield f"{name}_2.h5", lambda kind=kind: _h5(lambda f: (f.create_dataset("labels", (60, 2), kind), _logits(f)))
    for name in ("1" * 45_000 + "x", "val_logits_" * 5000, "\x1b\n", "a" * 60_000, "\ud800"):
        yield "name.h5", lambda name=name: hdf5({name.encode("utf-8", "surrogatepass"): Z, "labels": Y})
    for levels in (10, 100, 1500):
        yield "deep.h5", lambda n=levels: hdf5({"/".join(["g"] * n) + "/logits": Z})
    yield "wide.h5", lambda: hdf5({"logits": np.zeros((250_000, 1000), "?")}, compression="gzip", chunks=(1000, 1000))
    yield (
        "attributes.h5",
        lambda: _h5(lambda f: (_logits(f), f["logits"].attrs.update({f"a{i}": i for i in range(2000)}))),
    )
    yield "null.h5", lambda: _h5(lambda f: (f.create_dataset("logits", data=h5py.Empty("f4")), _labels(f)))
    yield "virtual.h5", lambda: _h5(_virtual)
    yield (
        "stored.h5",
        lambda: _h5(lambda f: f.create_dataset("logits", (8, 4), "f4", external=[("/etc/passwd", 0, 128)])),
    )
    yield "links.h5", lambda: _h5(_many_links)
    for value in (0, "", "x" * 5000, b"\xff", np.arange(9), "cell", "char", "logical", "struct", "sparse"):
        yield "class_73.mat", lambda value=value: _changed_class(value)
    yield "codes_73.mat", lambda: mat73({"logits": Z, "labels": Y, "names": ["\uffff", "b"]})
    yield "many_73.mat", lambda: mat73({"logits": Z, "names": [f"n{i}" for i in range(1500)]})


def _h5(how: Callable[[Any], Any]) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        how(file)
    return stream.getvalue()


def _labels(file: Any) -> None:
    file["labels"] = Y


def _logits(file: Any) -> None:
    file["logits"] = Z


def _virtual(file: Any) -> None:
    layout = h5py.VirtualLayout(shape=(4, 10), dtype="f4")
    for number in range(4):
        layout[number] = h5py.VirtualSource("/etc/passwd", "a", shape=(10,))
    file.create_virtual_dataset("logits", layout)


def _many_links(file: Any) -> None:
    """Groups that contain each other: as many paths as there are orders."""
    groups = [file.create_group(f"g{number}") for number in range(30)]
    for one in groups:
        for other in groups:
            one[f"to {other.name[1:]}"] = other
    _logits(file)


def _changed_class(value: Any) -> bytes:
    content = bytearray(mat73({"logits": Z, "labels": Y}))
    stream = io.BytesIO(content)
    with h5py.File(stream, "r+") as file:
        file["logits"].attrs["MATLAB_class"] = value
    return stream.getvalue()


ARRAY = {
    3: {
        "shape": ("44", [-1, 4], [True, 4], [[60], 4], [60], [2**62, 4], [60, 4, 1], [1.5, 4]),
        "data_type": ("object", "float999", ["<f4"], {"name": "numpy.void"}, "string", "bytes", "r9999999", "complex8"),
        "chunk_grid": (
            {"name": "other"}, {"name": "regular", "configuration": {"chunk_shape": [0, 0]}},
            {"name": "regular", "configuration": {"chunk_shape": [-1, 4]}},
            {"name": "regular", "configuration": {"chunk_shape": "x"}},
            {"name": "regular", "configuration": {"chunk_shape": [2**62, 2**62]}},
        ),
        "codecs": (
            [{"name": "bytes", "configuration": {"endian": "middle"}}], [{"name": "pickle"}], [{"name": ["bytes"]}],
            [{"name": "transpose", "configuration": {"order": [0, 0]}}, {"name": "bytes"}],
            [{"name": "zstd", "configuration": {"level": 10**9}}], [{"name": "bytes"}] * 3000,
            [{"name": "sharding_indexed", "configuration": {"chunk_shape": [0, 4], "codecs": [{"name": "bytes"}]}}],
        ),
        "fill_value": ("0x7fc00000", "text", 10**400, [0]),
        "zarr_format": (2, 9, "3"), "node_type": ("group", 3), "dimension_names": (["\ud800", "x" * 9000], 3),
        "chunk_key_encoding": ({"name": "v2"}, {"name": "default", "configuration": {"separator": "\n"}}),
    },
    2: {
        "shape": ("44", [-1, 4], [2**62, 4], [60]), "chunks": ([0, 0], "x", [2**62, 4], [-1, -1]),
        "dtype": ("|O", "<U9999999", [["a", "<f4"]], "<M8[ns]", "|V0", "f", 3),
        "compressor": (
            {"id": "pickle"}, {"id": "blosc", "cname": "x"}, {"id": "zlib", "level": 99}, {"id": {}}, {"id": "lz4"},
            {"id": "lzma", "filters": [{"id": 3}]},
        ),
        "filters": ([{"id": "delta", "dtype": "|O"}], [{"id": "shuffle", "elementsize": 0}], "x", [3]),
        "order": ("X", 3), "fill_value": ("text", {}), "zarr_format": (3, None),
    },
}  # fmt: skip
"""Version of zarr -> field of an array's metadata -> what it should not hold."""


def zarr_files() -> Made:
    for version, fields in ARRAY.items():
        good = zarr_store({"logits": Z, "labels": Y}, version)
        place = f"logits/{'zarr.json' if version == 3 else '.zarray'}"
        metadata = json.loads(good[place])
        for field, values in fields.items():
            for value in (*values, *ODD):
                text = json.dumps({**metadata, field: value}).encode()
                yield (
                    f"{field}_{version}.zip",
                    lambda text=text, good=good, place=place: _zip([*good.items(), (place, text)]),
                )
        for text in (b"", b"[]", b"null", b"{", b'{"a":' * 3000, b"{" + b'"shape":[1],' * 90_000 + b'"a":1}'):
            yield "metadata.zip", lambda text=text, good=good, place=place: _zip([*good.items(), (place, text)])
        for chunk in (b"", bytes(3), b"\xff" * 5000, bytes(2_000_000)):
            broken = {path: chunk if "json" not in path and "/." not in path else each for path, each in good.items()}
            yield "chunks.zip", lambda broken=broken: _zip(broken.items())
        for path in ("../../logits", "/logits", "a" * 60_000, "/".join("g" * 3000), "lo\ngits\x1b", "C:\\logits", "."):
            moved = [(name.replace("logits", path, 1), each) for name, each in good.items()]
            yield "path.zip", lambda moved=moved: _zip(moved)
        yield "twice.zip", lambda good=good: _zip([*good.items()] * 300)


def _zip(files: Any) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w") as archive:
        warnings.simplefilter("ignore")
        for path, content in dict(files).items() if not isinstance(files, list) else files:
            archive.writestr(zipfile.ZipInfo(path), content)
    return stream.getvalue()


def compressed_files() -> Made:
    table = b"a,b,label\n" + b"".join(f"{a},{b},{k}\n".encode() for a, b, k in zip(*Z[:, :2].T, Y % 2, strict=True))
    packers: dict[str, Callable[[bytes], Any]] = {
        "gz": lambda data: gzip.compress(data, mtime=0), "bz2": bz2.compress, "xz": lzma.compress,
        "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
        "lz4": lambda data: pa.compress(data, "lz4", asbytes=True),
    }  # fmt: skip
    for extension, pack in packers.items():
        whole = bytes(pack(table))
        for name, content in {
            "half": whole[: len(whole) // 2], "end": whole[:-5], "more": whole + b"more", "none": bytes(pack(b"")),
            "parts": bytes(pack(table)) + bytes(pack(table)), "empty": bytes(pack(b"")) * 20_000, "head": whole[:6],
            "check": whole[:-4] + bytes(4), "size": whole[:8] + b"\xff" * 8 + whole[16:],
        }.items():  # fmt: skip
            yield f"{name}.csv.{extension}", lambda content=content: content
        yield f"other.npz.{extension}", lambda whole=whole: whole
        yield f"plain.csv.{extension}", lambda: table
    yield "dictionary.csv.xz", lambda: lzma.compress(table, preset=9 | lzma.PRESET_EXTREME)
    block = b"\x02\x00\x21\x01\x25" + bytes(3)  # claims a dictionary of 1.6 GB
    start = lzma.compress(table)[:12] + block + struct.pack("<I", zlib.crc32(block))
    yield "claim.csv.xz", lambda: start + b"\x01" + struct.pack(">H", len(table) - 1) + table + b"\x00"


def newer() -> Made:
    """Every file of these formats."""
    yield from json_files()
    yield from hdf5_files()
    yield from zarr_files()
    yield from compressed_files()
