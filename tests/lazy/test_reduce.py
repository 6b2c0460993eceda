"""Reduced sets: errors within the stated bounds, the same rows and split, pieces that merge, and who needs logits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import smart_core as sc
from smart_core.cli import main
from smart_core.data.lazy import rows as lazy_rows
from smart_core.errors import ExportError
from smart_core.experiments.reduce import reduced_rows
from smart_core.fitting.reduced import CONFIDENCE_BOUND, NLL_BOUND, ReducedProfile
from smart_core.metrics.proper import SMALLEST_PROBABILITY
from tests.lazy.shards import CLASSES, LABELS, LOGITS, ROWS, WRITERS, write

reduce_module = sys.modules["smart_core.experiments.reduce"]  # the package's `reduce` is the function
REDUCIBLE = [id for id, method in sc.calibrators.methods().items() if method.reducible]
BETAS = np.geomspace(1 / 20, 25, 101)


def one_by_one(results):
    yield from results


def profile(logits: np.ndarray, labels: np.ndarray) -> ReducedProfile:
    columns = reduced_rows(torch.from_numpy(logits), torch.from_numpy(labels))
    return ReducedProfile.of(columns["top_logits"], columns, columns["correct"])


def hard_rows(classes: int) -> np.ndarray:
    """Rows whose tail bends as sharply as any: ten classes, a leader of the rest, and equal ones a little below."""
    rng = np.random.default_rng(0)
    rows = []
    for below in np.geomspace(0.02, 60, 16):
        for lead in (0.0, 0.5, 4.0):
            for behind in (1, classes // 20, classes - 11):
                z = np.full(classes, -500.0)
                z[:10], z[10], z[11 : 11 + behind] = 0.0, 0.0, -below
                z[0] = lead
                rows.append(rng.permutation(z))
    rows += [scale * rng.normal(size=classes) for scale in (0.2, 1.0, 5.0, 30.0)]
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize("classes", [5, 11, 100, 1000, 8000])
def test_the_errors_of_any_row_are_within_the_bounds(classes: int):
    z = hard_rows(classes) if classes > 20 else np.random.default_rng(1).normal(size=(60, classes)).astype(np.float32)
    labels = np.random.default_rng(2).integers(0, classes, len(z))
    rows = profile(z, labels)
    d = z.astype(np.float64) - z.max(axis=1, keepdims=True)
    for beta in BETAS:
        b = torch.full((len(z),), float(beta))
        g = np.log(np.exp(beta * d).sum(axis=1))
        nll = g - beta * d[np.arange(len(z)), labels]
        rounding = 4e-7 * (1.0 + beta * np.abs(d[np.arange(len(z)), labels]))  # float32
        assert np.abs(rows.confidence(b).numpy() - np.exp(-g)).max() <= CONFIDENCE_BOUND + 1e-6
        assert (np.abs(rows.nll(b).numpy() - nll) <= NLL_BOUND + rounding).all()


@pytest.mark.parametrize("classes", [7, 300])
def test_the_table_for_fits_is_that_of_the_logits(classes: int):
    z = np.random.default_rng(3).normal(scale=3.0, size=(80, classes)).astype(np.float32)
    table = profile(z, np.zeros(80, dtype=np.int64)).tabulated()
    logits = torch.from_numpy(z).double()
    for beta in (0.06, 0.4, 1.0, 3.0, 12.0):
        b = torch.full((80,), beta, dtype=torch.float64, requires_grad=True)
        g = torch.logsumexp(b.unsqueeze(1) * (logits - logits.amax(dim=1, keepdim=True)), dim=1)
        (slope,) = torch.autograd.grad(g.sum(), b)
        own = torch.full((80,), beta, requires_grad=True)
        found = table.log_partition(own)
        (found_slope,) = torch.autograd.grad(found.sum(), own)
        np.testing.assert_allclose(found.detach(), g.detach(), atol=2e-4)
        np.testing.assert_allclose(beta * found_slope, beta * slope, atol=5e-3)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[sc.LogitSet, sc.LogitSet]]:
    folder = tmp_path_factory.mktemp("reduced")
    found = {}
    for classes in (7, 150):
        part = sc.simulate(2400, classes=classes, seed=classes)
        np.save(folder / f"logits_{classes}.npy", part.logits)
        made = sc.reduce(folder / f"logits_{classes}.npy", folder / f"{classes}.parquet", labels=part.labels)
        whole = sc.data.from_arrays(logits=part.logits, labels=part.labels)
        found[classes] = sc.load(made.path), whole
    return found


@pytest.mark.parametrize("classes", [7, 150])
@pytest.mark.parametrize("id", REDUCIBLE)
def test_every_method_is_judged_within_the_bounds(id: str, classes: int, sets):
    reduced, whole = sets[classes]
    fit = sc.calibrators.get(id, **({"epochs": 40} if id == "smart" else {})).fit_part(whole.validation)
    found, exact = sc.evaluate(fit, reduced.test), sc.evaluate(fit, whole.test)
    np.testing.assert_array_equal(found.prediction, exact.prediction)
    np.testing.assert_array_equal(found.correct, exact.correct)
    np.testing.assert_array_equal(found.margin, exact.margin)
    assert np.abs(found.confidence - exact.confidence).max() <= CONFIDENCE_BOUND
    # 1 - c has few digits where c is nearly 1, so its logarithm has an error of 2^-24 / (1 - c)
    digits = 2.0**-22 / np.maximum(1.0 - exact.confidence.astype(np.float64), 2.0**-24)
    bound = NLL_BOUND + 1e-5 * exact.nll + np.where(exact.correct, 0.0, digits)
    assert (np.abs(found.nll - exact.nll) <= bound).all()
    assert np.abs(found.brier - exact.brier).max() <= 4 * CONFIDENCE_BOUND
    assert exact.nll.max() <= -np.log(SMALLEST_PROBABILITY)


@pytest.mark.parametrize("id", ["ts", "ets", "isotonic", "platt"])
def test_fits_from_reduced_rows_are_those_from_logits(id: str, sets):
    reduced, whole = sets[150]
    one, other = (sc.calibrators.get(id).fit_part(data.validation) for data in (reduced, whole))
    for name, values in one.state().items():
        np.testing.assert_allclose(values, other.state()[name], atol=2e-3, err_msg=name)


@pytest.mark.parametrize("id", ["smart", "pts"])
def test_trained_maps_end_at_an_equal_test_error(id: str, sets):
    reduced, whole = sets[150]
    one, other = (sc.calibrators.get(id).fit_part(data.validation) for data in (reduced, whole))
    found, exact = (sc.evaluate(fit, whole.test) for fit in (one, other))
    assert abs(found.metric("nll") - exact.metric("nll")) < 0.02
    assert abs(found.metric("ece") - exact.metric("ece")) < 0.01


def test_a_reduced_set_has_the_rows_and_the_split_of_its_shards(tmp_path: Path):
    folder = write(tmp_path / "made", WRITERS["parquet lists"])
    data, lazy = sc.load(sc.reduce(folder, tmp_path / "set.parquet").path), sc.open(folder)
    assert (data.kind, data.classes, len(data.test)) == ("reduced", CLASSES, ROWS // 2)
    np.testing.assert_array_equal(data.test.labels, lazy.test.labels)
    np.testing.assert_array_equal(data.test.correct, lazy.test.correct)
    np.testing.assert_array_equal(data.test.metadata["domain_name"], lazy.test.metadata["domain_name"])
    np.testing.assert_array_equal(data.test.logits, -np.sort(-lazy.test.logits[:], axis=1))
    again = data.resplit(0.2, seed=1)
    assert (len(again.validation), again.kind) == (ROWS // 5, "reduced")


def test_own_splits_are_kept_and_stretches_merge(tmp_path: Path):
    for split, rows in (("val", slice(0, 600)), ("test", slice(600, ROWS))):
        np.save(tmp_path / f"{split}_logits.npy", LOGITS[rows])
        np.save(tmp_path / f"{split}_labels.npy", LABELS[rows])
    files = sorted(tmp_path.glob("*.npy"))
    whole = sc.load(sc.reduce(files, tmp_path / "whole.parquet").path)
    np.testing.assert_array_equal(whole.validation.labels, LABELS[:600])
    np.testing.assert_array_equal(whole.test.labels, LABELS[600:])
    pieces = [sc.reduce(files, tmp_path / f"piece_{n}.parquet", share=(n, 3)).path for n in (1, 2, 3)]
    assert sc.load(pieces).content_hash == whole.content_hash


def test_methods_that_read_all_logits_say_so_in_a_line(sets):
    reduced, _ = sets[7]
    result = sc.compare(
        reduced, "vanilla,ts,smart,vector,dirichlet,spline,svs", seeds=1, settings={"smart": {"epochs": 20}}
    )
    assert {id for id, row in result.results.items() if not row.available} == {"vector", "dirichlet", "spline", "svs"}
    assert {row.reason for row in result.results.values() if not row.available} == {"needs logits"}
    assert np.isnan(result.results["ts"].mean("cece"))
    assert result.recommended is not None
    with pytest.raises(sc.CalibrationError, match="Vector needs logits; the rows are reduced"):
        sc.calibrators.get("vector").fit_part(reduced.validation)
    with pytest.raises(sc.CalibrationError, match="the indicator entropy needs logits"):
        sc.SMART(indicator="entropy").fit_part(reduced.validation)
    with pytest.raises(sc.CalibrationError, match="top=12 needs logits"):
        sc.calibrators.get("pts", top=12).fit_part(reduced.validation)


def test_studies_take_reduced_sets(sets):
    reduced, whole = sets[7]
    grid = {"sigmas": [0.05], "deltas": [0.001], "seeds": 1, "settings": {"epochs": 30}}
    found, exact = sc.sensitivity(reduced, **grid), sc.sensitivity(whole, **grid)
    np.testing.assert_allclose(found.mean("nll"), exact.mean("nll"), atol=0.01)
    made = sc.benchmark({"reduced": reduced}, "vanilla,ts,matrix", seeds=1)
    assert made.cells["reduced"]["matrix"].reason == "needs logits"


def test_the_command_and_those_that_follow_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, out, saved = write(tmp_path / "made"), str(tmp_path / "set.parquet"), str(tmp_path / "ts.safetensors")
    assert main(["reduce", str(folder), "--out", out, "--json", str(tmp_path / "reduce.json")]) == 0
    assert "1,500 rows of 7 classes reduced to" in capsys.readouterr().out
    assert json.loads((tmp_path / "reduce.json").read_text())["rows"] == ROWS
    assert main(["inspect", out]) == 0
    assert main(["fit", out, "--method", "ts", "--out", saved]) == 0
    capsys.readouterr()
    assert main(["fit", out, "--method", "vector", "--out", saved]) == 2
    assert "Vector needs logits, and the rows are reduced" in capsys.readouterr().err
    assert main(["compare", out, "--methods", "vanilla,ts,isotonic", "--json", str(tmp_path / "compare.json")]) == 0
    found = json.loads((tmp_path / "compare.json").read_text())
    assert found["data"]["kind"] == "reduced"
    whole = sc.compare(sc.data.from_arrays(logits=LOGITS, labels=LABELS), "ts")
    assert found["methods"]["ts"]["metrics"]["nll"]["mean"] == pytest.approx(
        whole.results["ts"].mean("nll"), abs=NLL_BOUND
    )


def test_rows_that_lack_classes_are_refused(tmp_path: Path):
    z = LOGITS.copy()
    z[5, 2] = -np.inf
    np.save(tmp_path / "logits.npy", z)
    with pytest.raises(sc.LogitFileError, match=r"logits.npy: row 5 .* lacks classes"):
        sc.reduce(tmp_path / "logits.npy", tmp_path / "set.parquet", labels=LABELS)
    assert not (tmp_path / "set.parquet").exists()


def test_a_reduced_set_that_was_changed_by_hand_is_refused(tmp_path: Path):
    import pyarrow.compute as pc
    from pyarrow import parquet

    made = sc.reduce(write(tmp_path / "made"), tmp_path / "set.parquet").path
    table = parquet.read_table(made)
    for column, values in (
        ("complement", pc.add(table["complement"], 2.0)),
        ("label_gap", pc.negate(pc.subtract(table["label_gap"], 1.0))),
        ("prediction", pc.add(table["prediction"], 100)),
        ("label", pc.add(table["label"], 100)),
    ):
        changed = table.set_column(table.column_names.index(column), column, values)
        parquet.write_table(changed, tmp_path / "changed.parquet")
        with pytest.raises(sc.LogitFileError):
            sc.load(tmp_path / "changed.parquet")
    parquet.write_table(table.drop_columns(["tail_gap"]), tmp_path / "changed.parquet")
    with pytest.raises(sc.LogitFileError, match="lacks columns of reduced rows"):
        sc.load(tmp_path / "changed.parquet")


def test_a_set_whose_curves_stay_in_the_file_is_the_one_that_is_loaded(tmp_path: Path):
    folder = write(tmp_path / "made", WRITERS["parquet lists"])
    path = sc.reduce(folder, tmp_path / "set.parquet").path
    held, opened = sc.load(path), sc.open(path)
    assert (opened.kind, opened.classes, opened.test.in_memory) == ("reduced", CLASSES, False)
    np.testing.assert_array_equal(opened.test.labels, held.test.labels)
    np.testing.assert_array_equal(opened.test.metadata["domain_name"], held.test.metadata["domain_name"])
    for id in ("vanilla", "ts", "smart", "isotonic", "pts"):
        settings = {"epochs": 20} if id == "smart" else {}
        one, other = (sc.calibrators.get(id, **settings).fit_part(data.validation) for data in (opened, held))
        found, exact = sc.evaluate(one, opened.test), sc.evaluate(other, held.test)
        for name in ("confidence", "prediction", "correct", "nll", "margin"):
            np.testing.assert_array_equal(getattr(found, name), getattr(exact, name), err_msg=f"{id} {name}")
    again = opened.resplit(0.2, seed=1)
    np.testing.assert_array_equal(again.test.labels, held.resplit(0.2, seed=1).test.labels)
    assert again.content_hash != opened.content_hash == sc.open(path).content_hash
    pieces = [sc.reduce(folder, tmp_path / f"piece_{n}.parquet", share=(n, 2)).path for n in (1, 2)]
    np.testing.assert_array_equal(sc.open(pieces).test.labels, held.test.labels)


def test_a_table_of_reduced_rows_without_a_column_is_refused_in_place_too(tmp_path: Path):
    from pyarrow import parquet

    table = parquet.read_table(sc.reduce(write(tmp_path / "made"), tmp_path / "set.parquet").path)
    parquet.write_table(table.drop_columns(["margin"]), tmp_path / "changed.parquet")
    with pytest.raises(sc.LogitFileError, match="lacks columns of reduced rows"):
        sc.open(tmp_path / "changed.parquet")


@pytest.mark.parametrize("fault", ["missing", "short", "nan"])
def test_a_fault_names_the_shard_and_a_rerun_goes_on(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reduce_module, "in_order", lambda function, pieces, *_: one_by_one(map(function, pieces)))
    folder = tmp_path / "made"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(ROWS), 4)):
        np.save(folder / f"logits_{number}.npy", LOGITS[rows])
    np.save(folder / "labels.npy", LABELS)
    whole = sc.load(sc.reduce(folder, tmp_path / "whole.parquet").path)
    monkeypatch.setattr(lazy_rows, "RANGE_LOGITS", CLASSES * 100)
    monkeypatch.setattr(lazy_rows, "rows_per_chunk", lambda _: 50)
    bad, content = folder / "logits_2.npy", (folder / "logits_2.npy").read_bytes()
    files, labels = sorted(folder.glob("logits_*.npy")), np.load(folder / "labels.npy")
    words = {"missing": "there is no such file", "short": "holds", "nan": "holds NaN"}[fault]

    def break_it(*_: object) -> None:
        if fault == "nan":
            z = np.load(bad)
            z[7, 1] = np.nan
            np.save(bad, z)
        elif fault == "short":
            bad.write_bytes(content[:-100])
        else:
            bad.unlink()

    opened = reduce_module.open_parts

    def broken(*arguments: object) -> object:  # between the opening and the reading
        parts = opened(*arguments)
        break_it()
        return parts

    monkeypatch.setattr(reduce_module, "open_parts", broken)
    out = tmp_path / "set.parquet"
    with pytest.raises(sc.LogitFileError, match=rf"logits_2.npy: .*{words}"):
        sc.reduce(files, out, labels=labels)
    assert not out.exists()
    assert len(list((tmp_path / "set.parquet.pieces").iterdir())) > 1
    bad.write_bytes(content)
    monkeypatch.setattr(reduce_module, "open_parts", opened)
    made = sc.reduce(files, out, labels=labels)
    assert "pieces were reduced before" in str(made.notices[-1])
    assert sorted(tmp_path.glob("set.parquet*")) == [out]
    assert sc.load(out).content_hash == whole.content_hash


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reduce_module, "write_table", full)
    with pytest.raises(ExportError, match=r"cannot be written: No space left on device\. Finished pieces are kept"):
        sc.reduce(write(tmp_path / "made"), tmp_path / "set.parquet")
    assert not list(tmp_path.glob("set.parquet*/*.parquet"))
