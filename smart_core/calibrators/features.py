"""The features a method reads: the penultimate ones where they are given, else the logits, said aloud."""

from __future__ import annotations

from torch import Tensor

from smart_core.calibrators.base import FitData
from smart_core.calibrators.rows import all_finite
from smart_core.errors import CalibrationError


def checked_features(features: Tensor, owner: str) -> Tensor:
    """The features, if they are a finite (N, D) matrix; else one sentence."""
    if features.ndim != 2 or features.shape[1] < 1:
        raise CalibrationError(f"{owner}: features must be (N, D), not {tuple(features.shape)}.")
    if not all_finite(features):
        raise CalibrationError(f"{owner}: the features hold NaN or infinity; remove those rows.")
    return features


def features_or_logits(data: FitData, owner: str, notices: list[str]) -> tuple[Tensor, bool]:
    """What to read, and whether it is features; the fallback leaves a notice."""
    if data.features is None:
        notices.append(f"{owner} was fitted without features; it reads the logits in their place.")
        return data.logits, False
    return checked_features(data.features, owner), True
