"""Every format carries the same numbers in; each file is written by the format's own library."""

from __future__ import annotations

import io
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import safetensors.numpy
import safetensors.torch
import scipy.io
import torch

from smart_core.data import load
from smart_core.errors import LogitFileError
from tests.data.files import codes, example, npy, npz, pickled, torch_bytes

Z, Y = example()
V, T = slice(0, 24), slice(24, None)
SIDES = {"val_logits": Z[V], "val_labels": Y[V], "test_logits": Z[T], "test_labels": Y[T]}


def frame() -> pd.DataFrame:
    table = pd.DataFrame(Z, columns=[f"logit_{k}" for k in range(4)])
    table["label"] = Y
    table["split"] = np.where(np.arange(60) < 24, "val", "test")
    return table


def arrow_bytes(table: pa.Table, how: str) -> bytes:
    stream = io.BytesIO()
    if how == "feather":
        pyarrow.feather.write_feather(table, stream, compression="zstd")
    elif how == "parquet":
        pyarrow.parquet.write_table(table, stream)
    else:
        new = pa.ipc.new_file if how == "file" else pa.ipc.new_stream
        with new(stream, table.schema) as writer:
            writer.write_table(table)
    return stream.getvalue()


def mat_bytes(arrays: dict, **options) -> bytes:
    stream = io.BytesIO()
    scipy.io.savemat(stream, arrays, **options)
    return stream.getvalue()


def compressed(arrays: dict) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


TENSORS = {key: torch.from_numpy(np.array(value)) for key, value in SIDES.items()}
LISTS = pa.table({"logits": list(Z), "labels": Y, "split": frame()["split"].to_numpy(str)})
FILES = {
    "plain.npz": npz(**SIDES),
    "compressed.npz": compressed(SIDES),
    "fortran.npz": npz(**{key: np.asfortranarray(value) for key, value in SIDES.items()}),
    "big_endian.npz": npz(**{k: v.astype(v.dtype.newbyteorder(">")) for k, v in SIDES.items()}),
    "dict.pt": torch_bytes(TENSORS),
    "legacy.pth": torch_bytes(TENSORS, _use_new_zipfile_serialization=False),
    "nested.pt": torch_bytes({"val": (TENSORS["val_logits"], TENSORS["val_labels"]),
                              "test": {"logits": TENSORS["test_logits"], "labels": TENSORS["test_labels"]}}),
    "pairs.pt": torch_bytes([[TENSORS["val_logits"], TENSORS["val_labels"]],
                             [TENSORS["test_logits"], TENSORS["test_labels"]]]),
    "numpy_inside.pt": torch_bytes(SIDES),
    "strided.pt": torch_bytes({**TENSORS, "val_logits": torch.from_numpy(Z).T.contiguous().T[:24]}),
    "tensors.safetensors": safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in SIDES.items()}),
    "table.csv": frame().to_csv(index=False).encode(),
    "indexed.csv": frame().to_csv().encode(),
    "windows.csv": b"\xef\xbb\xbf" + frame().to_csv(index=False, lineterminator="\r\n").encode(),
    "semicolons.csv": frame().to_csv(index=False, sep=";", decimal=",").encode(),
    "table.tsv": frame().to_csv(index=False, sep="\t").encode(),
    "table.parquet": arrow_bytes(pa.Table.from_pandas(frame()), "parquet"),
    "lists.parquet": arrow_bytes(LISTS, "parquet"),
    "table.feather": arrow_bytes(pa.Table.from_pandas(frame()), "feather"),
    "table.arrow": arrow_bytes(pa.Table.from_pandas(frame()), "file"),
    "stream.arrow": arrow_bytes(LISTS, "stream"),
    "matlab.mat": mat_bytes({**SIDES, "val_labels": Y[V] + 1, "test_labels": Y[T] + 1}),
    "compressed.mat": mat_bytes(SIDES, do_compression=True),
    "matlab4.mat": mat_bytes({k: v.astype(float) for k, v in SIDES.items()}, format="4"),
    **{f"pairs{p}.p": pickled(((Z[V], Y[V]), (Z[T], Y[T])), p) for p in range(6)},
    **{f"dict{p}.pkl": pickled(SIDES, p) for p in range(6)},
    "crossed.pickle": pickled(((Z[V], Z[T]), (Y[V], Y[T]))),
    "four.pickle": pickled([Z[V], Y[V], Z[T], Y[T]]),
    "lists.pickle": pickled({"val": [Z[V].tolist(), Y[V].tolist()], "test": [Z[T].tolist(), Y[T].tolist()]}),
    "fortran.pickle": pickled({**SIDES, "val_logits": np.asfortranarray(Z[V])}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_set(name):
    data = load(FILES[name], name=name)
    np.testing.assert_allclose(data.validation.logits, Z[V], rtol=1e-6)
    np.testing.assert_allclose(data.test.logits, Z[T], rtol=1e-6)
    np.testing.assert_array_equal(data.validation.labels, Y[V])
    np.testing.assert_array_equal(data.test.labels, Y[T])
    for part in (data.validation, data.test):
        assert part.logits.dtype == np.float32
        assert part.logits.flags.c_contiguous
        assert not part.logits.flags.writeable
        assert part.labels.dtype == np.int64
    assert data.name == name.rsplit(".", 1)[0]
    assert "one_based_labels" in codes(data) if name == "matlab.mat" else "one_based_labels" not in codes(data)


@pytest.mark.parametrize("name", FILES)
def test_path_and_bytes_agree(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    assert load(path).content_hash == load(str(path)).content_hash == load([(name, FILES[name])]).content_hash
    assert [p.name for p in tmp_path.iterdir()] == [name]


# these begin with no mark of their own
UNMARKED = ("pairs0.p", "pairs1.p", "dict0.pkl", "dict1.pkl", "matlab4.mat")
MARKED = [name for name in FILES if name not in UNMARKED]
RENAMED = [(name, extension) for name in MARKED for extension in ("", ".bin")]
RENAMED += [(name, ".npy") for name in MARKED if not name.endswith((".csv", ".tsv"))]


@pytest.mark.parametrize(("name", "extension"), RENAMED)
def test_content_wins_over_extension(name, extension):
    data = load(FILES[name], name=f"file{extension}")
    np.testing.assert_allclose(data.test.logits, Z[T], rtol=1e-6)
    assert "format" in codes(data)


@pytest.mark.parametrize(
    "dtype",
    [np.float16, np.float64, np.longdouble, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64],
)
def test_number_types(dtype):
    scores = np.round(Z * 8 + 40).astype(dtype)
    data = load(npz(val_logits=scores[V], val_labels=Y[V], test_logits=scores[T], test_labels=Y[T]), name="a.npz")
    np.testing.assert_array_equal(data.test.logits, scores[T].astype(np.float32))


@pytest.mark.parametrize("writer", ["pt", "legacy", "safetensors"])
def test_bfloat16_equals_torch(writer):
    halves = torch.from_numpy(Z).bfloat16()
    tree = {"logits": halves, "labels": torch.from_numpy(Y)}
    written = {
        "pt": lambda: torch_bytes(tree),
        "legacy": lambda: torch_bytes(tree, _use_new_zipfile_serialization=False),
        "safetensors": lambda: safetensors.torch.save(tree),
    }[writer]()
    data = load(written, name=f"a.{'safetensors' if writer == 'safetensors' else 'pt'}")
    seen = np.concatenate([data.validation.logits, data.test.logits])
    np.testing.assert_array_equal(np.sort(seen, axis=0), np.sort(halves.float().numpy(), axis=0))
    assert "coarse_dtype" in codes(data)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32])
