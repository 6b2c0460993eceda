"""The slow forms of the robustness tests: `python -m tests.robustness.soak [part [arguments]]`.

A part is a module of this folder with a function `soak(*arguments: str) -> bool` that prints its table and says whether
nothing was lost. Without a part, each of `PARTS` is run with its own defaults.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

PARTS = ("files", "sessions", "hostile_uploads", "workspaces")


def main(arguments: Sequence[str]) -> int:
    """0 if every part that was run lost nothing."""
    if arguments and arguments[0] not in PARTS:
        print(f"There is no part '{arguments[0]}'; choose from {', '.join(PARTS)}.")
        return 2
    wanted = {arguments[0]: arguments[1:]} if arguments else {part: [] for part in PARTS}
    whole = True
    for part, given in wanted.items():
        print(f"== {part}", flush=True)
        whole &= importlib.import_module(f"tests.robustness.{part}").soak(*given)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
