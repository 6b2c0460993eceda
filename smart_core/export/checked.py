"""Whether a calibrator may be exported at all: fitted, and with settings in order."""

from __future__ import annotations

from smart_core.calibrators.base import Calibrator
from smart_core.errors import ExportError, SmartError


def check_exportable(calibrator: Calibrator) -> None:
    """Raise one sentence if it is not fitted, or holds a setting that is not allowed."""
    try:
        calibrator.state()
        for described in calibrator.settings():
            described.check(getattr(calibrator, described.name), calibrator.label)
    except SmartError as error:
        raise ExportError(str(error)) from error


def feature_width(calibrator: Calibrator) -> int | None:
    """How many features a row has, for a fit that reads them."""
    return calibrator._feature_width() if calibrator.features_used_ else None
