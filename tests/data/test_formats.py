"""Every format gives the same numbers; each file is written by the format's own library."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import time

import h5py
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
import zarr
import zarr.codecs

from smart_core.data import Document, load
from smart_core.errors import LogitFileError
from tests.data.containers import hdf5, json_lines, mat73, zarr_store, zipped_store
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
RECORDS = [{"logits": z.tolist(), "label": int(y), "split": split}
           for z, y, split in zip(Z, Y, frame()["split"], strict=True)]  # fmt: skip
LISTS = pa.table({"logits": list(Z), "labels": Y, "split": frame()["split"].to_numpy(str)})
FILES = {
    "plain.npz": npz(**SIDES),
    "compressed.npz": compressed(SIDES),
    "fortran.npz": npz(**{key: np.asfortranarray(value) for key, value in SIDES.items()}),
    "big_endian.npz": npz(**{k: v.astype(v.dtype.newbyteorder(">")) for k, v in SIDES.items()}),
    "dict.npy": npy(np.array(SIDES, dtype=object)),
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
    "plain.h5": hdf5(SIDES),
    "packed.hdf5": hdf5({k.replace("_", "/"): v for k, v in SIDES.items()}, compression="gzip", shuffle=True),
    "matlab73.mat": mat73(SIDES),
    "store.zip": zipped_store(zarr_store(SIDES)),
    "version2.zip": zipped_store(zarr_store(SIDES, 2)),
    "blosc.zip": zipped_store(zarr_store(SIDES, compressors=zarr.codecs.BloscCodec())),
    "records.jsonl": json_lines(RECORDS),
    "records.json": json.dumps(RECORDS, indent=1).encode(),
    "columns.json": frame().to_json().encode(),
    "split.json": frame().to_json(orient="split").encode(),
    "arrays.json": json.dumps({key: value.tolist() for key, value in SIDES.items()}).encode(),
    "nested.json": json.dumps({side: {name: SIDES[f"{side}_{name}"].tolist() for name in ("logits", "labels")}
                               for side in ("val", "test")}).encode(),
    "table.csv.gz": gzip.compress(frame().to_csv(index=False).encode(), mtime=0),
    "table.tsv.bz2": bz2.compress(frame().to_csv(index=False, sep="\t").encode()),
    "records.jsonl.xz": lzma.compress(json_lines(RECORDS)),
    "table.csv.zst": pa.compress(frame().to_csv(index=False).encode(), "zstd", asbytes=True),
    "plain.npz.gz": gzip.compress(npz(**SIDES), mtime=0),
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
    assert data.name == name.split(".")[0]
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
TEXT = (".csv", ".tsv", ".json", ".jsonl", ".csv.gz", ".tsv.bz2", ".jsonl.xz", ".csv.zst")
RENAMED += [(name, ".npy") for name in MARKED if not name.endswith((*TEXT, ".npy"))]


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
    try:
        written = torch_bytes((torch.from_numpy(Z), torch.from_numpy(Y).to(dtype)))
    except KeyError:
        pytest.skip(f"PyTorch {torch.__version__} cannot save {dtype}")
    data = load(written, name="a.pt")
    assert np.bincount(data.test.labels).sum() == 30


def test_a_single_tensor_gets_its_role_from_the_file_name():
    files = [("logits.pt", torch_bytes(torch.from_numpy(Z))), ("labels.pt", torch_bytes(torch.from_numpy(Y)))]
    assert load(files).classes == 4


@pytest.mark.parametrize("legacy", [False, True])
def test_lazily_negated_tensors(legacy):
    minus = torch._neg_view(torch.from_numpy(-Z))
    assert minus.is_neg()
    imaginary = torch.complex(torch.zeros(60, 4), torch.from_numpy(-Z)).conj().imag
    assert imaginary.is_neg()
    assert not imaginary.is_contiguous()
    for tensor in (minus, imaginary):
        tree = {"val_logits": tensor, "val_labels": Y, "test_logits": tensor, "test_labels": Y}
        data = load(torch_bytes(tree, _use_new_zipfile_serialization=not legacy), name="a.pt")
        np.testing.assert_array_equal(data.test.logits, Z)
    halves = torch._neg_view(torch.from_numpy(-Z).bfloat16())
    tree = (halves, torch.from_numpy(Y)), (halves, torch.from_numpy(Y))
    data = load(torch_bytes(tree, _use_new_zipfile_serialization=not legacy), name="a.pt")
    np.testing.assert_array_equal(data.test.logits, -(-torch.from_numpy(Z)).bfloat16().float().numpy())


def test_old_torch_files_share_storages():
    both = torch.from_numpy(np.concatenate([Z, Z + 1]))
    tree = {"val_logits": both[:60], "test_logits": both[60:], "val_labels": torch.from_numpy(Y).int()}
    tree["test_labels"] = torch.nn.Parameter(torch.from_numpy(Y).float())
    data = load(torch_bytes(tree, _use_new_zipfile_serialization=False), name="a.pth")
    np.testing.assert_array_equal(data.test.logits, Z + 1)
    np.testing.assert_array_equal(data.validation.labels, Y)


ENCODED = {
    "utf-16": ("UTF-16", lambda text: text.encode("utf-16")),
    "utf-16-be": ("UTF-16", lambda text: b"\xfe\xff" + text.encode("utf-16-be")),
    "utf-32": ("UTF-32", lambda text: text.encode("utf-32")),
    "latin-1": ("Latin-1", lambda text: text.encode("latin-1")),
    "windows": ("Latin-1", lambda text: text.encode("cp1252")),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_text_in_other_encodings(encoding):
    names = ["âne", "chèvre", "porc", "œuf" if encoding != "latin-1" else "ours"]
    table = pd.DataFrame(Z, columns=names).assign(label=np.array(names)[Y])
    text = table.to_csv(index=False, lineterminator="\r\n")
    plain = load(text.encode(), name="a.csv")
    said, encode = ENCODED[encoding]
    data = load(encode(text), name="a.csv")
    assert data.class_names == tuple(names)
    assert data.content_hash == plain.content_hash
    assert said in next(n.text for n in data.notices if n.code == "encoding")
    assert "encoding" not in codes(plain)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_byte_order_mark(encoding):
    text = frame().to_csv(index=False)
    data = load(text.encode(encoding), name="a.tsv")
    np.testing.assert_allclose(data.test.logits, Z[T], rtol=1e-6)


def test_an_invalid_byte_far_into_the_file():
    text = frame().assign(file=["a"] * 59 + ["é"]).to_csv(index=False)
    data = load(text.encode("latin-1"), name="a.csv")
    np.testing.assert_allclose(data.test.logits, Z[T], rtol=1e-6)


ARROW_TEXT = {
    "words": pa.array(np.array(["cat", "dog", "owl", "eel"])[Y]),
    "views": pa.array(np.array(["cat", "dog", "owl", "eel"])[Y].tolist(), pa.string_view()),
    "large": pa.array(np.array(["cat", "dog", "owl", "eel"])[Y].tolist(), pa.large_string()),
    "vocabulary": pa.array(np.array(["cat", "dog", "owl", "eel"])[Y]).dictionary_encode(),
}


@pytest.mark.parametrize("how", ["parquet", "feather", "file", "stream"])
@pytest.mark.parametrize("kind", ARROW_TEXT)
def test_text_of_arrow_tables(kind, how):
    if (kind, how) == ("views", "parquet") and int(pa.__version__.split(".")[0]) < 21:
        pytest.skip(f"pyarrow {pa.__version__} cannot write views to parquet")
    table = pa.table({**dict(zip(["cat", "dog", "owl", "eel"], Z.T, strict=True)), "label": ARROW_TEXT[kind]})
    table = pa.concat_tables([table.slice(0, 25), table.slice(25)]).append_column("when", pa.array([None] * 60))
    data = load(arrow_bytes(table, how), name="a.bin")
    seen = np.concatenate([data.validation.labels, data.test.labels])
    assert np.bincount(seen).tolist() == np.bincount(Y).tolist()
    assert data.class_names == ("cat", "dog", "owl", "eel")
    whole = np.concatenate([data.validation.logits, data.test.logits])
    assert np.mean(whole.argmax(1) == seen) == pytest.approx(np.mean(Z.argmax(1) == Y))
    assert len(data.test.metadata["when"]) == len(data.test)  # a column without values is kept like any other


def test_missing_entries_of_arrow_tables():
    split = pa.array(["val"] * 24 + [None] * 6 + ["test"] * 30).dictionary_encode()
    table = pa.table({**{f"logit_{k}": Z[:, k] for k in range(4)}, "label": Y, "split": split})
    data = load(arrow_bytes(table, "parquet"), name="a.parquet")
    assert (len(data.validation), len(data.test)) == (24, 30)
    codes_ = pa.DictionaryArray.from_arrays(pa.array(Y.astype(np.int8)), pa.array([0.0, 1.0, 2.0, 3.0]))
    data = load(arrow_bytes(table.set_column(4, "label", codes_).drop_columns("split"), "feather"), name="a.feather")
    assert data.classes == 4


@pytest.mark.parametrize("chunks", [1, 3])
def test_ragged_lists_are_located(chunks):
    rows = [*map(list, Z[:50]), None, *map(list, Z[:9])]
    table = pa.table({"logits": pa.array(rows), "labels": Y})
    table = pa.concat_tables([table.slice(i * 20, 20) for i in range(3)]) if chunks == 3 else table
    with pytest.raises(LogitFileError, match=r"column 'logits' holds lists of unequal length, the first at row 50 "):
        load(arrow_bytes(table, "file"), name="a.arrow")


RAGGED = [list(map(float, z[: 2 + number % 3])) for number, z in enumerate(Z)]
PADDED = np.where(np.arange(4) < 2 + np.arange(60)[:, None] % 3, Z, -np.inf)
RAGGED_FILES = {
    "parquet": lambda: arrow_bytes(pa.table({"logits": RAGGED, "label": Y % 2}), "parquet"),
    "arrow": lambda: arrow_bytes(
        pa.concat_tables([pa.table({"logits": RAGGED[i::3], "label": (Y % 2)[i::3]}) for i in range(3)]), "stream"
    ),
    "jsonl": lambda: json_lines([{"logits": z, "label": int(y) % 2} for z, y in zip(RAGGED, Y, strict=True)]),
    "json": lambda: json.dumps({"logits": RAGGED, "labels": (Y % 2).tolist()}).encode(),
    "pkl": lambda: pickled({"logits": RAGGED, "labels": (Y % 2).tolist()}),
    "h5": lambda: hdf5({"logits": ragged_dataset(RAGGED), "labels": Y % 2}),
}


def ragged_dataset(rows):
    made = np.empty(len(rows), dtype=object)
    made[:] = [np.array(row) for row in rows]
    return made.astype(h5py.vlen_dtype(np.float64))


@pytest.mark.parametrize("extension", RAGGED_FILES)
def test_rows_with_different_numbers_of_classes(extension):
    data = load(RAGGED_FILES[extension](), name=f"a.{extension}")
    found = np.concatenate([data.validation.logits, data.test.logits])
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(PADDED, axis=0), rtol=1e-6)
    assert "ragged_rows" in codes(data)


def test_probabilities_with_different_numbers_of_classes():
    rows = [list(np.exp(z) / np.exp(z).sum()) for z in RAGGED]
    data = load(json_lines([{"probs": z, "label": 0} for z in rows]), name="a.jsonl")
    found = np.exp(np.concatenate([data.validation.logits, data.test.logits]))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    assert (found == 0).sum() == np.isinf(PADDED).sum()


def test_long_texts_are_cut_with_one_notice():
    table = frame().assign(group=["x" * (300 + row) for row in range(len(Y))])
    pieces = io.BytesIO()
    pyarrow.parquet.write_table(pa.Table.from_pandas(table), pieces, row_group_size=7)
    for name, content in (("a.csv", table.to_csv(index=False).encode()), ("a.parquet", pieces.getvalue())):
        data = load(content, name=name)
        assert set(data.test.group) == {"x" * 200}
        said = [notice.text for notice in data.notices if notice.code == "long_text"]
        assert said == [f"{name}: texts of column 'group' are cut at 200 characters."]


def test_names_are_cut_before_anything_looks_at_them():
    long = "x" * 5000
    data = load(npz(logits=Z, labels=Y, class_names=np.array([long, "b", "c", "d"])), name="a.npz")
    assert data.class_names == ("x" * 200, "b", "c", "d")
    assert "cut at 200 characters" in next(n.text for n in data.notices if n.code == "long_text")
    listed = Document.open(pickled({f"logits_{long}": Z, "labels": Y}), name="a.pkl").describe()
    assert [len(info.key) for info in listed] == [80, 6]
    data = load(pd.DataFrame(Z, columns=[*"abc", long]).assign(label=Y).to_csv(index=False).encode(), name="a.csv")
    assert data.class_names == ("a", "b", "c", "x" * 200)


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
    assert data.test.metadata["file"][0].endswith(".png")
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


def test_rows_longer_than_the_header():
    """A delimiter at the end of each line is accepted; values without a column name are not, even in a later row."""
    table = frame()
    header, *rows = table.to_csv(index=False).splitlines()
    expected = load(table.to_csv(index=False).encode(), name="a.csv")
    trailing = load("\n".join([header, *(f"{row}," for row in rows)]).encode(), name="a.csv")
    np.testing.assert_array_equal(trailing.test.logits, expected.test.logits)
    np.testing.assert_array_equal(trailing.test.labels, expected.test.labels)
    width = table.shape[1]
    for spoiled in ([f"{row},1.5" for row in rows], [f"{rows[0]},", *(f"{row},1.5" for row in rows[1:])]):
        with pytest.raises(LogitFileError, match=f"rows of {width + 1} cells under a header of {width}"):
            load("\n".join([header, *spoiled]).encode(), name="a.csv")
    with pytest.raises(LogitFileError):
        load("\n".join([header, *rows[:-1], f"{rows[-1]},1.5"]).encode(), name="a.csv")


def test_row_groups_of_parquet_make_the_same_set():
    """Read group by group, also where a type changes between them: an integer that is missing, a longer text."""
    domain = ["a"] * 50 + ["longer"] * 10
    count = pa.array([None if row == 55 else row for row in range(60)])
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(Z.reshape(-1)), Z.shape[1])
    table = pa.table({"logits": fixed, "label": Y, "split": frame()["split"].to_numpy(str), "domain": domain})
    table = table.append_column("count", count)
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream, row_group_size=7)
    found, expected = load(stream.getvalue(), name="a.parquet"), load(arrow_bytes(table, "parquet"), name="a.parquet")
    assert found.content_hash == expected.content_hash
    assert found.test.metadata.keys() == expected.test.metadata.keys()
    np.testing.assert_array_equal(found.test.logits, expected.test.logits)


def test_an_error_in_a_row_group_names_the_row_of_the_file():
    rows = [None if row == 52 else list(z) for row, z in enumerate(Z)]
    table = pa.table({"logits": pa.array(rows, pa.list_(pa.float32(), Z.shape[1])), "label": Y})
    stream = io.BytesIO()
    pyarrow.parquet.write_table(table, stream, row_group_size=7)
    with pytest.raises(LogitFileError, match="the first at row 52"):
        load(stream.getvalue(), name="a.parquet")
