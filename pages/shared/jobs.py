"""Long computations as background jobs: threads that report progress, can be cancelled, and keep what they finished.

Streamlit runs a page's script again at every interaction, so a job belongs to the workspace and not to a script run.
Its work writes results into the workspace's dictionaries and never calls `st`. The work must not reference the
`JobList` or the `Session`: without a store, a job is cancelled when the `JobList` is garbage collected.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pages.shared import memory
from smart_core.errors import Cancelled, SmartError
from smart_core.progress import Run

Work = Callable[[Run], None]

MAX_RUNNING = max(2, os.cpu_count() or 2)
"""Jobs of all sessions that run at once. The others wait, so that pages stay responsive."""

MAX_FINISHED = 6
"""Finished jobs that a session remembers."""

PACE_ONLY_FROM = 0.1
"""Fraction of the work after which its pace alone gives the estimate."""

MAX_GROWTH = 1.5
"""How many times its first value an estimate may grow to."""

MAX_ERROR_LENGTH = 200
"""Characters of an unexpected error that are shown."""


def process_name(number: int | None = None) -> str:
    """Return what identifies a process: its number and, on Linux, when it started, because numbers are reused."""
    number = number or os.getpid()
    try:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return f"{number} {fields[19]}"
    except (OSError, IndexError):
        return str(number)


class JobQueue:
    """First come, first served: at most `slots` jobs run at once."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._waiting: list[object] = []
        self._running = 0
        self._changed = threading.Condition()

    def acquire(self, cancel: threading.Event) -> bool:
        """Wait for a slot; return False if cancelled before one was free."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            while not cancel.is_set():
                if self._waiting[0] is ticket and self._running < self._slots:
                    self._waiting.remove(ticket)
                    self._running += 1
                    self._changed.notify_all()
                    return True
                self._changed.wait(timeout=0.1)
            self._waiting.remove(ticket)
            self._changed.notify_all()
            return False

    def release(self) -> None:
        """Free the slot."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()


_QUEUE = JobQueue(MAX_RUNNING)


@dataclass(eq=False)
class Job:
    """One long computation: its title, progress and outcome."""

    title: str
    kind: str
    """The kind of computation, by which a page finds its own jobs: "compare", "sensitivity", ..."""
    data_hash: str
    """Content hash of the data set."""
    cancel: threading.Event = field(default_factory=threading.Event)
    fraction: float = 0.0
    message: str = "waiting for other jobs"
    state: str = "waiting"
    """waiting, running, done, cancelled or failed."""
    error: str = ""
    """Why it failed, in one sentence."""
    steps: Sequence[float] = ()
    """Fraction of the progress at which each part is done, if the job consists of parts."""
    estimate: float | None = None
    """Seconds that it was estimated to take when it was started."""
    noted: bool = False
    """Whether the workspace has a note of it."""
    started: float | None = None
    ended: float | None = None

    @property
    def active(self) -> bool:
        """Whether it waits or runs."""
        return self.state in ("waiting", "running")

    @property
    def steps_done(self) -> int:
        """Number of finished parts."""
        return sum(end <= self.fraction + 1e-9 for end in self.steps)

    def elapsed(self) -> float:
        """Return the seconds since it started, or that it took."""
        return 0.0 if self.started is None else (self.ended or time.monotonic()) - self.started

    def remaining(self) -> float | None:
        """Return the estimated seconds left, or None if there is no basis for an estimate, or no longer one.

        The estimate made at the start gives way to the pace of the work, entirely once a tenth is done. A job that
        takes more than `MAX_GROWTH` times its first estimate has none.
        """
        if self.state != "running":
            return None
        elapsed, measured = self.elapsed(), self.elapsed() / max(self.fraction, 1e-9)
        if self.estimate is None:
            return measured - elapsed if self.fraction >= 0.02 and elapsed >= 1.0 else None
        trust = min(self.fraction / PACE_ONLY_FROM, 1.0)
        total = min((1.0 - trust) * self.estimate + trust * measured, MAX_GROWTH * self.estimate)
        return total - elapsed if total > elapsed else None

    def matches(self, kind: str | None, data_hash: str | None) -> bool:
        """Return whether it is of this kind and on this data set; None matches everything."""
        return kind in (None, self.kind) and data_hash in (None, self.data_hash)

    def report(self, fraction: float, message: str) -> None:
        """Take over the progress that the work reports."""
        self.fraction = fraction
        self.message = message or self.message


