"""`sc.open`: shards of every format give the rows that they hold, and a bad one is named in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

import smart_core as sc
from smart_core.data.lazy.opening import are_large
from smart_core.data.lazy.rows import LazyPart, LazyRows, Shard
from tests.lazy.shards import LABELS, LOGITS, ROWS, WRITERS, npy, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("shards") / "resnet")


def rows_of(folder: Path) -> LazyRows:
    return LazyRows(
        tuple(Shard(str(folder / f"logits_{n}.npy"), "", rows) for n, rows in enumerate((400, 1, 699, 400))), 7
    )


@pytest.mark.parametrize("format", WRITERS)
def test_every_format_gives_the_same_split_as_load(format: str, tmp_path: Path):
    data = sc.open(write(tmp_path / "made", WRITERS[format]), val_fraction=0.3, split_seed=5)
    whole = sc.data.from_arrays(logits=LOGITS, labels=LABELS, val_fraction=0.3, split_seed=5)
    for part, expected in ((data.validation, whole.validation), (data.test, whole.test)):
        assert isinstance(part, LazyPart)
        np.testing.assert_array_equal(part.logits[: len(part)], expected.logits)
        np.testing.assert_array_equal(part.labels, expected.labels)
        np.testing.assert_array_equal(part.correct, expected.correct)
    if "parquet" in format or format == "arrow":
        assert data.test.metadata["domain_name"].tolist() == [f"d{k % 3}" for k in whole.test.labels]


@given(start=st.integers(-5, ROWS + 5), length=st.integers(0, 600), size=st.integers(1, 500))
@settings(max_examples=40, deadline=None)
def test_slices_and_blocks_are_those_of_the_joined_matrix(folder: Path, start: int, length: int, size: int):
    rows = rows_of(folder)
    start = max(start, 0)
    np.testing.assert_array_equal(rows[start : start + length], LOGITS[start : start + length])
    view = rows.span(start, start + length)
    blocks = list(view.blocks(size))
    assert all(len(block) == size for _, block in blocks[:-1])
    joined = np.concatenate([block for _, block in blocks]) if blocks else np.empty((0, 7))
    np.testing.assert_array_equal(joined, LOGITS[start : start + length])


@given(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=60), st.integers(1, 40), st.data())
@settings(max_examples=40, deadline=None)
def test_any_rows_in_any_order(folder: Path, wanted: list[int], size: int, data: st.DataObject):
    index = np.array(wanted)
    view = rows_of(folder).take(index)
    np.testing.assert_array_equal(np.asarray(view), LOGITS[index])
    start = data.draw(st.integers(0, len(index) - 1))
    np.testing.assert_array_equal(
        np.concatenate([block for _, block in view.span(start, len(index)).blocks(size)]), LOGITS[index[start:]]
    )


@pytest.mark.parametrize("dtype", ["<f2", "<f8", ">f4"])
def test_other_numbers_are_widened(dtype: str, tmp_path: Path):
    np.save(tmp_path / "logits.npy", LOGITS.astype(dtype))
    data = sc.open(tmp_path / "logits.npy", labels=LABELS)
    np.testing.assert_array_equal(
        np.sort(np.asarray(data.test.logits), axis=None),
        np.sort(LOGITS[data.test.logits.index].astype(dtype).astype(np.float32), axis=None),
    )


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_short_floats_of_safetensors(name: str, tmp_path: Path):
    short = torch.from_numpy(LOGITS).to(getattr(torch, name))
    save_file({"z": short}, tmp_path / "shard_0.safetensors")
    data = sc.open(tmp_path / "shard_0.safetensors", labels=LABELS)
    np.testing.assert_array_equal(np.asarray(data.test.logits), short.float().numpy()[data.test.logits.index])


def test_labels_as_an_array_a_file_or_a_table(folder: Path, tmp_path: Path):
    shards = str(folder / "logits_*.npy")
    np.savetxt(tmp_path / "labels.csv", LABELS, fmt="%d", header="label", comments="")
    found = [sc.open(shards, labels=labels) for labels in (LABELS, folder / "labels.npy", tmp_path / "labels.csv")]
    assert len({data.content_hash for data in found}) == 1
    assert np.array_equal(found[0].test.labels, sc.open([shards, folder / "labels.npy"]).test.labels)


def test_own_splits_by_argument_and_by_name(tmp_path: Path):
    for split, rows in (("val", slice(0, 700)), ("test", slice(700, ROWS))):
        np.save(tmp_path / f"{split}_logits.npy", LOGITS[rows])
        np.save(tmp_path / f"{split}_labels.npy", LABELS[rows])
    named = sc.open(tmp_path)
    given_ = sc.open(
        val=[tmp_path / "val_logits.npy", tmp_path / "val_labels.npy"],
        test=[tmp_path / "test_logits.npy", tmp_path / "test_labels.npy"],
    )
    for data in (named, given_):
        np.testing.assert_array_equal(np.asarray(data.validation.logits), LOGITS[:700])
        np.testing.assert_array_equal(data.test.labels, LABELS[700:])


def test_shards_are_in_the_order_of_their_numbers(tmp_path: Path):
    for number, rows in enumerate(np.array_split(np.arange(ROWS), 12)):
        np.save(tmp_path / f"logits_{number}.npy", LOGITS[rows])
    data = sc.open(tmp_path, labels=LABELS)
    np.testing.assert_array_equal(np.asarray(data.test.logits), LOGITS[data.test.logits.index])


def test_probabilities_are_found_and_their_logarithms_taken(tmp_path: Path):
    p = torch.softmax(torch.from_numpy(LOGITS), dim=1).numpy()
    np.save(tmp_path / "shard_0.npy", p)
    data = sc.open(tmp_path, labels=LABELS)
    assert [notice.code for notice in data.notices if notice.code == "probabilities"]
    np.testing.assert_allclose(np.exp(np.asarray(data.test.logits)), p[data.test.logits.index], rtol=1e-5)


def test_a_url_of_fsspec(folder: Path):
    import fsspec

    for number in range(4):
        fsspec.filesystem("memory").pipe(f"/set/logits_{number}.npy", (folder / f"logits_{number}.npy").read_bytes())
    data = sc.open("memory://set/logits_*.npy", labels=LABELS)
    np.testing.assert_array_equal(np.asarray(data.test.logits), LOGITS[data.test.logits.index])


def test_resplit_reads_no_row_and_loses_none(folder: Path):
    data = sc.open(folder)
    again = data.resplit(0.25, seed=2)
    held = np.concatenate([again.validation.logits.index, again.test.logits.index])
    assert len(again.validation) == ROWS // 4
    np.testing.assert_array_equal(np.sort(held % ROWS), np.arange(ROWS))
    np.testing.assert_array_equal(np.asarray(again.test.logits)[:20], LOGITS[again.test.logits.index[:20]])


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def not_a_number(path: Path) -> None:
    values = np.load(path)
    values[len(values) // 2, 3] = np.nan
    np.save(path, values)


def fewer_columns(path: Path) -> None:
    np.save(path, np.load(path)[:, :5])


def objects(path: Path) -> None:
    np.save(path, np.array([[1.0, "a"]], dtype=object), allow_pickle=True)


def by_columns(path: Path) -> None:
    np.save(path, np.asfortranarray(np.load(path)))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncated, "should hold"),
        (not_a_number, "holds NaN or infinity in row 349"),
        (Path.unlink, "there is no such file"),
        (fewer_columns, "columns"),
        (objects, "instead of numbers"),
        (by_columns, "column by column"),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_bad_shard_is_named_in_one_sentence(harm, said: str, when: str, tmp_path: Path):
    folder = write(tmp_path / "made")
    shard = folder / "logits_2.npy"
    if when == "after":
        data = sc.open(folder)
        harm(shard)
    else:
        harm(shard)
    shards = [folder / f"logits_{n}.npy" for n in range(4)]
    with pytest.raises(sc.LogitFileError) as caught:
        sc.compare(sc.open(shards, labels=LABELS) if when == "before" else data, "vanilla,ts", seeds=1)
    assert said in str(caught.value)
    assert "logits_2.npy" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_read_by_rows_is_refused(tmp_path: Path):
    np.savez(tmp_path / "set.npz", logits=LOGITS, labels=LABELS)
    with pytest.raises(sc.LogitFileError, match=r"set\.npz: is not a format that is read by rows"):
        sc.open(tmp_path / "set.npz")
    npy(tmp_path / "logits_0", LOGITS, LABELS)
    with pytest.raises(sc.LogitFileError, match="no labels were found"):
        sc.open(tmp_path / "logits_0.npy")
    with pytest.raises(sc.LogitFileError, match=r"1,499 labels for 1,500 rows"):
        sc.open(tmp_path / "logits_0.npy", labels=LABELS[1:])
    with pytest.raises(sc.LogitFileError, match="stay in their files"):
        sc.data.save_bundle(sc.open(tmp_path / "logits_0.npy", labels=LABELS), tmp_path / "out.npz")


def test_a_codec_of_zarr_that_runs_code_is_refused(tmp_path: Path):
    import json

    store = tmp_path / "made.zarr"
    (store / "logits").mkdir(parents=True)
    metadata = {"shape": [4, 3], "chunks": [4, 3], "dtype": "<f4", "compressor": {"id": "pickle"}, "filters": None}
    (store / "logits" / ".zarray").write_text(json.dumps({**metadata, "zarr_format": 2, "order": "C", "fill_value": 0}))
    with pytest.raises(sc.LogitFileError, match="packed with pickle"):
        sc.open(store, labels=[0, 1, 2, 0])


def test_only_large_files_stay_in_place_unasked(folder: Path, monkeypatch: pytest.MonkeyPatch):
    from smart_core.data.lazy import opening

    assert not are_large([str(folder)])
    monkeypatch.setattr(opening, "LAZY_ABOVE", 1000)
    monkeypatch.setattr(opening, "REDUCED_ABOVE", 1000)
    assert are_large([str(folder)])
    assert not are_large([str(folder / "missing_*.npy")])


def test_a_large_validation_part_gives_a_stratified_sample(folder: Path, monkeypatch: pytest.MonkeyPatch):
    from smart_core.data.lazy import rows

    monkeypatch.setattr(rows, "FIT_ROWS", 200)
    data = sc.open(folder)
    assert "Fits read 200 of the 750 validation rows" in str(data.notices[-1])
    sample = data.validation.for_fit
    assert len(sample) == 200
    share = np.bincount(sample.labels, minlength=7) - 200 * np.bincount(data.validation.labels, minlength=7) / 750
    assert np.abs(share).max() <= 1.0
    index = data.validation.logits.index
    kept = {row.tobytes() for row in LOGITS[index]}
    assert all(row.tobytes() in kept for row in sample.logits)
    np.testing.assert_array_equal(
        sc.TS().fit_part(data.validation).temperature_, sc.TS().fit(sample.logits, sample.labels).temperature_
    )


def test_a_missing_shard_is_named(tmp_path: Path):
    folder = write(tmp_path / "made")
    (folder / "logits_2.npy").unlink()
    with pytest.raises(sc.SmartError, match=r"the shard numbered 2 after logits_1.npy is missing"):
        sc.open(folder)
    data = sc.open(folder / "logits_*.npy", labels=np.concatenate([LABELS[:401], LABELS[1100:]]))
    assert "The shard numbered 2 after logits_1.npy is missing." in [str(notice) for notice in data.notices]


@pytest.mark.parametrize("what", ["gone", "cut short", "NaN"])
def test_a_shard_that_changes_after_it_was_opened_is_named(tmp_path: Path, what: str):
    folder = write(tmp_path / "made")
    data = sc.open(folder)
    path = folder / "logits_2.npy"
    if what == "gone":
        path.unlink()
    elif what == "cut short":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        z = np.load(path)
        z[7, 3] = np.nan
        np.save(path, z)
    with pytest.raises(sc.SmartError, match=r"^logits_2\.npy: [^\n]+$"):
        sc.compare(data, "vanilla,ts", seeds=1)
