"""The Carlini-Wagner attack side by side with foolbox's: same model, same images, same settings.

Run with `python -m benchmarks.attacks [IMAGES]`. The processor's time is counted: it depends less on how busy the
machine is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from scipy.stats import spearmanr

from smart_core.attacks import Search, carlini_wagner_l2
from smart_core.cli.terminal import table
from tests.digits_model import trained, unseen
from tests.foolbox_attack import foolbox_distances

IMAGES = 200
Result = TypeVar("Result")


def timed(function: Callable[[], Result]) -> tuple[Result, float]:
    """Its result, and the processor's seconds."""
    start = time.process_time()
    return function(), time.process_time() - start


def main(count: int = IMAGES) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    images, search = unseen(count), Search()
    trained()
    ours, our_seconds = timed(lambda: carlini_wagner_l2(trained(), images, search).l2)
    theirs, their_seconds = timed(lambda: foolbox_distances(trained(), images, search))
    rows = [
        (name, f"{np.nanmedian(l2):.4f}", np.isnan(l2).sum(), f"{1000 * seconds / count:.1f}")
        for name, l2, seconds in (("smart_core", ours, our_seconds), ("foolbox", theirs, their_seconds))
    ]
    print(f"{count} digits, {search.iterations} iterations, {search.search_steps} search steps")
    print(table(("attack", "median L2", "failures", "ms an image"), rows))
    both = np.isfinite(ours) & np.isfinite(theirs)
    print(f"rank correlation {spearmanr(ours[both], theirs[both])[0]:.5f}, ", end="")
    print(f"found by foolbox only {int((np.isnan(ours) & np.isfinite(theirs)).sum())}, ", end="")
    print(f"foolbox takes {their_seconds / our_seconds:.1f} times as long")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
