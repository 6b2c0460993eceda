"""Make a sample anew: `python -m sample_logits.make cifar10` fetches, trains, extracts, attacks and writes.

What is fetched, each epoch of training and each chunk of the attack is kept in a cache folder, so that a run that was
stopped goes on.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from importlib import import_module

from sample_logits import path
from sample_logits.bundles import Arrays, accuracy, write
from sample_logits.fetch import FetchError, cache_folder
from sample_logits.training import CheckpointError, Say

SAMPLES = ("cifar10", "digits", "fashion", "fashion_long_tail", "languages", "letters")
"""Modules of this package with a function `bundles(say)`: the name of each bundle and its arrays, one by one."""

INTERRUPTED = 130
"""What a shell gives for a command that the interrupt key ended."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sample_logits.make", description=__doc__)
    parser.add_argument("names", nargs="+", choices=SAMPLES, help="which samples to make")
    for name in parser.parse_args().names:
        say = logger(name)
        try:
            for bundle, arrays in import_module(f"sample_logits.{name}").bundles(say):
                write(bundle, arrays)
                _sum_up(bundle, arrays, say)
        except (FetchError, CheckpointError) as error:
            sys.exit(f"{name}: {error}")
        except KeyboardInterrupt:
            say("stopped; the same command goes on from here")
            sys.exit(INTERRUPTED)


def _sum_up(bundle: str, arrays: Arrays, say: Say) -> None:
    say(f"{path(bundle)}: {path(bundle).stat().st_size / 1000:.0f} kB")
    for split in ("val", "test"):
        say(f"  {split}: {len(arrays[f'{split}_labels'])} rows, accuracy {accuracy(arrays, split):.4f}")


def logger(name: str) -> Say:
    """Prints a line with the time of day, and keeps it in the cache folder's `NAME.log`."""
    log = cache_folder() / f"{name}.log"

    def say(words: str) -> None:
        line = f"{datetime.now():%H:%M:%S} {words}"
        print(line, flush=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    return say


if __name__ == "__main__":
    main()
