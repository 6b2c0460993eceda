"""What the paper says of its tables (`paper_claims.csv`), checked against the cells of these tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from smart_core.experiments import paper
from smart_core.formatting import join_words

SHOWN = 4
"""Exceptions that a sentence names."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper about SMART and the methods `against`, over the rows of a table."""

    metric: str
    table: str
    words: str
    against: tuple[str, ...] = ()
    """Methods that SMART is compared with; empty for all others."""
    datasets: tuple[str, ...] = ()
    """Data sets that it is about; empty for all."""
    equal: bool = False
    """Whether it says that the values are equal, instead of SMART's being lower."""
    claimed: int | None = None
    """On how many rows it is said to hold; None for all."""


@dataclass(frozen=True)
class Checked:
    """On how many rows of its table a claim holds."""

    claim: Claim
    count: int
    total: int
    exceptions: tuple[str, ...]
    """The other rows."""

    @property
    def holds(self) -> bool:
        """Whether the claim is true of the table as it is printed."""
        return self.count == (self.total if self.claim.claimed is None else self.claim.claimed)

    @property
    def sentence(self) -> str:
        """The claim and what the table shows: `...: 19 of 26 in its table; not on ...`."""
        found = f"{self.claim.words}: {self.count} of {self.total} in its table"
        few = 0 < len(self.exceptions) <= SHOWN
        return f"{found}{f'; not on {join_words(list(self.exceptions))}' if few else ''}."


def _claim(row: Mapping[str, str]) -> Claim:
    against, datasets = (tuple(row[name].split()) for name in ("against", "datasets"))
    claimed = int(row["claimed"]) if row["claimed"] else None
    return Claim(row["metric"], row["table"], row["words"], against, datasets, row["equal"] == "yes", claimed)


CLAIMS = tuple(map(_claim, paper.read("paper_claims.csv")))


def checked(metric: str, claims: Sequence[Claim] = CLAIMS) -> list[Checked]:
    """Check the claims about a metric.

    >>> [found.holds for found in checked("adaece")], checked("adaece")[0].count
    ([False], 19)
    """
    return [_checked(claim) for claim in claims if claim.metric == metric]


def _checked(claim: Claim) -> Checked:
    at: dict[str, dict[str, float]] = {}
    for row in paper.rows(table=claim.table):
        if not claim.datasets or row.dataset in claim.datasets:
            own = ", ".join(part for part in (f"{row.dataset} {row.model}", row.variant) if part)
            at.setdefault(own, {})[row.method] = row.value
    held = {}
    for name, values in at.items():
        others = [value for id, value in values.items() if id != "smart" and id in (claim.against or values)]
        held[name] = all(values["smart"] == other if claim.equal else values["smart"] < other for other in others)
    return Checked(claim, sum(held.values()), len(held), tuple(name for name, fine in held.items() if not fine))
