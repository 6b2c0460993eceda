"""Shared ground of the tests: how many threads they have, and where real logits may be found."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests import other_device

torch.set_num_threads(int(os.environ.get("SMART_TEST_THREADS", "1")))  # one: workers would take each other's cores
other_device.register()
settings.register_profile("any machine", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("any machine")

ROOT = Path(__file__).resolve().parent.parent


def long_but(*kept: str) -> Callable[[Iterable[str]], list[Any]]:
    """Cases of a parametrized test, of which all but the `kept` are left to `make soak`."""
    return lambda cases: [pytest.param(case, marks=() if case in kept else pytest.mark.long) for case in cases]


BROWSING = ("tests/browser/", "tests/install/", "tests/robustness/test_faults_sessions")
SHARING = ("tests/app/", "tests/calibrators/", "tests/export/", "tests/robustness/test_degenerate")
"""Where the tests of a file share fits or pages, which each worker has to make again."""


class OneBrowser(LoadScopeScheduling):
    """All tests with a browser go to the same worker, because two at once slow each other down, and the tests of a file
    that share fits too; the others go to any worker one by one."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(BROWSING):
            return "browser"
        return nodeid.partition("::")[0] if nodeid.startswith(SHARING) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneBrowser:
    config.option.loadscopereorder = False  # else the groups with the most tests would come first
    return OneBrowser(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest group first: the others fill up the time of the other worker."""
    items.sort(key=lambda item: not item.nodeid.startswith(BROWSING))


COUNTED = "counted"
"""Property of a test's report: what it tried and how many of it, for the table at the end."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.user_properties += [(COUNTED, [mark.args[0], 1]) for mark in item.iter_markers("counts")]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    summarise_robustness(terminalreporter)
    summarise_missing(terminalreporter)


def summarise_robustness(terminalreporter: Any) -> None:
    """What the robustness tests have tried, and how many tests of it failed: printed whatever became of them."""
    tried: dict[str, list[float]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for what, number in (value for name, value in getattr(report, "user_properties", ()) if name == COUNTED):
                row = tried.setdefault(what, [0, 0])
                row[0] += number
                row[1] += outcome == "failed"
    if tried:
        terminalreporter.section("robustness: tried, and lost")
        for what, (number, lost) in sorted(tried.items()):
            terminalreporter.write_line(f"{what:<60}{number:>10,.4g}{lost:>8,}")


BESIDE = {"SMART_REAL_DATA": "real logits", "SMART_PAPER": "the paper's source"}
"""What some tests read that is not part of the repository, by the variable that says where it lies."""


def real_data(name: str) -> Path:
    """The path of a real data file or folder; skips the test, by name, where it is missing."""
    folder = Path(os.environ.get("SMART_REAL_DATA", ROOT.parent / "shared" / "data"))
    path = folder / name
    if not path.exists():
        pytest.skip(f"real logits missing: {name} (set SMART_REAL_DATA to the folder that holds it)")
    return path


def summarise_missing(terminalreporter: Any) -> None:
    """How many tests were skipped for want of files that are not part of the repository."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    for variable, what in BESIDE.items():
        count = sum(variable in reason for reason in reasons)
        if count:
            tests = "1 test" if count == 1 else f"{count} tests"
            terminalreporter.write_line(f"{what}: {tests} skipped, set {variable} to run them")


@pytest.fixture(autouse=True, scope="session")
def components_are_scanned_once() -> None:
    """Every AppTest reads the metadata of all installed packages for components: ten times the work of a page."""
    if "streamlit" in sys.modules:
        from streamlit.components.v2 import manifest_scanner

        manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)


MAIN = sys.modules["__main__"]
FROZEN = [0]
"""How many modules there were when their objects were last left out of garbage collection."""


@pytest.fixture(autouse=True)
def restore_main() -> None:
    """AppTest replaces `__main__` by the app, also in fixtures of a module; processes started later would run it."""
    sys.modules["__main__"] = MAIN


@pytest.fixture(autouse=True)
def collect_no_imports() -> None:
    """Streamlit collects garbage after every run of a script: what was imported, by far the most, is left out of it."""
    if len(sys.modules) > FROZEN[0] + 20:
        FROZEN[0] = len(sys.modules)
        gc.freeze()
