"""Files that mislead a reader which counts what they claim: repeated names, strides, equal hashes, depth, length."""

from __future__ import annotations

import io
import json
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import torch

from tests.data import parquet
from tests.data.files import npy, torch_bytes
from tests.data.parquet import data_page, i32, i64, listed, structure, text
from tests.data.test_bombs import BOMBS, element, same_hash, same_hash_memo
from tests.data.test_formats import compressed
from tests.data.test_hostile_files import lying_npy, zipped
from tests.robustness.archives import zip_of_torch
from tests.robustness.arrays import SAVERS, Y, Z
from tests.robustness.case import Case, fixed
from tests.robustness.newer import newer

Made = Iterator[tuple[str, Callable[[], bytes]]]
"""A file's name and what makes its bytes."""


def repeated_members(members: list[tuple[str, bytes]]) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def repeated_tensor(times: int) -> bytes:
    """A torch file with every member several times."""
    good = torch_bytes({"logits": torch.from_numpy(Z), "labels": torch.from_numpy(Y)})
    with zipfile.ZipFile(io.BytesIO(good)) as source:
        return repeated_members([(name, source.read(name)) for name in source.namelist()] * times)


def safetensors(header: str, content: bytes = bytes(64)) -> bytes:
    return struct.pack("<Q", len(header.encode())) + header.encode() + content


def duplicate_names() -> Made:
    good = [("logits.npy", npy(Z)), ("labels.npy", npy(Y))]
    for times in (2, 50, 3000):
        yield "repeated.npz", lambda times=times: repeated_members(good * times)
        yield "repeated.pt", lambda times=times: repeated_tensor(min(times, 300))
    for last in (lambda: npy(np.zeros((4_000_000, 4), np.float32)), lambda: b"", lambda: b"\x93NUMPY"):
        yield "last.npz", lambda last=last: repeated_members([*good * 100, ("logits.npy", last())])
    entry = '"logits":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]}'
    for times in (2, 1000, 100_000):
        yield "repeated.safetensors", lambda times=times: safetensors("{" + ",".join([entry] * times) + "}")
    metadata = '"__metadata__":{"class_names":"[]"}'
    yield "metadata.safetensors", lambda: safetensors("{" + ",".join([metadata, entry, metadata]) + "}")
    columns = [pa.array(Z[:, 0])] * 200 + [pa.array(Y)] * 2
    table = pa.Table.from_arrays(columns, names=["a"] * 200 + ["label"] * 2)
    yield "repeated.feather", partial(arrow, table)
    yield "repeated.csv", lambda: (",".join(["a"] * 2000) + "\n" + (",".join(["1"] * 2000) + "\n") * 4).encode()
    yield "repeated.pkl", lambda: b"\x80\x02}(" + (b"X\x06\x00\x00\x00logits" + pickled_array(Z)) * 2000 + b"u."
    variable = SAVERS["mat"]({"logits": Z})
    yield "repeated.mat", lambda: variable + variable[128:] * 3000


def arrow(table: pa.Table, **options: Any) -> bytes:
    stream = io.BytesIO()
    pyarrow.feather.write_feather(table, stream, **options)
    return stream.getvalue()


def pickled_array(array: np.ndarray) -> bytes:
    """The instructions that build an array."""
    return pickle.dumps(array, 2)[2:-1]


