"""A fitted calibrator as a `torch.nn.Module`, to follow a model's last layer.

    calibrated = torch.nn.Sequential(model, as_module(calibrator))

It computes with the engine's own functions: it can be traced, exported and moved to any device with the model. The
learned tensors are buffers, which no optimiser changes. Before PyTorch 2.7, `torch.export.export` needs `strict=False`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smart_core.calibrators import Calibrator
from smart_core.errors import ExportError
from smart_core.export import check_exportable, feature_width
from smart_core.fitting.ragged import filled
from smart_core.types import Logits


class CalibratorModule(nn.Module):
    """`forward(logits)` gives probabilities (N, K), float32; `forward(logits, features)` for a fit that reads features;
    `forward(confidence)` gives calibrated confidences (N,) for a fit on confidences.

    Rows must be finite. The module does not check it: the check would wait for the device at every call.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        super().__init__()
        check_exportable(calibrator)
        self.classes = calibrator.classes_
        self.width = feature_width(calibrator)
        self.calibrator = calibrator.bare()  # the tensors are kept once, where `to` and `state_dict` find them
        for name, tensor in calibrator.state().items():
            self.register_buffer(name, tensor.detach().clone())

    def forward(self, logits: Tensor, features: Tensor | None = None) -> Tensor:
        self._check(logits, features)
        calibrator = self.calibrator.with_state(dict(self.named_buffers()))  # `to` may have moved them
        if self.classes == 0:
            return calibrator._map_confidence(logits)
        x = features.float() if features is not None and self.width is not None else None
        rows = filled(logits.float()) if calibrator.leaves_out_classes else logits.float()
        return calibrator._probabilities(Logits(rows), x)

    def extra_repr(self) -> str:
        read = f", features={self.width}" if self.width is not None else ""
        return f"{self.calibrator.id}, classes={self.classes}{read}"

    def _check(self, logits: Tensor, features: Tensor | None) -> None:
        label, tracing = self.calibrator.label, torch.jit.is_tracing()  # type: ignore[attr-defined]
        if not self.calibrator.traceable and (tracing or torch.compiler.is_compiling()):
            raise ExportError(
                f"{label} goes through the validation rows in pieces, which a trace cannot record; "
                "use the module as it is, or export.onnx_bytes."
            )
        if self.width is not None and features is None:
            raise ExportError(f"{label} reads {self.width} features per row besides the logits; got none.")
        if tracing:  # shapes are values there, and a test of them would be recorded
            return
        if self.classes == 0:
            if logits.ndim != 1:
                raise ExportError(f"{label} was fitted on confidences (N,); got shape {tuple(logits.shape)}.")
            return
        if logits.ndim != 2 or logits.shape[1] != self.classes:
            raise ExportError(f"{label} was fitted on {self.classes} classes; got shape {tuple(logits.shape)}.")
        if self.width is not None and features is not None and features.shape != (logits.shape[0], self.width):
            raise ExportError(f"{label} reads features ({len(logits)}, {self.width}); got {tuple(features.shape)}.")


def as_module(calibrator: Calibrator) -> CalibratorModule:
    """A module that gives what the fitted calibrator gives; later changes of the calibrator do not affect it.

    >>> import smart_core as sc, torch
    >>> data = sc.load("sample:digits").validation
    >>> module = as_module(sc.TS().fit(data.logits, data.labels))
    >>> round(module(torch.zeros(1, 10)).sum().item(), 6)
    1.0
    """
    return CalibratorModule(calibrator).eval()
