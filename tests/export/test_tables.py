"""Leaderboards as CSV, JSON and LaTeX: what is read back from the text is what was put in."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest

import smart_core as sc
from smart_core.errors import CalibrationError, ExportError
from smart_core.experiments.compare import Comparison, MethodResult
from smart_core.export.tables import comparison_csv, comparison_latex, escaped
from smart_core.metrics import Floor, Interval
from tests.data.files import example

NAMES = ("ece", "adaece", "cece", "nll", "brier", "smce", "smece", "accuracy")


def row(id: str, **values: list[float]) -> MethodResult:
    filled = {name: values.get(name, [0.25] * len(next(iter(values.values())))) for name in NAMES}
    intervals = {name: Interval(0.1, 0.4, 0.95, "made up") for name in NAMES}
    return MethodResult(id, True, parameters=1, fit_seconds=0.5, values=filled, intervals=intervals)


def made_comparison(name: str = "set", **changes: object) -> Comparison:
    logits, labels = example()
    part = sc.Part(logits, labels)
    results = {
        "vanilla": row("vanilla", ece=[0.0434], nll=[0.5], accuracy=[0.95]),
        "ts": row("ts", ece=[0.0138], nll=[0.25], accuracy=[0.95]),
        "fc": MethodResult("fc", False, reason="needs features and head"),
        "smart": row("smart", ece=[0.0070, 0.0080, 0.0078], nll=[0.3, 0.3, 0.3], accuracy=[0.96, 0.94, 0.95]),
        "pts": row("pts", ece=[0.008, 0.0081, 0.0082], nll=[0.3, 0.3, 0.3], accuracy=[0.9, 0.9, 0.9]),
    }
    made = {
        "floor": {"ece": Floor(0.003, 0.0042, 100)},
        "tied": {"vanilla": False, "ts": False, "smart": True, "pts": True},
        "best": "smart",
        **changes,
    }
    return Comparison(sc.LogitSet(name, part, part), results, **made)


def parsed(text: str) -> tuple[str, list[list[str]]]:
    """Column letters and cells of the one tabular; asserts that LaTeX could read it."""
    plain = re.sub(r"\\[{}&%$#_]", "", text)
    depth = 0
    for character in plain:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert plain.count("$") % 2 == 0
    assert "%" not in plain
    assert "#" not in plain
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    letters, body = re.search(r"\\begin\{tabular\}\{(\w+)\}\n(.*)\\end\{tabular\}", text, re.DOTALL).groups()
    rules = [line for line in body.splitlines() if line.startswith("\\") and line.endswith("rule")]
    assert rules[0] == r"\toprule"
    assert rules[1] == r"\midrule"
    assert rules[-1] == r"\bottomrule"
    rows = [line for line in body.splitlines() if line not in rules]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)&", line.removesuffix(r"\\"))] for line in rows]
    assert all(line.endswith(r"\\") for line in rows)
    assert {len(line) for line in cells} == {len(letters)}
    return letters, cells


def test_methods_as_columns_in_the_papers_layout():
    letters, (header, figures) = parsed(comparison_latex(made_comparison()))
    assert letters == "llcccccc"
    assert header == ["Data", "Metric", "Vanilla", "TS", "PTS", "FC", "SMART", "Floor"]
    assert figures == [
        "set",
        r"ECE (\%) $\downarrow$",
        "$4.34$",
        "$1.38$",
        r"$\underline{0.81 \pm 0.01}$",
        "--",
        r"$\mathbf{0.76 \pm 0.05}$",  # std of 0.70, 0.80, 0.78 by hand: sqrt(0.0056 / 2) = 0.0529
        "$0.42$",
    ]


def test_methods_as_rows_with_the_floor_last():
    _, (header, *rows) = parsed(comparison_latex(made_comparison(), methods="rows", metrics=["ece", "nll", "accuracy"]))
    ece, nll, accuracy = r"ECE (\%) $\downarrow$", r"NLL $\downarrow$", r"Accuracy (\%) $\uparrow$"
    assert header == ["Method", ece, r"true, 95\%", nll, accuracy]
    # the range of the true error has a column of its own, beside the measured one
    assert [line[2] for line in rows] == ["10.00--40.00"] * 3 + ["--", "10.00--40.00", ""]
    assert [line[0] for line in rows] == ["Vanilla", "TS", "PTS", "FC", "SMART", "Noise floor"]
    assert [line[3] for line in rows][:2] == ["$0.5000$", r"$\mathbf{0.2500}$"]
    # equal means are all best; only the primary metric has a test, so nothing is underlined here
    assert [line[4].startswith(r"$\mathbf") for line in rows] == [True, True, False, False, True, False]
    assert not any("underline" in line[3] + line[4] for line in rows)
    assert rows[3][1:] == ["--"] * 4
    assert rows[-1][1:] == ["$0.42$", "", "--", "--"]


def test_several_sets_and_metrics():
    text = comparison_latex(
        [made_comparison("one"), made_comparison("two", floor={}, tied={})], metrics=["ece", "accuracy"]
    )
    _, (_, *rows) = parsed(text)
    assert [line[0] for line in rows] == ["one", "", "two", ""]
    assert rows[2][-1] == "--"
    assert "underline" not in "".join(rows[2])
    assert text.count(r"\midrule") == 2


def test_names_are_escaped():
    hostile = '50% of R&D_{x}^2 ~ $a$ #1 \\input{/etc/passwd} <b>|"q"\n\x00end'
    _, (_, figures) = parsed(comparison_latex(made_comparison(hostile)))
    back = figures[0]
    for written, character in (
        (r"\textbackslash{}", "\\"),
        (r"\textasciitilde{}", "~"),
        (r"\textasciicircum{}", "^"),
        (r"\textless{}", "<"),
        (r"\textgreater{}", ">"),
        (r"\textbar{}", "|"),
        ("''", '"'),
    ):
        assert written in back
        back = back.replace(written, f"\0{ord(character):03d}")
    back = re.sub(r"\\([{}&%$#_])", r"\1", back)
    assert "\\" not in back
    back = re.sub(r"\0(\d{3})", lambda found: chr(int(found[1])), back)
    assert back == hostile.replace("\n\x00", " ")
    assert escaped("ResNet-50, α") == "ResNet-50, α"


@pytest.mark.parametrize("name", ["[5pt] x", "*", " [", "\n*{x}"])
def test_a_name_is_no_argument_of_the_row_above(name: str):
    """After `\\\\`, LaTeX takes `[...]` for a length and `*` for a command."""
    body = comparison_latex([made_comparison("one"), made_comparison(name)], metrics=["ece"])
    (line,) = [line for line in body.splitlines() if name.strip()[0] in line and "one" not in line and " & " in line]
    assert line.lstrip().startswith("{}")


def test_a_comparison_without_values():
    empty = made_comparison(floor={}, tied={}, best=None)
    empty.results = {"fc": empty.results["fc"]}
    _, (_, figures) = parsed(comparison_latex(empty))
    assert figures[2:] == ["--", "--"]


def test_wrong_use_is_one_sentence():
    with pytest.raises(ExportError, match="one data set"):
        comparison_latex([made_comparison(), made_comparison()], methods="rows")
    with pytest.raises(ExportError, match="at least one"):
        comparison_latex([])
    with pytest.raises(CalibrationError, match="no metric 'x'"):
        comparison_latex(made_comparison(), metrics=["x"])


def test_csv_keeps_every_digit():
    comparison = made_comparison()
    comparison.results["ts"].values["ece"] = [0.1 + 0.2]
    rows = {line["method"]: line for line in csv.DictReader(io.StringIO(comparison_csv(comparison)))}
    assert list(rows) == ["vanilla", "ts", "fc", "smart", "pts"]
    assert float(rows["ts"]["ece"]) == 0.1 + 0.2
    assert float(rows["smart"]["ece_std"]) == pytest.approx(np.std([0.0070, 0.0080, 0.0078], ddof=1))
    assert rows["fc"]["reason"] == "needs features and head"
    assert rows["fc"]["ece"] == ""


def test_json_is_that_of_the_command_line():
    comparison = made_comparison("näme")
    comparison.recommended = None  # these rows have no evaluations to recommend from
    content = json.loads(comparison.to_json())
    assert content["data"]["name"] == "näme"
    assert content["methods"]["ts"]["metrics"]["ece"]["mean"] == 0.0138
    assert content["methods"]["fc"] == {"available": False, "reason": "needs features and head"}


@pytest.mark.parametrize("name", ["[2ex] net", "*", "\u200b[x]", " [y"])
def test_a_name_at_the_beginning_of_a_row_is_not_read_as_an_argument(name: str):
    """`\\\\ [2ex]` would be space after the row before, `\\\\ *` a row that no page may end with."""
    assert escaped(name).startswith(("{}[", "{}*"))
    body = comparison_latex([made_comparison("plain"), made_comparison(name)], metrics=["ece", "nll"])
    assert not re.search(r"(\\\\|\\midrule)\s*[\[*]", body)