def header_fields() -> Made:
    """Fields repeated, missing, out of order, or of another type."""
    for number, fields in enumerate(
        (
            "'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (4, 4)",
            "'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), 'shape': (10**9,)",
            "'descr': '<f4', 'fortran_order': 'no', 'shape': (4, 4)",
            "'descr': 4, 'fortran_order': False, 'shape': (4, 4)",
            "'descr': ('<f4', (1000000000,)), 'fortran_order': False, 'shape': (4, 4)",
            "'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 4)",
            "'descr': [['a', '<f4'], ['a', '|O']], 'fortran_order': False, 'shape': (4, 4)",
            "'descr': '<f4', 'fortran_order': False, 'shape': [4, 4]",
            "'descr': '<f4', 'fortran_order': False, 'shape': {4: 4}",
            "'descr': '<f4', 'fortran_order': False, 'shape': (4, None)",
            "'descr': '<f4', 'fortran_order': False",
            "'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), 'more': 1",
            "b'descr': '<f4', 'fortran_order': False, 'shape': (4, 4)",
        )
    ):
        header = f"{{{fields}, }}".encode().ljust(200) + b"\n"
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)
        yield f"fields_{number}.npy", lambda content=content: content
        yield f"fields_{number}.npz", lambda content=content: zipped(logits=content, labels=npy(Y[:4]))
    for shape in ("(0, 10**6)", "(2000000000,)", "(70000, 70000)", "(" + "1, " * 70 + ")"):
        for descr in ("<U0", "|S0", "|V0", "<U1", "?"):
            yield "width.npy", lambda shape=shape, descr=descr: lying_npy(shape.replace("10**6", "1000000"), descr)
    for number, fields in enumerate(
        (
            '"dtype":"F32","dtype":"F64","shape":[4,4],"data_offsets":[0,64]',
            '"dtype":"F32","shape":[4,4],"shape":[1000000000,4],"data_offsets":[0,64]',
            '"dtype":"F32","shape":"44","data_offsets":[0,64]',
            '"dtype":"F32","shape":{"4":4},"data_offsets":[0,64]',
            '"dtype":"F32","shape":[4,4],"data_offsets":[0,64,64]',
            '"dtype":"F32","shape":[4,4],"data_offsets":{"0":64}',
            '"dtype":"F32","shape":[true,16],"data_offsets":[false,64]',
            '"dtype":"F32","shape":[[4],4],"data_offsets":[0,64]',
            '"dtype":"F8_E4M3","shape":[8,8],"data_offsets":[0,64]',
            '"dtype":"F8_E4M3","shape":["a",8.5],"data_offsets":[0,64]',
            '"dtype":"F32","shape":[0,99999999999999999999],"data_offsets":[0,0]',
            f'"dtype":"F32","shape":[{",".join(["1"] * 5000)}],"data_offsets":[0,4]',
            f'"dtype":"Q","shape":[{",".join(["1"] * 500_000)}],"data_offsets":[0,4]',
        )
    ):
        yield f"fields_{number}.safetensors", lambda fields=fields: safetensors(f'{{"logits":{{{fields}}}}}')
    for texts in ('"a"', "[1,2]", "[null]", '["a","b"]', "[[[]]]", '{"a":1}', "1e9", "[" * 5000):
        codes = '"val_group":{"dtype":"I8","shape":[64],"data_offsets":[0,64]}'
        header = (
            f'{{{codes},"__metadata__":{{"val_group_names":{json.dumps(texts)},"class_names":{json.dumps(texts)}}}}}'
        )
        yield "names.safetensors", lambda header=header: safetensors(header, b"\xff" * 64)
    yield from parquet_headers()
    yield from mat_elements()


def parquet_headers() -> Made:
    for number, (rows, header) in enumerate(
        (
            (60, [data_page(60)]),
            (60, [data_page(10), data_page(60)]),
            (60, [data_page(60), data_page(10)]),
            (60, [data_page(60), (2, i32(1 << 30))]),
            (60, [(2, i32(1)), (3, i32(1)), data_page(60)]),
            (60, [data_page(60), (5, i32(7))]),
            (60, [(5, listed([i32(1)])), data_page(60)]),
            (60, [data_page(-60)]),
            (60, [data_page(60, 2)]),
            (60, [data_page(60, 99)]),
            (60, [(8, structure((1, i32(60)), (2, i32(0)), (3, i32(60)), (4, i32(8))))]),
            (60, [(8, structure((1, i32(60)))), data_page(60)]),
            (60, [(500, text("x" * 1000)), data_page(60)]),
            (60, [(5, (12, b"\x1c" * 5000))]),
            (60, []),
            (50_000_000, [data_page(10), data_page(50_000_000)]),
            (2_000_000_000, [data_page(2_000_000_000)]),
            (2_000_000_000, [data_page(10)]),
            (2**62, [data_page(60)]),
            (0, [data_page(60)]),
        )
    ):
        yield f"page_{number}.parquet", lambda rows=rows, header=header: parquet.table(rows, header)
    yield "names.parquet", lambda: parquet.table(60, [data_page(60)], ["a"] * 500)
    yield "long.parquet", lambda: parquet.table(60, [data_page(60)], ["a" * 1_000_000, "label"])
    good = parquet.table(60, [data_page(60)])
    for old, new in ((i64(60), i64(61)), (i64(60), i32(60)), (i32(5), i32(77)), (text("labels"), text("labele"))):
        yield "footer.parquet", lambda old=old[1], new=new[1]: good.replace(old, new)


def mat_elements() -> Made:
    """Every class of matrix with every type of element, and sizes that lie."""
    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    for kind in range(0, 20):
        flags = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack("<ii", 4, 2)) + element(1, b"logits")
        for stored in (1, 7, 9, 12, 14, 16, 19, 200):
            content = header + element(14, flags + element(stored, bytes(64)))
            yield f"class_{kind}.mat", lambda content=content: content
    for sizes in ((-4, -2), (2**31 - 1, 2**31 - 1), (2**31 - 1, 0), (4, 2, 0, 0, 0), (1,) * 5000, ()):
        dims = element(5, struct.pack(f"<{len(sizes)}i", *sizes))
        flags = element(6, struct.pack("<II", 6, 0)) + dims + element(1, b"logits") + element(9, bytes(64))
        yield "sizes.mat", lambda flags=flags: header + element(14, flags)


