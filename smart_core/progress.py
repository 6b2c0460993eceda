"""Progress, cancellation and trace of one computation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol, TypeVar

from smart_core.errors import Cancelled

T = TypeVar("T")

Progress = Callable[[float, str], None]
"""Called with the fraction done, in [0, 1], and a short description."""

REPORT_EVERY = 0.05
"""Least number of seconds between two reports: a smooth bar at no measurable cost."""


class CancelToken(Protocol):
    """Anything like `threading.Event`: `is_set()` says whether to stop."""

    def is_set(self) -> bool: ...


@dataclass
class Trace:
    """Quantities recorded at each epoch: name -> values in order."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def record(self, **quantities: float) -> None:
        for name, value in quantities.items():
            self.values.setdefault(name, []).append(float(value))

    def __getitem__(self, name: str) -> list[float]:
        return self.values[name]

    def __len__(self) -> int:
        return max((len(column) for column in self.values.values()), default=0)


class Run:
    """Progress, cancellation and trace of one computation; `part` maps a stage into the whole.

    >>> run = Run(lambda fraction, message: print(f"{fraction:.0%} {message}"))
    >>> run.part(0.5, 1.0).tick(1.0, "second half")
    100% second half
    """

    def __init__(
        self,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        trace: bool = False,
        *,
        span: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.progress = progress
        self.cancel = cancel
        self.trace = Trace() if trace else None
        self.span = span
        self._last_report = 0.0

    def tick(self, fraction: float, message: str = "") -> None:
        """Raise `Cancelled` if the token is set; otherwise report, at most once every `REPORT_EVERY` seconds."""
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled("The computation was cancelled.")
        if self.progress is None:
            return
        now = time.monotonic()
        if fraction >= 1.0 or now - self._last_report >= REPORT_EVERY:
            self._last_report = now
            start, stop = self.span
            self.progress(start + (stop - start) * min(max(fraction, 0.0), 1.0), message)

    def part(self, start: float, stop: float, *, traced: bool = True) -> Run:
        """The same computation with its progress mapped to the interval from `start` to `stop` of this one.

        A stage that is not `traced` records nothing.
        """
        low, high = self.span
        width = high - low
        child = Run(self.progress, self.cancel, span=(low + width * start, low + width * stop))
        child.trace = self.trace if traced else None
        return child

    def each(self, items: Sequence[T], weights: Sequence[float] | None = None) -> Iterator[tuple[T, Run]]:
        """Every item with its part of this computation: equal shares, or shares in proportion to the weights."""
        ends = list(accumulate(weights or [1.0] * len(items)))
        whole = ends[-1] if ends and ends[-1] > 0 else 1.0
        for item, start, end in zip(items, [0.0, *ends], ends, strict=False):
            yield item, self.part(start / whole, end / whole)


def attempt(compute: Callable[[], T]) -> T | Exception:
    """What `compute` returns, or the error that it raised, so that one failure does not cost other results.

    A cancellation is raised.

    >>> attempt(lambda: 1 / 2), attempt(lambda: 1 / 0)
    (0.5, ZeroDivisionError('division by zero'))
    """
    try:
        return compute()
    except Cancelled:
        raise
    except Exception as error:
        return error
