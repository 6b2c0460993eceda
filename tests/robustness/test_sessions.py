"""Many sessions at once, in short: no session sees another's file, memory is released, caches are bounded."""

from __future__ import annotations

import ast
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pages.shared import memory
from pages.shared.jobs import JobList
from pages.shared.uploads import MAX_UPLOADED
from smart_core.cli.dashboard import MALLOC
from tests.conftest import COUNTED, ROOT
from tests.robustness.sessions import FITTED, Session, crowd, together
from tests.robustness.sessions_client import Visitor
from tests.robustness.sessions_server import running

SESSIONS, MINUTES, BIG = 6, 0.4, 100
FEW = 3

Record = Callable[[str, Any], None]


@pytest.mark.long
def test_sessions_side_by_side(tmp_path: Path, record_property: Record) -> None:
    outcome = crowd(SESSIONS, MINUTES, BIG, tmp_path)
    print(f"\n{outcome.table()}")
    record_property(COUNTED, ["sessions: at once", SESSIONS])
    record_property(COUNTED, ["sessions: minutes", outcome.minutes])
    assert outcome.losses() == [], (tmp_path / "server.log").read_text()[-4000:]


@pytest.mark.long
def test_a_few_sessions_side_by_side(tmp_path: Path, record_property: Record) -> None:
    """One turn each: a file of its own, two fits, a page. Their server listens to this machine only."""
    begin = time.monotonic()
    with running(tmp_path / "server.log") as server:
        visits = [Session(server.address, number, tmp_path, begin) for number in range(1, FEW + 1)]
        together(server, visits)
        hosts = listening(int(server.address.rpartition(":")[2]))
    record_property(COUNTED, ["sessions: at once", FEW])
    record_property(COUNTED, ["sessions: minutes", (time.monotonic() - begin) / 60])
    for told in (visit.told for visit in visits):
        assert told.problems == [], (tmp_path / "server.log").read_text()[-4000:]
        assert told.foreign == set()
        assert told.saw_own > 0
        assert (told.uploads, told.fits) == (1, len(FITTED))
    assert hosts == {"127.0.0.1"}


UPLOADS, MEGABYTES = 30, 100


@pytest.mark.long
def test_uploads_do_not_pile_up(tmp_path: Path) -> None:
    """30 uploads of 100 MB by one session that removes none: at most 2.1 GB stay, and nothing once it leaves Start."""
    path = tmp_path / "large.npy"
    path.write_bytes(bytes(MEGABYTES * 1_000_000))  # refused: not an array
    with running(tmp_path / "server.log") as server:
        visitor = Visitor(server.address)
        visitor.open("start", "data=digits")
        before = server.megabytes()
        grown = []
        for _ in range(UPLOADS):
            visitor.upload("start-files", path)
            grown.append(server.megabytes() - before)
        visitor.open("diagnose")
        left = server.megabytes() - before
        visitor.leave()
    print(f"\n{before:.0f} MB before, {max(grown):.0f} MB more at most, {left:.0f} MB more on another page")
    assert max(grown) < (MAX_UPLOADED + 3 * MEGABYTES * 1_000_000) / 1e6
    assert left < 2 * MEGABYTES
    assert not visitor.problems


def listening(port: int) -> set[str]:
    """Return the addresses on which a port is open, according to the kernel."""
    found = set()
    for file, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]:
            place, state = line.split()[1], line.split()[3]
            host, _, number = place.partition(":")
            if state == "0A" and int(number, 16) == port:
                # the kernel writes an address as 32-bit words in the machine's order
                words = [
                    int(host[start : start + 8], 16).to_bytes(4, sys.byteorder) for start in range(0, len(host), 8)
                ]
                found.add(socket.inet_ntop(family, b"".join(words)))
    return found


def decorators() -> list[tuple[str, ast.expr]]:
    """Every decorator of the dashboard that remembers results, with its place."""
    found = []
    for path in [ROOT / "dashboard.py", *sorted((ROOT / "pages").rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in getattr(node, "decorator_list", []):
                name = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
                if name.rpartition(".")[2] in ("cache_data", "cache_resource", "lru_cache", "cache"):
                    found.append((f"{path.relative_to(ROOT)}:{node.lineno}", decorator))
    return found


def test_every_cache_is_bounded() -> None:
    found = decorators()
    assert len(found) >= 10, "the caches were not found"
    for place, decorator in found:
        assert isinstance(decorator, ast.Call), f"the cache at {place} has no bound"
        bounds = {word.arg: word.value for word in decorator.keywords}
        bound = bounds.get("max_entries") or bounds.get("maxsize") or bounds.get("max_size")
        assert isinstance(bound, ast.Constant), f"the cache at {place} has no bound"
        assert 0 < bound.value <= 1000, f"the cache at {place} is not bounded"


def test_memory_is_released_when_a_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is still running is cancelled."""
    released = threading.Semaphore(0)
    monkeypatch.setattr(memory, "release", released.release)
    monkeypatch.setattr(memory, "DELAY", 0.2)
    stopped = threading.Event()

    def work(run: Any) -> None:
        while not run.cancel.wait(0.01):
            pass
        stopped.set()

    sessions = [JobList(), JobList()]
    sessions[0].start("Fit it", work, kind="compare", data_hash="a")
    sessions.clear()
    assert stopped.wait(20)
    assert released.acquire(timeout=20)


FREED_IN_THREADS = """
import re, threading
from pathlib import Path
from pages.shared import memory

def megabytes():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

def work():
    large = bytearray(30 << 20)  # once this is freed, the library by default keeps twice as much
    del large
    together.wait()
    pieces = [bytearray(1 << 20) for _ in range(20)]
    together.wait()
    together.wait()  # meanwhile the memory is read
    pieces.clear()
    together.wait()
    over.wait()

together, over = threading.Barrier(5), threading.Event()
before = megabytes()
threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
together.wait()
together.wait()
most = megabytes()
together.wait()
together.wait()
memory.release()
print(before, most, megabytes())
over.set()
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="the options are glibc's")
def test_memory_freed_by_running_threads_is_returned() -> None:
    """With the environment of `smart dashboard`. A server's threads do not end: they wait for the next request."""
    done = subprocess.run(
        [sys.executable, "-c", FREED_IN_THREADS],
        env={**os.environ, **MALLOC},
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    before, most, after = map(float, done.stdout.split())
    assert most - before > 70, "the pieces were not there"
    assert after - before < 12
