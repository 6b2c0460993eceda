"""Memory that departed sessions held, handed back to the system.

The C library keeps what many threads have freed in pieces for later use, so that a server which once had a crowd would
stay as large as it was then. Where the library can be asked to give free pages back (glibc), it is. It keeps a store
of its own for each of many threads, and a page goes back only when all of it is free: few stores leave fewer pages
that are almost empty. What is free at a store's end cannot be asked for: it goes back when more than a bound has
gathered there. The library raises that bound by itself, to twice the largest piece freed and up to 64 MB for each
store, so the bound is set.
"""

from __future__ import annotations

import ctypes
import gc
import os
import queue
import threading
import time

PAUSE = 1.0
"""Seconds from a session's end to the giving back: by then what hung on it is freed, and others may have ended too."""

STORES = 2
"""Arenas of the C library that threads share; by itself it makes eight for each core."""

FREE_END = 2 << 20
"""Bytes that may stay free at a store's end. With much less, work that takes and frees arrays in turn would have the
system clear the same pages again and again."""

ALONE = 8 << 20
"""Bytes from which a piece is the system's own and goes back at once. A bound that is set stops this one where it
happens to be, so it is set too. With both at 1 MB, a round of fits and softmaxes met ten times as many fresh pages."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""The numbers of `mallopt`'s parameters in glibc's malloc.h."""

_departed: queue.SimpleQueue[None] = queue.SimpleQueue()
_begin = threading.Lock()
_watcher: list[threading.Thread] = []


def watch() -> None:
    """Have one thread of the process wait for sessions to end."""
    with _begin:
        if not _watcher:
            bound_stores()
            thread = threading.Thread(target=_watch, name="memory", daemon=True)
            thread.start()
            _watcher.append(thread)


def bound_stores() -> None:
    """Have threads share `STORES` arenas from now on and keep little free in them, where the C library can."""
    _ask("mallopt", M_ARENA_MAX, STORES)
    _ask("mallopt", M_TRIM_THRESHOLD, FREE_END)
    _ask("mallopt", M_MMAP_THRESHOLD, ALONE)


def session_over() -> None:
    """Tell it. A finalizer runs at any moment, in any thread: a simple queue is all that it may touch."""
    _departed.put(None)


def _watch() -> None:
    while True:
        _departed.get()
        time.sleep(PAUSE)
        while not _departed.empty():
            _departed.get()
        give_back()


def give_back() -> None:
    """Collect what is unreachable, and hand free pages to the system."""
    gc.collect()
    _ask("malloc_trim", 0)


def _ask(name: str, *numbers: int) -> None:
    """Call the C library's function where there is one of that name; Windows has no library of the process itself."""
    function = getattr(ctypes.CDLL(None), name, None) if os.name == "posix" else None
    if function is not None:
        function(*numbers)
