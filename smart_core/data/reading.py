"""What a caller may settle about a file, instead of leaving it to be understood from names and values."""

from __future__ import annotations

from dataclasses import dataclass

from smart_core.data.logitset import Cure
from smart_core.errors import LogitFileError

LOGITS, PROBABILITIES = "logits", "probabilities"


@dataclass(frozen=True)
class Reading:
    """The options of `load` that override a guess; None leaves the guess."""

    values: str | None = None
    labels_start_at: int | None = None
    transposed: bool | None = None

    def __post_init__(self) -> None:
        if self.values not in (None, LOGITS, PROBABILITIES):
            raise LogitFileError(f"values must be {LOGITS} or {PROBABILITIES}, not {self.values}.")
        if self.labels_start_at not in (None, 0, 1):
            raise LogitFileError(f"labels_start_at must be 0 or 1, not {self.labels_start_at}.")
        if self.transposed not in (None, False, True):
            raise LogitFileError(f"transposed must be True or False, not {self.transposed}.")


THESE_ARE_LOGITS = Cure("values", LOGITS, "These are logits")
THESE_ARE_PROBABILITIES = Cure("values", PROBABILITIES, "These are probabilities")
THESE_ARE_PERCENTAGES = Cure("values", PROBABILITIES, "These are percentages")
START_AT_0 = Cure("labels_start_at", 0, "Labels really start at 0")
START_AT_1 = Cure("labels_start_at", 1, "Labels really start at 1")
ROWS_ARE_SAMPLES = Cure("transposed", False, "The rows are the samples")
COLUMNS_ARE_SAMPLES = Cure("transposed", True, "The columns are the samples")
BY_HAND = Cure("roles", None, "Choose the arrays by hand")
