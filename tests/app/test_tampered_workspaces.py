"""A workspace changed in any one place is refused with one sentence, or every page still works with it."""

from __future__ import annotations

import ast
import logging
from itertools import islice
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.shared import workspace
from pages.shared.navigation import ORDER
from pages.shared.session import Session
from smart_core.data import sandbox
from smart_core.errors import WorkspaceError
from smart_core.experiments.results import Result
from smart_core.figures import seed_table_heatmap, sensitivity_heatmap, shift_heatmap
from tests.app import tampering
from tests.conftest import ROOT, long_but

EVERY = 23
"""Of the tampered workspaces, `make test` tries one in so many; `make soak` tries all."""

PAGES = {
    "view": ("start", "diagnose"),
    "sets": ("start", "diagnose", "margin_groups", "hardness", "shift"),
    "fits": ("compare", "sensitivity"),
    "studies/rows": ("compare", "export"),
    "studies/study #/sens": ("sensitivity", "export"),
    "studies/study #/shift": ("shift",),
    "studies/study #/smart": ("temperature",),
    "studies/study": ("ablation",),
    "calibrators": ("temperature", "export"),
    "evaluations": ("compare", "margin_groups", "temperature"),
    "arrays": ("compare", "ablation"),
}
"""What was changed -> the pages that show it."""


def restored(case: tampering.Tampered) -> Session | None:
    """The session, or None if the file is refused, with one sentence."""
    here, sentence = Session(), None
    try:
        workspace.restore(case.content, here)
    except WorkspaceError as error:
        sentence = str(error)
    if sentence is None:
        return here
    assert "\n" not in sentence, case.where
    assert sentence.endswith("."), case.where
    assert len(sentence) < 700, case.where
    assert not here.datasets, case.where
    return None


def assert_pages_work(here: Session, where: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every page that shows what was changed draws it, or says one sentence about it."""
    for page in next((pages for start, pages in PAGES.items() if where.startswith(start)), ()):
        app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
        app.session_state["session"] = here
        app.query_params["data"] = next(iter(here.datasets), "digits")
        with caplog.at_level(logging.ERROR, "smart"):
            app.switch_page(f"pages/{page}.py").run()
        assert not app.exception, (where, page)
        assert not [box.value for box in app.error if "Unexpected" in box.value], (where, page, caplog.text)
        for code in app.code:
            code.value.encode()


def assert_results_can_be_told(here: Session, where: str) -> None:
    for study in here.studies.values():
        if isinstance(study.result, Result):
            study.result.to_json()
            study.result.to_frame()
        name = type(study.result).__name__
        draw: Any = {"SeedTable": seed_table_heatmap, "Sensitivity": sensitivity_heatmap, "Shift": shift_heatmap}
        if name in draw:
            assert draw[name](study.result, "ece").figure is not None, where


def test_the_workspace_itself_is_restored() -> None:
    here = restored(tampering.Tampered("nothing", tampering.content))
    assert here is not None
    assert [len(held) for held in (here.datasets, here.rows, here.fits, here.studies)] == [1, 4, 6, 7]


@pytest.mark.parametrize("step", long_but("some")(("some", "all")))
@pytest.mark.parametrize("kind", ["manifests", "arrays"])
def test_every_change_is_refused_or_harmless(
    kind: str, step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Parsed in this process: thousands of forks would prove nothing more."""
    monkeypatch.setattr(sandbox, "available", lambda: False)
    tried = accepted = 0
    for case in islice(getattr(tampering, kind)(), 0, None, EVERY if step == "some" else 1):
        tried += 1
        here = restored(case)
        if here is not None:
            accepted += 1
            if case.where.startswith("studies"):  # the others hold what they held before
                assert_results_can_be_told(here, case.where)
            if step == "all" or accepted % 4 == 0:
                assert_pages_work(here, case.where, caplog)
    assert tried >= 40
    assert 0 < accepted < tried / 2


TITLE = "\ud800"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("view", "held", "#", "title"), TITLE),
        (("view", "held", "#", "title"), ["x"]),
        (("sets", 0, "name"), TITLE),
        (("view", "held", "#", "options"), {"roles": {TITLE: "x"}}),
        (("view", "splits", "#"), [0.05, -1]),
        (("studies", "rows", "#/ts", "bins"), 0),
        (("studies", "rows", "#/ts", "seeds"), "many"),
        (("studies", "rows", "#/ts", "seeds"), 10**6),
    ],
)
def test_what_broke_every_page_is_refused(path: tuple[Any, ...], value: Any) -> None:
    """In a process of its own."""
    assert restored(tampering.with_value(path, value)) is None


