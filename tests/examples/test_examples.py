"""Every example runs from start to end, on a machine without a network."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smart_core as sc
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str | Path) -> dict[str, Any]:
    """Run a script as `python examples/NAME` does, and give its globals."""
    script = str(EXAMPLES / name)
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    return runpy.run_path(script, run_name="__main__")


def test_pytorch_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "pytorch_model.py", "--out", tmp_path)
    said = capsys.readouterr().out
    assert all(method in said for method in ("vanilla", "ts", "smart"))
    assert_repaired(tmp_path / "digits.npz", tmp_path / "smart.safetensors")


def test_sklearn_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sklearn.utils.validation import check_is_fitted

    run(monkeypatch, "sklearn_model.py", "--out", tmp_path)
    said = capsys.readouterr().out
    assert all(method in said for method in ("vanilla", "isotonic", "beta", "smart"))
    data = sc.load(tmp_path / "naive_bayes.npz")
    estimator = sc.export.CalibratedLogits("smart").fit(data.validation.logits, data.validation.labels)
    check_is_fitted(estimator)
    assert f"accuracy {estimator.score(data.test.logits, data.test.labels):.3f}" in said


def test_huggingface_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the tiny model, and then with the same model read from a folder as one of the Hub would be."""
    pytest.importorskip("transformers", reason="transformers is not installed: its example is not run")
    script = run(monkeypatch, "huggingface_model.py", "--tiny", "--out", tmp_path)
    said = capsys.readouterr().out
    assert_repaired(tmp_path / "texts.npz", tmp_path / "smart.safetensors")

    model, tokenizer, table = script["tiny"]()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    table["label"] = table["label"].map({0: "negative", 1: "positive"})
    table.to_csv(tmp_path / "reviews.csv", index=False)
    capsys.readouterr()
    run(
        monkeypatch,
        "huggingface_model.py",
        tmp_path / "model",
        *("--texts", tmp_path / "reviews.csv", "--out", tmp_path / "again"),
    )
    assert capsys.readouterr().out == said


def test_without_transformers_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, "huggingface_model.py", "--tiny")
    assert stopped.value.code == "This example needs transformers: install it with pip install transformers."


def assert_repaired(bundle: Path, saved: Path) -> None:
    """The saved calibrator keeps every prediction and closes most of the gap between confidence and accuracy."""
    test = sc.load(bundle).test
    before, after = (
        calibrator.predict_proba(test.logits)
        for calibrator in (sc.Vanilla().fit(test.logits, test.labels), sc.load_calibrator(saved))
    )
    np.testing.assert_array_equal(after.argmax(axis=1), test.logits.argmax(axis=1))
    accuracy = np.mean(test.logits.argmax(axis=1) == test.labels)
    assert abs(after.max(axis=1).mean() - accuracy) < 0.5 * abs(before.max(axis=1).mean() - accuracy)


def test_the_notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run by a Jupyter kernel of its own, cell by cell."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: the notebook is not run")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: the notebook is not run")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: the notebook is not run")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count is None and not cell.outputs for cell in code), "clear the outputs before a commit"
    nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()

    said = "".join(output.get("text", "") for cell in code for output in cell.outputs)
    assert "miscalibrated" in said
    assert "49 parameters" in said
    kinds = {kind for cell in code for output in cell.outputs for kind in output.get("data", {})}
    assert {"text/html", "application/vnd.plotly.v1+json"} <= kinds  # the leaderboard and the reliability diagram
    assert (tmp_path / "smart.safetensors").is_file()
