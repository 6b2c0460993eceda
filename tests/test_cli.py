"""The command line: exit codes, one sentence for bad input, JSON, files."""

from __future__ import annotations

import html
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smart_core as sc
from smart_core.cli import main
from smart_core.cli.output import on_the_command_line
from smart_core.errors import Fix
from smart_core.evaluation import METRICS
from smart_core.experiments.sensitivity import PAPER_DELTAS, PAPER_SIGMAS
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


def test_one_sample_is_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    logits, labels = np.eye(2, dtype=np.float32), np.arange(2)
    np.savez(tmp_path / "two.npz", logits=logits, labels=labels)
    assert main(["inspect", str(tmp_path / "two.npz")]) == 0
    assert "validation: 1 sample, top-1" in capsys.readouterr().out


def test_lengths_that_differ_name_both_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    problem = over_confident(60, 5, seed=9)
    np.save(tmp_path / "logits.npy", problem.logits)
    np.save(tmp_path / "labels.npy", problem.labels[:-1])
    assert main(["inspect", str(tmp_path / "logits.npy"), str(tmp_path / "labels.npy")]) == 2
    said = "smart inspect: logits.npy and labels.npy: array 'logits' has 60 rows but array 'labels' has 59 entries"
    assert capsys.readouterr().err.startswith(said)


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
    assert "ECE, measured" in shown
    assert "ECE true, 95%" in shown
    assert "ECE noise floor" in shown


def test_fit_then_apply_gives_the_engines_probabilities(bundle: Path, tmp_path: Path):
    saved, out = tmp_path / "ts.safetensors", tmp_path / "rows.npz"
    assert main(["fit", str(bundle), "--method", "ts", "--set", "objective=brier", "--out", str(saved)]) == 0
    assert main(["apply", str(saved), str(bundle), "--out", str(out)]) == 0
    data = sc.load(bundle)
    expected = sc.TS(objective="brier").fit(data.validation.logits, data.validation.labels)
    with np.load(bundle) as arrays, np.load(out) as written:
        np.testing.assert_array_equal(written["probs"], expected.predict_proba(arrays["logits"]))


def test_apply_needs_no_labels_and_keeps_the_splits_apart(bundle: Path, tmp_path: Path):
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


def test_the_notices_of_apply_are_in_its_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    problem = over_confident(60, 5, seed=9)
    sc.TS().fit(problem.logits, problem.labels).save(tmp_path / "ts.safetensors")
    np.save(tmp_path / "rows.npy", np.exp(problem.logits) / np.exp(problem.logits).sum(axis=1, keepdims=True))
    names = ["ts.safetensors", "rows.npy", "--out", "out.npz"]
    names = [name if name.startswith("--") else str(tmp_path / name) for name in names]
    assert main(["apply", *names, "--json", "-"]) == 0
    (notice,) = json.loads(capsys.readouterr().out)["notices"]
    assert "holds probabilities" in notice


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


