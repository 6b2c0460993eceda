"""Many sessions at once, in short: nobody sees another's file, memory comes back, caches are bounded."""

from __future__ import annotations

import ast
import threading
from pathlib import Path
from typing import Any

import pytest

from pages.shared import memory
from pages.shared.jobs import Tray
from tests.conftest import ROOT
from tests.robustness.sessions import crowd

SESSIONS, MINUTES, BIG = 6, 0.4, 100


@pytest.mark.long
def test_sessions_side_by_side(tmp_path: Path) -> None:
    outcome = crowd(SESSIONS, MINUTES, BIG, tmp_path)
    print(f"\n{outcome.table()}")
    assert outcome.losses() == [], (tmp_path / "server.log").read_text()[-4000:]


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


def test_memory_is_given_back_when_a_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a job that still runs is told to stop."""
    given = threading.Semaphore(0)
    monkeypatch.setattr(memory, "give_back", given.release)
    monkeypatch.setattr(memory, "PAUSE", 0.2)
    stopped = threading.Event()

    def work(run: Any) -> None:
        while not run.cancel.wait(0.01):
            pass
        stopped.set()

    trays = [Tray(), Tray()]
    trays[0].start("Fit it", work, kind="compare", about="a")
    trays.clear()
    assert stopped.wait(20)
    assert given.acquire(timeout=20)
