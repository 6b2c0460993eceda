"""Many sessions at once: each brings its own files, fits, walks through the pages and reads all that it is sent.

`python -m tests.robustness.soak sessions [minutes] [sessions]`
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.robustness.sessions_client import Lost, Visitor
from tests.robustness.sessions_files import big, marked, word
from tests.robustness.sessions_server import Server, running

WALK = ("diagnose", "margin_groups", "temperature", "hardness", "export", "guide", "start", "compare", "diagnose")
"""The pages that are opened after a fit, in this order."""

FITTED = ("ts", "smart")
EPOCHS = 20

KEPT_SECONDS = 3
"""How long the server keeps a session whose window is closed; in the shipped settings it is 600."""

GIVING_BACK = 5.0
"""Seconds from the last visit to the measuring: the server gives memory back a moment after a session has ended."""

LOG_SHOWN = 6000
"""Characters of the server's log that are shown where something was lost."""

THINKING = 0.5
"""Seconds a visitor looks at a page before the next click."""

WITHIN = 1.20
"""The memory after all have left, as a share of that before they came, at most."""


@dataclass
class Told:
    """The results of one session."""

    number: int
    page_changes: list[tuple[float, float]] = field(default_factory=list)
    """When each one began, and when its page had been sent."""
    uploads: int = 0
    fits: int = 0
    foreign: set[int] = field(default_factory=set)
    saw_own: int = 0
    problems: list[str] = field(default_factory=list)
    big: tuple[float, float] | None = None
    """When the large upload began, and when its page had been sent."""


