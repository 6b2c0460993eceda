"""The command `dashboard`: read the files, then run the app.

Streamlit runs in this process, so each file is read once: every session starts with the data sets in `startup`.
"""

from __future__ import annotations

import argparse
import errno
import os
import runpy
import signal
import socket
import sys
import threading
import time
import webbrowser
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from smart_core.cli import serving
from smart_core.cli.arguments import add_reading, add_scheduler
from smart_core.cli.serving import Access
from smart_core.cli.terminal import handling
from smart_core.errors import LogitFileError, SmartError

if TYPE_CHECKING:
    from smart_core.data.logitset import LogitSet
    from smart_core.export.workspaces import Store

FIRST_PORT, PORTS_TRIED = 8501, 100
SHOW_ATTEMPTS = 600
"""Tenths of a second to wait for the server before no browser window is opened."""
MAX_SETS = 8
"""The number of data sets that a session of the dashboard keeps."""

MALLOC = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": str(2 << 20), "MALLOC_MMAP_THRESHOLD_": str(8 << 20)}
"""Environment of the server, read by glibc's malloc, so that memory is returned after a session has ended.

By default glibc makes eight arenas per core, and each keeps up to 64 MB of free memory at its end. Few arenas leave
fewer pages that are almost empty; 2 MB at the end, and arrays from 8 MB on outside the arenas, go back at once. Lower
thresholds would have the system clear the same pages again and again."""


@dataclass(frozen=True, eq=False)
class StartupDataset:
    """A data set, and the files and options of the command line that it was read with."""

    data: LogitSet
    files: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    in_place: bool = False
    """Whether the logits stay in the files."""


@dataclass(eq=False)
class StartupState:
    """The initial content of every session; the first set, or else the first sample, is shown first."""

    sets: list[StartupDataset] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    store: Store | None = None
    """Where workspaces are saved; without one they are in memory."""
    access: Access = field(default_factory=Access)
    """Who may enter."""
    dask: str | None = None
    """The page on which Dask shows its work, if jobs run there."""


startup = StartupState()


def add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="bundles, each a data set, or one logit file and its label file; or sample:NAME (default: the samples)",
    )
    parser.add_argument("--port", type=_port, help="port to listen on (default: 8501, or the next free one)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="H",
        help="address to listen on (default: 127.0.0.1, this machine only); any other needs --token or a login",
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser window")
    serving.add_arguments(parser)
    parser.add_argument(
        "--labels", nargs="+", metavar="FILE", help="labels of shards; the logits then stay in their files"
    )
    add_scheduler(parser)
    add_reading(parser)


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port; give a whole number from 1 to 65535")
    return int(text)


def run(options: Namespace) -> None:
    """Serve the app until it is stopped. A file that cannot be read raises before the server starts."""
    from smart_core.cli.inputs import on_scheduler, reading
    from smart_core.data.samples import APP, is_sample, located

    restart_with_malloc_settings()
    names = [file for file in options.files if is_sample(file)]
    startup.samples = [located(name).stem for name in names]
    files = [file for file in options.files if file not in names]
    if options.labels or (options.scheduler is not None and files):
        startup.sets = [_in_place([*files, *(options.labels or [])])]
    else:
        startup.sets = read(files, **reading(options))
    shared = not is_loopback(options.host)
    port = free_port(options.host, options.port)
    startup.access = serving.access(options, shared, serving.folder_of(options))
    startup.store = serving.open_store(options, shared)
    token = "" if startup.access.token is None else f"/?token={quote(startup.access.token, safe='')}"
    link = f"{address(options.host, port)}{token}"
    print(f"Dashboard: {link} (Ctrl-C stops it)", flush=True)
    if not options.no_browser:
        threading.Thread(target=_show, args=(link, options.host, port), daemon=True).start()
    flags = [f"--server.address={options.host}", f"--server.port={port}", "--server.headless=true"]
    # Streamlit's welcome message asks an outside host for this machine's address, and its first start for an e-mail
    flags += ["--logger.hideWelcomeMessage=true", "--server.showEmailPrompt=false"]
    sys.argv = ["streamlit", "run", str(APP / "dashboard_server.py"), *flags]
    # having shut down, uvicorn raises the signal again, which Streamlit would report as "Aborted!" with code 1
    with on_scheduler(options) as workers, handling(lambda *_: sys.exit(0), signal.SIGINT, signal.SIGTERM):
        startup.dask = None if workers is None else workers.link
        runpy.run_module("streamlit", run_name="__main__")


def _show(link: str, host: str, port: int) -> None:
    """Open a browser window as soon as the server answers. Streamlit's own would not know the token."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    for _ in range(SHOW_ATTEMPTS):
        with socket.socket(family) as probe:
            if probe.connect_ex((local, port)) == 0:
                webbrowser.open(link)
                return
        time.sleep(0.1)


def restart_with_malloc_settings() -> None:
    """Replace this process by the same command with `MALLOC` in its environment: glibc reads it only at the start."""
    is_command = sys.argv[1:2] == ["dashboard"]  # and not a call of `main` from Python
    if is_command and sys.platform == "linux" and not MALLOC.keys() & os.environ.keys():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **MALLOC})


def _in_place(files: list[str]) -> StartupDataset:
    from smart_core.data.lazy.opening import open as open_shards

    return StartupDataset(open_shards(files), tuple(files), in_place=True)


def read(files: list[str], **options: Any) -> list[StartupDataset]:
    """Read the files as one data set if they form one (logits and labels, validation and test), else one per file.

    The logits of large files stay in them.
    """
    from smart_core.data.lazy.opening import are_large

    if files and not options and are_large(files):
        return [_in_place(files)]
    if len(files) < 2:
        return [_given([file], options) for file in files]
    found: list[StartupDataset] = []
    faults: list[LogitFileError] = []
    for file in files:
        try:
            found.append(_given([file], options))
        except LogitFileError as error:
            faults.append(error)
    if faults or all(_has(one, "split") for one in found):  # parts of one set, or sets without a split of their own
        try:
            whole = _given(files, options)
        except LogitFileError as together:
            if faults:
                raise (faults[0] if found else together) from None
        else:
            guessed = any(_has(whole, code) for code in ("split", "positional_pairs", "ignored_arrays"))
            if faults or _has(whole, "joined") or not guessed:
                return [whole]
    if len(found) > MAX_SETS:
        raise LogitFileError(f"{len(found)} data sets were given; a session keeps {MAX_SETS}: give fewer files.")
    return found


def _has(given: StartupDataset, code: str) -> bool:
    return any(notice.code == code for notice in given.data.notices)


def _given(files: list[str], options: dict[str, Any]) -> StartupDataset:
    from smart_core.data.document import load

    return StartupDataset(load(files, **options), tuple(files), options)


def free_port(host: str, port: int | None) -> int:
    """Return the requested port, or the first free one from 8501 on."""
    candidates = range(FIRST_PORT, FIRST_PORT + PORTS_TRIED) if port is None else [port]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in candidates:
        try:
            socket.create_server((host, candidate), family=family).close()
        except OSError as error:
            fault = error
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                break  # the address is at fault, not the port
        else:
            return candidate
    where = f"--host {host}" if port is None else f"--host {host} --port {port}"
    reason = str(fault.strerror).partition(" (")[0]
    problem = f"the server cannot listen there ({reason})"
    raise SmartError(problem, "choose another address or port", file=where) from fault


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(host: str, port: int) -> str:
    """Return the URL for a browser on this machine."""
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
