"""Return freed memory to the operating system when a session ends.

glibc keeps the pages that its threads have freed, so a server that once had many sessions would stay as large as it was
then. `malloc_trim` returns whole free pages. How many arenas the threads share, and how much free memory each keeps at
its end, is set by environment variables that `smart dashboard` starts the server with (`MALLOC` in
`smart_core/cli/dashboard.py`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import queue
import threading
import time

DELAY = 1.0
"""Seconds from a session's end to the release: by then its objects are freed, and other sessions may have ended."""

_ended: queue.SimpleQueue[None] = queue.SimpleQueue()
_lock = threading.Lock()
_watcher: list[threading.Thread] = []


def watch() -> None:
    """Start the one thread of the process that waits for sessions to end."""
    with _lock:
        if not _watcher:
            thread = threading.Thread(target=_watch, name="memory", daemon=True)
            thread.start()
            _watcher.append(thread)


def session_ended() -> None:
    """Tell the thread. A finalizer may run at any time in any thread, so it may only touch a `SimpleQueue`."""
    _ended.put(None)


def _watch() -> None:
    while True:
        _ended.get()
        time.sleep(DELAY)
        while not _ended.empty():
            _ended.get()
        release()


def release() -> None:
    """Collect garbage, and return free pages to the operating system where the C library can."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
