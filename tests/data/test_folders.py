"""Folders, patterns and files of several experiments: which files belong together, in which order."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from smart_core.cli import main
from smart_core.cli.benchmark import load_sets
from smart_core.data import Document, load
from smart_core.data.file_groups import experiments, shard_of
from smart_core.data.source import Folder
from smart_core.errors import Fix, LogitFileError
from tests.data.containers import hdf5, json_lines, lm_eval_sample, zarr_store
from tests.data.files import codes, example, npz

Z, Y = example()
V, T = slice(0, 24), slice(24, None)
P = np.exp(Z) / np.exp(Z).sum(1, keepdims=True)
PLAIN = load(npz(logits=Z, labels=Y), name="a.npz")


def table() -> pd.DataFrame:
    return pd.DataFrame(Z, columns=[f"logit_{k}" for k in range(4)]).assign(label=Y)


def pieces(count: int) -> list[slice]:
    edges = np.linspace(0, len(Z), count + 1).astype(int)
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def save(folder: Path, **arrays: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


SIDES = {"val_logits": Z[V], "val_labels": Y[V], "test_logits": Z[T], "test_labels": Y[T]}


def calarena(**options) -> bytes:
    arrays = {}
    for number, experiment in enumerate(("cifar10/resnet50", "cifar10/vit_b", "svhn/resnet50")):
        scores = np.roll(P, number, axis=1)
        arrays |= {f"{experiment}/probas_cal": scores[V], f"{experiment}/labels_cal": (Y[V] + number) % 4}
        arrays |= {f"{experiment}/probas_test": scores[T], f"{experiment}/labels_test": (Y[T] + number) % 4}
    return hdf5(arrays, **options)


@pytest.mark.parametrize("isolated", [True, False])
def test_an_hdf5_file_of_several_experiments(isolated: bool, tmp_path: Path) -> None:
    path = tmp_path / "benchmark.h5"
    path.write_bytes(calarena())
    document = Document.open(path, isolated=isolated)
    assert document.groups == ["cifar10/resnet50", "cifar10/vit_b", "svhn/resnet50"]
    with pytest.raises(LogitFileError) as caught:
        document.load()
    assert str(caught.value).startswith("benchmark.h5: holds 3 experiments: 'cifar10/resnet50', ")
    assert caught.value.fixes == (Fix("group"),)
    data = document.load(group="cifar10/vit_b")
    assert data.name == "cifar10/vit_b"
    np.testing.assert_allclose(data.test.logits, np.log(np.roll(P, 1, axis=1)[T]), atol=1e-5)
    np.testing.assert_array_equal(data.validation.labels, (Y[V] + 1) % 4)
    assert [info.role for info in document.describe(group="svhn/resnet50")].count("val_logits") == 1
    assert load(path, group="vit_b", isolated=isolated).content_hash == data.content_hash
    for absent in ("resnet50", "mnist/vit"):
        with pytest.raises(LogitFileError, match=f"holds no group '{absent}'; the groups are 'cifar10/resnet50'"):
            document.load(group=absent)


def test_only_the_chosen_experiment_is_read(tmp_path: Path) -> None:
    """The others are too large for the memory of the process that reads the file."""
    path = tmp_path / "benchmark.h5"
    path.write_bytes(unwritten({f"m{i}/logits": (40_000_000, 2) for i in range(4)}))
    assert load(path, group="small").content_hash == PLAIN.content_hash


def unwritten(shapes: dict[str, tuple[int, int]]) -> bytes:
    """Datasets that are never written take no room in the file."""
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        for name, shape in shapes.items():
            file.create_dataset(name, shape, np.float32, chunks=(1000, 2))
        file["small/logits"], file["small/labels"] = Z, Y
    return stream.getvalue()


def test_one_experiment_needs_no_choice() -> None:
    for content in (
        hdf5({"logits": Z, "labels": Y}),
        hdf5({"run1/logits": Z, "run1/labels": Y}),
        hdf5({"outputs/logits": Z, "outputs/targets": Y, "meta/epoch": np.int64(3)}),
    ):
        assert load(content, name="a.h5").content_hash == PLAIN.content_hash
    with pytest.raises(LogitFileError, match="holds no group 'x'; leave the group out"):
        load(npz(logits=Z, labels=Y), name="a.npz", group="x")


def test_shared_labels_belong_to_every_experiment() -> None:
    content = hdf5({"resnet_logits": Z, "vit_logits": Z + 1, "labels": Y, "class_names": ["a", "b", "c", "d"]})
    document = Document.open(content, name="a.h5")
    assert document.groups == ["resnet", "vit"]
    data = document.load(group="resnet")
    assert data.class_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(data.test.logits, PLAIN.test.logits)


NAMES = {
    "a folder per model": ({"resnet/val_logits", "resnet/val_labels", "vit/val_logits"}, ["resnet", "vit"]),
    "a folder per split": ({"val/logits", "val/labels", "test/logits", "test/labels"}, [""]),
    "a folder per role": ({"logits/val", "logits/test", "labels/val", "labels/test"}, [""]),
    "a file per model": ({"resnet50", "vit_b16"}, ["resnet50", "vit_b16"]),
    "models and shared labels": ({"a_logits", "b_logits", "labels"}, ["a", "b"]),
    "pieces": ({"logits_0", "logits_1", "labels_0", "labels_1"}, [""]),
    "pieces of each split": ({"val/shard_0", "val/shard_1", "test/shard_0", "test/batch1"}, [""]),
    "ranks": ({"predictions_0", "predictions_1", "batch_indices_0", "batch_indices_1"}, [""]),
    "tables of Spark": ({"part-00000-1a2b-c000.snappy", "part-00001-1a2b-c000.snappy"}, [""]),
    "Hugging Face": ({"test/data-00000-of-00002", "test/data-00001-of-00002", "validation/data-00000-of-00001"}, [""]),
    "tasks": (
        {"llama/samples_arc_easy_2024-05-01T10-00-00.1", "llama/samples_mmlu_law_2024-05-01T10-00-00.1"},
        ["llama/arc_easy", "llama/mmlu_law"],
    ),
    "true labels": ({"y_true", "y_score"}, [""]),
}


@pytest.mark.parametrize("case", NAMES)
def test_which_files_belong_together(case: str) -> None:
    names, expected = NAMES[case]
    assert list(experiments([tuple(name.split("/")) for name in sorted(names)], bundles=True)) == expected


def test_numbers_at_the_end_of_names() -> None:
    names = ("logits_00", "logits-3", "preds.rank7", "predictions_rank_2", "data-00001-of-00008", "part-00002-x", "a7")
    found = [shard_of(name) for name in names]
    assert [number for _, number in found] == [0, 3, 7, 2, 1, 2, None]
    assert [stem for stem, _ in found] == ["logits", "logits", "preds", "predictions", "data", "part", "a7"]
    assert [shard_of(name) for name in ("shard_2", "rank0")] == [("shard", 2), ("rank", 0)]
    assert shard_of("resnet50") == ("resnet50", None)
    assert shard_of("2024") == ("2024", None)


@pytest.mark.parametrize("how", ["folder", "pattern", "list"])
def test_numbered_arrays_are_joined_in_order(tmp_path: Path, how: str) -> None:
    for number, rows in enumerate(pieces(11)):
        save(tmp_path / "run", **{f"logits_{number}": Z[rows], f"labels_{number}": Y[rows]})
    folder = tmp_path / "run"
    source = {"folder": folder, "pattern": str(folder / "*.npy"), "list": sorted(folder.iterdir())}[how]
    data = load(source)
    assert data.content_hash == PLAIN.content_hash
    assert "joined" in codes(data)
    if how != "list":
        assert data.name == "run"


@pytest.mark.parametrize("how", ["parquet", "csv", "jsonl", "arrow", "csv.gz"])
def test_numbered_tables_are_joined(tmp_path: Path, how: str) -> None:
    for number, rows in enumerate(pieces(3)):
        part, path = table()[rows], tmp_path / f"part-{number:05d}.{how}"
        if how == "parquet":
            part.to_parquet(path)
        elif how == "jsonl":
            part.to_json(path, orient="records", lines=True)
        elif how == "arrow":
            with pa.ipc.new_stream(path, pa.Table.from_pandas(part).schema) as writer:
                writer.write_table(pa.Table.from_pandas(part))
        else:
            part.to_csv(path, index=False)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "dataset_info.json").write_text("{}")
    assert load(tmp_path).content_hash == PLAIN.content_hash


@pytest.mark.parametrize("batches", ["tensors", "dicts", "arrays"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_predictions_of_ranks_in_the_order_of_their_indices(tmp_path: Path, ranks: int, batches: str) -> None:
    """As PyTorch Lightning's BasePredictionWriter saves them; the sampler repeats samples to fill the ranks."""
    order = np.random.default_rng(0).permutation(60)
    order = np.concatenate([order, order[: -60 % (7 * ranks)]])
    for rank in range(ranks):
        own = order[rank::ranks].tolist()
        rows = [own[start : start + 8] for start in range(0, len(own), 8)]
        if batches == "tensors":
            saved: object = [torch.from_numpy(Z[batch]) for batch in rows]
        elif batches == "dicts":
            saved = [{"logits": torch.from_numpy(Z[b]), "labels": torch.from_numpy(Y[b])} for b in rows]
        else:
            saved = {"logits": Z[own], "labels": torch.from_numpy(Y[own])}
        torch.save(saved, tmp_path / f"predictions_{rank}.pt")
        torch.save(rows, tmp_path / f"batch_indices_{rank}.pt")
    if batches == "tensors":
        np.save(tmp_path / "labels.npy", Y)
    data = load(tmp_path)
    assert data.content_hash == PLAIN.content_hash
    assert "reordered" in codes(data)


