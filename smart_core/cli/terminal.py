"""The terminal: a progress bar, plain-text tables, and the interrupt key."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smart_core.progress import Run

BAR_WIDTH = 28


class ProgressBar:
    """A bar with the time left on standard error; it shows nothing where that is not a terminal."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()
        self.start = time.monotonic()

    def __call__(self, fraction: float, words: str) -> None:
        if not self.shown:
            return
        filled = round(fraction * BAR_WIDTH)
        elapsed = time.monotonic() - self.start
        left = f"{elapsed * (1.0 - fraction) / fraction:4.0f} s left" if fraction > 0.01 else " " * 11
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        sys.stderr.write(f"\r[{bar}] {fraction:4.0%} {left}  {words[:50]:<50}")
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r" + " " * 110 + "\r")
            sys.stderr.flush()


@contextmanager
def handling(handler: Callable[[int, FrameType | None], Any], *signals: signal.Signals) -> Iterator[None]:
    """Handle these signals in the block; outside the main thread, where Python does not allow it, do nothing."""
    before = {each: signal.signal(each, handler) for each in signals if current_thread() is main_thread()}
    try:
        yield
    finally:
        for each, old in before.items():
            signal.signal(each, old)


@contextmanager
def running() -> Iterator[Run]:
    """Yield a `Run` whose progress is shown as a bar.

    The interrupt key or SIGTERM cancels it, so that a study ends with its finished part; a second one aborts.
    """
    from smart_core.progress import Run

    bar, token = ProgressBar(), Event()

    def press(number: int, frame: FrameType | None) -> None:
        if token.is_set():
            raise KeyboardInterrupt
        token.set()

    try:
        with handling(press, signal.SIGINT, signal.SIGTERM):
            yield Run(bar, token)
    finally:
        bar.close()


def escape_unprintable() -> None:
    """Print characters that the terminal cannot encode as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table with columns padded to their widest cell; numbers are right-aligned."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]
    right = [all(_numeric(row[i]) for row in cells) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        parts = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        return "  ".join(parts).rstrip()

    return "\n".join([line(list(header)), line(["-" * width for width in widths]), *map(line, cells)])


def _numeric(cell: str) -> bool:
    return not cell or cell[0] in "0123456789.-+<"