def test_torch_label_types(dtype):
    data = load(torch_bytes((torch.from_numpy(Z), torch.from_numpy(Y).to(dtype))), name="a.pt")
    assert np.bincount(data.test.labels).sum() == 30


def test_a_tensor_alone_is_known_by_its_file():
    files = [("logits.pt", torch_bytes(torch.from_numpy(Z))), ("labels.pt", torch_bytes(torch.from_numpy(Y)))]
    assert load(files).classes == 4


def test_headerless_text():
    rows = np.column_stack([Z, Y])
    text = "\n".join(",".join(f"{v:.6g}" for v in row) for row in rows).encode()
    data = load(text, name="a.csv")
    assert data.classes == 4
    assert "guessed_roles" in codes(data)
    spaced = io.BytesIO()
    np.savetxt(spaced, rows, header="a b c d label")
    assert load(spaced.getvalue(), name="a.txt").classes == 4


def test_text_pair_with_pandas_headers():
    files = [
        ("z.csv", pd.DataFrame(Z).to_csv(index=False).encode()),
        ("y.csv", pd.Series(Y, name="label").to_csv().encode()),
    ]
    data = load(files)
    assert (data.classes, len(data.validation) + len(data.test)) == (4, 60)


def test_class_names_groups_and_stray_columns_of_a_table():
    table = pd.DataFrame(Z, columns=["cat", "dog", "owl", "eel"])
    table["target"] = np.array(["cat", "dog", "owl", "eel"])[Y]
    table["group"] = np.where(Y < 2, "fur", "none")
    table["file"] = [f"{i}.png" for i in range(60)]
    data = load(table.to_csv(index=False).encode(), name="a.csv")
    assert data.class_names == ("cat", "dog", "owl", "eel")
    assert set(data.test.groups()) == {"fur", "none"}
    assert "ignored_columns" in codes(data)
    np.testing.assert_array_equal(data.test.group == "fur", data.test.labels < 2)


def test_numbered_columns_go_by_number():
    z, y = example(60, 12)
    names = [f"logit_{k}" for k in range(12)]
    table = pd.DataFrame(z, columns=names)[sorted(names)].assign(label=y)
    data = load(table.to_csv(index=False).encode(), name="a.csv")
    ordered = load(pd.DataFrame(z, columns=names).assign(label=y).to_csv(index=False).encode(), name="a.csv")
    np.testing.assert_array_equal(data.test.logits, ordered.test.logits)
    assert "reordered" in codes(data)


def test_a_word_among_numbers_is_located():
    lines = frame().to_csv(index=False).splitlines()
    lines[6] = lines[6].replace(lines[6].split(",")[1], "oops", 1)
    with pytest.raises(LogitFileError, match=r"a\.csv: line 7, column 'logit_1' holds 'oops'"):
        load("\n".join(lines).encode(), name="a.csv")


def test_large_arrays_load_at_the_speed_of_the_disk(tmp_path):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(50_000, 200)).astype(np.float32), rng.integers(0, 200, 50_000)
    np.save(tmp_path / "logits.npy", z)
    np.save(tmp_path / "labels.npy", y)
    start = time.perf_counter()
    data = load([tmp_path / "logits.npy", tmp_path / "labels.npy"])
    assert time.perf_counter() - start < 10
    assert data.classes == 200
    assert npy(y)[:6] == b"\x93NUMPY"
