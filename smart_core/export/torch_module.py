"""A fitted calibrator as a `torch.nn.Module`, to stand behind a model's last layer.

    calibrated = torch.nn.Sequential(model, as_module(calibrator))

It computes with the engine's own functions, without a look at the values: it can be traced, exported and moved to any
device with the model. What it has learned are buffers, which no optimiser touches. Before PyTorch 2.7,
`torch.export.export` needs `strict=False`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from smart_core.calibrators import Calibrator, TemperatureCalibrator
from smart_core.calibrators.gc import group_of
from smart_core.device import precise
from smart_core.errors import ExportError
from smart_core.export.checked import check_exportable, feature_width
from smart_core.profile import gaps
from smart_core.types import Logits, Probabilities


class CalibratorModule(nn.Module):
    """`forward(logits)` gives probabilities (N, K), float32; `forward(logits, features)` for a fit that reads features.

    Rows must be finite, which a module does not check: the check would wait for the device at every call.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        super().__init__()
        check_exportable(calibrator)
        self.classes = calibrator.classes_
        self.width = feature_width(calibrator)
        self.calibrator = copy.copy(calibrator)
        for name, tensor in calibrator.state().items():
            self.register_buffer(name, tensor.detach().clone())
            delattr(self.calibrator, name)  # kept once, where `to` and `state_dict` find it

    def forward(self, logits: Tensor, features: Tensor | None = None) -> Tensor:
        self._check(logits, features)
        calibrator = copy.copy(self.calibrator)
        for name, tensor in self.named_buffers():  # on the module's device, which `to` may have changed
            setattr(calibrator, name, tensor)
        z = Logits(logits.float())
        x = features.float() if features is not None and self.width is not None else None
        own = WITHOUT_BRANCHES.get(calibrator.id)
        if own is not None:
            return lift_top(own(calibrator, z, x), z)
        if isinstance(calibrator, TemperatureCalibrator):
            return lift_top(torch.softmax(gaps(z) / calibrator._temperatures(z).unsqueeze(1), dim=1), z)
        return calibrator._probabilities(z, x)

    def extra_repr(self) -> str:
        read = f", features={self.width}" if self.width is not None else ""
        return f"{self.calibrator.id}, classes={self.classes}{read}"

    def _check(self, logits: Tensor, features: Tensor | None) -> None:
        label, tracing = self.calibrator.label, torch.jit.is_tracing()  # type: ignore[attr-defined]
        if self.calibrator.id == "procal" and (tracing or torch.compiler.is_compiling()):
            raise ExportError(
                f"{label} goes through the validation rows in pieces, which a trace cannot record; "
                "use the module as it is, or export.onnx_bytes."
            )
        if self.width is not None and features is None:
            raise ExportError(f"{label} reads {self.width} features a row beside the logits; got none.")
        if tracing:  # shapes are values there, and a look at them would be recorded
            return
        if logits.ndim != 2 or logits.shape[1] != self.classes:
            raise ExportError(f"{label} was fitted on {self.classes} classes; got shape {tuple(logits.shape)}.")
        if self.width is not None and features is not None and features.shape != (logits.shape[0], self.width):
            raise ExportError(f"{label} reads features ({len(logits)}, {self.width}); got {tuple(features.shape)}.")


def as_module(calibrator: Calibrator) -> CalibratorModule:
    """A module that gives what the fitted calibrator gives; later changes of the calibrator do not reach it."""
    return CalibratorModule(calibrator).eval()


def lift_top(probabilities: Tensor, logits: Logits) -> Probabilities:
    """As the engine's: the largest logit's probability strictly largest. All rows are written, without a branch."""
    top = logits.argmax(dim=1, keepdim=True)
    highest = probabilities.detach().amax(dim=1, keepdim=True)  # the next number up has no derivative
    lifted = torch.nextafter(highest, torch.full_like(highest, 2.0))
    stays = probabilities.argmax(dim=1, keepdim=True) == top
    return Probabilities(probabilities.scatter(1, top, torch.where(stays, probabilities.gather(1, top), lifted)))


def _ets(calibrator: Calibrator, z: Logits, x: Tensor | None) -> Tensor:
    """`w_1 softmax(z / T) + w_2 softmax(z) + w_3 / K`."""
    state = calibrator.state()
    d, (tempered, plain, uniform) = gaps(z), state["weights_"].unbind()
    cool = torch.softmax(d / state["temperature_"], dim=1)
    return tempered * cool + plain * torch.softmax(d, dim=1) + uniform / d.shape[1]


def _gc(calibrator: Calibrator, z: Logits, x: Tensor | None) -> Tensor:
    """The mean over partitions p of `softmax(z / T_(p, g))`, g the sample's group."""
    state = calibrator.state()
    values = z if x is None else x
    group = group_of(precise((values - state["mean_"]) / state["std_"]), precise(state["weight_"]))
    d = gaps(z)
    total = torch.zeros_like(d)
    for t in state["temperatures_"].gather(1, group).unbind():
        total = total + torch.softmax(d / t.unsqueeze(1), dim=1)
    return total / len(state["temperatures_"])


WITHOUT_BRANCHES: dict[str, Callable[[Calibrator, Logits, Tensor | None], Tensor]] = {"ets": _ets, "gc": _gc}
"""Methods whose own way to the probabilities looks at their values; here it does not."""
