"""Results and calibrators in other forms: Python code, ONNX, PyTorch, scikit-learn, tables, files.

A module is loaded when one of its names is first used: scikit-learn and pandas are slow to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smart_core.errors import ExportError, SmartError

if TYPE_CHECKING:
    from smart_core.calibrators import Calibrator

_HOMES = {
    "CalibratedLogits": "sklearn_estimator",
    "CalibratorModule": "torch_module",
    "as_module": "torch_module",
    "comparison_csv": "tables",
    "comparison_json": "tables",
    "comparison_latex": "tables",
    "numpy_source": "numpy_code",
    "onnx_bytes": "onnx_model",
    "onnx_refusal": "onnx_model",
    "save_onnx": "onnx_model",
    "save_probabilities": "probabilities",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def check_exportable(calibrator: Calibrator) -> None:
    """Raise `ExportError` if it is not fitted or has a setting that is not allowed."""
    try:
        calibrator.state()
        for described in calibrator.settings():
            described.check(getattr(calibrator, described.name), calibrator.label)
    except SmartError as error:
        raise ExportError(str(error)) from error


def feature_width(calibrator: Calibrator) -> int | None:
    """Number of features per row, for a fit that reads them."""
    return calibrator._feature_width() if calibrator.features_used_ else None
