"""A process that opens files and watches itself: seconds of work, memory, and whatever it does besides reading.

Started by `trial.py` with a list of (path, whether to hand over bytes) on standard input; answers each with two lines
of JSON, one before and one after, so that the parent knows which file a hang or a crash belongs to.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import smart_core as sc
from smart_core.data import Document
from tests.conftest import ROOT

SPARE = 1 << 30
"""Bytes of address space that a load may take beyond what the process had before."""

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


def peak() -> int:
    """The most memory in use since `forget_peak`."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as switch:
        switch.write("5")


def limit_memory() -> None:
    """Set a hard memory limit that the kernel enforces."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + SPARE, size + SPARE))


def sound(data: sc.LogitSet) -> str:
    """Return what is wrong with a loaded set; empty if nothing is."""
    import numpy as np

    wrong = []
    for part in (data.validation, data.test):
        if not np.isfinite(part.logits).all():
            wrong.append("logits are not finite")
        if part.features is not None and not np.isfinite(part.features).all():
            wrong.append("features are not finite")
        if len(part) == 0 or part.classes < 2:
            wrong.append("nothing to calibrate")
    if not data.name.isprintable():
        wrong.append("the name has control characters")
    wrong += [
        f"notice {notice.code} is not one printable line" for notice in data.notices if not str(notice).isprintable()
    ]
    assert data.content_hash
    return "; ".join(wrong)


def attempt(path: Path, as_bytes: bool, watch: Watch) -> dict[str, Any]:
    """One file, loaded and described."""
    source: dict[str, Any] = {"source": path.read_bytes(), "name": path.name} if as_bytes else {"source": path}
    forget_peak()
    start = time.process_time()
    watch.seen, watch.on = [], True
    outcome, said = "refused", ""
    try:
        data = sc.load(**source, isolated=False)
        outcome, said = "loaded", sound(data)
    except sc.LogitFileError as error:
        said = str(error)
    except BaseException as error:  # this is what is looked for
        outcome, said = "error", f"{type(error).__name__}: {error}"
    loaded = time.process_time()
    try:
        listed = Document.open(path if not as_bytes else (path.name, source["source"]), isolated=False).describe()
        described = "" if all(info.key.isprintable() for info in listed) else "a key has control characters"
    except sc.LogitFileError as error:
        described = "" if str(error).isprintable() else "describe says more than one line"
    except BaseException as error:
        described = f"describe: {type(error).__name__}: {error}"
    watch.on = False
    seconds = max(loaded - start, time.process_time() - loaded)
    return {
        "outcome": outcome, "said": said, "described": described, "seconds": seconds, "peak": peak(), "did": watch.seen,
    }  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    warm, rest = json.loads(sys.stdin.readline())
    watch = Watch()
    for name in warm:  # what is imported at first use is imported now
        sc.load(Path(name), isolated=False)
        Document.open(Path(name), isolated=False).describe()
    limit_memory()
    for name, as_bytes in rest:
        print(json.dumps({"start": name}), flush=True)
        print(json.dumps(attempt(Path(name), as_bytes, watch)), flush=True)


if __name__ == "__main__":
    main()