def strides() -> Made:
    """Tensors that reach further, or repeat more, than their storage."""
    ones = torch.ones(1)
    views = {
        "same": ones.expand(1000, 1000),
        "overlap": torch.arange(1004.0).as_strided((1000, 4), (1, 1)),
        "wide": torch.zeros(1000).as_strided((250_000, 1000), (0, 1)),
        "deep": ones.expand(*[2] * 20),
        "negated": torch._neg_view(ones.expand(3_000_000, 10)),
        "bits": torch._neg_view(ones.bfloat16().expand(3_000_000, 10)),
        "bytes": torch.ones(1, dtype=torch.uint8).expand(20_000_000, 10),
        "bool": torch.ones(1, dtype=torch.bool).expand(20_000_000, 10),
    }
    for name, view in views.items():
        for legacy in (False, True):
            tree = {"logits": view, "labels": torch.zeros(1).expand(len(view))}
            yield (
                f"{name}.pt",
                lambda tree=tree, legacy=legacy: torch_bytes(tree, _use_new_zipfile_serialization=not legacy),
            )
    yield "many.pt", lambda: torch_bytes({f"a{i}": torch._neg_view(ones.expand(9_000_000)) for i in range(40)})
    for old, new in (
        (b"K\x04K\x01\x86", b"K\x00K\x01\x86"),
        (b"K\x04K\x01\x86", b"K\x04J\xff\xff\xff\xff\x86"),
        (b"K\x04K\x01\x86", b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"),
        (b"K\x04K\x01\x86", b"K\x04\x85"),
        (b"K\x04K\x01\x86", b"K\x04G@\x00\x00\x00\x00\x00\x00\x00\x86"),
        (b"K<K\x04\x86", b"J\x00\xe1\xf5\x05K\x04\x86"),
        (b"K<K\x04\x86", b"K<K\x04K\x00\x87"),
        (b"QK\x00", b"QJ\xff\xff\xff\x7f"),
        (b"QK\x00", b"Q\x8a\x08" + b"\xff" * 7 + b"\x7f"),
    ):

        def change(name: str, data: bytes, old: bytes = old, new: bytes = new) -> tuple[str, bytes]:
            return name, data.replace(old, new) if name.endswith("data.pkl") else data

        yield "strides.pt", lambda change=change: zip_of_torch(change)


def widening() -> Made:
    """Numbers of one byte or one bit, well compressed, that become four bytes each."""
    for rows in (30_000, 250_000):
        for dtype in ("i1", "?", "f2"):
            if rows == 30_000 or dtype != "f2":
                arrays = rows, dtype
                yield "wide.npz", lambda arrays=arrays: compressed(_zeros(*arrays))
        yield "wide.parquet", lambda rows=rows: _columns(rows, pyarrow.parquet.write_table)
        yield "wide.feather", lambda rows=rows: _columns(rows, pyarrow.feather.write_feather)
    yield "wide.mat", lambda: SAVERS["mat"](_zeros(30_000, "?"))
    yield "wide.pt", lambda: SAVERS["pt"](_zeros(30_000, "i1"))
    yield "wide.safetensors", lambda: SAVERS["safetensors"](_zeros(30_000, "?"))
    yield "wide.pkl", lambda: SAVERS["pkl"](_zeros(30_000, "i1"))


def _zeros(rows: int, dtype: str) -> dict[str, np.ndarray]:
    return {"logits": np.zeros((rows, 1000), dtype), "labels": np.zeros(rows, np.int8)}


def _columns(rows: int, how: Callable[..., None]) -> bytes:
    bits = pa.array(np.zeros(rows * 500, "?"))
    stream = io.BytesIO()
    lists = pa.FixedSizeListArray.from_arrays(bits, 500)
    how(pa.table({"logits": lists, "labels": np.zeros(rows, np.int8)}), stream, compression="zstd")
    return stream.getvalue()


def collisions() -> Made:
    """Numbers that Python's hash cannot tell apart."""
    for count in (1000, 30_000, 100_000):
        yield "keys.pkl", lambda count=count: same_hash(count)
        yield "memo.pkl", lambda count=count: same_hash_memo(count)
        floats = b"".join(b"G" + struct.pack(">d", 2.0**k * 3) + b"N" for k in range(min(count, 1000)))
        yield "floats.pkl", lambda floats=floats: b"\x80\x02}(" + floats + b"u."
        multiples = b"".join(b"J" + struct.pack("<i", (i << 12) - (1 << 30)) + b"N" for i in range(count))
        yield "multiples.pkl", lambda multiples=multiples: b"\x80\x02}(" + multiples + b"u."
        puts = b"".join(b"r" + struct.pack("<I", (i << 14) & 0xFFFFFFFF) for i in range(count))
        yield "puts.pkl", lambda puts=puts: b"\x80\x02N" + puts + b"."


def long_names() -> Made:
    names = {
        "digits": lambda n: "1" * n + "x",
        "words": lambda n: "val_logits_" * (n // 11),
        "capitals": lambda n: "aB" * (n // 2),
        "brackets": lambda n: "x" + "[" * n + "1",
        "held": lambda n: "held_" * (n // 5) + "out",
        "controls": lambda n: "\x1b" * n,
    }
    for how in names.values():
        for size in (1000, 45_000, 1_500_000):
            name = how(size)
            for extension, save in SAVERS.items():
                if extension != "mat" and (extension != "npz" or size < 60_000):
                    yield f"name.{extension}", lambda save=save, name=name: save({name: Z, "labels": Y})
            rows = "".join(f"{a},{b},{k}\n" for a, b, k in zip(*Z[:, :2].T, Y % 2, strict=True))
            yield "name.csv", lambda name=name, rows=rows: f"{name},b,label\n{rows}".encode()
            yield "name.feather", lambda name=name: arrow(pa.table({name: Z[:, 0], "b": Z[:, 1], "label": Y % 2}))
    for count in (300, 5000):
        keys = {f"{'k' * 2000}{i}": np.float32(i) for i in range(count)}
        yield "names.pkl", lambda keys=keys: pickle.dumps({**keys, "logits": Z, "labels": Y})
        yield "names.csv", lambda keys=keys: (",".join(keys) + "\n" + (",".join("1" * len(keys)) + "\n") * 3).encode()
    words = np.array(["y" * 20_000 + str(k) for k in range(4)])
    for extension in ("npz", "pkl"):
        bundle = {"logits": Z, "labels": words[Y], "class_names": words}
        yield f"words.{extension}", lambda save=SAVERS[extension], bundle=bundle: save(bundle)


def depth() -> Made:
    for levels in (10, 100, 3000, 200_000):
        yield "lists.pkl", lambda n=levels: b"\x80\x02" + b"]" * n + b"a" * (n - 1) + b"."
        yield "tuples.pkl", lambda n=levels: b"\x80\x02)" + b"\x85" * n + b"."
        yield "dicts.pkl", lambda n=levels: b"\x80\x02" + b"}K\x01" * n + b"N" + b"s" * n + b"."
        yield (
            "lists.pt",
            lambda n=levels: zip_of_torch(
                lambda name, data: (
                    name,
                    b"\x80\x02" + b"]" * n + b"a" * (n - 1) + b"." if "data.pkl" in name else data,
                )
            ),
        )
        yield "lists.safetensors", lambda n=levels: safetensors('{"logits":' + "[" * n + "]" * n + "}")
        yield "shape.npy", lambda n=levels: lying_npy("(" * min(n, 9000) + ")" * min(n, 9000))
    for levels in (5, 40, 400, 3000):
        yield "cells.mat", lambda n=levels: nested_cells(n)
        if levels < 100:
            yield "lists.feather", lambda n=levels: arrow(pa.table({"logits": _nested(n), "label": [0]}))
    yield "structs.feather", lambda: arrow(pa.table({"logits": pa.array([_structure(60)]), "label": [0]}))


def nested_cells(levels: int) -> bytes:
    content = element(14, _flags(6) + element(9, bytes(8)))
    for _ in range(levels):
        content = element(14, _flags(1) + content)
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + content


def _flags(kind: int) -> bytes:
    return element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack("<ii", 1, 1)) + element(1, b"logits")


def _nested(levels: int) -> pa.Array:
    array = pa.array([1.0])
    for _ in range(levels):
        array = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), array)
    return array


def _structure(levels: int) -> dict[str, Any]:
    return {"a": _structure(levels - 1)} if levels else {"a": 1.0}


FAMILIES: dict[str, Callable[[], Made]] = {
    "duplicate names": duplicate_names,
    "header fields": header_fields,
    "strides": strides,
    "widening types": widening,
    "hash collisions": collisions,
    "long names": long_names,
    "deep nesting": depth,
    "newer formats": newer,
}


def tricks() -> Iterator[Case]:
    """Every family; the bytes are made when they are needed."""
    for kind, family in FAMILIES.items():
        for name, make in family():
            yield Case(name, kind, lambda _, make=make: make())
    yield fixed("empty.npz", "duplicate names", repeated_members([]))
    for name, (make, _) in BOMBS.items():
        yield Case(name, "bomb", lambda _, make=make: make())
