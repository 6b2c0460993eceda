"""What can be taken away, as functions without arguments: a download runs outside the page's script."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import streamlit as st

from smart_core.calibrators.base import Calibrator
from smart_core.data import Part
from smart_core.errors import ExportError
from smart_core.experiments import Comparison
from smart_core.export import comparison_csv, comparison_json, comparison_latex, numpy_source, save_probabilities
from smart_core.export.probabilities import Format
from smart_core.figures.spreadsheet import without_formulas

Download = Callable[[], bytes]

TABLES: dict[str, tuple[str, Callable[[Comparison], str]]] = {
    "CSV": ("text/csv", comparison_csv),
    "JSON": ("application/json", comparison_json),
    "LaTeX": ("text/x-tex", lambda ranked: comparison_latex(ranked, methods="rows")),
}
"""Form of a leaderboard -> its media type, and how it is written."""

ENDINGS = {"CSV": "csv", "JSON": "json", "LaTeX": "tex"}


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A table as a CSV file; text that a spreadsheet would run as a formula is marked as text."""
    return str(without_formulas(frame).to_csv(index=False)).encode()


def json_bytes(frame: pd.DataFrame) -> bytes:
    """A table as a JSON list of rows in full precision; what is no number (NaN, infinity) is null."""
    return str(frame.to_json(orient="records", indent=1, double_precision=15)).encode()


NUMBERS: dict[str, tuple[str, Callable[[pd.DataFrame], bytes]]] = {
    "CSV": ("text/csv", csv_bytes),
    "JSON": ("application/json", json_bytes),
}
"""Form of a chart's numbers -> its media type, and how it is written."""


def stem(*names: str) -> str:
    """The beginning of a file's name: `cifar-10-corrupted-smart`."""
    words = [re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in names]
    return "-".join(word for word in words if word)[:80] or "calibration"


def module(*names: str) -> str:
    """The same as a Python module's name: `cifar_10_smart`."""
    name = stem(*names).replace("-", "_")
    return name if name[0].isalpha() else f"calibrator_{name}"


def probabilities(calibrator: Calibrator, part: Part, form: Format, full: bool) -> Download:
    """The calibrated probabilities of a part; as a table, of the predicted class only unless `full`."""

    def made() -> bytes:
        stream = io.BytesIO()
        save_probabilities(calibrator, part, stream, format=form, full=full)
        return stream.getvalue()

    return made


def numpy_file(calibrator: Calibrator) -> tuple[bytes | None, str]:
    """The Python file that needs NumPy only, or None and the sentence that says why there is none."""
    return _numpy_file(fingerprint(calibrator), calibrator)


def fingerprint(calibrator: Calibrator) -> str:
    """SHA-256 of the method, its settings and all that it has learned."""
    digest = hashlib.sha256(repr((calibrator.id, calibrator.settings_dict(), calibrator.classes_)).encode())
    for name, tensor in sorted(calibrator.state().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).data)
    return digest.hexdigest()


@st.cache_data(max_entries=8, show_spinner="Writing the NumPy file", scope="session")
def _numpy_file(content_hash: str, _calibrator: Calibrator) -> tuple[bytes | None, str]:
    return written_for_numpy(_calibrator)


def written_for_numpy(calibrator: Calibrator) -> tuple[bytes | None, str]:
    """As `numpy_file`, without a memory."""
    try:
        return numpy_source(calibrator).encode(), ""
    except ExportError as error:
        return None, str(error)
