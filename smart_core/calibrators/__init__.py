"""The calibrators: each method in its own file, one base class, one registry."""

from __future__ import annotations

from smart_core.calibrators.base import Calibrator, FitData
from smart_core.calibrators.registry import (
    families,
    get,
    in_order,
    is_method,
    method_named,
    method_table,
    methods,
    select,
)
from smart_core.calibrators.settings import Setting
from smart_core.calibrators.store import calibrator_bytes, load_calibrator, save_calibrator
from smart_core.calibrators.temperature import TemperatureCalibrator

__all__ = [
    "Calibrator",
    "FitData",
    "Setting",
    "TemperatureCalibrator",
    "calibrator_bytes",
    "families",
    "get",
    "in_order",
    "is_method",
    "load_calibrator",
    "method_named",
    "method_table",
    "methods",
    "save_calibrator",
    "select",
]
