"""The command line as a user meets it: exit codes, one sentence for bad input, JSON, files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smart_core as sc
from smart_core.cli import main
from tests.calibrators.problems import over_confident
from tests.conftest import ROOT, real_data


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "made.npz"
    problem = over_confident(800, 5, seed=1)
    np.savez(path, logits=problem.logits, labels=problem.labels)
    return path


def test_inspect(bundle: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(bundle)]) == 0
    shown = capsys.readouterr().out
    assert "5 classes" in shown
    assert "400 samples" in shown
    assert main(["inspect", str(bundle), "--json", "-"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["validation"]["samples"] == 400
    assert card["arrays"]["test"]["logits"] == [[400, 5], "float32"]


def test_compare_json_to_a_file_and_a_table(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "result.json"
    command = ["compare", str(bundle), "--methods", "vanilla,ts,fc", "--seeds", "1", "--val-fraction", "0.25"]
    assert main([*command, "--json", str(out)]) == 0
    content = json.loads(out.read_text())
    assert content["data"]["validation"] == 200
    assert content["methods"]["fc"]["reason"] == "needs features and head"
    shown = capsys.readouterr().out
    assert "TS" in shown
    assert "needs features and head" in shown
    assert "perfectly calibrated model" in shown
    assert "ECE floor" in shown


def test_fit_then_apply_gives_the_engines_probabilities(bundle: Path, tmp_path: Path):
    saved, out = tmp_path / "ts.safetensors", tmp_path / "rows.npz"
    assert main(["fit", str(bundle), "--method", "ts", "--set", "objective=brier", "--out", str(saved)]) == 0
    assert main(["apply", str(saved), str(bundle), "--out", str(out)]) == 0
    data = sc.load(bundle)
    expected = sc.TS(objective="brier").fit(data.validation.logits, data.validation.labels)
    with np.load(bundle) as arrays, np.load(out) as written:
        np.testing.assert_array_equal(written["probs"], expected.predict_proba(arrays["logits"]))


def test_apply_needs_no_labels_and_keeps_the_sides_apart(bundle: Path, tmp_path: Path):
    saved, out = tmp_path / "ts.safetensors", tmp_path / "rows.npz"
    main(["fit", str(bundle), "--method", "ts", "--out", str(saved)])
    fresh = over_confident(30, 5, seed=9).logits
    np.save(tmp_path / "new.npy", fresh)
    assert main(["apply", str(saved), str(tmp_path / "new.npy"), "--out", str(out)]) == 0
    with np.load(out) as written:
        assert written["probs"].shape == (30, 5)
    np.savez(tmp_path / "both.npz", val_logits=fresh[:10], test_logits=fresh[10:])
    assert main(["apply", str(saved), str(tmp_path / "both.npz"), "--out", str(out)]) == 0
    with np.load(out) as written:
        assert {name: written[name].shape for name in written} == {"val_probs": (10, 5), "test_probs": (20, 5)}


def test_sensitivity_json(bundle: Path, capsys: pytest.CaptureFixture[str]):
    command = ["sensitivity", str(bundle), "--sigma", "0.05,0.5", "--delta", "0.001", "--seeds", "1", "--json", "-"]
    assert main(command) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["sigmas"] == [0.05, 0.5]
    assert np.shape(content["mean"]) == (2, 1)


def test_methods_lists_the_registry(capsys: pytest.CaptureFixture[str]):
    assert main(["methods"]) == 0
    assert "49-parameter" in capsys.readouterr().out
    assert main(["methods", "smart"]) == 0
    assert "sigma" in capsys.readouterr().out


BAD = {
    "absent file": (["inspect", "absent.npz"], "absent.npz"),
    "no file": (["compare"], "Give one bundle"),
    "unknown method": (["compare", "BUNDLE", "--methods", "tss"], "no method 'tss'"),
    "unknown setting": (["fit", "BUNDLE", "--set", "sigm=1", "--out", "x"], "sigma"),
    "bad number": (["fit", "BUNDLE", "--set", "sigma=big", "--out", "x"], "must be a number"),
    "out of range": (["fit", "BUNDLE", "--set", "sigma=-1", "--out", "x"], "outside its range"),
    "not a calibrator": (["apply", "BUNDLE", "BUNDLE", "--out", "x.npz"], "not a calibrator file"),
    "no such metric": (["sensitivity", "BUNDLE", "--metric", "foo"], "no metric 'foo'"),
    "no such folder": (["fit", "BUNDLE", "--method", "ts", "--out", "absent/ts.safetensors"], "absent"),
    "not an npz": (["apply", "x.safetensors", "BUNDLE", "--out", "rows.csv"], "ends in .npz"),
    "no such device": (["fit", "BUNDLE", "--method", "ts", "--device", "abacus", "--out", "x"], "abacus"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_sentence_and_exit_2(case: str, bundle: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, expected = BAD[case]
    assert main([str(bundle) if part == "BUNDLE" else part for part in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.rstrip().endswith(".")
    assert expected in captured.err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_option_exits_2_without_a_traceback(bundle: Path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["compare", str(bundle), "--seeds", "0"])
    assert stopped.value.code == 2
    assert "whole number" in capsys.readouterr().err


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "smart_core", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=120,
    )


def test_as_a_module_with_help_for_every_command():
    assert run("--help").returncode == 0
    for command in ("inspect", "compare", "fit", "apply", "sensitivity", "methods"):
        done = run(command, "--help")
        assert done.returncode == 0
        assert "--json" in done.stdout


def test_every_published_format_loads_as_it_is():
    pair = real_data("resnet50_cifar10_ce")
    scores = real_data("cifar100_repvgg_a2")
    files = [
        ["--val", pair / "val.pt", "--test", pair / "test.pt"],
        [real_data("probs_densenet40_c10_LT_logits.p")],
        [real_data("probs_resnet_wide28_c10_LT_logits.p")],
        [real_data("netcal_wideresnet-16-4-cifar-100.npz")],
        [scores / "scores.npy", scores / "targets.npy"],
        [real_data("cifar10_resnet20_test.npz")],
        [real_data("imagenet5k_efficientnet_lite0.npz")],
    ]
    for arguments in files:
        assert main(["inspect", *map(str, arguments)]) == 0, arguments
