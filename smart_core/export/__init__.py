"""Results and calibrators in the forms that others read: Python code, tables, files of probabilities."""

from __future__ import annotations

from smart_core.export.numpy_code import numpy_source
from smart_core.export.probabilities import save_probabilities
from smart_core.export.tables import comparison_csv, comparison_json, comparison_latex

__all__ = ["comparison_csv", "comparison_json", "comparison_latex", "numpy_source", "save_probabilities"]
