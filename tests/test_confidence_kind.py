"""Confidences without logits, from the fit to the exported file: every form agrees, and what needs logits says so."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.isotonic import IsotonicRegression

import smart_core as sc
from smart_core.calibrators import methods
from smart_core.calibrators.store import calibrator_bytes
from smart_core.cli import main
from smart_core.errors import CalibrationError, CalibratorFileError, ExportError
from smart_core.experiments.running import unavailable
from smart_core.export import as_module, numpy_source, onnx_bytes, save_probabilities
from smart_core.export.workspace import Workspace, load_workspace, save_workspace
from smart_core.fitting.profile import gaps

ABLE = [id for id, method in methods().items() if method.top_label]
GRID = np.linspace(0.0, 1.0, 1001)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    confidence = np.round(rng.beta(5, 2, 4000), 3)
    site = np.where(rng.random(4000) < 0.3, "north", "south")
    right = rng.random(4000) < confidence ** np.where(site == "north", 3.0, 1.2)
    return pd.DataFrame({"confidence": confidence, "correct": right, "site": site, "age": rng.normal(40, 10, 4000)})


@pytest.fixture(scope="module")
def data(table) -> sc.LogitSet:
    return sc.load(table.to_csv(index=False).encode(), name="judge.csv")


@pytest.fixture(scope="module")
def result(data):
    return sc.compare(data, "all", seeds=1)


def test_what_can_run(data, result):
    assert {"vanilla", "histogram", "isotonic", "bbq", "beta", "spline"} <= set(ABLE)
    assert list(result.available) == ABLE
    assert result.results["smart"].reason == unavailable("ts", data) == "needs logits"
    assert result.recommended is not None
    assert result.results[result.recommended.method].mean("ece") < 0.5 * result.results["vanilla"].mean("ece")
    assert not any("cwECE" in notice for row in result.available.values() for notice in row.notices)
    card = json.loads(result.to_json())
    assert (card["data"]["kind"], card["data"]["classes"]) == ("confidence", None)
    assert card["methods"]["beta"]["metrics"]["cece"]["mean"] is None
    assert card["methods"]["beta"]["metrics"]["nll"]["low"] > 0


def test_vanilla_is_the_file_itself(data, result):
    evaluation = result.results["vanilla"].evaluations[0]
    p, hit = data.test.confidence, data.test.correct
    np.testing.assert_array_equal(evaluation.confidence, p)
    bins = np.clip(np.ceil(p * 15).astype(int) - 1, 0, 14)
    gaps_by_bin = [abs(np.sum(p[bins == b]) - np.sum(hit[bins == b])) / len(p) for b in range(15)]
    assert evaluation.metric("ece") == pytest.approx(sum(gaps_by_bin))
    assert evaluation.metric("brier") == pytest.approx(np.mean((p - hit) ** 2))
    inside = np.clip(p, 1e-300, 1 - 1e-16)
    assert evaluation.metric("nll") == pytest.approx(np.mean(-np.log(np.where(hit, inside, 1 - inside))))
    assert np.isnan(evaluation.metric("cece"))
    assert evaluation.margin is None


def test_isotonic_against_scikit_learn(data):
    part = data.validation
    own = sc.Isotonic().fit_confidence(part.confidence, part.correct)
    other = IsotonicRegression(out_of_bounds="clip").fit(part.confidence, part.correct)
    seen = np.unique(part.confidence)
    np.testing.assert_allclose(own.predict_confidence(seen), other.predict(seen), atol=2e-6)


@pytest.mark.parametrize("id", [id for id in ABLE if id != "vanilla"])
def test_confidences_give_the_map_that_logits_give(id):
    """The top-1 confidences of logits are all that such a method reads of them."""
    data = sc.simulate_set(2000, 500, 6, seed=0).validation
    z = torch.from_numpy(np.array(data.logits))
    p = torch.softmax(gaps(z).double(), dim=1).amax(dim=1).numpy()
    whole = sc.calibrators.get(id).fit(data.logits, data.labels)
    alone = sc.calibrators.get(id).fit_confidence(p, data.correct)
    known = np.linspace(0.3, 0.95, 200)
    difference = np.abs(alone.predict_confidence(known) - whole.predict_confidence(known))
    assert np.median(difference) < 1e-5
    assert np.mean(difference > 1e-3) < 0.05  # on the other side of a step


@pytest.mark.parametrize("id", ABLE)
def test_exported_forms_agree(id, result):
    onnxruntime = pytest.importorskip("onnxruntime")
    calibrator = result.results[id].calibrators[0]
    wanted = calibrator.predict_confidence(GRID)
    assert np.isfinite(wanted).all()
    assert (wanted >= 0).all()
    assert (wanted <= 1).all()
    names: dict[str, object] = {}
    exec(numpy_source(calibrator), names)
    np.testing.assert_allclose(names["predict_confidence"](GRID), wanted, atol=1e-6)
    np.testing.assert_allclose(as_module(calibrator)(torch.from_numpy(GRID)).numpy(), wanted, atol=1e-6)
    np.testing.assert_array_equal(sc.load_calibrator(calibrator_bytes(calibrator)).predict_confidence(GRID), wanted)
    small = GRID.astype(np.float32)
    (found,) = onnxruntime.InferenceSession(onnx_bytes(calibrator)).run(None, {"confidence": small[:, None]})
    np.testing.assert_allclose(found[:, 0], calibrator.predict_confidence(small), atol=1e-6)


def test_files_of_calibrated_confidences(data, result):
    calibrator = result.results["beta"].calibrators[0]
    for form, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        stream = io.BytesIO()
        save_probabilities(calibrator, data.test, stream, format=form)
        frame = read(io.BytesIO(stream.getvalue()))
        assert list(frame) == ["confidence", "correct", "site", "age"]
        np.testing.assert_allclose(frame["confidence"], calibrator.predict_confidence(data.test.confidence), rtol=1e-6)
        assert sc.load(stream.getvalue(), name=f"again.{form}").kind == "confidence"


def test_wrong_use_is_one_sentence(data, result):
    with pytest.raises(CalibrationError, match="TS needs logits; confidences alone are not enough"):
        sc.TS().fit_confidence([0.5], [1])
    fitted = result.results["beta"].calibrators[0]
    with pytest.raises(CalibrationError, match="was fitted on confidences without logits; use predict_confidence"):
        fitted.predict_proba(np.zeros((2, 3)))
    with pytest.raises(CalibrationError, match="must be a vector of numbers from 0 to 1"):
        fitted.predict_confidence([0.5, 1.5])
    with pytest.raises(CalibrationError, match="must be 1 or 0"):
        sc.Beta().fit_confidence([0.5, 0.6], [0, 2])
    with pytest.raises(ExportError, match="fitted on confidences"):
        as_module(fitted)(torch.zeros(2, 3))
    with pytest.raises(CalibrationError, match="Margins need logits"):
        result.results["vanilla"].evaluations[0].margins  # noqa: B018
    forged = calibrator_bytes(fitted).replace(b'"classes":"0"', b'"classes":"1"')
    with pytest.raises(CalibratorFileError, match="not fitted on 1 classes"):
        sc.load_calibrator(forged)


def test_slices_by_a_column(data, result):
    from smart_core.analysis.slices import columns_of, slices, slices_verdict

    evaluation = result.results["vanilla"].evaluations[0]
    columns = columns_of(data.test)
    assert set(columns) == {"site", "age"}
    found = {each.name: each for each in slices(evaluation, columns["site"])}
    for name, each in found.items():
        rows = columns["site"] == name
        assert each.n == rows.sum()
        assert each.accuracy == pytest.approx(data.test.correct[rows].mean())
        assert each.ece == pytest.approx(sc.metrics.ece(data.test.confidence[rows], data.test.correct[rows]))
    assert slices_verdict(list(found.values()), "site").startswith("By site, worst is north (")
    by_age = slices(evaluation, columns["age"])
    assert len(by_age) == 5
    assert sum(each.n for each in by_age) == len(data.test)
    assert max(each.n for each in by_age) - min(each.n for each in by_age) <= 2


def test_shift_over_a_column(data):
    found = sc.shift(data, "beta,ts", seeds=1, by="site")
    assert found.rows == ("vanilla", "beta")
    assert set(found.columns) == {"north", "south"}
    with pytest.raises(CalibrationError, match="has no column 'colour' in test; its columns are: site, age"):
        sc.shift(data, "beta", seeds=1, by="colour")


def test_a_workspace_keeps_them(data, result, tmp_path):
    save_workspace(tmp_path / "a.zip", Workspace(sets=[data], studies={"comparison": result}))
    again = load_workspace(tmp_path / "a.zip")
    assert again.sets[0].content_hash == data.content_hash
    assert again.sets[0].test.metadata.keys() == data.test.metadata.keys()
    kept = again.studies["comparison"].results["beta"]
    np.testing.assert_array_equal(kept.evaluations[0].confidence, result.results["beta"].evaluations[0].confidence)


def test_the_report_leaves_margins_out(result):
    html = sc.report.report_html(sc.report.Findings(result))
    assert "confidences without logits" in html
    assert "By margin group" not in html


def test_the_command_line(table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table.to_csv("judge.csv", index=False)
    assert main(["inspect", "judge.csv", "--by", "site", "--json", "card.json"]) == 0
    assert "judge: confidences without logits" in capsys.readouterr().out
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["slices"]["north"]["samples"] + card["slices"]["south"]["samples"] == 2000
    assert main(["compare", "judge.csv", "--methods", "vanilla,beta,smart", "--seeds", "1", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["methods"]["smart"] == {"available": False, "reason": "needs logits"}
    assert main(["fit", "judge.csv", "--method", "beta", "--out", "beta.safetensors"]) == 0
    table[["confidence"]].to_csv("new.csv", index=False)
    assert main(["apply", "beta.safetensors", "new.csv", "--out", "out.npz"]) == 0
    written = np.load("out.npz")["confidence"]
    np.testing.assert_array_equal(written, sc.load_calibrator("beta.safetensors").predict_confidence(table.confidence))
    capsys.readouterr()
    assert main(["fit", "judge.csv", "--method", "smart", "--out", "smart.safetensors"]) == 2
    assert "SMART needs logits, and there are confidences alone" in capsys.readouterr().err
    assert main(["sensitivity", "judge.csv", "--seeds", "1"]) == 2
    assert "needs logits" in capsys.readouterr().err
    assert main(["inspect", "judge.csv", "--by", "colour"]) == 2
    assert "no column 'colour'" in capsys.readouterr().err
