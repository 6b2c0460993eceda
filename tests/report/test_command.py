"""The command `smart report`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import sample_logits
from smart_core.cli import build_parser, main
from smart_core.cli.report import command


def test_a_report_and_its_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    arguments = ["report", str(sample_logits.path("digits")), "--methods", "vanilla,ts", "--seeds", "1", "--bins", "10"]
    assert main([*arguments, "--out", str(out), "--json", str(tmp_path / "summary.json")]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "TS has the lowest ECE" in printed.out
    page = out.read_text(encoding="utf-8")
    assert "smart report digits.npz --bins 10 --methods vanilla,ts --seeds 1 --out report.html" in page
    assert str(tmp_path) not in page  # whoever reads it has other folders
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["best"] == "ts"
    assert summary["bytes"] == out.stat().st_size
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{bundle}", "--out", "{folder}/r.pdf"], "must end in .html"),
        (["{bundle}", "--out", "{folder}/no/r.html"], "no such folder"),
        (["{bundle}", "--out", "{folder}/r.html", "--methods", "nothing"], "no method 'nothing'"),
        (["{bundle}", "--out", "{folder}/r.html", "--metric", "nothing"], "no metric 'nothing'"),
        (["{folder}/gone.npz", "--out", "{folder}/r.html"], "gone.npz"),
        (["{small}", "--out", "{folder}/r.html", "--methods", "fc"], "FC: needs features and head"),
    ],
)
def test_bad_input_is_one_sentence_on_standard_error(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "small.npz"
    rng = np.random.default_rng(0)
    np.savez(small, logits=rng.normal(size=(40, 3)), labels=rng.integers(0, 3, 40))
    places = {"bundle": sample_logits.path("digits"), "folder": tmp_path, "small": small}
    assert main(["report", *(word.format(**places) for word in words)]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (tmp_path / "r.html").exists()


def test_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["report", "--help"])
    assert stop.value.code == 0
    assert "--sensitivity" in capsys.readouterr().out


def test_the_command_in_the_report_gives_the_same_options() -> None:
    given = ["report", "--val", "a b.npz", "--test", "/x/t.npy", "y.npy", "--split-seed", "4", "--metric", "nll"]
    given += ["--sensitivity", "--seeds", "3", "--out", "/x/o.html"]
    options = build_parser().parse_args(given)
    again = build_parser().parse_args(shlex.split(command(options))[1:])
    assert again.val == ["a b.npz"]
    assert again.test == ["t.npy", "y.npy"]
    assert again.out == "o.html"
    same = ("split_seed", "val_fraction", "metric", "sensitivity", "seeds", "methods", "bins")
    assert [getattr(again, name) for name in same] == [getattr(options, name) for name in same]
