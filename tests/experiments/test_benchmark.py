"""Benchmarks: sets by methods, resumed without refitting, the same whatever the number of workers."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import smart_core as sc
from smart_core.cli import main
from smart_core.cli.benchmark import benchmark_text
from smart_core.errors import SmartError
from smart_core.experiments import benchmark as module
from smart_core.experiments.benchmark import benchmark
from smart_core.experiments.benchmark_records import RecordFile
from smart_core.experiments.benchmark_result import Benchmark
from tests.calibrators.problems import over_confident

METHODS = "vanilla,ts,smart"
QUICK = {"smart": {"epochs": 20}}


@pytest.fixture(scope="module")
def sets() -> dict[str, sc.LogitSet]:
    return {law: sc.simulate_set(400, 400, 4, law=law, seed=1) for law in ("constant", "u_shaped")}


@pytest.fixture(scope="module")
def unsplit() -> sc.LogitSet:
    problem = over_confident(400, 3, seed=2)
    return sc.data.from_arrays(logits=problem.logits, labels=problem.labels, name="unsplit")


@pytest.fixture(scope="module")
def finished(sets, tmp_path_factory) -> tuple[Benchmark, Path]:
    path = tmp_path_factory.mktemp("benchmark") / "results.json"
    return benchmark(sets, METHODS, seeds=2, settings=QUICK, records=path), path


@pytest.fixture
def no_fits(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a fit was made again")

    monkeypatch.setattr(module, "fit_method", refuse)


def test_cells_equal_those_of_compare(finished, sets):
    result, _ = finished
    for name, data in sets.items():
        rows = sc.compare(data, METHODS, seeds=2, settings=QUICK).results
        for id, row in rows.items():
            cell = result.cells[name][id]
            assert float(cell.over_seeds("nll").mean) == pytest.approx(row.mean("nll"), rel=1e-6)
            assert cell.parameters == row.parameters
            assert len(cell.values["nll"]) == (2 if id == "smart" else 1)


def test_json_has_the_published_shape(finished):
    content = json.loads(finished[0].to_json())
    assert content["metric"] == "ece"
    assert content["sets"]["constant"].items() >= {"classes": 4, "validation": 400, "test": 400}.items()
    cell = content["cells"]["u_shaped"]["smart"]
    assert cell["ece"].keys() == {"mean", "std"} == cell["nll"].keys()
    assert isinstance(cell["tied_with_best"], bool)
    assert content["summary"]["smart"]["win_rate"].keys() == {"mean", "low", "high"}
    assert 1.0 <= content["summary"]["smart"]["mean_rank"] <= 3.0


@pytest.mark.usefixtures("no_fits")
def test_a_finished_benchmark_fits_nothing_again(finished, sets):
    result, path = finished
    again = benchmark(sets, METHODS, seeds=2, settings=QUICK, records=path)
    assert again.to_json() == result.to_json()
    fewer = benchmark({"constant": sets["constant"]}, "ts,vanilla", records=path)
    assert fewer.complete


def test_seeds_methods_and_sets_are_added_without_refitting(finished, sets, tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    path.write_bytes(finished[1].read_bytes())
    fitted: list[tuple[str, int]] = []

    def counted(id, data, *, seed, **arguments):
        fitted.append((id, seed))
        return original(id, data, seed=seed, **arguments)

    original = module.fit_method
    monkeypatch.setattr(module, "fit_method", counted)
    result = benchmark(sets, f"{METHODS},isotonic", seeds=3, settings=QUICK, records=path)
    assert sorted(fitted) == [("isotonic", 0)] * 2 + [("smart", 2)] * 2
    assert len(result.cells["constant"]["smart"].values["ece"]) == 3
    assert result.tied["ece"] == {}  # the vectors of earlier fits are not in this folder


def test_a_cancelled_benchmark_keeps_its_cells_and_goes_on(sets, tmp_path):
    path, token = tmp_path / "results.json", threading.Event()
    stopped = benchmark(
        sets, METHODS, seeds=1, settings=QUICK, records=path, cancel=token, on_result=lambda _: token.set()
    )
    assert not stopped.complete
    assert len(list(stopped.filled())) == 1
    assert stopped.ranking() is None
    whole = benchmark(sets, METHODS, seeds=1, settings=QUICK, records=path)
    assert whole.complete
    kept = stopped.cells["constant"]["vanilla"].values
    assert whole.cells["constant"]["vanilla"].values == kept


def test_the_number_of_workers_changes_no_bit(finished, sets):
    shared = benchmark(sets, METHODS, seeds=2, settings=QUICK, workers=2)
    assert shared.complete
    for name, id, cell in finished[0].filled():
        assert shared.cells[name][id].values == cell.values, (name, id)


def test_random_splits_are_repeated_and_own_splits_are_not(sets, unsplit):
    result = benchmark({"own": sets["constant"], "unsplit": unsplit}, "vanilla,ts", splits=3)
    assert [len(result.cells[name]["ts"].values["nll"]) for name in ("own", "unsplit")] == [1, 3]
    assert len(set(result.cells["unsplit"]["ts"].values["nll"])) == 3
    assert float(result.cells["unsplit"]["ts"].over_seeds("nll").std) > 0


def test_files_of_results_are_merged(finished, sets, tmp_path, no_fits):
    halves = [tmp_path / "a.json", tmp_path / "b.json"]
    whole = RecordFile.open(finished[1])
    for number, half in enumerate(halves):
        file = RecordFile.open(half)
        file.records = {key: record for place, (key, record) in enumerate(whole.records.items()) if place % 2 == number}
        file.save()
    file = RecordFile.open(halves[0])
    file.merge(halves[1])
    assert benchmark(sets, METHODS, seeds=2, settings=QUICK, records=file).complete


def test_fits_outlive_a_process_that_is_killed(sets, tmp_path, monkeypatch):
    """Until the file is written, finished fits are in a second one, whose last line may be torn."""
    path, fits = tmp_path / "results.json", "vanilla,ts,isotonic"

    def killed(result: Benchmark) -> None:
        if len(list(result.filled())) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RecordFile, "save", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            benchmark(sets, fits, seeds=1, records=path, on_result=killed)
    unsaved = path.with_suffix(".new.jsonl")
    assert not path.exists()
    with unsaved.open("a") as lines:
        lines.write('{"a key": {"metrics": {"ec')
    made: list[Benchmark] = []
    again = benchmark(sets, fits, seeds=1, records=path, on_result=made.append)
    assert again.complete
    assert len(made) == 2
    assert not unsaved.exists()


def test_a_number_of_bins_has_records_of_its_own(sets, tmp_path):
    path, one = tmp_path / "results.json", {"constant": sets["constant"]}
    by_bins = {bins: benchmark(one, "vanilla", bins=bins, records=path).matrix().iloc[0, 0] for bins in (15, 5)}
    for bins, value in by_bins.items():
        assert value == pytest.approx(sc.compare(sets["constant"], "vanilla", bins=bins).results["vanilla"].mean("ece"))
    assert by_bins[15] != by_bins[5]


@pytest.mark.parametrize("metric", ["ece", "cece", "brier", "accuracy"])
def test_methods_tied_with_the_best_by_any_metric(metric: str, finished, sets):
    """Marked afterwards, from the vectors that were kept: as `compare` does it on the same first seeds."""
    result, path = finished
    records = RecordFile.open(path)
    module.mark_ties(result, records, metric)
    for name, data in sets.items():
        assert result.tied[metric][name] == sc.compare(data, METHODS, 1, metric=metric, settings=QUICK).tied, name
    for file in path.with_suffix(".cache").glob("*.npz"):
        file.rename(file.with_suffix(".gone"))
    try:
        records.save()
        again = Benchmark.of(RecordFile.open(path), metric)
        module.mark_ties(again, RecordFile.open(path), metric)
        assert again.tied[metric] == result.tied[metric]  # finished tests are in the file
        module.mark_ties(again, RecordFile.open(path), "smce")
        assert again.tied["smce"] == {}
    finally:
        for file in path.with_suffix(".cache").glob("*.gone"):
            file.rename(file.with_suffix(".npz"))


def test_a_file_of_results_is_a_benchmark(finished, sets, tmp_path):
    """Also without the data, merged from two files, and with two sets of one name."""
    result, path = finished
    assert Benchmark.of(RecordFile.open(path)).matrix().loc[list(sets)].equals(result.matrix())
    other = tmp_path / "other.json"
    namesake = {"constant": sc.simulate_set(300, 300, 4, seed=9)}
    more = benchmark(namesake, "vanilla,ts,fc", records=other)
    file = RecordFile.open(other)
    file.merge(path)
    merged = Benchmark.of(file, "nll")
    assert list(merged.sets) == ["constant", "constant (2)", "u_shaped"]
    assert merged.methods == ("vanilla", "ts", "fc", "smart")
    (own,) = [name for name, cells in merged.cells.items() if "fc" in cells]
    assert merged.matrix("nll").loc[own, "ts"] == more.matrix("nll").loc["constant", "ts"]
    assert "features" in merged.cells[own]["fc"].reason
    assert not merged.complete


def test_a_method_that_needs_missing_arrays_has_a_reason_and_no_rank(sets):
    result = benchmark(sets, "vanilla,ts,fc")
    assert "features" in result.cells["constant"]["fc"].reason
    assert list(result.summary().index) == ["ts", "vanilla"] or list(result.summary().index) == ["vanilla", "ts"]
    assert json.loads(result.to_json())["cells"]["constant"]["fc"]["available"] is False
    assert "Not ranked, because 2 sets have no ECE of them: FC." in benchmark_text(result)
    pairs = [sc.simulate_set(200, 200, 2, seed=seed) for seed in (1, 2)]
    mixed = benchmark(dict(zip(("cats", "dogs"), pairs, strict=True)) | {"four": sets["constant"]}, "ts,beta,quadratic")
    assert "Not ranked, because four has no ECE of them: Quadratic." in benchmark_text(mixed)


def test_improvement_is_a_share_of_the_model(finished):
    result = finished[0]
    values = result.matrix("nll")
    shares = result.improvement("nll")
    assert shares["vanilla"].tolist() == [0.0, 0.0]
    assert shares["ts"].to_numpy() == pytest.approx(1 - values["ts"] / values["vanilla"])


def test_latex_marks_best_and_second(finished):
    text = finished[0].to_latex("nll")
    body = re.search(r"\\midrule\n(.*)\\bottomrule", text, re.S)
    assert body is not None
    for line in body[1].splitlines():
        assert line.count(r"\mathbf") == line.count(r"\underline") == 1
        assert line.count("&") == 3
    means = finished[0].matrix("nll")
    best = means.loc["constant"].idxmin()
    assert re.search(rf"\\mathbf{{{means.loc['constant', best]:.4f}", text)


@pytest.mark.parametrize("content", ["[]", "{", '{"format": "other"}', '{"format": "smart-benchmark", "version": 9}'])
def test_other_files_are_refused_in_one_sentence(content: str, tmp_path, capsys):
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(SmartError, match="not a file of benchmark results"):
        RecordFile.open(path)
    assert main(["benchmark", "sample:digits", "--methods", "ts", "--out", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert path.read_text() == content


def test_the_command(tmp_path, capsys):
    problem = over_confident(300, 3, seed=5)
    for part in ("val", "test"):
        folder = tmp_path / part
        folder.mkdir()
        for model in ("resnet", "vit"):
            np.savez(folder / f"{model}.npz", logits=problem.logits, labels=problem.labels)
    arguments = ["benchmark", "sample:digits", f"mine={tmp_path / 'val' / 'vit.npz'}"]
    arguments += ["--val", str(tmp_path / "val"), "--test", str(tmp_path / "test"), "--methods", "vanilla,ts"]
    results = ["--out", str(tmp_path / "r.json"), "--latex", str(tmp_path / "t.tex")]
    assert main([*arguments, *results]) == 0
    shown = capsys.readouterr().out
    assert "6 fits made, 0 found" in shown  # resnet and vit are the same arrays
    assert all(f"\n{name} " in shown for name in ("mine", "resnet", "vit"))
    assert r"\begin{tabular}" in (tmp_path / "t.tex").read_text()
    assert main(["benchmark", *results, "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["complete"] is True
    assert content["sets"].keys() == {"digits", "mine", "vit"}
    assert main(["benchmark", "--out", str(tmp_path / "none.json")]) == 2
    assert "holds no finished fits" in capsys.readouterr().err