MARK = "InjectedByTheFile"
HOSTILE = (
    f'x"); {MARK}(); ("',
    f"x'); {MARK}(); ('",
    f"x\n{MARK}()",
    f"{{{MARK}()}}",
    f'"""{MARK}()',
    f"\u202e{MARK}()\u2066",
    f"x\\{MARK}\u2028",
)
"""Names that would be code if they were not quoted; two of them change how a line is shown. The names of
downloaded files are in lower case, so they do not hold the mark."""


def shown_code(here: Session, page: str) -> list[str]:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    app.session_state["session"] = here
    app.query_params["data"] = next(iter(here.datasets))
    app.switch_page(f"pages/{page}.py").run()
    assert not app.exception
    return [code.value for code in app.code if code.language == "python"]


@pytest.mark.parametrize("page", [file.removeprefix("pages/").removesuffix(".py") for file in ORDER])
def test_names_from_a_file_are_shown_as_literals(page: str) -> None:
    """In the Python of each page, hostile names of a workspace stand inside string literals, or not at all."""
    here = restored(tampering.hostile(HOSTILE))
    assert here is not None
    (own,) = here.datasets.values()
    assert ast.literal_eval(own.call.partition("test=")[2].partition(", labels_start_at")[0]) == list(HOSTILE)
    codes = shown_code(here, page)
    assert codes
    for code in codes:
        assert code.replace("\n", "").isprintable()
        for node in ast.walk(ast.parse(code)):
            named = [value for value in vars(node).values() if isinstance(value, str)]
            assert isinstance(node, ast.Constant) or not any(MARK in name for name in named)


def test_the_call_in_an_earlier_file_is_not_shown() -> None:
    """Earlier versions saved the call that loads a data set; it is built again from names and options."""
    held = {"title": "mine", "call": f"{MARK}()", "options": {"labels_start_at": 0, MARK: 1, "values": f"{MARK}()"}}
    here = restored(tampering.with_value(("view", "held", "#"), held))
    assert here is not None
    (own,) = here.datasets.values()
    assert own.call == 'sc.load("mine", labels_start_at=0)'
    assert not any(MARK in code for code in shown_code(here, "start"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("view", "settings"), {"smart": {f"x=1, y={MARK}()": 1}}),
        (("view", "settings"), {"smart": {"indicator": f"{MARK}()"}}),
        (("studies", "rows", "#/ts", "settings"), {f"x=1, y={MARK}()": 1}),
        (("studies", "rows", "#/ts", "settings"), {"objective": f"{MARK}()"}),
        (("studies", "rows", "#/ts", "result", "fields", "id"), f"ts{MARK}"),
        (("view", "held", "#", "files"), {f"{MARK}(), whole": ["x.npz"]}),
    ],
)
def test_names_of_arguments_and_methods_are_known_ones(path: tuple[Any, ...], value: Any) -> None:
    assert restored(tampering.with_value(path, value)) is None


def test_an_error_in_the_sidebar_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.shared.sidebar._data_set", lambda: 1 / 0)
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    app.switch_page("pages/guide.py").run()
    assert not app.exception
    assert "Unexpected error on this page (ZeroDivisionError)" in app.error[0].value
