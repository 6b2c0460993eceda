"""The wheel as a user has it: built, and installed in an environment outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browser.conftest import _wait_until_up, chromium, visit  # noqa: F401, a browser for these tests too
from tests.conftest import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]


@dataclass(frozen=True)
class Installed:
    """A new environment with the wheel in it, and a foreign folder to work in."""

    wheel: Path
    python: Path
    smart: Path
    packages: Path
    folder: Path

    def environment(self) -> dict[str, str]:
        """Nothing of the repository is on the path."""
        # workspaces are saved in the data folder, which must not be that of whoever runs the tests
        own = {"XDG_DATA_HOME": str(self.folder.parent / "data")}
        return {**os.environ, **own, "PYTHONPATH": "", "OMP_NUM_THREADS": "1"}

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=240
        )

    @contextmanager
    def serving(self, command: Sequence[str | Path], port: int) -> Iterator[subprocess.Popen[str]]:
        """A server of the dashboard, up and answering; ended by force where the test has not stopped it."""
        server = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _wait_until_up(f"http://127.0.0.1:{port}", server)
            yield server
        finally:
            server.kill()
            server.communicate()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The other packages are those of the tests: a plain path in a .pth file shows their folder, and leaves out the
    .pth file in it that leads to the repository."""
    place = tmp_path_factory.mktemp("installed")
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", place, ROOT], check=True, timeout=240)
    (wheel,) = place.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True, timeout=240)
    scripts = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    subprocess.run([*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True, timeout=240)
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    packages = Path(found.stdout.strip())
    shown = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (packages / "packages_of_the_tests.pth").write_text("\n".join(shown))
    (place / "elsewhere").mkdir()
    return Installed(wheel, python, scripts / "smart", packages, place / "elsewhere")
