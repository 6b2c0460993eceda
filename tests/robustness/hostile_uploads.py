"""Sessions walk through the pages while another one uploads hostile files: how long their pages take, and without them.

`python -m tests.robustness.soak hostile_uploads [minutes] [sessions]`
"""

from __future__ import annotations

import io
import tempfile
import threading
import time
import zipfile
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, cycle
from pathlib import Path

import numpy as np

from tests.robustness.case import Case
from tests.robustness.sessions import WALK, Session
from tests.robustness.sessions_client import PATIENCE, Visitor
from tests.robustness.sessions_server import running
from tests.robustness.tricks import tricks

MINUTES, SESSIONS = 3.0, 10
WITHIN = 1.0
"""Seconds by which a page may take longer than usual while a hostile file is read."""
LOOKING = 4.0
"""Seconds that a visitor looks at a page: ten of them leave the machine idle half of the time."""
EVERY = 12
"""One in so many of the tricks is uploaded, and every bomb."""


def large_manifest() -> bytes:
    """A workspace of some kilobytes whose manifest holds millions of lists."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        lists = b"[]," * (10 << 20)
        content = b'{"format": "smart-workspace", "version": 1, "view": {"a": [' + lists[:-1] + b"]}}"
        archive.writestr("manifest.json", content)
    return stream.getvalue()


def hostile(folder: Path) -> list[tuple[str, Path]]:
    """The upload field of each file, and the file, written beforehand: to make one may take seconds."""
    found = list(tricks())
    bombs = [case for case in found if case.kind == "bomb"]
    others = [case for case in found if case.kind != "bomb"][::EVERY]
    workspace = Case("workspace.zip", "workspace", lambda _: large_manifest())
    written = []
    for number, case in enumerate([workspace, *bombs, *others]):
        path = folder / str(number) / case.name
        path.parent.mkdir(parents=True)
        path.write_bytes(case.make(folder / "canary"))
        written.append(("start-restore" if case is workspace else "start-files", path))
    return written


class Walker(Session):
    """Fits once, then opens one page after another, and keeps the page and time of each."""

    def __init__(self, address: str, number: int, folder: Path, minutes: float, fitted: threading.Barrier) -> None:
        super().__init__(address, number, folder, until=float("inf"))
        self.minutes, self.fitted = minutes, fitted
        self.waits: list[tuple[str, float, float]] = []
        """Page, when it was asked for, seconds."""

    def _turn(self, visitor: Visitor, turn: int) -> None:
        if turn == 0:
            self._open(visitor, "compare")
            self._choose(visitor)
            visitor.touch({"fit-selected": True})
            visitor.settle()
            for page in WALK:  # once each, so that what a page computes at its first visit is not counted
                visitor.open(page)
            self.fitted.wait(PATIENCE)
            self.until = time.monotonic() + 60 * self.minutes
        for page in WALK:
            begin = time.monotonic()
            visitor.open(page)
            self.waits.append((page, begin, time.monotonic() - begin))
            time.sleep(LOOKING)
            if time.monotonic() > self.until:
                break


class Uploader(threading.Thread):
    """One session that uploads hostile files, one after another."""

    def __init__(self, address: str, files: list[tuple[str, Path]], until: float) -> None:
        super().__init__(name="uploader", daemon=True)
        self.visitor, self.given, self.until = Visitor(address), files, until
        self.files = 0
        self.problems: list[str] = []

    def run(self) -> None:
        try:
            self.visitor.open("start", "data=digits")
            for field, path in cycle(self.given):
                if time.monotonic() > self.until:
                    break
                self.visitor.upload(field, path)
                self.files += 1
        except Exception as error:  # a thread's error is a finding, told in the table
            self.problems.append(f"{type(error).__name__}: {error}")
        self.problems += self.visitor.problems
        self.visitor.leave()


@dataclass(frozen=True)
class Outcome:
    """Seconds that pages took, by page, usually and during hostile uploads; the files; what went wrong."""

    usual: dict[str, list[float]]
    during: dict[str, list[float]]
    files: int
    problems: list[str]

    def longer(self) -> float:
        """Seconds by which a page during uploads took longer than the same page usually does, at most."""
        return max(max(waits) - float(np.median(self.usual[page])) for page, waits in self.during.items())

    def table(self) -> str:
        """A line per page: number, median and longest, usually and during the uploads."""
        lines = [
            f"{'':<16}{'usual':^24}{'during hostile uploads':^24}",
            f"{'page':<16}" + f"{'n  median  longest':>24}" * 2,
        ]
        for page in self.usual:
            figures = [(len(waits), np.median(waits), max(waits)) for waits in (self.usual[page], self.during[page])]
            lines.append(f"{page:<16}" + "".join(f"{n:>9}{middle:>7.2f}{most:>8.2f}" for n, middle, most in figures))
        lines.append(f"{self.files} hostile files; a page took at most {self.longer():.2f} s longer than usual")
        return "\n".join(lines)


def beside_hostile_uploads(sessions: int, minutes: float, folder: Path) -> Outcome:
    """Every session fits and opens each page; then half of the time without uploads, and half with them."""
    files = hostile(folder / "files")
    with running(folder / "server.log") as server:
        fitted = threading.Barrier(sessions + 1)
        walkers = [Walker(server.address, n, folder, minutes, fitted) for n in range(1, sessions + 1)]
        for walker in walkers:
            walker.start()
        fitted.wait(PATIENCE)
        begin = time.monotonic()
        half = begin + 30 * minutes
        time.sleep(max(0.0, half - time.monotonic()))
        uploader = Uploader(server.address, files, begin + 60 * minutes)
        uploader.start()
        for thread in (*walkers, uploader):
            thread.join()
    usual: dict[str, list[float]] = defaultdict(list)
    during: dict[str, list[float]] = defaultdict(list)
    for page, asked, seconds in chain.from_iterable(walker.waits for walker in walkers):
        (during if asked > half else usual)[page].append(seconds)
    problems = [problem for walker in walkers for problem in walker.told.problems] + uploader.problems
    return Outcome(dict(usual), dict(during), uploader.files, problems)


def soak(minutes: str | float = MINUTES, sessions: str | int = SESSIONS) -> bool:
    """Print the table; whether no page took longer than it may."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = beside_hostile_uploads(int(sessions), float(minutes), Path(folder))
    print(outcome.table())
    for problem in outcome.problems:
        print("LOST:", problem)
    return not outcome.problems and outcome.longer() <= WITHIN