@dataclass
class Outcome:
    """The results of all sessions, and the memory of the server's process."""

    sessions: int
    minutes: float
    told: list[Told]
    big_megabytes: int
    before: float
    peak: float
    after: float
    cache_entries: dict[str, int]

    def waits(self, during_big: bool = False) -> list[float]:
        """Seconds of the page changes of the others, all or those that lie within the large upload."""
        spans = [told.big for told in self.told if told.big is not None]
        changes = [change for told in self.told if told.big is None for change in told.page_changes]
        if during_big:
            changes = [(a, b) for a, b in changes if any(begin <= a and b <= end for begin, end in spans)]
        return [end - begin for begin, end in changes]

    def table(self) -> str:
        """The figures, a line each."""
        within = self.waits(during_big=True)
        changes = self.waits()
        rows = [
            ("sessions at once", f"{self.sessions}"),
            ("minutes", f"{self.minutes:.1f}"),
            ("page changes", f"{sum(len(told.page_changes) for told in self.told)}"),
            ("  seconds each, median and longest", _seconds(changes)),
            ("uploads", f"{sum(told.uploads for told in self.told)}"),
            ("fits", f"{sum(told.fits for told in self.told)}"),
            ("foreign markers seen", f"{sum(len(told.foreign) for told in self.told)}"),
            ("errors seen", f"{sum(len(told.problems) for told in self.told)}"),
            (f"page changes of others during an upload of {self.big_megabytes} MB", f"{len(within)}"),
            ("  seconds each, median and longest", _seconds(within)),
            ("server memory before, MB", f"{self.before:.0f}"),
            ("server memory at most, MB", f"{self.peak:.0f}"),
            ("server memory after they left, MB", f"{self.after:.0f} ({self.after / self.before:.0%})"),
            ("entries left in caches for all sessions", f"{sum(self.cache_entries.values())}"),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def losses(self) -> list[str]:
        """Whatever breaks the promise, in words."""
        found = [f"session {told.number} saw {sorted(told.foreign)}" for told in self.told if told.foreign]
        found += [f"session {told.number}: {told.problems[:3]}" for told in self.told if told.problems]
        found += [f"session {told.number} never saw its own file" for told in self.told if not told.saw_own]
        found += [f"session {told.number} fitted nothing" for told in self.told if told.big is None and not told.fits]
        if self.big_megabytes and not self.waits(during_big=True):
            found.append("no page was answered during the large upload")
        if self.after > WITHIN * self.before:
            found.append(f"memory went from {self.before:.0f} to {self.after:.0f} MB")
        return found


def _seconds(waits: Sequence[float]) -> str:
    return f"{np.median(waits):.2f}, {max(waits):.2f}" if waits else "none"


class Session(threading.Thread):
    """One visitor's turns until the time is over."""

    def __init__(self, address: str, number: int, folder: Path, until: float, big_megabytes: int = 0) -> None:
        super().__init__(name=f"session {number}", daemon=True)
        self.address, self.folder, self.until = address, folder, until
        self.big_megabytes = big_megabytes
        self.access = ""
        self.told = Told(number)

    def run(self) -> None:
        try:
            visitor = Visitor(self.address, self.access)
            try:
                self._open(visitor, "start", "data=digits")
                turn = 0
                while time.monotonic() < self.until or turn == 0:
                    self._turn(visitor, turn)
                    turn += 1
            finally:
                self.told.problems += visitor.problems
                self.told.foreign = visitor.markers - {self.told.number}
                visitor.leave()
        except Exception as error:  # a thread's error is a finding, told in the table
            self.told.problems.append(f"{type(error).__name__}: {error}")

    def _turn(self, visitor: Visitor, turn: int) -> None:
        if self.big_megabytes and turn == 0:
            self._bring_big(visitor)
            return
        self._open(visitor, "start")
        self._bring(visitor, marked(self.folder, self.told.number, turn))
        self._open(visitor, "compare")
        if not self.told.fits:
            self._choose(visitor)
        visitor.touch({"fit-selected": True})
        visitor.settle()
        if b"TS" not in visitor.latest or b"SMART" not in visitor.latest:
            raise Lost("the fits did not arrive")
        self.told.fits += len(FITTED)
        for page in WALK:
            self._open(visitor, page)
            self._own(visitor)
            if time.monotonic() > self.until:
                break

    def _choose(self, visitor: Visitor) -> None:
        ticks = {key: key.removeprefix("compare-") in FITTED for key in visitor.widgets if key.startswith("compare-")}
        visitor.touch({"seeds": 1, "set-smart-epochs": EPOCHS, **ticks})

    def _bring(self, visitor: Visitor, path: Path) -> None:
        visitor.upload("start-files", path)
        path.unlink()
        self.told.uploads += 1
        if word(self.told.number).encode() not in visitor.latest:
            raise Lost("the file was not shown")
        self._own(visitor)

    def _bring_big(self, visitor: Visitor) -> None:
        path = big(self.folder, self.told.number, self.big_megabytes)
        begin = time.monotonic()
        self._bring(visitor, path)
        self.told.big = (begin, time.monotonic())

    def _own(self, visitor: Visitor) -> None:
        self.told.saw_own += word(self.told.number).encode() in visitor.latest

    def _open(self, visitor: Visitor, page: str, query: str = "") -> None:
        begin = time.monotonic()
        visitor.open(page, query)
        self.told.page_changes.append((begin, time.monotonic()))
        time.sleep(THINKING)


def crowd(sessions: int, minutes: float, big_megabytes: int, folder: Path) -> Outcome:
    """The whole run on a server of its own.

    Memory is the resident memory of the server's process. Before: after one session has come, fitted, walked and left,
    so that every module is loaded and the samples are read. After: when all sessions have left and the time is over for
    which the server keeps a closed window's session. The server looks at that time when a session leaves, so in both
    cases two short visits follow.
    """
    options = [f"--server.disconnectedSessionTTL={KEPT_SECONDS}"]
    with running(folder / "server.log", *options) as server:
        together(server, [Session(server.address, 0, folder, time.monotonic())])
        before = _settled(server)
        begin = time.monotonic()
        until = begin + 60 * minutes
        visits = [Session(server.address, number, folder, until) for number in range(1, sessions + 1)]
        visits[-1].big_megabytes = big_megabytes
        peak = together(server, visits)
        lasted = (time.monotonic() - begin) / 60
        after = _settled(server)
        return Outcome(
            sessions, lasted, [visit.told for visit in visits], big_megabytes, before, peak, after, entries(server)
        )


def together(server: Server, visits: Sequence[Session]) -> float:
    """All of them at once; gives the most memory that was seen meanwhile."""
    peak = 0.0
    for visit in visits:
        visit.start()
    while any(visit.is_alive() for visit in visits):
        peak = max(peak, server.megabytes())
        time.sleep(0.2)
    return peak


def _settled(server: Server, access: str = "") -> float:
    for _ in range(2):
        time.sleep(KEPT_SECONDS + 0.5)
        visitor = Visitor(server.address, access)
        visitor.open("guide", "data=digits")
        visitor.open("start")
        visitor.leave()
    time.sleep(GIVING_BACK)
    return server.megabytes()


def entries(server: Server) -> dict[str, int]:
    """Cache -> bytes or, for caches of objects, number of entries, by the server's own account."""
    with urllib.request.urlopen(f"{server.address}/_stcore/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(r'^cache_memory_bytes\{cache_type="st_cache_resource",cache="([^"]+)"\} (\d+)', text, re.M)
    return {name: int(value) for name, value in found}


def soak(minutes: str = "10", sessions: str = "20") -> bool:
    """The full form: prints the table and gives whether nothing was lost."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = crowd(int(sessions), float(minutes), 1000, Path(folder))
        log = (Path(folder) / "server.log").read_text()
    print(outcome.table())
    for loss in outcome.losses():
        print("LOST:", loss)
    if outcome.losses():
        print(log[-LOG_SHOWN:])
    return not outcome.losses()
