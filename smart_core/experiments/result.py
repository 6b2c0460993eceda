"""What every experiment returns: a plain object that becomes a DataFrame and JSON."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class Result(ABC):
    """A finished experiment."""

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """The result as a tidy table."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The result as plain numbers, strings, lists and dicts."""

    def to_json(self, indent: int | None = 2) -> str:
        """`to_dict` as JSON; what is not a finite number becomes null."""
        return json.dumps(plain(self.to_dict()), indent=indent, allow_nan=False)


def plain(value: Any) -> Any:
    """The same value without NumPy types and without NaN or infinity, which JSON does not know."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
