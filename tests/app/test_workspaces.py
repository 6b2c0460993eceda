"""Workspaces behind the pages: several windows, a restarted server, read-only links, deletion and limits."""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from streamlit.testing.v1 import AppTest

import smart_core as sc
from pages.shared import benchmarks, loading, quick_fit, resume, uploads, workspaces
from pages.shared.jobs import Job, JobList, process_name
from pages.shared.navigation import ORDER
from pages.shared.session import LeaderboardRow, LoadedDataset, Split, row_key
from pages.shared.theory import playground
from smart_core.cli.dashboard import StartupDataset, startup
from smart_core.errors import WorkspaceError
from smart_core.experiments import benchmark as engine_benchmark
from smart_core.export.workspaces import Limits, Store
from tests.app.driver import charts, click, load_own_file, open_page, session_of, settle, text_of
from tests.conftest import ROOT

PAGES = [file.removeprefix("pages/").removesuffix(".py") for file in ORDER]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A server that saves workspaces."""
    made = Store(tmp_path / "workspaces")
    monkeypatch.setattr(startup, "store", made)
    yield made
    made.close()


def restarted(monkeypatch: pytest.MonkeyPatch, store: Store) -> Store:
    """The same folder as a new server finds it: nothing is in memory."""
    store.close()
    workspaces._open.clear()
    made = Store(store.folder, store.limits)
    monkeypatch.setattr(startup, "store", made)
    return made


def window(page: str, id: str = "", **query: str) -> AppTest:
    """Open a page without naming a data set."""
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    for name, value in {**({"workspace": id} if id else {}), **query}.items():
        app.query_params[name] = value
    app.switch_page(f"pages/{page}.py").run()
    assert not app.exception
    return app


def content(store: Store) -> Any:
    """Everything that is saved, but when it was last used."""
    with sqlite3.connect(store.folder / "workspaces.sqlite") as db:
        items = db.execute("SELECT workspace, kind, key, body FROM items ORDER BY 1, 2, 3").fetchall()
        return items, db.execute("SELECT id, name, owner, shared FROM workspaces").fetchall()


@pytest.fixture
def filled(store: Store, tmp_path: Path, fitted_rows: dict[str, LeaderboardRow]) -> AppTest:
    """A window on Compare with a file of the user's own and rows fitted on it."""
    app = load_own_file(open_page("compare"), tmp_path)
    here = session_of(app)
    data = here.datasets["mine"].data
    here.rows.update({row_key(data, id): row for id, row in fitted_rows.items()})
    here.settings["smart"] = {"sigma": 0.5}
    here.splits["digits"] = Split(0.4, 3)
    app.run()
    return app


def test_a_visit_alone_saves_nothing(store: Store) -> None:
    for page in ("start", "diagnose", "compare"):
        open_page(page)
    assert store.entries() == []


def test_a_second_window_sees_the_same_and_its_changes(filled: AppTest) -> None:
    first = session_of(filled)
    second = window("compare", first.id)
    assert session_of(second) is first
    assert second.session_state["data"] == "mine"  # the view that the workspace was left with
    first.settings["smart"] = {"sigma": 0.7}
    assert session_of(second).settings["smart"] == {"sigma": 0.7}


