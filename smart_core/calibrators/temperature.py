"""Methods that divide each sample's logits by one positive temperature."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from smart_core import kernels
from smart_core.calibrators.base import Calibrator, ReducedColumns
from smart_core.device import like_input, resolve_device, rows_per_chunk, to_tensor
from smart_core.fitting.profile import gaps
from smart_core.fitting.reduced import ReducedProfile
from smart_core.kernels.threads import share
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities


class TemperatureCalibrator(Calibrator):
    """`q = softmax(z / T)` with a temperature T > 0 for each sample: the top-1 never changes."""

    whole_rows = None

    @abstractmethod
    def _temperatures(self, logits: Logits) -> Tensor:
        """(N,) positive temperatures of one chunk."""

    def _margin_temperatures(self, margins: Tensor) -> Tensor | None:
        """(N,) temperatures from the margins (N,), for a method that reads nothing else; None for all others."""
        return None

    def temperatures(self, logits: Any) -> Any:
        """The temperature of each sample, (N,), NumPy or torch like the input."""
        device = resolve_device(self.device)
        with torch.no_grad():
            chunks = [self._temperatures(chunk) for _, chunk, _ in self._chunks(logits, None)]
        return like_input(torch.cat(chunks) if chunks else torch.empty(0, device=device), logits)

    def predict(self, logits: Any) -> tuple[Any, Any]:
        """Confidences (N,), float32, and predictions (N,), NumPy or torch like the input.

        The confidence is the exact softmax's, `1 / sum_k exp((z_k - max z) / T)`, the prediction the first largest
        logit's class. Compiled loops find both without the other probabilities, chunk by chunk while the rows are in
        the processor's cache; on a GPU, and without numba, they come from the rows of `predict_proba`.
        """
        rows, _ = self._check_rows(logits, None)
        device = resolve_device(self.device)
        size = rows_per_chunk(4 * self.classes_)  # the rows are read three times, so a nearer cache pays
        compiled = device.type == "cpu" and kernels.usable()

        def piece(start: int) -> tuple[Tensor, Tensor]:
            chunk = self._finite(to_tensor(rows[start : start + size], device), start, "logits")
            with torch.no_grad():
                if compiled:
                    return self._predict_compiled(chunk.contiguous())
                confidence, prediction = self._probabilities(Logits(chunk), None).max(dim=1)
                return confidence, prediction

        parts = share(piece, range(0, len(rows), size), Run(), "predicting")
        if not parts:
            return like_input(torch.empty(0), logits), like_input(torch.empty(0, dtype=torch.int64), logits)
        confidence, prediction = (torch.cat(column) for column in zip(*parts, strict=True))
        return like_input(confidence, logits), like_input(prediction, logits)

    def _predict_compiled(self, chunk: Tensor) -> tuple[Tensor, Tensor]:
        from smart_core.kernels.logit_rows import confidences, top_two

        top, second, confidence = (torch.empty(len(chunk)) for _ in range(3))
        prediction = torch.empty(len(chunk), dtype=torch.int64)
        top_two(chunk.numpy(), top.numpy(), second.numpy(), prediction.numpy())
        temperature = self._margin_temperatures(top - second)
        if temperature is None:
            temperature = self._temperatures(Logits(chunk))
        confidences(chunk.numpy(), top.numpy(), temperature.contiguous().numpy(), confidence.numpy())
        return confidence, prediction

    def _evaluate_reduced(self, rows: ReducedProfile) -> ReducedColumns:
        """By `g(beta)`, see `fitting.profile`; the temperature reads the largest logits only."""
        temperature = self._temperatures(rows.top).clamp(min=1e-12)
        beta = 1.0 / temperature
        return ReducedColumns(rows.confidence(beta), rows.nll(beta), rows.brier(beta), temperature)

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        probabilities = torch.softmax(gaps(logits) / self._temperatures(logits).unsqueeze(1), dim=1)
        return lift_top(Probabilities(probabilities), logits)


def lift_top(probabilities: Probabilities, logits: Logits) -> Probabilities:
    """The rows with the largest logit's probability strictly largest, for maps that keep the logits' order.

    A margin that is tiny beside T rounds to equal probabilities. Such a tie is broken upwards, by one unit in the last
    place, so that reading the top class off the row never changes a prediction. A trace records the general way; so
    does a GPU, where the shortcut would wait for the device.
    """
    index = logits.argmax(dim=1, keepdim=True)
    moved = probabilities.argmax(dim=1, keepdim=True) != index
    recorded = torch.jit.is_tracing() or torch.compiler.is_compiling()  # type: ignore[attr-defined]
    if probabilities.device.type == "cpu" and not recorded and not bool(moved.any()):
        return probabilities
    highest = probabilities.detach().amax(dim=1, keepdim=True)  # the next number up has no derivative
    lifted = torch.nextafter(highest, torch.full_like(highest, 2.0))
    current = probabilities.gather(1, index)
    return Probabilities(probabilities.scatter(1, index, torch.where(moved, lifted, current)))
