"""The choices a caller can make instead of leaving them to names, shapes and values."""

from __future__ import annotations

from dataclasses import dataclass

from smart_core.data.logitset import Cure
from smart_core.errors import LogitFileError

LOGITS, PROBABILITIES = "logits", "probabilities"


@dataclass(frozen=True)
class Options:
    """The arguments of `load` that override a guess; None leaves the guess."""

    values: str | None = None
    labels_start_at: int | None = None
    transposed: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("values", (LOGITS, PROBABILITIES)),
            ("labels_start_at", (0, 1)),
            ("transposed", (True, False)),
        ):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise LogitFileError(f"{name} must be {allowed[0]} or {allowed[1]}, not {value}.")


THESE_ARE_LOGITS = Cure("values", LOGITS, "These are logits")
THESE_ARE_PROBABILITIES = Cure("values", PROBABILITIES, "These are probabilities")
THESE_ARE_PERCENTAGES = Cure("values", PROBABILITIES, "These are percentages")
START_AT_0 = Cure("labels_start_at", 0, "Labels start at 0")
START_AT_1 = Cure("labels_start_at", 1, "Labels start at 1")
ROWS_ARE_SAMPLES = Cure("transposed", False, "The rows are the samples")
COLUMNS_ARE_SAMPLES = Cure("transposed", True, "The columns are the samples")
BY_HAND = Cure("roles", None, "Choose the arrays by hand")
OTHER_SPLIT = Cure("split_seed", None, "Split again")
