"""Many windows in fewer workspaces, on a server that saves them: nobody sees another's data, and no row is lost.

`python -m tests.robustness.soak workspaces [minutes] [workspaces]`
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs

from smart_core.cli.serving import Access
from smart_core.export.workspaces import Store
from tests.robustness.sessions import FITTED, KEPT_SECONDS, WITHIN, Session, _settled, together
from tests.robustness.sessions_client import Lost, Visitor
from tests.robustness.sessions_server import running

TOKEN = "the token of the soaked server"
WINDOWS = 2
"""Windows of each workspace."""
APART = 500
"""Turns that lie between the files of the first window and those of the second."""


class Place:
    """A workspace whose id the first window tells the others."""

    def __init__(self) -> None:
        self.known, self.id = threading.Event(), ""


class Window(Session):
    """One window: brings files that are marked as its workspace's, and fits them beside the other window."""

    def __init__(self, address: str, number: int, window: int, folder: Path, until: float, place: Place) -> None:
        own = folder / f"{number}-{window}"
        own.mkdir()
        super().__init__(address, number, own, until)
        self.window, self.place, self.access = window, place, "=".join(Access(TOKEN).cookie)

    def _open(self, visitor: Visitor, page: str, query: str = "") -> None:
        if query and self.window:
            if not self.place.known.wait(120):
                raise Lost("the first window did not come")
            query = f"workspace={self.place.id}"
        super()._open(visitor, page, query)
        (id,) = parse_qs(visitor.query)["workspace"]
        if not self.place.known.is_set():
            self.place.id = id
            self.place.known.set()
        if id != self.place.id:
            raise Lost("the window is in another workspace")

    def _turn(self, visitor: Visitor, turn: int) -> None:
        super()._turn(visitor, turn + APART * self.window)


def crowd(workspaces: int, minutes: float, folder: Path) -> tuple[list[str], str]:
    """Return whatever was lost, and the figures."""
    saved, log = folder / "workspaces", folder / "server.log"
    os.environ["STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL"] = str(KEPT_SECONDS)
    try:
        with running(log, f"--token={TOKEN}", folder=saved) as server:
            together(server, [Window(server.address, 0, 0, folder, time.monotonic(), Place())])
            before = _settled(server, "=".join(Access(TOKEN).cookie))
            until = time.monotonic() + 60 * minutes
            places = [Place() for _ in range(workspaces)]
            windows = [
                Window(server.address, number, window, folder, until, places[number - 1])
                for number in range(1, workspaces + 1)
                for window in range(WINDOWS)
            ]
            peak = together(server, windows)
            after = _settled(server, "=".join(Access(TOKEN).cookie))
    finally:
        del os.environ["STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL"]
    lost = [f"workspace {each.told.number}: {each.told.problems[:3]}" for each in windows if each.told.problems]
    lost += [f"workspace {each.told.number} saw {each.told.foreign}" for each in windows if each.told.foreign]
    store, rows = Store(saved), 0
    for number, place in enumerate(places, start=1):
        fits = sum(each.told.fits for each in windows if each.told.number == number)
        kept = store.keys(place.id, "row")
        found = [store.get(place.id, "row", key)["result"] for key in kept]
        rows += len(found)
        if len([row for row in found if row.id in FITTED]) < fits:
            lost.append(f"workspace {number}: {fits} fits, {len(found)} rows")
    ids = [place.id for place in places]
    if any(id in log.read_text() for id in ids):
        lost.append("an id is in the log")
    if after > WITHIN * before:
        lost.append(f"memory went from {before:.0f} to {after:.0f} MB")
    uploads, fits = sum(each.told.uploads for each in windows), sum(each.told.fits for each in windows)
    size = sum(entry.bytes for entry in store.entries()) / 1e6
    figures = (
        f"{len(windows)} windows in {workspaces} workspaces: {uploads} uploads, {fits} fits, {rows} rows saved, "
        f"{size:.0f} MB on disk; memory {before:.0f} MB before, {peak:.0f} at most, {after:.0f} after"
    )
    return lost, figures


def soak(minutes: str = "10", workspaces: str = "10") -> bool:
    """The full form: prints the figures and gives whether nothing was lost."""
    with tempfile.TemporaryDirectory() as folder:
        lost, figures = crowd(int(workspaces), float(minutes), Path(folder))
        if lost:
            print((Path(folder) / "server.log").read_text()[-6000:])
    print(figures)
    for loss in lost:
        print("LOST:", loss)
    return not lost
