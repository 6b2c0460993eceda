"""Faults of the system: a full disk at any point of a save, and jobs that raise any exception."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smart_core as sc
from pages.shared import jobs
from pages.shared.components import plain_text
from pages.shared.jobs import Job, JobList
from smart_core.cli import main
from smart_core.data import saving
from smart_core.data.saving import save_bundle
from smart_core.data.simulate import simulate
from smart_core.errors import CalibrationError, Cancelled, SmartError
from smart_core.export.probabilities import save_probabilities
from smart_core.export.workspace import Workspace, load_workspace, save_workspace
from tests.app.driver import open_page, wait
from tests.conftest import COUNTED, ROOT


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    drawn = simulate(400, 4, seed=2)
    return sc.LogitSet(
        "faulty",
        sc.data.Part(drawn.logits[:200], drawn.labels[:200]),
        sc.data.Part(drawn.logits[200:], drawn.labels[200:]),
    )


# -- a full disk --------------------------------------------------------------------------------------------


class Disk:
    """A disk that is full after so many calls that touch it: every write, flush, sync, change of mode and rename."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room, self.calls = room, 0
        original = Path.open

        class Handle(io.BufferedWriter):
            write = self.watched(io.BufferedWriter.write)
            flush = self.watched(io.BufferedWriter.flush)

        def opened(path: Path, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if mode != "xb":
                return original(path, mode, *arguments, **named)
            self.spend()
            return Handle(io.FileIO(path, "x"))

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(saving.os, "fsync", self.watched(os.fsync))
        monkeypatch.setattr(Path, "chmod", self.watched(Path.chmod))
        monkeypatch.setattr(Path, "replace", self.watched(Path.replace))

    def spend(self) -> None:
        self.calls += 1
        if self.calls > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.spend()
            return function(*arguments, **named)

        return call


def test_a_disk_that_fills_up_at_any_point_of_a_save_leaves_the_old_workspace(
    data: sc.LogitSet, tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    path = tmp_path / "kept.zip"
    save_workspace(path, Workspace({"turn": 1}, [data]))
    old = path.read_bytes()
    points = 0
    for room in range(10_000):
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(patch, room)
            try:
                save_workspace(path, Workspace({"turn": 2}, [data]))
                break
            except SmartError as error:  # anything else would be a traceback
                said = str(error)
        points += 1
        assert disk.calls > room
        assert path.read_bytes() == old, f"the old file was touched at call {room}"
        assert list(tmp_path.iterdir()) == [path], f"something was left behind at call {room}"
        assert os.strerror(errno.ENOSPC) in said
        assert said.count("\n") == 0
    record_property(COUNTED, ["faults: points of a save at which the disk was full", points])
    assert points > 20, "the save touched the disk fewer times than it has parts"
    assert load_workspace(path).view == {"turn": 2}


@pytest.mark.counts("faults: the file system refused a larger file")
def test_a_limit_of_the_system_itself_leaves_the_old_workspace(tmp_path: Path) -> None:
    """The same with the real file system, which refuses to let a file grow."""
    path = tmp_path / "kept.zip"
    save_workspace(path, Workspace({"turn": 1}))
    old = path.read_bytes()
    code = f"""
import resource, signal
import numpy as np
import smart_core as sc
from smart_core.errors import WorkspaceError
from smart_core.export.workspace import Workspace, save_workspace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
noise = np.random.default_rng(0).standard_normal(500_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    save_workspace({str(path)!r}, Workspace({{}}, [], {{}}, {{"noise": noise}}))
except WorkspaceError as error:
    print("said:", error)
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert found.stderr == ""
    assert found.stdout.startswith("said: ")
    assert found.stdout.count("\n") == 1
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["calibrator", "probabilities"])
def test_existing_files_of_other_kinds_are_kept_too(kind: str, data: sc.LogitSet, tmp_path: Path) -> None:
    fitted = sc.calibrators.get("ts").fit(data.validation.logits, data.validation.labels)
    path = tmp_path / ("kept.safetensors" if kind == "calibrator" else "kept.npz")

    def save() -> None:
        if kind == "calibrator":
            fitted.save(path)
        else:
            save_probabilities(fitted, data.test, path)

    save()
    old = path.read_bytes()
    for room in range(10_000):
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, room)
            try:
                save()
                break
            except (SmartError, OSError) as error:
                said = str(error)
        assert os.strerror(errno.ENOSPC) in said
        assert path.read_bytes() == old
        assert list(tmp_path.iterdir()) == [path]
    assert room >= 4


@pytest.mark.parametrize("command", ["compare", "apply"])
def test_commands_leave_the_old_file(command: str, data: sc.LogitSet, tmp_path: Path, capsys: Any) -> None:
    """An existing result is not lost when the disk is full."""
    bundle, calibrator = tmp_path / "data.npz", tmp_path / "ts.safetensors"
    save_bundle(data, bundle)
    sc.calibrators.get("ts").fit(data.validation.logits, data.validation.labels).save(calibrator)
    old = tmp_path / ("old.json" if command == "compare" else "old.npz")
    old.write_bytes(b"old")
    before = sorted(tmp_path.iterdir())
    arguments = {
        "compare": ["compare", str(bundle), "--methods", "vanilla", "--seeds", "1", "--json", str(old)],
        "apply": ["apply", str(calibrator), str(bundle), "--out", str(old)],
    }[command]
    with pytest.MonkeyPatch.context() as patch:
        Disk(patch, 1)
        assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert old.read_bytes() == b"old"
    assert sorted(tmp_path.iterdir()) == before
    assert main(arguments) == 0
    assert len(old.read_bytes()) > 100


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    """`--json /dev/null` by root would otherwise take the device away from everybody."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with saving.atomic_write(pipe) as handle:
            handle.write(b"told")
        assert os.read(reader, 10) == b"told"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


# -- work that raises ---------------------------------------------------------------------------------------


class Unspeakable(Exception):
    """An error whose message cannot be formatted."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


RAISED = [
    ValueError("two\nlines"),
    MemoryError(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    RecursionError("deep"),
    OSError(errno.ENOSPC, "No space left on device"),
    Unspeakable(),
    CalibrationError("The fit needs at least two classes."),
    BaseException("bare"),
    ValueError("x" * 100_000),
]


@pytest.fixture
def job_list(monkeypatch: pytest.MonkeyPatch) -> JobList:
    monkeypatch.setattr(jobs, "_QUEUE", jobs.JobQueue(1))
    return JobList()


def ended(job: Job) -> Job:
    deadline = time.monotonic() + 30
    while job.active:
        assert time.monotonic() < deadline, f"the job '{job.title}' is still {job.state}"
        time.sleep(0.005)
    return job


@pytest.mark.counts("faults: kinds of error raised by a worker")
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_failed_job_is_reported_in_one_sentence_and_the_next_runs(error: BaseException, job_list: JobList) -> None:
    def fails(run: Any) -> None:
        raise error

    done = threading.Event()
    failed = ended(job_list.start("Fit it", fails, kind="compare", data_hash="a"))
    assert failed.state == "failed"
    assert failed.error.endswith(".")
    assert "\n" not in failed.error
    assert len(failed.error) < 300
    after = ended(job_list.start("Fit again", lambda run: done.set(), kind="compare", data_hash="a"))
    assert (after.state, done.is_set()) == ("done", True)


def test_a_cancelled_job_is_not_a_failure(job_list: JobList) -> None:
    def stops(run: Any) -> None:
        raise Cancelled("The computation was cancelled.")

    assert ended(job_list.start("Fit it", stops, kind="compare", data_hash="a")).state == "cancelled"


def test_a_system_without_threads_is_reported(job_list: JobList, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        job = job_list.start("Fit it", lambda run: None, kind="compare", data_hash="a")
    assert job.state == "failed"
    assert job.error.endswith(".")
    assert ended(job_list.start("Fit again", lambda run: None, kind="compare", data_hash="a")).state == "done"


def test_a_failed_job_is_shown_in_the_sidebar_and_the_page_goes_on() -> None:
    """In the dashboard: a job's thread exits, the message is shown, and the next job runs."""

    def exits(run: Any) -> None:
        raise SystemExit(1)

    app = open_page("guide")
    job_list = app.session_state["session"].jobs
    job_list.start("Fit it", exits, kind="compare", data_hash="a")
    wait(app)
    said = plain_text("Unexpected error (SystemExit: 1).")
    assert [box.value for box in app.sidebar.error] == [f"**Fit it**: {said}"]
    job_list.start("Fit again", lambda run: None, kind="compare", data_hash="a")
    wait(app)
    assert any(caption.value.startswith("✓ Fit again") for caption in app.sidebar.caption)
