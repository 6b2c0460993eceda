"""Seconds and peak memory of a step, and the machine's name."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value")

STATUS = Path("/proc/self/status")
PEAK = Path("/proc/self/clear_refs")

WATCHER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A small process between: a child's peak is at least its parent's size, and this one is large."""


@dataclass(frozen=True)
class Measured(Generic[Value]):
    """The result of a step, its seconds (the fastest of its runs) and its peak memory above the memory held before."""

    value: Value
    seconds: float
    megabytes: float


def measured(function: Callable[[], Value], repeats: int = 1) -> Measured[Value]:
    """Run a step a few times."""
    seconds, megabytes = float("inf"), 0.0
    for _ in range(repeats):
        before = _start_watching()
        start = time.perf_counter()
        value = function()
        seconds = min(seconds, time.perf_counter() - start)
        megabytes = max(megabytes, _peak() - before)
    return Measured(value, seconds, megabytes)


def measured_start(*arguments: str, repeats: int = 5) -> Measured[None]:
    """A new Python that does what the arguments say, from its start to its end; all of its memory counts."""
    command, seconds = [sys.executable, *arguments], float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds = min(seconds, time.perf_counter() - start)
    watched = subprocess.run([sys.executable, "-c", WATCHER, *command], check=True, capture_output=True, text=True)
    return Measured(None, seconds, int(watched.stdout) / 1024)


def machine() -> str:
    """Processor, cores and the load while measuring."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, load average {load}"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _start_watching() -> float:
    """Give freed memory back and forget the highest so far, where the system can; returns the megabytes now."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        PEAK.write_text("5")
        return _field("VmRSS")
    except OSError:
        return _peak()


def _peak() -> float:
    return _field("VmHWM") if STATUS.exists() else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _field(name: str) -> float:
    for line in STATUS.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0
