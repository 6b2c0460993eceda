"""Results and calibrators in other forms: Python code, ONNX, PyTorch, scikit-learn, tables, files.

A module is loaded when one of its names is first used: scikit-learn and pandas are slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smart_core import attach
from smart_core.errors import ExportError, SmartError

if TYPE_CHECKING:
    from smart_core.calibrators import Calibrator

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "sklearn_estimator": "CalibratedLogits",
        "torch_module": "CalibratorModule as_module",
        "tables": "comparison_csv comparison_latex",
        "numpy_code": "numpy_source",
        "onnx_model": "onnx_bytes onnx_refusal",
        "probabilities": "save_probabilities",
    },
)


def check_exportable(calibrator: Calibrator) -> None:
    """Raise `ExportError` if it is not fitted or has a setting that is not allowed."""
    try:
        calibrator.state()
        calibrator.check_settings()
    except SmartError as error:
        raise ExportError(str(error)) from error


def feature_width(calibrator: Calibrator) -> int | None:
    """Number of features per row, for a fit that reads them."""
    return calibrator._feature_width() if calibrator.features_used_ else None
