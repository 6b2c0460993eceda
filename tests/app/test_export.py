"""Export without a browser: the downloads, and a session restored from its file."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

import sample_logits
import smart_core as sc
from pages.shared import datasets, downloads, workspace
from pages.shared.session import LeaderboardRow, LoadedDataset, Session, Split, row_key, study_key
from pages.shared.studies import Study
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.errors import SmartError, WorkspaceError
from smart_core.experiments import SeedTable
from smart_core.experiments.compare import summarise
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.formatting import percent
from smart_core.report import Findings, report_html
from tests.app.driver import add_rows, click, ece_of, open_page
from tests.export.fits import probabilities_off
from tests.tolerance import assert_within


@pytest.fixture
def app(digits: sc.LogitSet, fitted_rows: dict[str, LeaderboardRow]) -> AppTest:
    """Export with SMART fitted."""
    return add_rows(open_page("export"), digits, {"smart": fitted_rows["smart"]})


@pytest.fixture(scope="module")
def filled(digits: sc.LogitSet) -> Session:
    """A session with a data set of its own, two rows, and a study."""
    session = Session()
    own = digits.resplit(0.4, seed=3)
    key = own.content_hash[:12]
    session.datasets[key] = LoadedDataset(own, "mine", {"whole": ["mine.npz"]}, {"labels_start_at": 0})
    session.splits["digits"] = Split(0.25, 7)
    session.settings["smart"] = {"epochs": 3}

    def keep(result: sc.experiments.MethodResult) -> None:
        session.rows[row_key(own, result.id)] = LeaderboardRow(
            result, {"epochs": 3} if result.id == "smart" else {}, 2, 15
        )

    sc.compare(own, "ts,smart", 2, settings={"smart": {"epochs": 3}}, on_result=keep, cache=session.fits)
    table = SeedTable("method", "objective", ("smart",), ("nll",), {"ece": np.array([[[0.01, np.nan]]])})
    session.studies[study_key(own, "ablation")] = Study(table, {"seeds": 2})
    session.studies[study_key(own, "odd")] = Study(object(), {})
    return session


def test_without_fits_the_page_offers_one_and_runs_it() -> None:
    app = open_page("export")
    assert not [button for button in app.get("download_button") if button.proto.label == "Download calibrator"]
    click(app, "export-fit")
    (headline,) = [line.value for line in app.markdown if line.value.startswith("#### SMART")]
    session = app.session_state["session"]
    (row,) = session.rows.values()
    with np.load(sample_logits.path("digits")) as bundle:
        logits, labels = bundle["test_logits"], bundle["test_labels"]
    shown = [f"an ECE of {percent(ece_of(row.result.calibrators[0].predict_proba(logits), labels), 2)}"]
    shown += [f"has {percent(ece_of(softmax(logits.astype(np.float64), axis=1), labels), 2)}"]
    assert all(text in headline for text in shown)


def test_every_download_is_there_and_the_python_runs(
    app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = [button.proto.label for button in app.get("download_button")]
    assert labels == [
        *("Download calibrator", "Download NumPy file", "Download ONNX", "Download npz", "Download csv"),
        *("Download CSV", "Download JSON", "Download LaTeX", "Download LaTeX, methods as columns"),
        *("Download report", "Download workspace"),
    ]
    monkeypatch.chdir(tmp_path)
    exec(app.main.code[-1].value, {})
    saved = sc.load_calibrator(tmp_path / "digits-smart.safetensors")
    (row,) = app.session_state["session"].rows.values()
    assert_same(saved, row.result.calibrators[0])


def test_the_code_of_every_format_runs(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines under the forms, run beside the files they name, all give what the fit gives."""
    (row,) = app.session_state["session"].rows.values()
    calibrator = row.result.calibrators[0]
    calibrator.save(tmp_path / "digits-smart.safetensors")
    (tmp_path / "digits-smart.onnx").write_bytes(sc.export.onnx_bytes(calibrator))
    (tmp_path / "digits_smart.py").write_text(sc.export.numpy_source(calibrator), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with np.load(sample_logits.path("digits")) as bundle:
        logits = bundle["test_logits"]
    lines = [block.value for block in app.main.code if not block.value.startswith("import smart_core as sc\n\ndata")]
    assert len(lines) == 5
    for line in lines:
        names = {"logits": logits, "model": torch.nn.Identity()}
        exec(line, names)
        found = names.get("probs")
        if found is None:
            found = names["model"](torch.from_numpy(logits)).numpy()
        assert_within(found, calibrator.predict_proba(logits), probabilities_off(calibrator, logits))


def test_the_recommended_method_is_preselected(digits: sc.LogitSet, fitted_rows: dict[str, LeaderboardRow]) -> None:
    app = add_rows(open_page("export"), digits, {"vanilla": fitted_rows["vanilla"]})
    assert app.selectbox(key="export-method").value == "vanilla"
    add_rows(app, digits, fitted_rows)
    found = summarise(digits, {id: row.result for id, row in fitted_rows.items()})
    assert app.selectbox(key="export-method").value == sc.recommend(found).method != "vanilla"
    worst = max(found.results, key=lambda id: found.results[id].mean("ece"))
    app.selectbox(key="export-method").set_value(worst).run()
    assert app.run().selectbox(key="export-method").value == worst  # a choice stays
    app.switch_page("pages/guide.py").run().switch_page("pages/export.py").run()
    assert app.selectbox(key="export-method").value == worst


def test_the_code_of_a_fit_with_features_passes_features() -> None:
    app = open_page("export")
    data = sc.load(sample_logits.path("digits"))
    found = sc.compare(data, "gc", 1, settings={"gc": {"partitions": 2, "steps": 5}})
    app.session_state["session"].rows[row_key(data, "gc")] = LeaderboardRow(found.results["gc"], {}, 1, 15)
    app.run()
    assert not app.exception
    lines = [block.value for block in app.main.code][:4]
    assert all("features" in line for line in lines)
    assert any("an estimator gets only logits" in box.value for box in app.info)


def test_the_report_is_made_of_what_is_fitted(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a fit: the page hands the rows and the grid of the session over, and the download writes them."""
    session = app.session_state["session"]
    (row,) = session.rows.values()
    data = sc.load(sample_logits.path("digits"))
    grid = Sensitivity.empty("sigma", "delta", (0.05,), (0.001,), 1)
    grid.metrics["ece"][:] = 0.0123
    session.studies[study_key(data, "sensitivity {}")] = Study(grid, {"seeds": 1, "bins": 15}, 1.0)
    made: list[Findings] = []
    monkeypatch.setattr("smart_core.report.findings.Findings.__post_init__", lambda self: made.append(self))
    app.run()
    assert not app.exception
    found = made[-1]
    assert found.comparison.results["smart"] is row.result
    assert found.sensitivity is grid
    session.studies[study_key(data, "sensitivity {}")] = Study(grid, {"seeds": 1, "bins": 7}, 2.0)
    app.run()
    assert made[-1].sensitivity is None  # of other bins than the report's
    assert found.title == datasets.samples()["digits"].title
    assert 'sc.load("sample:digits")' in found.code

    def no_fit(*arguments: object, **named: object) -> None:
        raise AssertionError("a report fits nothing")

    monkeypatch.setattr("smart_core.calibrators.smart.SMART.fit", no_fit)
    page = report_html(found)
    assert "SMART: ECE" in page
    assert "1.23" in page


def assert_same(one: Calibrator, two: Calibrator) -> None:
    assert (one.id, one.settings_dict()) == (two.id, two.settings_dict())
    assert list(one.state()) == list(two.state())
    assert all(torch.equal(tensor, two.state()[name]) for name, tensor in one.state().items())
    assert downloads.fingerprint(one) == downloads.fingerprint(two)


def test_another_fit_has_another_fingerprint(digits: sc.LogitSet) -> None:
    part = digits.validation
    fits = [
        sc.TS().fit(part.logits, part.labels),
        sc.TS().fit(part.logits[::2], part.labels[::2]),
        sc.SMART(epochs=1).fit(part.logits, part.labels),
        sc.SMART(epochs=1, seed=1).fit(part.logits, part.labels),
    ]
    assert len({downloads.fingerprint(fit) for fit in fits}) == 4


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("CIFAR-10, corrupted", "smart"), "cifar-10-corrupted-smart"),
        (("../../etc/passwd", "ts"), "etc-passwd-ts"),
        (("数字", ""), "calibration"),
    ],
)
def test_file_names(names: tuple[str, str], expected: str) -> None:
    assert downloads.file_stem(*names) == expected


def test_module_names_can_be_imported() -> None:
    for title in ("digits", "10 classes", "a-b.c", "数字", "class"):
        assert downloads.module_name(title, "smart").isidentifier()


def test_probabilities_are_those_of_the_calibrator(digits: sc.LogitSet) -> None:
    model = sc.TS().fit(digits.validation.logits, digits.validation.labels)
    with np.load(io.BytesIO(downloads.probabilities(model, digits.test, "npz", True)())) as file:
        np.testing.assert_array_equal(file["probs"], model.predict_proba(digits.test.logits))
    lines = downloads.probabilities(model, digits.test, "csv", False)().decode().splitlines()
    assert lines[0] == "confidence,prediction,label,correct"
    assert len(lines) == 1 + len(digits.test)


def test_a_method_too_large_for_a_numpy_file_gives_the_reason(
    digits: sc.LogitSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smart_core.export.numpy_code.MOST_BYTES", 1)
    text, why = downloads.written_for_numpy(sc.TS().fit(digits.validation.logits, digits.validation.labels))
    assert text is None
    assert "too many" in why


def test_a_workspace_restores_everything(filled: Session) -> None:
    view = {"data": next(iter(filled.datasets)), "metric": "nll", "bins": "20"}
    saved, left_out = workspace.gather(filled, view)
    assert [name.partition("/")[2] for name in left_out] == ["odd"]
    fresh = Session()
    assert workspace.restore(workspace.to_bytes(saved), fresh) == view
    (key,) = fresh.datasets
    before, after = filled.datasets[key], fresh.datasets[key]
    assert (after.title, after.call, after.options) == (before.title, before.call, before.options)
    assert after.data.content_hash == before.data.content_hash
    assert fresh.splits == filled.splits
    assert fresh.settings == filled.settings
    assert list(fresh.fits) == list(filled.fits)
    for name, row in filled.rows.items():
        again = fresh.rows[name]
        assert (again.settings, again.seeds, again.bins) == (row.settings, row.seeds, row.bins)
        assert again.result.values == row.result.values
        assert again.result.intervals == row.result.intervals
        for one, two in zip(row.result.evaluations, again.result.evaluations, strict=True):
            np.testing.assert_array_equal(one.confidence, two.confidence)
        for one, two in zip(row.result.calibrators, again.result.calibrators, strict=True):
            assert_same(one, two)
    (study,) = fresh.studies.values()
    assert study.settings == {"seeds": 2}
    np.testing.assert_array_equal(study.result.metrics["ece"], [[[0.01, np.nan]]])


def test_a_restored_fit_is_not_fitted_again(filled: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    saved, _ = workspace.gather(filled, {})
    fresh = Session()
    workspace.restore(workspace.to_bytes(saved), fresh)
    monkeypatch.setattr(sc.SMART, "_fit", lambda self, data, run: pytest.fail("fitted again"))
    (held,) = fresh.datasets.values()
    again = sc.compare(held.data, "smart", 2, settings={"smart": {"epochs": 3}}, cache=fresh.fits)
    assert again.results["smart"].values["ece"] == fresh.rows[row_key(held.data, "smart")].result.values["ece"]


@pytest.mark.parametrize("damage", ["cut", "other", "empty"])
def test_a_bad_workspace_changes_nothing(filled: Session, damage: str) -> None:
    whole = workspace.to_bytes(workspace.gather(filled, {})[0])
    file = {"cut": whole[: len(whole) // 2], "other": b"PK no", "empty": b""}[damage]
    fresh = Session()
    with pytest.raises(WorkspaceError):
        workspace.restore(file, fresh)
    assert not fresh.datasets
    assert not fresh.fits
    assert not fresh.rows


def test_a_workspace_with_missing_entries_changes_nothing(filled: Session) -> None:
    saved, _ = workspace.gather(filled, {})
    saved.view = {"view": {}, "held": [], "splits": {}, "settings": {}}
    fresh = Session()
    with pytest.raises(WorkspaceError, match="use a file saved on Export"):
        workspace.restore(workspace.to_bytes(saved), fresh)
    assert not fresh.fits


@pytest.mark.parametrize(
    ("entry", "value"),
    [("splits", [1.0, 0]), ("splits", [0.5, 2**31]), ("splits", [0.5, 1e400]), ("settings", {"epochs": -1}),
     ("settings", {"epochs": "many"}), ("settings", {"no such": 1})],
)  # fmt: skip
def test_a_workspace_with_invalid_values_changes_nothing(filled: Session, entry: str, value: Any) -> None:
    """A split that leaves no test row, or settings that no form can show, would stop every page from then on."""
    saved, _ = workspace.gather(filled, {})
    key = "smart" if entry == "settings" else next(iter(filled.datasets))
    whole = workspace.to_bytes(saved)
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    manifest["view"][entry][key] = value
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in {**members, "manifest.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, content)
    fresh = Session()
    with pytest.raises(SmartError):
        workspace.restore(stream.getvalue(), fresh)
    assert not fresh.datasets
    assert not fresh.splits
    assert not fresh.settings


def test_a_workspace_is_restored_on_the_page(filled: Session) -> None:
    key = next(iter(filled.datasets))
    file = workspace.to_bytes(workspace.gather(filled, {"data": key, "metric": "nll", "bins": "20"})[0])
    app = open_page("export")
    app.file_uploader(key="export-restore").set_value(("mine-workspace.zip", file, "application/zip")).run()
    assert not app.exception
    assert app.selectbox(key="data").value == key
    assert app.selectbox(key="metric").value == "nll"
    assert app.slider(key="bins").value == 20
    best = min((row.result for row in filled.rows.values()), key=lambda result: result.mean("nll"))
    assert any(line.value.startswith(f"#### {methods()[best.id].label} has an ECE") for line in app.markdown)
    app.file_uploader(key="export-restore").set_value(("bad.zip", os.urandom(50), "application/zip")).run()
    assert any("Nothing was changed" in box.value for box in app.error)
    assert app.selectbox(key="data").value == key