class JobList:
    """The jobs of one workspace, latest first.

    When the workspace is no longer in use, jobs that still run are cancelled; but with an `owner`, it is in use as long
    as one of its jobs runs, also when its last window is closed.
    """

    def __init__(
        self, owner: Callable[[], object] = lambda: None, notes: MutableMapping[str, dict[str, Any]] | None = None
    ) -> None:
        self._owner = owner
        self._notes: MutableMapping[str, dict[str, Any]] = {} if notes is None else notes
        self._jobs: list[Job] = []
        self._changes = threading.Lock()
        self._cancels: list[threading.Event] = []
        memory.watch()
        weakref.finalize(self, _end_session, self._cancels).atexit = False

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    def start(
        self,
        title: str,
        work: Work,
        *,
        kind: str,
        data_hash: str,
        steps: Sequence[float] = (),
        estimate: float | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> Job:
        """Run the work in a new thread; an active job of the same kind on the same data set is cancelled first.

        `note` is what it takes to resume the job on another server: it is kept until the job ends.
        """
        job = Job(title, kind, data_hash, steps=steps, estimate=estimate)
        with self._changes:  # another window may start one at the same time
            active = [other for other in self._jobs if other.active]
            finished = [other for other in self._jobs if not other.active]
            for other in active:
                if (other.kind, other.data_hash) == (kind, data_hash):
                    other.cancel.set()
            self._jobs = [job, *active, *finished[:MAX_FINISHED]]
            self._cancels[:] = [other.cancel for other in self._jobs if other.active]
        key = f"{kind} {data_hash}"
        if note is not None:
            self._notes[key] = {"title": title, "kind": kind, "hash": data_hash, "process": process_name(), **note}
        ended = partial(_drop_note, self._notes, key, job) if note is not None else None
        job.noted = note is not None
        for other in active:
            other.noted = other.noted and not job.matches(other.kind, other.data_hash)
        try:
            threading.Thread(
                target=_run, args=(job, work, ended, self._owner()), name=f"job {title}", daemon=True
            ).start()
        except RuntimeError:  # the system cannot start another thread
            job.error, job.state = "The server is too busy to start it; try again in a moment.", "failed"
        return job

    def active(self, kind: str | None = None, data_hash: str | None = None) -> Job | None:
        """Return the latest active job of this kind and on this data set; None matches everything."""
        return next((job for job in self if job.active and job.matches(kind, data_hash)), None)

    def latest(self, kind: str, data_hash: str) -> Job | None:
        """Return the latest job of this kind on this data set, whatever its state."""
        return next((job for job in self if job.matches(kind, data_hash)), None)


class ReadOnlyJobList(JobList):
    """The jobs of a workspace as a read-only link shows them: none can be started or cancelled."""

    def __init__(self, of: JobList, refused: Callable[[], None]) -> None:
        super().__init__()
        self._of, self._refused = of, refused

    def __iter__(self) -> Iterator[Job]:
        # copies: setting their `cancel` has no effect on the job
        return iter([replace(job, cancel=threading.Event()) for job in self._of])

    def __len__(self) -> int:
        return len(self._of)

    def start(self, title: str, work: Work, *, kind: str, data_hash: str, **options: Any) -> Job:
        """Refuse, and return a job that has ended."""
        self._refused()
        return Job(title, kind, data_hash, state="cancelled")


def _end_session(cancels: list[threading.Event]) -> None:
    for cancel in cancels:
        cancel.set()
    memory.session_ended()


def _drop_note(notes: MutableMapping[str, dict[str, Any]], key: str, job: Job) -> None:
    if job.noted:  # and not a later job of the same kind on the same data set
        notes.pop(key, None)


def _run(job: Job, work: Work, ended: Callable[[], None] | None = None, owner: object = None) -> None:
    """Run a job in its thread, which refers to the owner of the job until it ends."""
    if not _QUEUE.acquire(job.cancel):
        job.state = "cancelled"
        if ended is not None:
            ended()
        return
    job.started, job.state, job.message = time.monotonic(), "running", "starting"
    try:
        work(Run(job.report, job.cancel))
        job.state = "cancelled" if job.cancel.is_set() else "done"
    except Cancelled:
        job.state = "cancelled"
    except BaseException as error:  # SystemExit too: it would end this thread and leave the job "running" forever
        if not isinstance(error, SmartError):
            logging.getLogger("smart").error("the job %r failed", job.title, exc_info=True)
        job.error, job.state = _sentence(error), "failed"
    finally:
        job.ended = time.monotonic()
        _QUEUE.release()
        if ended is not None:
            ended()


def _sentence(error: BaseException) -> str:
    """Return an error as one sentence."""
    if isinstance(error, MemoryError):
        return "The server ran out of memory; use fewer seeds or a smaller data set."
    try:
        text = " ".join(str(error).split())
    except Exception:  # its __str__ raises
        text = ""
    if isinstance(error, SmartError):
        return text
    about = f"{type(error).__name__}: {text[:MAX_ERROR_LENGTH]}" if text else type(error).__name__
    return f"Unexpected error ({about})."