def test_every_command_says_what_it_does_and_what_its_options_take(capsys: pytest.CaptureFixture[str]):
    def shown(command: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0
        return " ".join(capsys.readouterr().out.split())

    helps = {name: shown(name) for name in COMMANDS}
    for name, text in helps.items():
        before = re.split("positional arguments:|options:", text)[0]
        assert before.endswith(". "), name
        assert "--json" in text
    assert "fit one method on the validation part and save it. " in helps["fit"].lower()
    for name in ("sensitivity", "report"):
        assert f"one of {', '.join(METRICS)} (default: ece)" in helps[name]
    for values in (PAPER_SIGMAS, PAPER_DELTAS):
        assert f"(default: {','.join(f'{value:g}' for value in values)})" in helps["sensitivity"]
    assert all("--role ROLE=ARRAY" in text for name, text in helps.items() if name != "methods")


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A file with uninformative names: p, q are logits, r, s labels of 60 and 40 rows."""
    problem = over_confident(100, 5, seed=2)
    z, y = problem.logits, problem.labels
    np.savez(tmp_path / "odd.npz", p=z[:60], q=z[60:], r=y[:60], s=y[60:], t=z[:60])
    return tmp_path / "odd.npz"


ODD = ["--role", "val_logits=p", "--role", "test_logits=q", "--role", "val_labels=r", "--role", "test_labels=s"]


def test_roles_by_hand(odd: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(odd)]) == 2
    assert "--role labels=ARRAY" in capsys.readouterr().err
    assert main(["inspect", str(odd), *ODD, "--json", "-"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["validation"]["samples"], card["test"]["samples"]) == (60, 40)
    assert main(["inspect", str(odd), "--role", "val_logit=p"]) == 2
    assert "'val_logit' is not a role" in capsys.readouterr().err


def test_fit_apply_and_report_take_roles(odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    saved, rows, page = tmp_path / "ts.safetensors", tmp_path / "rows.npz", tmp_path / "r.html"
    fit = ["fit", str(odd), "--method", "ts", "--out", str(saved), "--json", "-"]
    for roles in (ODD, [*ODD[:2], *ODD[4:6]]):  # validation alone is not split
        assert main([*fit, *roles]) == 0
        assert json.loads(capsys.readouterr().out)["samples"] == 60
    assert main(["fit", "--val", *fit[1:], *ODD[:2], *ODD[4:6]]) == 0
    capsys.readouterr()
    assert main(["apply", str(saved), str(odd), "--out", str(rows)]) == 2
    said = capsys.readouterr().err
    assert "--role logits=ARRAY" in said
    assert main(["apply", str(saved), str(odd), "--role", "logits=q", "--out", str(rows)]) == 0
    with np.load(rows) as written:
        assert written["probs"].shape == (40, 5)
    assert main(["report", str(odd), *ODD, "--methods", "vanilla,ts", "--seeds", "1", "--out", str(page)]) == 0
    text = html.unescape(page.read_text())
    assert "--role val_logits=p" in text
    assert "roles={'val_logits': 'p'" in text


def test_fixes_name_the_options_of_the_command_line():
    said = on_the_command_line
    both = sc.LogitFileError("both could be", Fix("splits"), Fix("roles"), file="val=3.npz")
    roles = "say which array is which with --role ROLE=ARRAY."
    assert said(both) == f"val=3.npz: both could be; give the files as --val and --test, or {roles}"
    assert said(both, splits=False) == f"val=3.npz: both could be; {roles}"
    rows = sc.LogitFileError("rows", "correct these rows", Fix("values"), file="a")
    assert said(rows) == "a: rows; correct these rows, or set --values to logits or probabilities."
    assert said(sc.LogitFileError("A sentence.")) == "A sentence."


def test_a_worse_method_is_marked_as_worse(bundle: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(bundle), "--methods", "vanilla,ts", "--seeds", "1"]) == 0
    shown = capsys.readouterr().out.splitlines()
    verdicts = {line.split()[0]: line.split()[-1] for line in shown if line.startswith(("Vanilla", "TS"))}
    assert verdicts == {"Vanilla": "worse", "TS": "best"}


COMMANDS = ("inspect", "compare", "fit", "apply", "sensitivity", "attack", "report", "methods")

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
    "not an npz": (["apply", "x.safetensors", "BUNDLE", "--out", "rows.csv"], "must end in .npz"),
    "no method at all": (["compare", "BUNDLE", "--methods", ""], "No method was given"),
    "no method that can run": (["compare", "BUNDLE", "--methods", "fc"], "FC: needs features and head"),
    "no folder for the json": (["compare", "BUNDLE", "--json", "absent/x.json"], "no such folder, absent"),
    "no folder for the rows": (["apply", "x.safetensors", "BUNDLE", "--out", "absent/x.npz"], "no such folder, absent"),
    "a folder instead of a file": (["compare", "BUNDLE", "--json", "."], "is a folder"),
    "a bandwidth out of range": (["sensitivity", "BUNDLE", "--sigma", "-1", "--seeds", "1"], "outside its range"),
    "too many bins": (["compare", "BUNDLE", "--bins", "100000"], "smart compare: The number of bins must be"),
    "not an assignment": (["fit", "BUNDLE", "--set", "sigma", "--out", "x"], "NAME=VALUE"),
    "no such device": (["fit", "BUNDLE", "--method", "ts", "--device", "abacus", "--out", "x"], "abacus"),
    "a device for every method": (["compare", "BUNDLE", "--device", "abacus"], "smart compare: There is no device"),
    "a device without values": (["sensitivity", "BUNDLE", "--device", "meta"], "no meta device"),
    "a device for a report": (["report", "BUNDLE", "--device", "abacus", "--out", "x.html"], "There is no device"),
    "a setting's device": (["fit", "BUNDLE", "--set", "device=meta", "--out", "x"], "no meta device"),
    "no arrays for the method": (
        ["fit", "BUNDLE", "--method", "fc", "--out", "x"],
        "made.npz: FC needs features and",
    ),
    "the result in place of the logits": (["fit", "BUNDLE", "--out", "BUNDLE"], "is also an input file"),
    "the json in place of the logits": (["compare", "--val", "BUNDLE", "--json", "BUNDLE"], "is also an input file"),
    "one name for both results": (
        ["fit", "BUNDLE", "--out", "x", "--json", "x"],
        "--json x: is also the file of",
    ),
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


WRONG_OPTIONS = {
    "a number out of range": ["compare", "BUNDLE", "--seeds", "0"],
    "no number": ["compare", "BUNDLE", "--seeds", "many"],
    "no list of numbers": ["sensitivity", "BUNDLE", "--sigma", "a,b"],
    "unknown option": ["compare", "BUNDLE", "--sedes", "1"],
    "no role": ["inspect", "BUNDLE", "--role", "logits"],
    "unknown command": ["compair", "BUNDLE"],
    "missing option": ["fit", "BUNDLE"],
}


@pytest.mark.parametrize("case", list(WRONG_OPTIONS))
def test_a_wrong_option_is_one_sentence_and_exit_2(case: str, bundle: Path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([str(bundle) if part == "BUNDLE" else part for part in WRONG_OPTIONS[case]])
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("smart")
    assert captured.err.endswith("--help.\n")


@pytest.mark.parametrize(
    "settings",
    [
        ["--set", "objective=brier", "bins=10"],
        ["--set", "objective=brier", "--set", "bins=10"],
        ["--set", "objective=brier", "bins=20", "--set", "bins=10"],
    ],
)
@pytest.mark.parametrize("file_last", [False, True])
def test_settings_in_one_option_or_repeated(settings: list[str], file_last: bool, bundle: Path, tmp_path: Path, capsys):
    out = tmp_path / "ts.safetensors"
    files = [*settings, str(bundle)] if file_last else [str(bundle), *settings]
    assert main(["fit", "--method", "ts", "--out", str(out), *files, "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)["settings"]
    assert (content["objective"], content["bins"]) == ("brier", 10)
    assert sc.load_calibrator(out).bins == 10


def test_fit_needs_the_validation_part_only(tmp_path: Path, capsys):
    problem = over_confident(300, 5, seed=1)
    both = {"logits": problem.logits, "labels": problem.labels, "features": problem.features}
    np.savez(tmp_path / "val.npz", **both, head_weight=problem.head[0], head_bias=problem.head[1])
    for name in ("logits", "labels"):
        np.save(tmp_path / f"{name}.npy", both[name])
    out = tmp_path / "fc.safetensors"
    assert main(["fit", "--val", str(tmp_path / "val.npz"), "--method", "fc", "--out", str(out), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 300
    expected = sc.FC().fit(problem.logits, problem.labels, features=problem.features, head=problem.head)
    np.testing.assert_array_equal(sc.load_calibrator(out).state()["clip_"], expected.state()["clip_"])
    pair = [str(tmp_path / "logits.npy"), str(tmp_path / "labels.npy")]
    assert main(["fit", "--val", *pair, "--method", "ts", "--out", str(out)]) == 0
    temperature = sc.TS().fit(problem.logits, problem.labels).temperature_
    assert sc.load_calibrator(out).temperature_ == temperature
    assert main(["compare", "--val", str(tmp_path / "val.npz")]) == 2
    said = capsys.readouterr().err
    assert "only validation files were given; give --test as well, or give the files without a split" in said
    assert "val=" not in said


@pytest.mark.parametrize("names", [("val.npz", ""), ("model.npz", "val_")])
def test_fit_does_not_split_a_validation_file(names: tuple[str, str], tmp_path: Path, capsys):
    file, side = names
    problem = over_confident(300, 5, seed=1)
    arrays = {f"{side}logits": problem.logits, f"{side}labels": problem.labels}
    np.savez(tmp_path / file, **arrays)
    out = tmp_path / "ts.safetensors"
    fit = ["fit", str(tmp_path / file), "--method", "ts", "--out", str(out), "--json", "-"]
    assert main(fit) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["samples"], content["notices"]) == (300, [])
    assert sc.load_calibrator(out).temperature_ == sc.TS().fit(problem.logits, problem.labels).temperature_
    assert main([*fit, "--val-fraction", "0.2"]) == 0  # asked for, it is split
    assert json.loads(capsys.readouterr().out)["samples"] == 60
    sides = np.repeat(["val", "test"], [100, 200])
    np.savez(tmp_path / file, **arrays, split=sides)
    assert main(fit) == 0  # its own column says which rows are validation
    assert json.loads(capsys.readouterr().out)["samples"] == 100


def test_apply_names_the_file_and_the_calibrator_that_do_not_fit(tmp_path: Path, capsys):
    problem = over_confident(100, 5, seed=1)
    five, three = tmp_path / "five.npy", tmp_path / "three.npy"
    np.save(five, problem.logits)
    np.save(three, problem.logits[:, :3])
    saved = tmp_path / "gc.safetensors"
    sc.GC(partitions=1).fit(problem.logits, problem.labels, features=problem.features).save(saved)
    out = tmp_path / "rows.npz"
    for file, words in ((three, "3 classes but GC in"), (five, "was fitted with features; add the array features")):
        assert main(["apply", str(saved), str(file), "--out", str(out)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"smart apply: {file.name}: ")
        assert words in said
        assert str(saved) in said
    before = five.read_bytes()
    rows = tmp_path / "five.npz"
    np.savez(rows, logits=problem.logits, features=problem.features)
    before = rows.read_bytes()
    for target in (rows, saved):
        assert main(["apply", str(saved), str(rows), "--out", str(target)]) == 2
    assert rows.read_bytes() == before
    assert sc.load_calibrator(saved).classes_ == 5


def test_the_grid_says_its_unit_and_what_it_is_not_for(bundle: Path, capsys):
    command = ["sensitivity", str(bundle), "--sigma", "0.05", "--delta", "0.001", "--seeds", "1"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "ECE in % on 400 test samples, 1 seed per cell" in shown
    assert "selection on test data" in shown
    assert main([*command, "--metric", "nll"]) == 0
    assert "NLL on 400 test samples" in capsys.readouterr().out


def test_methods_say_what_they_need(capsys):
    assert main(["methods"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "needs" in lines["id"]
    assert "features, head" in lines["fc"]
    assert "features (optional)" in lines["gc"]
    assert "features" not in lines["ts"]


def interrupted(*arguments: str, after: str, by: str) -> subprocess.CompletedProcess[str]:
    """The command line with a signal sent from inside, once the given method has been fitted."""
    code = (
        "import os, signal, sys, time\n"
        "from smart_core.calibrators import methods\n"
        f"method = methods()[{after!r}]\n"
        "original = method._fit\n"
        "def fit(self, data, run):\n"
        "    original(self, data, run)\n"
        f"    os.kill(os.getpid(), signal.{by})\n"
        "    time.sleep(0.1)\n"
        "method._fit = fit\n"
        "from smart_core.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=120
    )


@pytest.mark.parametrize("by", ["SIGINT", "SIGTERM"])
def test_an_interrupted_comparison_shows_what_it_has(bundle: Path, tmp_path: Path, by: str):
    out = tmp_path / "part.json"
    command = ["compare", str(bundle), "--methods", "vanilla,ts,beta,smart", "--seeds", "1", "--json", str(out)]
    done = interrupted(*command, after="beta", by=by)
    assert done.returncode == 130
    assert done.stderr == "smart compare: stopped; only what was finished by then is shown.\n"
    assert "TS" in done.stdout
    assert "SMART" not in done.stdout
    content = json.loads(out.read_text())
    assert list(content["methods"]) == ["vanilla", "ts"]
    assert content["complete"] is False


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_fit_writes_nothing(
    bundle: Path,
    tmp_path: Path,
    by: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    original = sc.TS._fit

    def fit(self: sc.TS, data: object, run: object) -> None:
        original(self, data, run)
        signal.raise_signal(by)

    monkeypatch.setattr(sc.TS, "_fit", fit)
    out = tmp_path / "smart.safetensors"
    assert main(["fit", str(bundle), "--method", "ts", "--out", str(out)]) == 130
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


def test_a_terminal_that_knows_only_ascii_still_shows_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "modèle.npz"
    problem = over_confident(100, 3, seed=1)
    np.savez(path, logits=problem.logits, labels=problem.labels)
    for arguments, code, shown in (
        (["inspect", str(path)], 0, "mod\\xe8le"),
        (["inspect", str(tmp_path / "größe.npz")], 2, "gr\\xf6\\xdfe"),
        (["methods"], 0, "SMART"),
    ):
        written = io.BytesIO()
        for name in ("stdout", "stderr"):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(written, "ascii", write_through=True))
        assert main(arguments) == code
        assert shown in written.getvalue().decode("ascii")


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


def test_as_a_module():
    assert run("--help").returncode == 0
    done = run("compare", "--help")
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


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_file_is_read_gets_one_word(
    by: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Outside of fits and studies, where nothing watches the token."""
    before = signal.getsignal(signal.SIGTERM)
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background a shell has it ignored
    monkeypatch.setattr("smart_core.data.document.Document.open", lambda *files, **options: signal.raise_signal(by))
    assert main(["inspect", "sample:digits"]) == 130
    assert capsys.readouterr().err == "smart inspect: stopped.\n"
    assert signal.getsignal(signal.SIGTERM) is before
    signal.signal(signal.SIGINT, interrupted)