def test_a_restarted_server_brings_everything_back(
    filled: AppTest, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = session_of(filled)
    again = restarted(monkeypatch, store)
    app = window("compare", before.id)
    here = session_of(app)
    assert here is not before
    assert again.find(here.id) is not None
    assert here.datasets["mine"].title == before.datasets["mine"].title
    assert here.datasets["mine"].data.content_hash == before.datasets["mine"].data.content_hash
    assert dict(here.settings) == {"smart": {"sigma": 0.5}}
    assert here.splits["digits"] == Split(0.4, 3)
    assert list(here.rows) == list(before.rows)
    for key, row in before.rows.items():
        assert here.rows[key].result.values == row.result.values
        assert (here.rows[key].seeds, here.rows[key].bins) == (row.seeds, row.bins)
    assert not app.error
    for page in ("diagnose", "export", "margin_groups"):
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception
        assert not app.error


def test_data_sets_are_opened_when_they_are_used(
    filled: AppTest, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = session_of(filled).id
    restarted(monkeypatch, store)
    app = window("guide", id, data="digits")
    own = session_of(app).datasets["mine"]
    assert "data" not in vars(own)  # its title is in the sidebar, its arrays were not opened
    assert own.title in app.selectbox(key="data").options


def test_an_unknown_link_begins_a_new_workspace_and_says_so(store: Store) -> None:
    app = window("guide", "x" * 32)
    assert "is not on this server" in text_of(app)
    assert session_of(app).id != "x" * 32
    app.button(key="dismiss-lost").click().run()
    assert "is not on this server" not in text_of(app)


def test_a_study_is_saved_and_a_job_that_was_interrupted_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch, digits: sc.LogitSet
) -> None:
    app = open_page("sensitivity", sigmas="0.05, 0.5", deltas="0.001, 0.1")
    app.number_input(key="sensitivity-seeds").set_value(1).run()
    click(app, "run-sensitivity")
    here = session_of(app)
    (key,) = here.studies
    study = here.studies[key]
    for values in study.result.metrics.values():
        values[1, 1] = np.nan  # as it was saved when the last cell was missing
    study.result.metrics["ece"][0, 0, 0] = 0.123  # to see that this cell is not computed again
    here.studies[key] = study
    note = {"data": "digits", "settings": study.settings}
    note |= {"title": "Sensitivity", "kind": "sensitivity", "hash": digits.content_hash, "process": os.getpid()}
    here.unfinished["note"] = note
    restarted(monkeypatch, store)
    again = window("guide", here.id)
    assert "Sensitivity" in text_of(again)
    assert "was interrupted when the server stopped" in text_of(again)
    click(again, "resume-0")
    table = session_of(again).studies[key].result
    assert table.metrics["ece"][0, 0, 0] == 0.123
    assert table.full
    assert len(session_of(again).unfinished) == 0


@pytest.fixture
def no_fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that a benchmark fits from now on."""
    fitted: list[str] = []
    original = engine_benchmark.fit_method

    def counted(id: str, *arguments: Any, **options: Any) -> Any:
        fitted.append(id)
        return original(id, *arguments, **options)

    monkeypatch.setattr(engine_benchmark, "fit_method", counted)
    return fitted


def test_a_benchmark_is_there_after_a_restart_and_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch, no_fits: list[str]
) -> None:
    app = open_page("benchmark")
    app.multiselect(key="benchmark-sets").set_value(["digits"])
    app.multiselect(key="benchmark-methods").set_value(["vanilla", "ts"])
    click(app, "run-benchmark")
    here, expected = session_of(app), charts(app)[0]["layout"]["annotations"]
    assert no_fits == ["vanilla", "ts"]
    settings = {**here.studies["benchmark"].settings, "methods": ["vanilla", "ts", "isotonic"]}
    note = {"data": "digits", "settings": settings, "title": "Benchmark", "kind": "benchmark", "process": os.getpid()}
    here.unfinished["note"] = note | {"hash": benchmarks.EVERY_SET}
    restarted(monkeypatch, store)
    again = window("benchmark", here.id)
    assert charts(again)[0]["layout"]["annotations"] == expected
    assert no_fits == ["vanilla", "ts"]
    click(again, "resume-0")
    assert no_fits == ["vanilla", "ts", "isotonic"]
    result = session_of(again).studies["benchmark"].result
    assert (result.methods, result.complete) == (("vanilla", "ts", "isotonic"), True)
    assert result.tied["ece"]["Digits"].keys() == set(result.methods)  # tested against vectors of before
    assert len(session_of(again).unfinished) == 0


def test_a_playground_is_there_after_a_restart_and_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    app = open_page("theory", view="Playground")
    app.select_slider(key="theory-n").set_value(250)
    app.slider(key="theory-seeds").set_value(1)
    app.multiselect(key="theory-methods").set_value(["vanilla", "ts"]).run()
    click(app, "run-playground")
    here, drawn = session_of(app), charts(app)
    ((key, study),) = here.studies.items()
    study.result.error[1, 0, 0], study.result.complete = np.nan, False  # as if the server had stopped before this one
    study.result.error[0, 0, 0] = 0.123  # to see that this cell is not computed again
    here.studies[key] = study
    note = {"data": "digits", "settings": study.settings, "title": "Playground", "kind": "playground"}
    here.unfinished["note"] = note | {"hash": playground.simulator().content_hash, "process": os.getpid()}
    restarted(monkeypatch, store)
    again = window("guide", here.id)
    click(again, "resume-0")
    result = session_of(again).studies[key].result
    assert result.error[0, 0, 0] == 0.123
    assert np.isfinite(result.error).all()
    assert result.complete
    assert len(charts(window("theory", here.id, view="Playground"))) == len(drawn)


def test_a_file_on_the_command_line_is_not_copied(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.npz"
    data = sc.simulate_set(300, 200, classes=3, seed=1)
    np.savez(path, **dict(data.arrays()))
    monkeypatch.setattr(startup, "sets", [StartupDataset(sc.load(path), (str(path),), {})])
    app = window("compare")
    here = session_of(app)
    assert store.entries() == []
    here.datasets.save()
    here.settings["ts"] = {}
    assert not list(store.folder.rglob("*.npy"))
    monkeypatch.setattr(startup, "sets", [])
    restarted(monkeypatch, store)
    app = window("diagnose", here.id)
    (own,) = session_of(app).datasets.values()
    assert own.data.content_hash == data.content_hash
    other = sc.simulate_set(300, 200, classes=3, seed=2)
    np.savez(path, **dict(other.arrays()))
    restarted(monkeypatch, startup.store)  # type: ignore[arg-type]
    app = window("diagnose", here.id, data=data.content_hash[:12])
    assert any("large.npz has changed on the server" in error.value for error in app.error)


def test_a_full_workspace_is_told_and_goes_on_in_memory(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "limits", Limits(workspace=20_000))
    app = load_own_file(open_page("guide"), tmp_path)
    assert "This workspace has reached its limit of 20.0 kB" in text_of(app)
    assert session_of(app).datasets["mine"].data.classes == 10
    assert list(store.folder.rglob("*.npy")) == []


def test_a_deleted_workspace_is_gone_and_its_windows_begin_a_new_one(filled: AppTest, store: Store) -> None:
    here = session_of(filled)
    second = window("export", here.id)
    second.button(key="delete-this-yes").click().run()
    assert not second.exception
    assert session_of(second) is not here
    assert store.entries() == []
    assert not list(store.folder.rglob("*.npy"))
    here.rows["late"] = next(iter(here.rows.values()))  # a job that has not noticed yet
    assert store.entries() == []
    filled.run()
    assert session_of(filled) is not here


def test_workspaces_are_listed_and_named_on_ones_own_machine(
    filled: AppTest, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = session_of(filled).id
    app = window("export", mine)
    app.text_input(key="workspace-name").set_value("Faces").run()
    assert store.entries()[0].name == "Faces"
    fresh = window("start")
    links = [element.proto.url for element in fresh.get("link_button")]
    assert any(mine in link for link in links)
    assert "Continue where you left off" in text_of(fresh)
    monkeypatch.setattr(startup, "access", workspaces.startup.access.__class__("a token of a shared server"))
    stranger = window("start")
    assert not stranger.get("link_button")


@pytest.fixture
def shared(filled: AppTest, store: Store) -> str:
    return workspaces.share(session_of(filled))


@pytest.mark.parametrize("page", PAGES)
def test_a_read_only_link_changes_nothing_whatever_is_clicked(
    page: str, filled: AppTest, shared: str, store: Store
) -> None:
    """Every button of the page is pressed, as a client that sends its messages could do."""
    id, before = session_of(filled).id, content(store)
    app = window(page, shared=shared)
    assert "Read-only view" in text_of(app)
    drawn = {button.key for button in app.button}
    keys = [button.key for button in app.button if not button.disabled and button.key not in ("next-page", "open-file")]
    for key in keys:
        app.button(key=key).click().run()
        assert not app.exception, key
        if {button.key for button in app.button} != drawn:
            app = window(page, shared=shared)
    assert content(store) == before
    assert not any(job.active for job in session_of(filled).jobs)
    assert id not in str(app.main) + str(app.sidebar)
    assert id not in str(app.query_params)


def test_a_read_only_link_refuses_at_the_data_itself(filled: AppTest, shared: str, store: Store) -> None:
    app = window("compare", shared=shared)
    view, here, before = session_of(app), session_of(filled), content(store)
    assert view.original is here
    row = next(iter(here.rows.values()))
    app.session_state["data"] = "mine"
    for name, part in list(vars(view).items()):
        if name in (
            "datasets",
            "splits",
            "fits",
            "rows",
            "settings",
            "studies",
            "choices",
            "unfinished",
            "before_cell",
        ):
            kept = list(part)
            part["new"] = row
            for key in kept:
                part.pop(key)
            part.update({"other": row})
            part.clear() if not kept else None
            assert list(part) == kept
    assert content(store) == before
    assert here.jobs.active() is None


def test_a_read_only_link_offers_no_raw_logits(filled: AppTest, shared: str) -> None:
    app = window("export", shared=shared, data="mine")
    keys = {element.proto.id for element in app.get("download_button")}
    assert not [key for key in keys if "export-workspace" in key]
    assert not [toggle for toggle in app.toggle if toggle.key == "export-full"]
    assert "does not offer the workspace as a file" in text_of(app)


def test_a_withdrawn_link_opens_nothing(filled: AppTest, shared: str) -> None:
    app = window("compare", shared=shared)
    workspaces.withdraw(session_of(filled))
    app.run()
    assert session_of(app).original is None
    assert "mine" not in session_of(app).datasets
    assert "is not on this server" in text_of(window("compare", shared=shared))
    assert workspaces.share(session_of(filled)) != shared


def test_saved_workspaces_are_not_offered_as_files(store: Store, tmp_path: Path, filled: AppTest) -> None:
    (tmp_path / "plain.npz").write_bytes(b"x")
    assert [name for name in uploads.server_files(tmp_path) if "/" in name] == []
    inside = next(store.folder.rglob("*.npy")).relative_to(tmp_path).as_posix()
    with pytest.raises(sc.LogitFileError, match="no such file"):
        uploads.server_file(tmp_path, inside)


def test_uploads_of_all_sessions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_UPLOADED_IN_ALL", 250)
    kept = uploads.LimitedUploads("/upload")
    for number in range(4):
        kept.add_file(f"session {number}", UploadedFileRec(f"file {number}", "x.npz", "", b"x" * 100))
    assert [len(kept.get_files(f"session {n}", [f"file {n}"])) for n in range(4)] == [1, 1, 0, 0]


def test_links_work_without_a_store(tmp_path: Path) -> None:
    app = load_own_file(open_page("compare"), tmp_path)
    here = session_of(app)
    assert session_of(window("compare", here.id)) is here
    link = workspaces.share(here)
    assert workspaces.share(here) == link
    view = session_of(window("compare", shared=link))
    assert list(view.datasets) == ["mine"]
    view.datasets["new"] = LoadedDataset(here.datasets["mine"].data, "x", {})
    assert list(here.datasets) == ["mine"]
    workspaces.delete(here.id)
    assert workspaces.find_shared(link) is None


def test_a_workspace_in_memory_ends_with_its_windows(tmp_path: Path) -> None:
    app = load_own_file(open_page("guide"), tmp_path)
    id = session_of(app).id
    del app
    gc.collect()
    assert workspaces._open.get(id) is None


def overwrite_logits(store: Store) -> int:
    """Make every saved logit NaN, and return how many files were changed."""
    changed = 0
    for path in store.folder.rglob("*.npy"):
        array = np.load(path, mmap_mode="r+")
        if array.dtype == np.float32 and array.ndim == 2:
            array[:] = np.nan
            array.flush()
            changed += 1
    return changed


def test_a_page_that_was_open_before_opens_without_reading_the_logits(
    filled: AppTest, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, said = session_of(filled).id, {}
    for page in ("start", "diagnose"):
        app = settle(window(page, id, data="mine"))
        said[page] = [line.value for line in app.markdown if line.value.startswith("####")]
        assert said[page]
    restarted(monkeypatch, store)
    assert overwrite_logits(store) == 2
    for page, sentences in said.items():
        app = window(page, id, data="mine")
        assert [line.value for line in app.markdown if line.value.startswith("####")] == sentences
        assert not app.error


STUDIES = {
    "compare": ("compare", "fit-recommended", {}),
    "sensitivity": ("sensitivity", "run-sensitivity", {"sigmas": "0.05, 0.5"}),
    "objectives": ("ablation", "run-objectives", {}),
    "indicators": ("ablation", "run-indicators", {}),
    "efficiency": ("ablation", "run-efficiency", {}),
    "traces": ("ablation", "run-traces", {}),
    "shift": ("shift", "run-shift", {"data": "digits_corrupted"}),
    "attack": ("hardness", "run-attack", {}),
    "smart on entropy": ("temperature", "fit-curve", {}),
}
"""Kind of a job -> the page that starts it, the button, and the query of the page."""


@pytest.mark.parametrize("kind", STUDIES)
def test_every_kind_of_job_goes_on_after_a_restart(kind: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is noted, but does not run, is what a stopped server leaves: the same one is started again."""
    started: list[Any] = []

    def start(jobs: JobList, title: str, work: Any, *, kind: str, data_hash: str, note: Any = None, **_: Any) -> Job:
        if note is not None:
            started.append((title, kind, data_hash, json.loads(json.dumps(note))))
            about = {"title": title, "kind": kind, "hash": data_hash, "process": process_name()}
            jobs._notes[f"{kind} {data_hash}"] = {**about, **note}
        return Job(title, kind, data_hash, state="cancelled")

    monkeypatch.setattr(JobList, "start", start)
    page, button, query = STUDIES[kind]
    app = open_page(page, **query)
    if page == "temperature":
        app.selectbox(key="indicator").set_value(kind.rpartition(" ")[2]).run()
    app.button(key=button).click().run()
    assert [each[1] for each in started] == [kind]
    id = session_of(app).id
    restarted(monkeypatch, store)
    again = window("guide", id)
    assert "was interrupted when the server stopped" in text_of(again)
    click(again, "resume-0")
    assert not again.exception
    assert started == 2 * started[:1]


def test_a_job_of_a_process_that_is_gone_was_interrupted() -> None:
    """Also where another process has its number by now."""
    parent = process_name(os.getppid())
    assert resume._runs(parent)
    assert not resume._runs(f"{os.getppid()} 1")
    assert not resume._runs(process_name())
    gone = subprocess.Popen([sys.executable, "-c", ""])
    name = process_name(gone.pid)
    gone.wait()
    assert not resume._runs(name)


@pytest.mark.parametrize(("button", "method"), [("delete-this-yes", "delete"), ("unshare", "unshare")])
def test_a_click_that_cannot_be_saved_is_told(
    button: str, method: str, filled: AppTest, shared: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise WorkspaceError("The workspace could not be saved: the server's disk is full; make room, then try again.")

    id, before = session_of(filled).id, content(store)[1]
    monkeypatch.setattr(store, method, full)
    monkeypatch.setattr(store, "touch", full)
    app = window("export", id)
    app.button(key=button).click().run()
    assert not app.exception
    assert [toast.value.replace("\\", "") for toast in app.toast] == [
        "The workspace could not be saved: the server's disk is full; make room, then try again."
    ]
    assert session_of(app) is session_of(filled)
    assert content(store)[1] == before


def test_start_is_drawn_before_its_sample_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    go, fit = threading.Event(), quick_fit._fit

    def slow(*arguments: Any) -> None:
        go.wait(60)
        fit(*arguments)

    monkeypatch.setattr(quick_fit, "PATIENCE", 0.0)
    monkeypatch.setattr(quick_fit, "_of_samples", {})
    monkeypatch.setattr(quick_fit, "_fit", slow)
    app = open_page("start")
    assert "SMART is being fitted on the validation part" in text_of(app)
    assert "Before calibration" in text_of(app)
    assert len(session_of(app).jobs) == 0
    go.set()
    (future,) = quick_fit._of_samples.values()
    future.result(60)
    app.run()
    assert "After SMART, fitted on the validation part" in text_of(app)


def test_a_sample_that_cannot_be_fitted_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(quick_fit, "_of_samples", {})
    with monkeypatch.context() as patch:
        patch.setattr(quick_fit, "_fit", broken)
        assert "Unexpected error on this page (MemoryError)" in text_of(open_page("start"))
    assert "After SMART, fitted on the validation part" in text_of(open_page("start"))


def test_a_long_parameter_of_a_url_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    loads = loading.json.loads
    monkeypatch.setattr(loading.json, "loads", lambda text: seen.append(len(text)) or loads(text))
    app = window("guide", data="0123456789ab", read='{"labels_start_at":0}' + " " * 10_000_000)
    assert not app.error
    assert max(seen, default=0) < 1_000_000


def test_no_click_is_lost_when_another_window_changes_something(
    filled: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It changes between the start of the run of a click and the page that the click is for."""
    here = session_of(filled)
    once = iter([("smart", {"sigma": 0.6})])
    monkeypatch.setattr(resume, "draw", lambda: here.settings.update(once))
    started = len(here.jobs)
    click(filled, "fit-selected")
    assert len(here.jobs) == started + 1
