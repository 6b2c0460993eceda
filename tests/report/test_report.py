"""The report shows the results, loads nothing else, and lets no text from a file become code."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sample_logits
import smart_core as sc
from smart_core.errors import CalibrationError, Cancelled, ExportError
from smart_core.evaluation import HEADLINE, METRICS
from smart_core.experiments.benchmark_result import Benchmark, Cell, SetInfo
from smart_core.experiments.compare import Comparison, summarise
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.report import Findings, report, report_html
from smart_core.report.page import environment, script_json
from smart_core.report.reproduce import compare_code, load_code

METHODS = "vanilla,ts,isotonic,fc,smart"
NASTY = '\ud800\u202e</script><script>alert("1")</script><img src=x onerror=alert(2)>&amp;$x$%{y}\u2028'
MOST = 6_000_000


class Reader(HTMLParser):
    """Elements with their attributes, the text outside scripts, and the scripts themselves."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.cells: list[list[str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in ("meta", "br", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag  # every element is closed where it should be

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._open and self._open[-1] != "style":
            self.text += data
            if self._open[-1] in ("td", "th"):
                self.cells[-1][-1] += data

    def charts(self) -> dict[str, Any]:
        return {name: json.loads(text) for attributes, text in self.scripts if (name := attributes.get("data-chart"))}


@pytest.fixture(scope="module")
def compared() -> Comparison:
    data = sc.load(sample_logits.path("digits"))
    return sc.compare(data, METHODS, 2, settings={"smart": {"epochs": 40}, "fc": {"search": "coarse"}})


@pytest.fixture(scope="module")
def grid() -> Sensitivity:
    found = Sensitivity.empty("sigma", "delta", (0.05, 0.1), (0.001, 0.01), 2)
    found.metrics["ece"][:] = np.arange(8).reshape(2, 2, 2) / 100
    return found


@pytest.fixture(scope="module")
def page(compared: Comparison, grid: Sensitivity) -> str:
    return report_html(Findings(compared, 15, grid, code="print(1)", command="smart report digits.npz --out r.html"))


@pytest.fixture(scope="module")
def over_sets() -> Benchmark:
    values = {NASTY[1:]: (0.05, 0.02), "b": (0.06, 0.01), "c": (0.04, 0.03), "d": (0.02, 0.01), "e": (0.07, 0.02)}
    cells = {
        name: {id: Cell({"ece": [value]}, 0.1, 1) for id, value in zip(("vanilla", "ts"), row, strict=True)}
        for name, row in values.items()
    }
    info = SetInfo(10, 100, 200, 0.9, 0.05, 3.0, 0.01, ())
    return Benchmark(dict.fromkeys(cells, info), ("vanilla", "ts"), cells, tied={"ece": {"b": {"vanilla": True}}})


def test_a_section_on_many_data_sets(compared: Comparison, over_sets: Benchmark, read: Reader):
    assert "Over many data sets" not in read.text
    page = report_html(Findings(compared, benchmark=over_sets))
    shown = Reader(page)
    assert (
        "Over 5 data sets, TS has the best mean rank by ECE (1.00 of 2 methods; 100% of comparisons won)." in shown.text
    )
    assert {"chart-benchmark", "chart-ranks", "chart-wins"} <= shown.charts().keys()
    assert ["TS", "1.00", "1.00 to 1.00", "100%", "100% to 100%"] in shown.cells
    assert r"$\underline{6.00}^{*}$" in shown.text
    names = [name for name, _ in shown.elements]
    assert "img" not in names
    assert 'alert("1")</script>' not in page
    empty = replace(over_sets, sets={}, cells={})
    assert "Over many data sets" not in report_html(Findings(compared, benchmark=empty))


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    return Reader(page)