def test_pieces_that_differ(tmp_path: Path) -> None:
    save(tmp_path / "a", logits_0=Z[:30], logits_1=Z[30:, :3], labels=Y)
    with pytest.raises(LogitFileError, match=r"logits_\*.npy: 'logits_0' has another shape or type in one piece"):
        load(tmp_path / "a")
    (tmp_path / "b").mkdir()
    table()[:30].to_csv(tmp_path / "b" / "part-0.csv", index=False)
    table()[30:].drop(columns="label").to_csv(tmp_path / "b" / "part-1.csv", index=False)
    with pytest.raises(LogitFileError, match=r"part-1.csv: has other columns than part-0.csv"):
        load(tmp_path / "b")


def test_a_folder_per_model_and_split(tmp_path: Path) -> None:
    for number, model in enumerate(("resnet", "vit")):
        for side, rows in (("val", V), ("test", T)):
            save(tmp_path / "runs" / model / side, logits=Z[rows] + number, labels=Y[rows])
    (tmp_path / "runs" / "vit" / "config.json").write_text("{}")
    document = Document.open(tmp_path / "runs")
    assert document.groups == ["resnet", "vit"]
    with pytest.raises(LogitFileError, match=r"^runs: holds 2 experiments: 'resnet', 'vit'; choose one with group="):
        document.load()
    data = document.load(group="vit")
    np.testing.assert_array_equal(data.validation.logits, Z[V] + 1)
    np.testing.assert_array_equal(data.test.labels, Y[T])
    assert document.load(group="resnet").name == "resnet"
    np.testing.assert_array_equal(load(str(tmp_path / "runs" / "*" / "test" / "*.npy"), group="vit").classes, 4)


