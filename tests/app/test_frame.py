"""The frame around every page: jobs, the session, the address, and the sidebar that says what is in view."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import sample_logits
from pages.shared import loading, urls
from pages.shared.components import plain_text
from pages.shared.jobs import Job, JobList, JobQueue
from pages.shared.session import BoundedDict, Session
from smart_core.errors import SmartError
from smart_core.progress import Run
from tests.conftest import ROOT


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


# -- jobs ------------------------------------------------------------------------------------------------------


def looping(run: Run) -> None:
    while True:
        run.tick(0.5, "half way")
        time.sleep(0.005)


def test_a_job_reports_and_ends() -> None:
    jobs, gate = JobList(), threading.Event()

    def work(run: Run) -> None:
        run.tick(0.25, "a quarter")
        gate.wait(20)

    job = jobs.start("Work", work, kind="compare", data_hash="x")
    until(lambda: job.message == "a quarter")
    assert (job.state, job.fraction) == ("running", 0.25)
    assert jobs.active() is job
    assert jobs.active("compare", "x") is job
    assert jobs.active("sensitivity") is None
    gate.set()
    until(lambda: not job.active)
    assert job.state == "done"
    assert jobs.latest("compare", "x") is job


def test_a_cancelled_job_stops() -> None:
    job = JobList().start("Loop", looping, kind="k", data_hash="x")
    until(lambda: job.state == "running")
    job.cancel.set()
    until(lambda: not job.active)
    assert job.state == "cancelled"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(SmartError("The file is gone."), "The file is gone."), (ZeroDivisionError("oh"), "ZeroDivisionError: oh")],
)
def test_a_failed_job_says_why(error: Exception, reason: str) -> None:
    def work(run: Run) -> None:
        raise error

    job = JobList().start("Fail", work, kind="k", data_hash="x")
    until(lambda: not job.active)
    assert job.state == "failed"
    assert reason in job.error


def test_the_same_work_asked_for_again_replaces_the_first() -> None:
    jobs = JobList()
    first = jobs.start("Loop", looping, kind="k", data_hash="x")
    other = jobs.start("Loop", looping, kind="k", data_hash="y")
    second = jobs.start("Loop", looping, kind="k", data_hash="x")
    until(lambda: first.state == "cancelled")
    assert other.active
    assert second.active
    for job in (other, second):
        job.cancel.set()


def test_a_session_that_is_gone_computes_no_more() -> None:
    session = Session()
    rows = session.rows

    def work(run: Run) -> None:
        rows.get("nothing")
        looping(run)

    job = session.jobs.start("Loop", work, kind="k", data_hash="x")
    gone = weakref.ref(session.jobs)
    until(lambda: job.state == "running")
    del session
    gc.collect()
    assert gone() is None
    until(lambda: job.state == "cancelled")


def test_places_are_given_in_order() -> None:
    queue, order = JobQueue(1), []
    assert queue.acquire(threading.Event())

    def stand(name: str) -> None:
        queue.acquire(threading.Event())
        order.append(name)
        queue.release()

    threads = []
    for name in "abc":
        threads.append(threading.Thread(target=stand, args=(name,)))
        threads[-1].start()
        until(lambda: len(queue._waiting) == len(threads))
    queue.release()
    for thread in threads:
        thread.join(10)
    assert order == list("abc")


def test_who_is_cancelled_while_waiting_lets_the_next_one_in() -> None:
    queue, gone = JobQueue(1), threading.Event()
    assert queue.acquire(threading.Event())
    gone.set()
    assert not queue.acquire(gone)
    queue.release()
    assert queue.acquire(threading.Event())


def test_time_left_goes_by_the_share_done() -> None:
    job = Job("Work", "k", "x", state="running", fraction=0.25, started=time.monotonic() - 10)
    assert job.remaining() == pytest.approx(30, abs=1)
    job.fraction = 0.001
    assert job.remaining() is None


# -- session ------------------------------------------------------------------------------------------------------


def test_a_full_shelf_forgets_the_oldest_and_counts_what_came() -> None:
    shelf: BoundedDict[int] = BoundedDict(3)
    for number, name in enumerate("abcd"):
        shelf[name] = number
    assert dict(shelf) == {"b": 1, "c": 2, "d": 3}
    assert shelf.version == 4
    shelf["d"] = 9
    assert (shelf["d"], shelf.version, len(shelf)) == (9, 5, 3)


# -- the address -------------------------------------------------------------------------------------------------


def open_app(page: str | None = None, **query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    if page is not None:
        app.switch_page(f"pages/{page}.py").run()
    assert not app.exception
    return app


def link(app: AppTest) -> dict[str, list[str]]:
    (code,) = app.sidebar.code
    return parse_qs(urlsplit(code.value).query)


def test_metric_bins_and_split_come_from_the_address_and_go_into_it() -> None:
    app = open_app("guide", data="digits", metric="adaece", bins="20", split="0.25-7")
    assert app.selectbox(key="metric").value == "adaece"
    assert app.slider(key="bins").value == 20
    assert any("seed 7" in line.value for line in app.sidebar.caption)
    assert link(app) == {"data": ["digits"], "metric": ["adaece"], "bins": ["20"], "split": ["0.25-7"]}
    app.slider(key="bins").set_value(15).run()
    app.selectbox(key="metric").set_value("ece").run()
    assert link(app) == {"data": ["digits"], "split": ["0.25-7"]}


@pytest.mark.parametrize(
    "query",
    [
        {"metric": "accuracyy"},
        {"bins": "4"},
        {"bins": "51"},
        {"bins": "x"},
        {"bins": "²"},
        {"split": "1.5-0"},
        {"split": "0.5"},
        {"split": "nan-0"},
        {"split": "0.5--3"},
        {"bins": "9" * 5000},
        {"split": "0.5-2147483648"},
        {"split": "0.5-" + "9" * 5000},
        {"split": "0.5-99999999999999999999"},
        {"split": "0.999-1"},
        {"read": "{"},
    ],
)
def test_nonsense_in_the_address_is_dropped(query: dict[str, str]) -> None:
    app = open_app("start", data="digits", **query)  # where the split has its controls
    assert not app.error
    assert link(app) == {"data": ["digits"]}
    assert app.slider(key="bins").value == 15


def test_controls_keep_their_values_on_every_page() -> None:
    app = open_app("guide", data="digits")
    app.slider(key="bins").set_value(12).run()
    app.selectbox(key="metric").set_value("nll").run()
    other = next(key for key in app.selectbox(key="data").options if key != "Digits")
    app.selectbox(key="data").select(other).run()
    chosen = app.selectbox(key="data").value
    for page in ("export", "start", "guide"):
        app.switch_page(f"pages/{page}.py").run()
        assert app.selectbox(key="data").value == chosen
        assert app.selectbox(key="metric").value == "nll"
        assert app.slider(key="bins").value == 12
    app.button(key="next-page").click().run()
    assert app.selectbox(key="data").value == chosen
    assert app.slider(key="bins").value == 12


def test_the_sidebar_says_on_how_many() -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        sizes = [f"fitted on **{len(bundle['val_labels']):,}**", f"tested on **{len(bundle['test_labels']):,}**"]
    app = open_app("guide", data="digits")
    for lines in (app.sidebar.markdown, app.main.caption):  # the second where the sidebar is collapsed
        assert any(all(size in line.value for size in sizes) for line in lines)


def test_a_link_to_what_is_not_here_leads_to_start_and_can_be_forgotten() -> None:
    app = open_app(data="0123456789ab", bins="20")
    assert app.title[0].value == "Start"
    assert app.slider(key="bins").value == 20
    app.button(key="start-never-mind").click().run()
    assert not [line for line in app.markdown if "This link needs a file that is not loaded" in line.value]
    assert app.session_state["session"].awaited_key is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"labels_start_at": 1},
        {"values": "logits", "transposed": False},
        {"roles": {"labels": "f.npz:a", "features": None}},
    ],
)
def test_options_survive_an_address(options: dict[str, Any]) -> None:
    assert loading.from_url(loading.to_url(options)) == options


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "3", '{"values": "pickle"}', '{"labels_start_at": true}', '{"name": "x"}', '{"roles": []}',
             "[" * 100_000]
)  # fmt: skip
def test_options_of_a_foreign_address_are_dropped(text: str) -> None:
    assert loading.from_url(text) == {}


# -- the jobs ------------------------------------------------------------------------------------------------------


def test_a_job_is_shown_with_its_progress_and_cancelled_from_any_page() -> None:
    app = open_app("guide", data="digits")
    job = app.session_state["session"].jobs.start("Count *all* stars", looping, kind="k", data_hash="x")
    until(lambda: job.fraction == 0.5)
    app.run()
    assert any(line.value == f"**{plain_text('Count *all* stars')}**" for line in app.sidebar.markdown)
    app.switch_page("pages/export.py").run()
    app.button(key="job-0-cancel").click().run()
    until(lambda: not job.active)
    app.run()
    assert any("cancelled" in line.value for line in app.sidebar.caption)


def test_a_page_that_opens_on_news_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_app("guide", data="digits")
    job = app.session_state["session"].jobs.start("Wink", lambda run: None, kind="k", data_hash="x")
    until(lambda: not job.active)
    app.run()
    runs, read = [], urls.read
    monkeypatch.setattr(urls, "read", lambda page: (runs.append(page.title), read(page)))
    app.session_state["session"].rows.version += 1
    app.switch_page("pages/export.py").run()
    assert app.title[0].value == "Export"
    assert runs.count("Export") == 1


def test_a_failed_job_is_shown_with_its_reason() -> None:
    def work(run: Run) -> None:
        raise SmartError("There were no stars.")

    app = open_app("guide", data="digits")
    job = app.session_state["session"].jobs.start("Count", work, kind="k", data_hash="x")
    until(lambda: not job.active)
    app.run()
    assert any("There were no stars." in box.value for box in app.sidebar.error)


# -- text from files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["**b**", "[x](http://y)", "<img src=x>", "$x$", ":red[x]", "# h", "a|b", "`c`", "~~s~~"]
)
def test_plain_text_escapes_what_markdown_would_read(text: str) -> None:
    shown = plain_text(text)
    marks = [index for index, letter in enumerate(shown) if letter in "*[]<>$:#|`~"]
    assert marks
    assert all(shown[index - 1] == "\\" for index in marks)
    assert shown.replace("\\", "") == text
