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
from smart_core.errors import SmartError
from smart_core.experiments import benchmark as module
from smart_core.experiments.benchmark import benchmark
from smart_core.experiments.benchmark_records import RecordFile
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
def finished(sets, tmp_path_factory) -> tuple[module.Benchmark, Path]:
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
    assert result.tied["ece"] == {"constant": {}, "u_shaped": {}}  # the vectors of earlier fits are not in this folder


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


def test_a_method_that_needs_missing_arrays_has_a_reason_and_no_rank(sets):
    result = benchmark(sets, "vanilla,ts,fc")
    assert "features" in result.cells["constant"]["fc"].reason
    assert list(result.summary().index) == ["ts", "vanilla"] or list(result.summary().index) == ["vanilla", "ts"]
    assert json.loads(result.to_json())["cells"]["constant"]["fc"]["available"] is False


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
    folder = tmp_path / "model"
    folder.mkdir()
    problem = over_confident(300, 3, seed=5)
    for part in ("val", "test"):
        np.savez(folder / f"{part}.npz", logits=problem.logits, labels=problem.labels)
    arguments = ["benchmark", "sample:digits", f"mine={folder}", "--methods", "vanilla,ts", "--out"]
    arguments += [str(tmp_path / "r.json"), "--latex", str(tmp_path / "t.tex")]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "4 fits made, 0 found" in shown
    assert "mine" in shown
    assert r"\begin{tabular}" in (tmp_path / "t.tex").read_text()
    assert main([*arguments, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["complete"] is True