def test_one_file_under_six_megabytes_with_plotly_once(page: str, read: Reader) -> None:
    assert len(page.encode()) < MOST
    assert sum("plotly.js v" in text for _, text in read.scripts) == 1
    assert not [attributes for tag, attributes in read.elements if "src" in attributes or tag in ("link", "iframe")]
    assert not [attributes for _, attributes in read.elements if (attributes.get("href") or "").startswith("http")]
    (policy,) = [attributes["content"] for tag, attributes in read.elements if attributes.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_every_part_is_there(read: Reader) -> None:
    wanted = ("Data", "Leaderboard", "Reliability", "By margin group", "Temperature curve", "Sensitivity")
    wanted += ("Settings and versions", "How to reproduce this", "smart report digits.npz --out r.html", "print(1)")
    for words in wanted:
        assert words in read.text
    assert f"smart_core {sc.__version__}" in read.text
    assert "720 samples, top-1 accuracy" in read.text
    names = ["leaderboard", "reliability", "margin-groups", "temperature", "sensitivity"]
    assert list(read.charts()) == [f"chart-{name}" for name in names]


def test_every_chart_has_its_words_and_its_numbers_and_both_themes(read: Reader) -> None:
    plots = [attributes for _, attributes in read.elements if attributes.get("class") == "plot"]
    assert [plot["role"] for plot in plots] == ["img"] * 5
    known = {attributes.get("id") for tag, attributes in read.elements if tag == "figcaption"}
    assert {plot["aria-labelledby"] for plot in plots} == known
    assert [tag for tag, _ in read.elements].count("details") == 5
    for themes in read.charts().values():
        backs = [themes[theme]["layout"]["template"]["layout"]["paper_bgcolor"] for theme in ("light", "dark")]
        assert backs == ["#FFFFFF", "#0F131A"]
        assert themes["light"]["data"]


def test_the_leaderboard_says_what_the_comparison_says(read: Reader, compared: Comparison) -> None:
    start = read.cells.index(next(row for row in read.cells if row[:2] == ["Method", "ECE, measured"]))
    rows = {row[0]: row[1:] for row in read.cells[start + 1 : start + 6]}
    assert set(rows) == {"Vanilla", "TS", "Isotonic", "FC", "SMART"}
    values = [float(row[0].removesuffix("%")) for row in rows.values()]
    assert values == sorted(values)
    for id, result in compared.results.items():
        row = rows[sc.calibrators.methods()[id].label]
        ends = result.intervals["ece"]
        assert row[0] == f"{100 * result.mean('ece'):.2f}%"
        assert row[2] == f"{100 * result.floor['ece'].q95:.2f}%"
        assert row[3] == f"{100 * ends.low:.2f}–{100 * ends.high:.2f}%"
        standing = "best" if id == compared.best else "tied" if compared.tied[id] else "worse"
        assert row[4].split(", ")[0] == standing
        assert row[4].endswith(", recommended") == (id == sc.recommend(compared).method)
    for name in HEADLINE:
        assert METRICS[name].label in read.text


def test_a_method_that_could_not_run_is_named_with_its_reason(compared: Comparison) -> None:
    bare = sc.simulate_set(200, 300, 4, seed=1)
    ranked = sc.compare(bare, "vanilla,ts,fc", 1)
    text = Reader(report_html(Findings(ranked))).text
    assert "FC is missing: needs features and head" in text
    assert "Temperature curve" not in text  # TS and Vanilla have one temperature for all
    assert "Sensitivity" not in text
    assert "How to reproduce" not in text


def test_the_uncalibrated_model_is_evaluated_if_it_is_not_in_the_comparison(compared: Comparison) -> None:
    rows = {id: row for id, row in compared.results.items() if id in ("ts", "smart")}
    found = Findings(summarise(compared.data, rows))
    np.testing.assert_array_equal(found.before.confidence, compared.results["vanilla"].evaluations[0].confidence)
    assert "Temperature curve" in Reader(report_html(found)).text


def test_one_method_alone_is_reported(compared: Comparison) -> None:
    rows = {"vanilla": compared.results["vanilla"]}
    read = Reader(report_html(Findings(summarise(compared.data, rows))))
    assert "chart-margin-groups" in read.charts()
    assert "Vanilla: ECE" in read.text


def test_text_from_files_never_becomes_markup_or_script(compared: Comparison) -> None:
    data = compared.data
    part = replace(data.test, group=np.array([NASTY] * len(data.test)))
    names = tuple(f"{NASTY}{k}" for k in range(data.classes))
    odd = replace(
        data, name=NASTY, class_names=names, test=part, notices=(sc.Notice("x", NASTY), sc.Notice("split", NASTY))
    )
    rows = {id: replace(row, notices=[NASTY]) for id, row in compared.results.items()}
    page = report_html(
        Findings(
            replace(compared, data=odd, results=rows, notices=[NASTY]), name=NASTY + "b", code=NASTY, command=NASTY
        )
    )
    read = Reader(page)
    plain = Reader(report_html(Findings(compared, code="a", command="b")))
    count = [tag for tag, _ in read.elements].count
    assert count("img") == 0
    assert count("script") == [tag for tag, _ in plain.elements].count("script")
    assert not [attributes for _, attributes in read.elements if any(name.startswith("on") for name in attributes)]
    page.encode()  # a file can hold it
    visible = NASTY.translate(dict.fromkeys(map(ord, "\ud800\u202e\u2028")))
    assert read.text.count(visible) >= 8  # it is shown letter by letter
    assert "\u2028" not in page
    for themes in read.charts().values():
        assert themes["light"]["data"]


@pytest.mark.parametrize("text", [NASTY, "<!--", "]]>", "a\x00b\u2029", "\\u003c"])
def test_json_in_a_script_is_escaped_and_keeps_its_value(text: str) -> None:
    written = script_json({"a": text})
    assert json.loads(written) == {"a": text}
    assert not re.search("[<>&\u2028\u2029]", written)
    shown = environment().from_string("{{ text }}").render(text=text)
    assert not re.search("[<>\x00\u2028\u2029]", shown)


def test_the_python_api_fits_and_draws_with_progress() -> None:
    data = sc.simulate_set(200, 300, 3, seed=2)
    seen: list[float] = []
    page = sc.report.report(
        data,
        "vanilla,smart",
        1,
        settings={"smart": {"epochs": 2}},
        sensitivity=True,
        metric="nll",
        progress=lambda fraction, words: seen.append(fraction),
    )
    read = Reader(page)
    assert "chart-sensitivity" in read.charts()
    assert "epochs = 2" in read.text
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_what_cannot_be_reported_is_an_error(compared: Comparison) -> None:
    bare = sc.simulate_set(50, 50, 4, seed=1)
    with pytest.raises(CalibrationError, match=r"no method could be run \(FC: needs features and head"):
        report(bare, "fc")
    with pytest.raises(ExportError, match="nothing to report"):
        Findings(summarise(bare, {}))

    class Stopped:
        def is_set(self) -> bool:
            return True

    with pytest.raises(Cancelled, match="no report was written"):
        report(bare, "ts", cancel=Stopped())


def test_the_python_in_the_report_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a\"b'.npz").write_bytes(sample_logits.path("digits").read_bytes())
    code = compare_code(
        load_code(["a\"b'.npz"]), ["vanilla", "ts"], 1, 10, "nll", {"ts": {"objective": "mse"}, "smart": {}}
    )
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["chosen"]["settings"] == {"ts": {"objective": "mse"}}
    text = Reader((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "objective = mse" in text
    assert "ranked by NLL with 10 bins" in text
    two = load_code(val=["v.npz"], test=["t.npy", "y.npy"], split_seed=3)
    assert 'sc.load(val="v.npz", test=["t.npy", "y.npy"], split_seed=3)' in two
