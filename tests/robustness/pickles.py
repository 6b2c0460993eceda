"""Programs in pickles, on every way by which a pickle can come in: itself, in torch, NumPy, mat and Arrow files."""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tests.data.files import npy, npz, pickled, torch_bytes
from tests.data.test_formats import mat_bytes
from tests.data.test_hostile_pickle import BOMBS, calls, nested, program
from tests.robustness.archives import zip_of_torch
from tests.robustness.arrays import Y, Z
from tests.robustness.case import Case, fixed


def extension_table(canary: Path) -> pa.Table:
    """A column of the Arrow extension type that old readers unpickled."""
    field = pa.field(
        "logits",
        pa.float32(),
        metadata={
            b"ARROW:extension:name": b"arrow.py_extension_type",
            b"ARROW:extension:metadata": pickle.dumps(calls(canary)["os.system"]),
        },
    )
    fields = [field, pa.field("b", pa.float32()), pa.field("label", pa.int64())]
    return pa.Table.from_arrays([pa.array(Z[:, 0]), pa.array(Z[:, 1]), pa.array(Y % 2)], schema=pa.schema(fields))


def arrow_with_program(canary: Path, how: str) -> bytes:
    stream = io.BytesIO()
    table = extension_table(canary)
    if how == "parquet":
        pyarrow.parquet.write_table(table, stream)
    else:
        with pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
    return stream.getvalue()


def legacy_torch(canary: Path, call: str) -> bytes:
    return torch_bytes(calls(canary)[call], _use_new_zipfile_serialization=False)


def new_torch(canary: Path, call: str, protocol: int) -> bytes:
    evil = pickled(calls(canary)[call], protocol)
    return zip_of_torch(lambda name, data: (name, evil if name.endswith("data.pkl") else data))


def object_file(canary: Path, extension: str) -> bytes:
    evil = calls(canary)["object array"]
    if extension == "npy":
        return npy(evil)
    if extension == "mat":
        return mat_bytes({"logits": Z, "labels": Y}) + pickled(evil)
    return npz(logits=evil, labels=Y)


def metadata_safetensors(canary: Path) -> bytes:
    """A header whose metadata would run, were it evaluated."""
    code = f"__import__('os').system('touch {canary}')"
    header = json.dumps({"__metadata__": {"val_group_names": code, "class_names": code, "format": code}}).encode()
    return struct.pack("<Q", len(header)) + header


def hostile_pickles() -> Iterator[Case]:
    kind = "hostile pickle"
    for number, call in enumerate(calls("x")):
        for place, where in enumerate(nested(0)):
            protocol = (number + place) % 6

            def make(canary: Path, call: str = call, where: str = where, protocol: int = protocol) -> bytes:
                return pickled(nested(calls(canary)[call])[where], protocol)

            yield Case(f"call_{number}_{place}.pkl", kind, make)
        yield Case(f"call_{number}.pt", kind, lambda canary, call=call: new_torch(canary, call, 2))
        yield Case(f"call_{number}.pth", kind, lambda canary, call=call: legacy_torch(canary, call))
    for number, name in enumerate(program("x")):
        yield Case(f"program_{number}.p", kind, lambda canary, name=name: program(canary)[name])
        # a pickle by its content, whatever it is called
        yield Case(f"program_{number}.npz", kind, lambda canary, name=name: program(canary)[name])
    for number, content in enumerate(BOMBS.values()):
        yield fixed(f"bomb_{number}.pickle", "pickle bomb", content)
    for extension in ("npy", "npz", "mat"):
        yield Case(f"objects.{extension}", kind, lambda canary, extension=extension: object_file(canary, extension))
    for extension in ("parquet", "arrow"):
        yield Case(f"extension.{extension}", kind, lambda canary, how=extension: arrow_with_program(canary, how))
    yield Case("metadata.safetensors", kind, metadata_safetensors)
    frame = np.array([(1.0, 2)], dtype=[("a", "f8"), ("b", "i8")])
    yield fixed("records.pkl", kind, pickled(frame))
