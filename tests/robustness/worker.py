"""A process that opens files through the sandbox and measures it; some it also reads itself, and watches what it does.

Started by `trial.py` with a list of (path, whether to pass bytes, whether to read it in this process too) on standard
input. Answers each with two lines of JSON, one before and one after, so that the parent knows which file a hang or a
crash belongs to.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import smart_core as sc
from smart_core.data import Document
from smart_core.errors import LogitFileError
from tests.conftest import ROOT
from tests.data.files import Usage

SPARE = 1 << 30
"""Bytes of address space that an audited load may take beyond what the process had before."""
AUDITED_PEAK = 300_000_000
"""Files that take more memory than this in the sandbox are not read in this process."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = (
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.startfile", "subprocess.Popen",
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.putenv", "os.utime", "os.kill", "shutil.", "tempfile.", "socket.", "urllib.Request", "http.",
    "ftplib.", "smtplib.",
    "ctypes.dlopen", "ctypes.cdata", "webbrowser.open", "pty.spawn", "sqlite3.connect", "pickle.find_class",
    "code.__new__", "function.__new__",
)  # fmt: skip
"""Audit events that reading a file must not raise."""


class Watch:
    """An audit hook that can be turned on and off; what it sees while on is kept."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and _foreign(event, arguments):
            self.seen.append(f"{event} {arguments!r}"[:200])


def _foreign(event: str, arguments: tuple[Any, ...]) -> bool:
    if event == "open":
        _, mode, flags = arguments
        return bool(isinstance(mode, str) and set(mode) & set("wax+")) or bool(
            isinstance(flags, int) and flags & WRITING
        )
    if event == "exec":
        # the body of a module or class of this installation is no foreign code; text that is evaluated is
        return not getattr(arguments[0], "co_filename", "<").startswith((sys.prefix, sys.base_prefix, str(ROOT)))
    return event.startswith(FORBIDDEN)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Beyond this the kernel says no, whatever a file asks for."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + SPARE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def sound(data: sc.LogitSet) -> str:
    """Return what is wrong with a loaded set; empty if nothing is."""
    import numpy as np

    wrong = []
    for part in (data.validation, data.test):
        if part.kind == "logits" and not np.isfinite(part.logits.max(axis=1)).all():
            wrong.append("a row of logits has no finite maximum")
        if np.isnan(part.logits).any():
            wrong.append("logits are NaN")
        if part.features is not None and not np.isfinite(part.features).all():
            wrong.append("features are not finite")
        if len(part) == 0 or (part.kind == "logits" and part.classes < 2):
            wrong.append("nothing to calibrate")
    if not data.name.isprintable():
        wrong.append("the name has control characters")
    wrong += [
        f"notice {notice.code} is not one printable line" for notice in data.notices if not str(notice).isprintable()
    ]
    assert data.content_hash
    return "; ".join(wrong)


def attempt(source: dict[str, Any]) -> dict[str, Any]:
    """One file, described and loaded through the sandbox."""
    outcome, said, described, accepted = "refused", "", "", 0
    start, own = time.perf_counter(), time.thread_time()
    with Usage() as usage:
        try:
            document = Document.open(**source)
            if not all(info.key.isprintable() for info in document.describe()):
                described = "a key has control characters"
            data = document.load()
            accepted = sum(array.nbytes for _, array in data.arrays())
            outcome, said = "loaded", sound(data)
        except LogitFileError as error:
            said = str(error)
        except BaseException as error:  # this is what is looked for
            outcome, said = "error", f"{type(error).__name__}: {error}"
    return {
        "outcome": outcome, "said": said, "described": described,
        "wall": time.perf_counter() - start, "own": time.thread_time() - own,
        "seconds": usage.seconds, "peak": usage.peak, "growth": usage.growth - accepted, "ended": usage.ended,
    }  # fmt: skip


def audit(source: dict[str, Any], watch: Watch) -> list[str]:
    """What this process does besides reading when it loads the file itself."""
    watch.seen, watch.on = [], True
    with limited_memory(), suppress(LogitFileError):
        sc.load(**source, isolated=False)
    watch.on = False
    return watch.seen


def main() -> None:
    warnings.simplefilter("ignore")
    warm, rest = json.loads(sys.stdin.readline())
    watch = Watch()
    for name in warm:  # what is imported at first use is imported now
        sc.load(Path(name), isolated=False)
        sc.load(Path(name))
    for name, as_bytes, audited in rest:
        print(json.dumps({"start": name}), flush=True)
        path = Path(name)
        source: dict[str, Any] = {"source": path.read_bytes(), "name": path.name} if as_bytes else {"source": path}
        answer = attempt(source)
        audited = audited and not answer["ended"] and answer["peak"] < AUDITED_PEAK
        answer["did"] = audit(source, watch) if audited else []
        print(json.dumps(answer | {"audited": audited}), flush=True)


if __name__ == "__main__":
    main()
