"""All odd files in one sequence: the hand-written ones first, then damaged copies of valid ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from tests.robustness.archives import odd_archives
from tests.robustness.arrays import odd_arrays, odd_headers
from tests.robustness.case import Case
from tests.robustness.mutations import mutated
from tests.robustness.pickles import hostile_pickles
from tests.robustness.tables import odd_columns, odd_text
from tests.robustness.tricks import tricks

FULL = 5000
"""Files of the full form."""


def written_out() -> Iterator[Case]:
    """The cases that do not depend on a seed."""
    return chain(odd_arrays(), odd_headers(), odd_text(), odd_columns(), odd_archives(), hostile_pickles(), tricks())


def cases(count: int = FULL, seed: int = 0) -> list[Case]:
    """The first `count`; the same for the same seed."""
    return list(islice(chain(written_out(), mutated(seed)), count))


def sample(count: int, seed: int = 0) -> list[Case]:
    """About `count` of the full form, spread over its kinds and formats in proportion.

    Only the bombs are left out: `tests/data/test_bombs.py` tries them all.
    """
    families: dict[tuple[str, str], list[Case]] = {}
    for case in (case for case in cases(seed=seed) if case.kind != "bomb"):
        families.setdefault((case.kind, case.format), []).append(case)
    share = count / FULL
    return [
        case
        for family in families.values()
        for case in family[:: max(1, round(len(family) / max(1, round(len(family) * share))))]
    ]
