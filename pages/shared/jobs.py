"""Long work outside the page's script: a thread that reports, can be cancelled, and keeps what is finished.

Streamlit runs a page's script again at every touch and on every change of page. A job does not belong to a script:
it belongs to the session's tray, which is drawn beside every page. Work writes into plain dictionaries of the session
and never touches `st`. It must not hold the tray or the desk: when a session is gone, nothing but the work would keep
it alive, and the tray's end is what cancels the work.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from pages.shared import memory
from smart_core.errors import Cancelled, SmartError
from smart_core.progress import Run

Work = Callable[[Run], None]

AT_ONCE = max(2, os.cpu_count() or 2)
"""Jobs that compute at the same time in this server; the others wait their turn, so that pages still open."""

KEPT = 6
"""Finished jobs a tray remembers."""


LONGEST_REASON = 200
"""Characters of an unforeseen error that are shown."""


class Line:
    """First come, first served: `AT_ONCE` jobs at a time."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: list[object] = []
        self._inside = 0
        self._changed = threading.Condition()

    def enter(self, cancel: threading.Event) -> bool:
        """Wait for a place; False if cancelled before there was one."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            while not cancel.is_set():
                if self._waiting[0] is ticket and self._inside < self._places:
                    self._waiting.remove(ticket)
                    self._inside += 1
                    self._changed.notify_all()
                    return True
                self._changed.wait(timeout=0.1)
            self._waiting.remove(ticket)
            self._changed.notify_all()
            return False

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()


_LINE = Line(AT_ONCE)


@dataclass(eq=False)
class Job:
    """One piece of long work: what it is called, how far it is, and how it ended."""

    title: str
    kind: str
    """What it works on, so that a page finds its own: "compare", "sensitivity", ..."""
    about: str
    """Content hash of the data set it works on."""
    cancel: threading.Event = field(default_factory=threading.Event)
    fraction: float = 0.0
    words: str = "waiting for another computation"
    state: str = "waiting"
    """waiting, running, done, cancelled or failed."""
    reason: str = ""
    """Why it failed, in one sentence."""
    steps: int = 1
    """Parts of equal share that it consists of."""
    began: float | None = None
    ended: float | None = None

    @property
    def active(self) -> bool:
        """Whether it waits or runs."""
        return self.state in ("waiting", "running")

    @property
    def steps_done(self) -> int:
        """Parts that are finished."""
        return int(self.fraction * self.steps + 1e-9)

    def seconds(self) -> float:
        """How long it has run, or ran."""
        return 0.0 if self.began is None else (self.ended or time.monotonic()) - self.began

    def seconds_left(self) -> float | None:
        """By the share done so far; None until there is enough to go by."""
        if self.state != "running" or self.fraction < 0.02 or self.seconds() < 1.0:
            return None
        return self.seconds() * (1.0 - self.fraction) / self.fraction

    def matches(self, kind: str | None, about: str | None) -> bool:
        """Whether it is of this kind and on this data set, None standing for any."""
        return kind in (None, self.kind) and about in (None, self.about)

    def hear(self, fraction: float, words: str) -> None:
        """The line's progress."""
        self.fraction = fraction
        self.words = words or self.words


class Tray:
    """The jobs of one session, newest first. When the session is gone, what still runs is cancelled."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._cancels: list[threading.Event] = []
        memory.watch()
        weakref.finalize(self, _session_over, self._cancels).atexit = False

    def start(self, title: str, work: Work, *, kind: str, about: str, steps: int = 1) -> Job:
        """Begin the work in a thread of its own; one of the same kind on the same data is cancelled first."""
        for other in self.jobs:
            if other.active and (other.kind, other.about) == (kind, about):
                other.cancel.set()
        job = Job(title, kind, about, steps=steps)
        self.jobs = [job, *[other for other in self.jobs if other.active], *self._remembered()]
        self._cancels[:] = [other.cancel for other in self.jobs if other.active]
        try:
            threading.Thread(target=_run, args=(job, work), name=f"job {title}", daemon=True).start()
        except RuntimeError:  # the system gives no more threads
            job.reason, job.state = "The server is too busy to begin it; try again in a moment.", "failed"
        return job

    def active(self, kind: str | None = None, about: str | None = None) -> Job | None:
        """The newest job that waits or runs, of a kind and on a data set where these are given."""
        return next((job for job in self.jobs if job.active and job.matches(kind, about)), None)

    def latest(self, kind: str, about: str) -> Job | None:
        """The newest job of a kind on a data set, whatever became of it."""
        return next((job for job in self.jobs if job.matches(kind, about)), None)

    def _remembered(self) -> list[Job]:
        return [job for job in self.jobs if not job.active][:KEPT]


def _session_over(cancels: list[threading.Event]) -> None:
    for cancel in cancels:
        cancel.set()
    memory.session_over()


def _run(job: Job, work: Work) -> None:
    if not _LINE.enter(job.cancel):
        job.state = "cancelled"
        return
    job.began, job.state, job.words = time.monotonic(), "running", "starting"
    try:
        work(Run(job.hear, job.cancel))
        job.state = "cancelled" if job.cancel.is_set() else "done"
    except Cancelled:
        job.state = "cancelled"
    except BaseException as error:  # an exit in a thread ends nothing but the job, and would leave it running for ever
        if not isinstance(error, SmartError):
            logging.getLogger("smart").error("the job %r failed", job.title, exc_info=True)
        job.reason, job.state = _reason(error), "failed"
    finally:
        job.ended = time.monotonic()
        _LINE.leave()


def _reason(error: BaseException) -> str:
    """What went wrong, in one sentence, whatever was raised."""
    if isinstance(error, MemoryError):
        return "The server's memory did not suffice; take fewer seeds or a smaller data set."
    try:
        words = " ".join(str(error).split())
    except Exception:  # an error that cannot even be written down
        words = ""
    if isinstance(error, SmartError):
        return words
    about = f"{type(error).__name__}: {words[:LONGEST_REASON]}" if words else type(error).__name__
    return f"It failed unexpectedly ({about})."
