"""Confidence and prediction of a temperature method, without the rest of its probabilities.

The confidence is the exact softmax's, `1 / sum_k exp((z_k - max z) / T)`, and the prediction the largest logit's class,
the first where several are largest. Compiled loops read each chunk of rows while it lies in the processor's cache; on a
GPU, and without numba, both come from the rows of `predict_proba`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from smart_core import kernels
from smart_core.calibrators.base import TemperatureCalibrator
from smart_core.device import like_input, resolve_device, rows_per_chunk, to_tensor
from smart_core.kernels.threads import share
from smart_core.progress import Run
from smart_core.types import Logits

MarginMap = Callable[[Tensor], Tensor]
"""(n,) margins -> (n,) temperatures."""

Rows = tuple[Tensor, Tensor]
"""(n,) confidences and (n,) predictions."""


def confident_predictions(
    calibrator: TemperatureCalibrator, logits: Any, by_margin: MarginMap | None = None
) -> tuple[Any, Any]:
    """Confidences (N,), float32, and predictions (N,), in the kind of the input: NumPy or torch.

    `by_margin` gives the temperatures of a method that reads nothing but the margin, which is then found on the way.
    """
    rows, _ = calibrator._check_rows(logits, None)
    device = resolve_device(calibrator.device)
    size = rows_per_chunk(4 * calibrator.classes_)  # read three times, so the nearer cache pays
    compiled = device.type == "cpu" and kernels.usable()

    def piece(start: int) -> Rows:
        chunk = to_tensor(rows[start : start + size], device)
        with torch.no_grad():
            if compiled and _finite(chunk):
                return _compiled(calibrator, chunk.contiguous(), by_margin)
            return _plain(calibrator, calibrator._finite(chunk, start, "logits"))

    found = share(piece, range(0, len(rows), size), Run(), "predicting")
    if not found:
        return like_input(torch.empty(0), logits), like_input(torch.empty(0, dtype=torch.int64), logits)
    confidence, prediction = (torch.cat(column) for column in zip(*found, strict=True))
    return like_input(confidence, logits), like_input(prediction, logits)


def _plain(calibrator: TemperatureCalibrator, chunk: Tensor) -> Rows:
    confidence, prediction = calibrator._probabilities(Logits(chunk), None).max(dim=1)
    return confidence, prediction


def _finite(chunk: Tensor) -> bool:
    from smart_core.kernels.judging import all_finite

    return bool(all_finite(chunk.contiguous().numpy()))


def _compiled(calibrator: TemperatureCalibrator, chunk: Tensor, by_margin: MarginMap | None) -> Rows:
    from smart_core.kernels.judging import confidences, top_two

    top, second, confidence = (torch.empty(len(chunk)) for _ in range(3))
    prediction = torch.empty(len(chunk), dtype=torch.int64)
    top_two(chunk.numpy(), top.numpy(), second.numpy(), prediction.numpy())
    temperature = calibrator._temperatures(Logits(chunk)) if by_margin is None else by_margin(top - second)
    confidences(chunk.numpy(), top.numpy(), temperature.contiguous().numpy(), confidence.numpy())
    return confidence, prediction
