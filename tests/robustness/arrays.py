"""Arrays that are not what they should be (types, shapes, values, names), saved soundly in every array format."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import safetensors.numpy
import torch

from tests.data.files import example, npy, npz, pickled, torch_bytes
from tests.data.test_formats import compressed, mat_bytes
from tests.data.test_hostile_files import lying_npy, zipped
from tests.robustness.case import Case, fixed
from tests.robustness.names import HOSTILE_NAMES

Arrays = Mapping[str, Any]
Z, Y = example()
V, T = slice(0, 30), slice(30, None)


def rich() -> dict[str, Any]:
    """A bundle with all that a bundle may hold."""
    rng = np.random.default_rng(5)
    weight = rng.normal(size=(4, 6)).astype(np.float32)
    features = rng.normal(size=(60, 6)).astype(np.float32)
    arrays: dict[str, Any] = {"head_weight": weight, "head_bias": np.zeros(4, np.float32)}
    for side, rows in (("val", V), ("test", T)):
        arrays[f"{side}_logits"] = features[rows] @ weight.T
        arrays[f"{side}_labels"] = Y[rows]
        arrays[f"{side}_features"] = features[rows]
        arrays[f"{side}_cw_l2"] = np.where(Y[rows] == 0, np.nan, 0.5)
        arrays[f"{side}_group"] = np.array(["fog", "snow", "none"])[Y[rows] % 3]
    return arrays | {"class_names": np.array(["cat", "dog", "café", "鳥"])}


def numbers_only(arrays: Arrays) -> dict[str, Any]:
    """What formats without text can hold."""
    return {name: value for name, value in arrays.items() if np.asarray(value).dtype.kind in "biuf"}


def safetensors_bytes(arrays: Arrays) -> bytes:
    return safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in numbers_only(arrays).items()})


def torch_file(arrays: Arrays) -> bytes:
    return torch_bytes({k: torch.from_numpy(np.array(v)) for k, v in numbers_only(arrays).items()})


def mat_file(arrays: Arrays, **options: Any) -> bytes:
    """As scipy writes it, without the date in its first line."""
    content = mat_bytes(dict(arrays), **options)
    return b"MATLAB 5.0 MAT-file".ljust(116) + content[116:]


SAVERS: dict[str, Callable[[Arrays], bytes]] = {
    "npz": lambda arrays: npz(**arrays),
    "pt": torch_file,
    "safetensors": safetensors_bytes,
    "mat": mat_file,
    "pkl": lambda arrays: pickled(dict(arrays)),
}

RICH_FILES = {
    "rich.npz": compressed(rich()),
    "rich.safetensors": safetensors_bytes(rich()),
    "rich.mat": mat_file(rich(), do_compression=True),
    "rich.pkl": pickled(rich()),
    "rich.pt": torch_file(rich()),
    "logits.npy": npy(Z),
}


def with_value(value: float, dtype: type = np.float32) -> np.ndarray:
    """One bad value in the midst."""
    logits = Z.astype(dtype)
    logits[7, 2] = value
    return logits


def _types() -> Iterator[tuple[str, Arrays]]:
    """Logits and labels of every type NumPy has."""
    kinds = "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 f16 c8 c16 >f4 >f8 >i4 >u2 U4 S4 M8[s] m8[s]"
    for kind in kinds.split():
        with np.errstate(all="ignore"):
            yield f"logits of {kind}", {"logits": Z.astype(kind), "labels": Y}
            yield f"labels of {kind}", {"logits": Z, "labels": Y.astype(kind)}
    yield "records", {"logits": np.zeros(60, [("a", "f4"), ("b", "O")]), "labels": Y}
    yield "objects", {"logits": np.array([list(row) for row in Z], dtype=object), "labels": Y}


def _shapes() -> Iterator[tuple[str, Arrays]]:
    empty = np.zeros((0, 4), np.float32)
    for name, logits, labels in (
        ("no rows", empty, Y[:0]),
        ("no columns", Z[:, :0], Y),
        ("one column", Z[:, :1], Y * 0),
        ("one row", Z[:1], Y[:1]),
        ("two rows", Z[:2], Y[:2]),
        ("vector", Z[:, 0], Y),
        ("scalar", np.float32(1), np.int64(0)),
        ("three axes", Z.reshape(60, 2, 2), Y),
        ("nine axes", Z.reshape(60, 4, *[1] * 7), Y),
        ("transposed", Z.T.copy(), Y),
        ("wide", np.tile(Z, (1, 400)), Y),
        ("rows missing", Z[:-7], Y),
        ("labels missing", Z, Y[:-7]),
        ("labels in a column", Z, Y[:, None]),
        ("labels in a row", Z, Y[None]),
        ("one-hot labels", Z, np.eye(4)[Y]),
        ("two-hot labels", Z, np.eye(4)[Y] + np.eye(4)[(Y + 1) % 4]),
        ("only logits", Z, None),
        ("only labels", None, Y),
        ("nothing", None, None),
    ):
        yield name, {key: value for key, value in (("logits", logits), ("labels", labels)) if value is not None}
    for name, sides in (("sides differ in classes", (Z, Z[:, :3])), ("sides of other types", (Z, Z.astype(str)))):
        yield name, {"val_logits": sides[0], "val_labels": Y % 3, "test_logits": sides[1], "test_labels": Y % 3}
    yield "one side only", {"val_logits": Z, "val_labels": Y}
    yield "test without labels", {"val_logits": Z, "val_labels": Y, "test_logits": Z}


def _values() -> Iterator[tuple[str, Arrays]]:
    for value in (np.nan, np.inf, -np.inf, 1e38, -1e38, 3.4e38, 1e-45):
        yield f"a logit of {value}", {"logits": with_value(value), "labels": Y}
    for value in (1e300, -1e300, 1e39):
        yield f"a logit of {value}", {"logits": with_value(value, np.float64), "labels": Y}
    for fill in (0.0, np.nan, np.inf, -np.inf, 1e30):
        yield f"all logits {fill}", {"logits": np.full_like(Z, fill), "labels": Y}
    for value in (-1, 4, 255, 10**12, -(2**63), 2**63 - 1):
        labels = Y.copy()
        labels[3] = value
        yield f"a label of {value}", {"logits": Z, "labels": labels}
    for value in (np.nan, np.inf, 0.5, -0.0, 1e300):
        floats = Y.astype(float)
        floats[3] = value
        yield f"a label of {value} among floats", {"logits": Z, "labels": floats}
    soft = np.exp(Z) / np.exp(Z).sum(1, keepdims=True)
    yield "probabilities", {"probs": soft, "labels": Y}
    yield "percentages", {"probs": 100 * soft, "labels": Y}
    yield "probabilities with zeros", {"probs": np.eye(4, dtype=np.float32)[Y], "labels": Y}
    yield "log-probabilities of -inf", {"logits": np.where(np.eye(4)[Y] > 0, 0.0, -np.inf), "labels": Y}
    yield "text labels", {"logits": Z, "labels": np.array(["a", "b", "c", "d"])[Y]}
    yield "unseen text labels", {"logits": Z, "labels": np.array([f"name {i}" for i in range(60)])}


def _extras() -> Iterator[tuple[str, Arrays]]:
    """A sound bundle with one of its other arrays spoiled."""
    base = rich()
    for name in [key for key in base if key not in ("val_logits", "val_labels", "test_logits", "test_labels")]:
        value = np.asarray(base[name])
        yield f"{name} cut short", {**base, name: value[:-1]}
        yield f"{name} turned", {**base, name: value.T[::-1]}
        yield f"{name} of no rows", {**base, name: value[:0]}
        if value.dtype.kind == "f":
            for bad in (np.nan, np.inf, -1e38):
                yield f"{name} all {bad}", {**base, name: np.full_like(value, bad)}
        yield f"{name} as text", {**base, name: np.full(value.shape, "x")}


def _names() -> Iterator[tuple[str, Arrays]]:
    """Names from outside wherever a bundle has names."""
    base = rich()
    for number, name in enumerate(HOSTILE_NAMES):
        yield f"class name {number}", {**base, "class_names": np.array([name, "b", "c", "d"])}
        yield f"group name {number}", {**base, "test_group": np.full(30, name)}
    yield "one long class name", {**base, "class_names": np.array(["x" * 5000, "b", "c", "d"])}
    yield "equal class names", {**base, "class_names": np.array(["a"] * 4)}


def _keys() -> Iterator[tuple[str, Arrays]]:
    """Arrays under odd keys, besides the right ones."""
    for number, name in enumerate(HOSTILE_NAMES):
        key = name.replace("\0", "").replace("/", "|") or "empty"
        yield f"key {number}", {"logits": Z, "labels": Y, key: Z}
    yield "many keys", {"logits": Z, "labels": Y} | {f"k{i}": np.float32(i) for i in range(3000)}
    yield "two candidates", {"logits": Z, "predictions": -Z, "labels": Y, "targets": Y[::-1]}


def odd_arrays() -> Iterator[Case]:
    """Every oddity in every format that can hold it."""
    families = {
        "odd type": _types,
        "odd shape": _shapes,
        "odd value": _values,
        "odd extra": _extras,
        "odd name": _names,
        "odd key": _keys,
    }
    for kind, family in families.items():
        for number, (_, arrays) in enumerate(family()):
            for extension, save in SAVERS.items():
                try:
                    content = save(arrays)
                except Exception:  # the format cannot hold it: then nobody can hand it in
                    continue
                yield fixed(f"{kind.replace(' ', '_')}_{number}.{extension}", f"{kind}", content)
            if set(arrays) == {"logits", "labels"} and np.asarray(arrays["logits"]).dtype.kind != "O":
                yield fixed(f"logits_{number}.npy", kind, npy(arrays["logits"]))


def odd_headers() -> Iterator[Case]:
    """Headers that are huge, that lie, or that hold what should not be evaluated."""
    for number, shape in enumerate(
        ("(10**9, 10**9)", "(99999999999, 4)", "(-60, 4)", "(60, 4.0)", "(True, 4)", "('a',)", "60", "((60,), 4)")
    ):
        yield fixed(f"shape_{number}.npy", "lying header", lying_npy(shape))
        yield fixed(f"shape_{number}.npz", "lying header", zipped(logits=lying_npy(shape), labels=npy(Y)))
    for number, descr in enumerate(
        ("|O", "|V8", "<f4,<O", "<U999999999", "<f3", "x", "<M8[ns]", "<f16", "|S2147483647")
    ):
        yield fixed(f"descr_{number}.npy", "lying header", lying_npy("(4, 4)", descr))
        yield fixed(f"descr_{number}.npz", "lying header", zipped(logits=lying_npy("(4, 4)", descr), labels=npy(Y)))
    code = "__import__('os').system('touch x') or (60, 4)"
    yield fixed("code.npy", "lying header", lying_npy(code))
    yield fixed("deep.npy", "lying header", lying_npy("(" * 2000 + ")" * 2000))
    for size in (20_000, 5_000_000):
        text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (60, 4), }" + b" " * size + b"\n"
        yield fixed("long.npy", "huge header", b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + Z.tobytes())
        keys = ",".join(
            f'"k{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(size // 60)
        ).encode()
        yield fixed("long.safetensors", "huge header", struct.pack("<Q", len(keys) + 2) + b"{" + keys + b"}")
        spaces = b"{}" + b" " * size
        yield fixed("blank.safetensors", "huge header", struct.pack("<Q", len(spaces)) + spaces)
    for number, length in enumerate((2**63, 2**64 - 1, 2**40, 0)):
        yield fixed(f"length_{number}.safetensors", "lying header", struct.pack("<Q", length) + b"{}")
    for number, entry in enumerate(
        (
            '{"dtype":"F99","shape":[2],"data_offsets":[0,8]}',
            '{"dtype":"F32","shape":[2],"data_offsets":[4,12]}',
            '{"dtype":"F32","shape":[2],"data_offsets":[0,8],"data_offsets":[0,4]}',
            '{"dtype":"F32","shape":[9007199254740993,2],"data_offsets":[0,8]}',
            '{"dtype":"F32","shape":[1e300],"data_offsets":[0,8]}',
            '{"dtype":"F32","shape":null,"data_offsets":[0,8]}',
            '{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}',
            '{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}',
            "null", "1", '"a"', "{" * 50_000,
        )
    ):  # fmt: skip
        header = f'{{"logits":{entry}}}'.encode()
        yield fixed(f"entry_{number}.safetensors", "lying header", struct.pack("<Q", len(header)) + header + bytes(8))
    stream = io.BytesIO()
    np.lib.format.write_array(stream, Z, version=(3, 0))
    yield fixed("version3.npy", "odd header", stream.getvalue())
    for version in (b"\x04\x00", b"\x00\x00", b"\xff\xff"):
        yield fixed("version.npy", "odd header", lying_npy("(4, 4)", version=version))