def test_groups_inside_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "seed0").mkdir()
    (tmp_path / "seed1").mkdir()
    for seed in (0, 1):
        (tmp_path / f"seed{seed}" / "results.h5").write_bytes(calarena())
    data = load(tmp_path, group="seed1/cifar10/vit_b")
    assert (data.name, len(data.test)) == ("cifar10/vit_b", 36)


def test_folders_and_patterns_without_logits(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("none")
    with pytest.raises(LogitFileError, match="is a folder without logit files; save the arrays in one of npz"):
        load(tmp_path)
    with pytest.raises(LogitFileError, match="no file matches this pattern"):
        load(tmp_path / "*.npy")


def test_an_uploaded_folder() -> None:
    files = [(f"{side}/{name}.npz", npz(**{name: array[rows]})) for side, rows in (("val", V), ("test", T))
             for name, array in (("logits", Z), ("labels", Y))]  # fmt: skip
    data = load(Folder("run", files))
    assert data.name == "run"
    np.testing.assert_array_equal(data.test.logits, Z[T])


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_folder(tmp_path: Path, version: int) -> None:
    for path, content in zarr_store(SIDES, version).items():
        place = tmp_path / "model.zarr" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    for isolated in (True, False):
        data = load(tmp_path / "model.zarr", isolated=isolated)
        assert data.name == "model"
        np.testing.assert_array_equal(data.validation.logits, Z[V])
    assert load(tmp_path).content_hash == data.content_hash


def test_zarr_groups() -> None:
    content = zarr_store({f"{m}/{k}": v for m in ("a", "b") for k, v in SIDES.items()})
    document = Document.open(Folder("x.zarr", list(content.items())))
    assert document.groups == ["a", "b"]
    np.testing.assert_array_equal(document.load(group="b").test.labels, Y[T])


def test_zarr_in_a_notebook() -> None:
    """Where an event loop is running already, and the store is read in this process."""

    async def cell() -> int:
        return load(Folder("x.zarr", list(zarr_store(SIDES).items())), isolated=False).classes

    assert asyncio.run(cell()) == 4


def test_a_zarr_array_that_would_be_unpickled() -> None:
    metadata = {
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "compressor": None, "fill_value": None,
        "order": "C", "filters": [{"id": "pickle", "protocol": 5}],
    }  # fmt: skip
    hostile = b"cos\nsystem\n(S'touch /tmp/canary'\ntR."
    content = {".zgroup": b'{"zarr_format": 2}', "logits/.zarray": json.dumps(metadata).encode(), "logits/0": hostile}
    with pytest.raises(LogitFileError, match="array 'logits' is packed with pickle, which is not read here"):
        load(Folder("x.zarr", list(content.items())))


def test_logged_samples(tmp_path: Path) -> None:
    likelihoods = Z.astype(np.float64) - 5
    for number, as_text in enumerate((True, False)):
        lines = [lm_eval_sample(i, int(y), z, as_text) for i, (z, y) in enumerate(zip(likelihoods, Y, strict=True))]
        path = tmp_path / "llama" / f"samples_task{number}_2024-05-01T10-00-00.123456.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(json_lines(lines))
    (tmp_path / "llama" / "results_2024-05-01T10-00-00.123456.json").write_text("{}")
    document = Document.open(tmp_path)
    assert document.groups == ["llama/task0", "llama/task1"]
    first, second = (document.load(group=group) for group in document.groups)
    assert first.content_hash == second.content_hash
    np.testing.assert_array_equal(first.test.logits, PLAIN.test.logits - 5)


@pytest.mark.parametrize("target", [2, [2], "2", " C", "C", "(C)"])
def test_targets_of_logged_samples(target: object) -> None:
    lines = json_lines([lm_eval_sample(i, target, Z[i] - 9) for i in range(20)])
    assert set(load(lines, name="samples_a.jsonl").test.labels.tolist()) == {2}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": [1, 0]}, "sample 3 .* has several right choices; log a task with one"),
        ({"filtered_resps": [["-3.2", "False"]]}, "holds a single log-likelihood"),
        ({"target": 7}, "sample 3 .* has the target '7', which is none of its 4 choices"),
        ({"filtered_resps": ["A"]}, "sample 3 .* holds generated text instead of a log-likelihood per choice"),
        ({"filtered_resps": None}, "generated text"),
    ],
)
def test_samples_that_cannot_be_used(change: dict, words: str) -> None:
    samples = [lm_eval_sample(i, 1, Z[i]) for i in range(6)]
    samples[3] |= change
    with pytest.raises(LogitFileError, match=words):
        load(json_lines(samples), name="samples_a.jsonl")


