"""What every page shares: jobs, the session, the URL, the sidebar and escaped text."""

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
from pages.shared.session import Session
from smart_core.errors import SmartError
from smart_core.export.workspaces import BoundedDict
from smart_core.progress import Run
from tests.app.driver import open_page


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.01)


# -- jobs ------------------------------------------------------------------------------------------------------


def looping(run: Run) -> None:
    while True:
        run.tick(0.5, "half way")
        time.sleep(0.005)


def test_a_job_reports_progress_and_ends() -> None:
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
def test_a_failed_job_gives_the_reason(error: Exception, reason: str) -> None:
    def work(run: Run) -> None:
        raise error

    job = JobList().start("Fail", work, kind="k", data_hash="x")
    until(lambda: not job.active)
    assert job.state == "failed"
    assert reason in job.error


def test_a_job_replaces_an_active_one_of_the_same_kind() -> None:
    jobs = JobList()
    first = jobs.start("Loop", looping, kind="k", data_hash="x")
    other = jobs.start("Loop", looping, kind="k", data_hash="y")
    second = jobs.start("Loop", looping, kind="k", data_hash="x")
    until(lambda: first.state == "cancelled")
    assert other.active
    assert second.active
    for job in (other, second):
        job.cancel.set()


def test_jobs_are_cancelled_when_their_session_is_gone() -> None:
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


def test_jobs_start_in_the_order_of_the_queue() -> None:
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


def test_a_job_cancelled_in_the_queue_does_not_block_it() -> None:
    queue, gone = JobQueue(1), threading.Event()
    assert queue.acquire(threading.Event())
    gone.set()
    assert not queue.acquire(gone)
    queue.release()
    assert queue.acquire(threading.Event())


def test_the_remaining_time_is_extrapolated_from_the_progress() -> None:
    job = Job("Work", "k", "x", state="running", fraction=0.25, started=time.monotonic() - 10)
    assert job.remaining() == pytest.approx(30, abs=1)
    job.fraction = 0.001
    assert job.remaining() is None


# -- session ------------------------------------------------------------------------------------------------------


def test_a_full_dictionary_drops_the_oldest_entry_and_counts_assignments() -> None:
    shelf: BoundedDict[int] = BoundedDict(3)
    for number, name in enumerate("abcd"):
        shelf[name] = number
    assert dict(shelf) == {"b": 1, "c": 2, "d": 3}
    assert shelf.version == 4
    shelf["d"] = 9
    assert (shelf["d"], shelf.version, len(shelf)) == (9, 5, 3)


# -- the URL ------------------------------------------------------------------------------------------------------


def link(app: AppTest) -> dict[str, list[str]]:
    """The parameters of the link to the view, without the workspace's id."""
    query = parse_qs(urlsplit(app.sidebar.code[0].value).query)
    (id,) = query.pop("workspace")
    assert id == app.session_state["session"].id
    return query


def test_metric_bins_and_split_are_read_from_and_written_to_the_url() -> None:
    app = open_page("guide", metric="adaece", bins="20", split="0.25-7")
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
def test_invalid_parameters_of_the_url_are_dropped(query: dict[str, str]) -> None:
    app = open_page("start", **query)  # where the split has its controls
    assert not app.error
    assert link(app) == {"data": ["digits"]}
    assert app.slider(key="bins").value == 15


def test_controls_keep_their_values_on_every_page() -> None:
    app = open_page("guide")
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


def test_the_sidebar_shows_the_sizes_of_both_parts() -> None:
    with np.load(sample_logits.path("digits")) as bundle:
        sizes = [f"fitted on **{len(bundle['val_labels']):,}**", f"tested on **{len(bundle['test_labels']):,}**"]
    app = open_page("guide")
    for lines in (app.sidebar.markdown, app.main.caption):  # the second where the sidebar is collapsed
        assert any(all(size in line.value for size in sizes) for line in lines)


def test_a_link_to_an_unknown_file_leads_to_start_and_can_be_dismissed() -> None:
    app = open_page("diagnose", "0123456789ab", bins="20")
    assert app.title[0].value == "Start"
    assert app.slider(key="bins").value == 20
    app.button(key="start-never-mind").click().run()
    assert not [line for line in app.markdown if "This link needs a file that is not in this workspace" in line.value]
    assert "awaited" not in app.session_state


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"labels_start_at": 1},
        {"values": "logits", "transposed": False},
        {"roles": {"labels": "f.npz:a", "features": None}},
    ],
)
def test_options_are_restored_from_the_url(options: dict[str, Any]) -> None:
    assert loading.from_url(loading.to_url(options)) == options


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "3", '{"values": "pickle"}', '{"labels_start_at": true}', '{"name": "x"}', '{"roles": []}',
             "[" * 100_000]
)  # fmt: skip
def test_invalid_options_of_the_url_are_dropped(text: str) -> None:
    assert loading.from_url(text) == {}


# -- jobs in the sidebar ------------------------------------------------------------------------------------------


def test_a_job_is_shown_and_can_be_cancelled_on_every_page() -> None:
    app = open_page("guide")
    job = app.session_state["session"].jobs.start("Count *all* stars", looping, kind="k", data_hash="x")
    until(lambda: job.fraction == 0.5)
    app.run()
    assert any(line.value == f"**{plain_text('Count *all* stars')}**" for line in app.sidebar.markdown)
    app.switch_page("pages/export.py").run()
    app.button(key="job-0-cancel").click().run()
    until(lambda: not job.active)
    app.run()
    assert any("cancelled" in line.value for line in app.sidebar.caption)


def test_a_page_opened_after_new_results_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_page("guide")
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

    app = open_page("guide")
    job = app.session_state["session"].jobs.start("Count", work, kind="k", data_hash="x")
    until(lambda: not job.active)
    app.run()
    assert any("There were no stars." in box.value for box in app.sidebar.error)


# -- text from files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["**b**", "[x](http://y)", "<img src=x>", "$x$", ":red[x]", "# h", "a|b", "`c`", "~~s~~"]
)
def test_plain_text_escapes_markdown(text: str) -> None:
    shown = plain_text(text)
    marks = [index for index, letter in enumerate(shown) if letter in "*[]<>$:#|`~"]
    assert marks
    assert all(shown[index - 1] == "\\" for index in marks)
    assert shown.replace("\\", "") == text
