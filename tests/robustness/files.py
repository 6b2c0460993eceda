"""The long form of the tests of bad input: every file of the generator, the damage by a seed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.robustness.generator import FULL, cases
from tests.robustness.trial import faults, table, tried


def soak(count: str | int = FULL, seed: str | int = 0) -> bool:
    """Try `count` files and print what came of them; whether every promise was kept."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = list(tried(cases(int(count), int(seed)), Path(folder)))
    print("\n".join(faults(outcomes)))
    print(table(outcomes))
    return not any(outcome.faults for outcome in outcomes)
