"""The calibrators: one method a file, one base class, one registry."""

from __future__ import annotations

from smart_core.calibrators.base import Calibrator, FitData
from smart_core.calibrators.registry import get, methods, select
from smart_core.calibrators.settings import Setting
from smart_core.calibrators.store import calibrator_bytes, load_calibrator, save_calibrator
from smart_core.calibrators.temperature import TemperatureCalibrator

__all__ = [
    "Calibrator",
    "FitData",
    "Setting",
    "TemperatureCalibrator",
    "calibrator_bytes",
    "get",
    "load_calibrator",
    "methods",
    "save_calibrator",
    "select",
]