def test_json_that_is_cut_off() -> None:
    with pytest.raises(LogitFileError, match=r"a.jsonl: line 2 is not JSON .* cut off"):
        load(b'{"logits": [1, 2], "label": 0}\n{"logits": [1, 2', name="a.jsonl")


def test_the_group_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "benchmark.h5"
    path.write_bytes(calarena())
    assert main(["inspect", str(path)]) == 2
    assert "choose one with --group" in capsys.readouterr().err
    assert main(["inspect", str(path), "--group", "svhn/resnet50"]) == 0
    assert "svhn/resnet50: 4 classes" in capsys.readouterr().out
    assert main(["inspect", str(path), "--group", "vit_b", "--values", "logits"]) == 0
    assert "logarithm" not in capsys.readouterr().out


def test_how_to_read_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.npz"
    square = Z[:4, :4]
    path.write_bytes(npz(logits=np.tile(square, (1, 5)), labels=np.arange(20) % 4 + 1))
    command = ["inspect", str(path), "--transposed", "--labels-start-at", "1", "--val-fraction", "0.4"]
    assert main(command) == 0
    assert "4 classes" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["inspect", str(path), "--labels-start-at", "2"])


def test_a_benchmark_takes_every_experiment(tmp_path: Path) -> None:
    (tmp_path / "benchmark.h5").write_bytes(calarena())
    save(tmp_path / "one", **SIDES)
    sets = load_sets([f"mine={tmp_path / 'benchmark.h5'}", str(tmp_path / "one"), f"{tmp_path / 'one'}"])
    names = ["mine cifar10/resnet50", "mine cifar10/vit_b", "mine svhn/resnet50", "one", "one (2)"]
    assert list(sets) == names
    np.testing.assert_array_equal(sets["one"].test.logits, Z[T])
