"""Indicators of a sample's hardness that SMART may read: the paper's six."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smart_core.device import precise, rows_per_chunk, to_tensor
from smart_core.errors import CalibrationError
from smart_core.fitting.ragged import mean_over_classes
from smart_core.progress import Run
from smart_core.types import Logits, Vector

LARGEST = 1e32
"""Inputs of a temperature map are clipped to +-this: far beyond any useful value, and small enough that neither
standardising them nor a layer of the map leaves float32."""

LEAST_SPREAD = 1e-12
"""A column with a smaller std is constant but for rounding; dividing by it could leave float32."""


def margin(logits: Logits) -> Tensor:
    """`m = z_(1) - z_(2)`, the largest minus the second largest logit; at most the largest float32."""
    top = logits.topk(2, dim=1).values
    return (top[:, 0] - top[:, 1]).clamp(max=torch.finfo(logits.dtype).max)


def entropy(logits: Logits) -> Tensor:
    """`-sum_k q_k log q_k` of the uncalibrated softmax."""
    log_q = torch.log_softmax(logits, dim=1)
    q = log_q.exp()
    return -(q * log_q.clamp(min=-1e4)).sum(dim=1)


def confidence(logits: Logits) -> Tensor:
    """`max_k q_k` of the uncalibrated softmax."""
    return torch.softmax(logits, dim=1).amax(dim=1)


def max_logit(logits: Logits) -> Tensor:
    """`z_(1)`."""
    return logits.amax(dim=1)


def max_minus_mean(logits: Logits) -> Tensor:
    """`z_(1) - mean_k z_k` over the classes that the row has; at most the largest float32."""
    values = logits.amax(dim=1) - mean_over_classes(precise(logits), logits).to(logits.dtype)
    return values.nan_to_num(nan=0.0).clamp(min=0.0)


def all_logits(logits: Logits) -> Tensor:
    """The whole row, (N, K)."""
    return logits


@dataclass(frozen=True)
class Indicator:
    """An indicator's function and its name in tables."""

    function: Callable[[Logits], Tensor]
    label: str
    scalar: bool = True
    """Whether it is one number per sample; otherwise one per class."""

    def width(self, classes: int) -> int:
        """Number of inputs of the temperature map for this many classes."""
        return 1 if self.scalar else classes

    def __call__(self, logits: Logits) -> Tensor:
        """(N, width) inputs of the temperature map, within +-`LARGEST`."""
        values = self.function(logits).clamp(-LARGEST, LARGEST)
        return values.unsqueeze(1) if values.ndim == 1 else values


INDICATORS: dict[str, Indicator] = {
    "margin": Indicator(margin, "Margin"),
    "entropy": Indicator(entropy, "Entropy"),
    "confidence": Indicator(confidence, "Confidence"),
    "max_logit": Indicator(max_logit, "Max logit"),
    "max_minus_mean": Indicator(max_minus_mean, "Max minus mean"),
    "all_logits": Indicator(all_logits, "All logits", scalar=False),
}


@dataclass(frozen=True)
class Standardizer:
    """`x = (v - mean) / std` with the validation set's mean and population std, column by column.

    The moments are taken in float64; a column without spread (at most `LEAST_SPREAD`) is only centred.
    """

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, values: Tensor, run: Run | None = None) -> Standardizer:
        moments = []
        for columns in values.split(rows_per_chunk(len(values)), dim=1):
            if run is not None:
                run.tick(0.0, "standardising")
            wide = columns.cpu().to(torch.float64)
            moments.append((wide.mean(dim=0), wide.std(dim=0, correction=0)))
        mean, std = (torch.cat(parts) for parts in zip(*moments, strict=True))
        std = torch.where(std > LEAST_SPREAD, std, torch.ones_like(std))
        return cls(mean.to(values.dtype).to(values.device), std.to(values.dtype).to(values.device))

    @classmethod
    def identity(cls, values: Tensor) -> Standardizer:
        return cls(torch.zeros_like(values[0]), torch.ones_like(values[0]))

    def __call__(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.std


def scalar_indicator(name: str, logits: NDArray[Any]) -> Vector:
    """(N,) values of an indicator that is one number per sample; `all_logits` is not, and is refused."""
    scalars = [known for known, indicator in INDICATORS.items() if indicator.scalar]
    if name not in scalars:
        said = "is not one number per sample" if name in INDICATORS else "is not an indicator"
        raise CalibrationError(f"'{name}' {said}, so nothing can be drawn against it; take {', '.join(scalars)}.")
    size = rows_per_chunk(logits.shape[1])
    cpu = torch.device("cpu")
    chunks = [
        INDICATORS[name].function(Logits(to_tensor(logits[start : start + size], cpu))).double().numpy()
        for start in range(0, len(logits), size)
    ]
    return np.concatenate(chunks) if chunks else np.empty(0)
