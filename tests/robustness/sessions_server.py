"""A dashboard server of its own, of which the process is known: its memory is read, and it can be killed."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from smart_core.cli.dashboard import MALLOC
from tests.conftest import ROOT

PATIENCE = 90
"""Seconds until a server that does not answer counts as broken."""


@dataclass
class Server:
    """A running dashboard."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path

    def megabytes(self) -> float:
        """Resident memory of the server's process."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", text)
        assert found is not None
        return int(found[1]) / 1024

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is tidied."""
        self.process.kill()
        self.process.wait(timeout=20)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def running(
    log: Path, *options: str, port: int | None = None, app: str = "dashboard.py", folder: Path | None = None
) -> Iterator[Server]:
    """A server of the app, up and answering; its output goes to `log`.

    With a folder, it is `smart dashboard` with its workspaces there.
    """
    port = port or free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "streamlit", "run", app, f"--server.port={port}", "--server.headless=true"]
    if folder is not None:
        command = [sys.executable, "-m", "smart_core", "dashboard", f"--port={port}", "--no-browser"]
        command.append(f"--workspace-dir={folder}")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, *options], cwd=ROOT, env={**os.environ, **MALLOC}, stdout=output, stderr=output
        )
    server = Server(address, process, log)
    try:
        _wait_until_up(server)
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()


def _wait_until_up(server: Server) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert server.process.poll() is None, f"the dashboard did not start: {server.log.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(f"{server.address}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the dashboard did not answer in time")
