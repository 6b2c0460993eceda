"""The report opened from disk in a real browser: no errors, no requests, printable, and its figures saved as files."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree
from zipfile import ZipFile

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import sample_logits
import smart_core as sc
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.report import Findings, figures_html, report_html
from tests.browser import conftest
from tests.browser.conftest import Visit
from tests.conftest import ROOT

NASTY = '</script><script>window.stolen = 1</script><img src=x onerror="window.stolen = 2">'
CHARTS = 5


@dataclass
class Opened:
    """A page from disk, and what went wrong on it."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def clean(self, path: Path) -> None:
        """Nothing on the console, and nothing asked for but the file itself."""
        assert self.problems == []
        assert [url for url in self.requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]

    def picture(self, name: str) -> None:
        target = ROOT / "artifacts" / f"{name}.png"
        target.parent.mkdir(exist_ok=True)
        self.page.screenshot(path=target, full_page=True)


@pytest.fixture
def open_file(chromium: Browser) -> Iterator[Callable[..., Opened]]:
    contexts = []

    def opened(path: Path, *, width: int = 1280, dark: bool = False) -> Opened:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        seen = Opened(context.new_page())
        seen.page.on("console", lambda message: seen.problems.append(message.text))
        seen.page.on("pageerror", lambda error: seen.problems.append(str(error)))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.goto(path.as_uri())
        expect(seen.page.locator(".plot .main-svg, #zip:not([hidden])").first).to_be_visible()
        return seen

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def found() -> Findings:
    """Results of a data set whose names are an attack."""
    data = sc.load(sample_logits.path("digits"))
    names = tuple(f"{NASTY}{k}" for k in range(data.classes))
    data = replace(data, name=NASTY, class_names=names, notices=(sc.Notice("x", NASTY),))
    ranked = sc.compare(data, "vanilla,ts,isotonic,smart", 2, settings={"smart": {"epochs": 60}})
    grid = Sensitivity.empty("sigma", "delta", (0.05, 0.1), (0.001, 0.01), 2)
    grid.metrics["ece"][:] = np.arange(8).reshape(2, 2, 2) / 100
    return Findings(ranked, 15, grid, code=NASTY, command=NASTY)


@pytest.fixture(scope="module")
def written(found: Findings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_html(found), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, True), (400, False), pytest.param(1280, False, marks=pytest.mark.long)]
)
def test_a_report_on_disk_draws_without_errors_or_requests(
    written: Path, open_file: Callable[..., Opened], width: int, dark: bool
) -> None:
    seen = open_file(written, width=width, dark=dark)
    page = seen.page
    expect(page.locator(".plot .main-svg .xtick").first).to_be_attached()
    drawn = "[...document.querySelectorAll('.plot')].map(plot => plot._fullLayout.paper_bgcolor)"
    assert page.evaluate(drawn) == ["#0F131A" if dark else "#FFFFFF"] * CHARTS
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.title() == f"Calibration report: {NASTY}"
    assert page.evaluate("window.stolen") is None
    assert NASTY in page.locator("h1").inner_text()
    seen.picture(f"report-{width}-{'dark' if dark else 'light'}")
    seen.clean(written)


def test_every_figure_is_saved_as_svg_png_csv_and_json(
    written: Path, open_file: Callable[..., Opened], tmp_path: Path
) -> None:
    for number in range(CHARTS):
        seen = open_file(written)  # anew for each figure: Chromium asks before it saves an eleventh file in one tab
        figure = seen.page.locator("figure.chart").nth(number)
        files = {}
        for kind in ("SVG", "PNG", "CSV", "JSON"):
            with seen.page.expect_download() as waiting:
                figure.get_by_role("button", name=kind, exact=True).click()
            name = waiting.value.suggested_filename
            assert name == f"{figure.get_attribute('data-name')}.{kind.lower()}"
            files[kind] = tmp_path / name
            waiting.value.save_as(files[kind])
        svg = ElementTree.fromstring(files["SVG"].read_text(encoding="utf-8"))
        assert svg.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(svg.iter("{http://www.w3.org/2000/svg}text"))) > 5
        png = files["PNG"].read_bytes()
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", png[16:24])[0] == 2 * round(float(svg.get("width", "0")))
        with files["CSV"].open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        records = json.loads(files["JSON"].read_text(encoding="utf-8"))
        assert len(rows) == len(records) == figure.locator("details tbody tr").count() > 0
        assert list(rows[0]) == list(records[0])
        seen.clean(written)


def test_a_printed_report_is_light_and_fits(written: Path, open_file: Callable[..., Opened], tmp_path: Path) -> None:
    seen = open_file(written, dark=True)
    page = seen.page
    state = (
        "[...document.querySelectorAll('.plot')].map(plot => [plot._fullLayout.paper_bgcolor, plot._fullLayout.width])"
    )
    on_screen = page.evaluate(state)
    pdf = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") <= 8
    assert page.evaluate(state) == on_screen  # as it was before
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(state) == [["#FFFFFF", 690]] * CHARTS
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("details").first.is_hidden()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(state)[0][0] == "#0F131A"


def test_downloaded_from_the_export_page(
    server: str, visit: Callable[..., Visit], open_file: Callable[..., Opened], tmp_path: Path
) -> None:
    seen = visit(f"{server}/export?data=digits")
    seen.page.get_by_role("button", name="Fit SMART").click()
    expect(seen.page.get_by_role("heading", name="SMART has an ECE of")).to_be_visible(timeout=3 * conftest.PATIENCE)
    seen.idle()
    with seen.page.expect_download() as waiting:
        seen.page.get_by_role("button", name="Download report", exact=True).click()
    path = tmp_path / waiting.value.suggested_filename
    assert path.name == "digits-report.html"
    waiting.value.save_as(path)
    assert path.stat().st_size < 6_000_000
    seen.picture("export-forms-1280-light")
    seen.clean()
    opened = open_file(path)
    expect(opened.page.get_by_role("heading", name="Temperature curve")).to_be_visible()
    opened.clean(path)


def test_all_figures_are_one_archive(found: Findings, open_file: Callable[..., Opened], tmp_path: Path) -> None:
    """From the report, and from the page that Export shows in a frame: every figure in four forms."""
    kinds = ("svg", "png", "csv", "json")
    for name, html, button in (
        ("report", report_html(found), "#all-figures"),
        ("figures", figures_html(found, "mine"), "#zip"),
    ):
        path = tmp_path / f"{name}.html"
        path.write_text(html, encoding="utf-8")
        seen = open_file(path)
        with seen.page.expect_download() as download:
            seen.page.locator(button).click()
        assert download.value.suggested_filename == ("figures.zip" if name == "report" else "mine.zip")
        with ZipFile(download.value.path()) as archive:
            assert archive.testzip() is None
            stems = {Path(each).stem for each in archive.namelist()}
            assert sorted(archive.namelist()) == sorted(f"{stem}.{kind}" for stem in stems for kind in kinds)
            assert len(stems) == CHARTS
            for stem in stems:
                assert ElementTree.fromstring(archive.read(f"{stem}.svg")).get("width") == "900"
                width, _ = struct.unpack(">II", archive.read(f"{stem}.png")[16:24])
                assert width == 1800
                rows = list(csv.reader(archive.read(f"{stem}.csv").decode().splitlines()))
                assert len(json.loads(archive.read(f"{stem}.json"))) == len(rows) - 1
        seen.clean(path)
