"""A process that saves items until it is killed, and says after each that it is saved.

Started once, it imports the engine once: for each line `folder seed` on its standard input it forks a child that
prints its process id and writes, and prints `ended` when the child has ended.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from smart_core.export.workspaces.store import Store

WORKSPACE = "w" * 32
KEYS = "abcdef"


def value(number: int) -> dict[str, Any]:
    """What is saved: every array tells the number, and arrays of several sizes are files."""
    size = random.Random(number).choice([10, 2000, 60_000, 400_000])
    return {"number": number, "array": np.full(size, number), "again": np.full(3000, number // 2)}


def write(folder: str, seed: int) -> None:
    store, chosen = Store(Path(folder)), random.Random(seed)
    store.create("killed", WORKSPACE)
    for number in range(seed * 1000, seed * 1000 + 1000):
        key = chosen.choice(KEYS)
        if chosen.random() < 0.15:
            store.remove(WORKSPACE, "row", key)
            number = -1
        else:
            store.put(WORKSPACE, "row", key, value(number))
        os.write(1, f"{key} {number}\n".encode())


def main() -> None:
    for line in sys.stdin:
        folder, seed = line.split()
        child = os.fork()
        if child == 0:
            try:
                os.write(1, f"child {os.getpid()}\n".encode())  # its parent may be slower than its saves
                write(folder, int(seed))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
