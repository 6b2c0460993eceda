"""Download buttons, file names, and the content of downloads.

Content that takes time is a function without arguments, which Streamlit calls when the button is clicked. It runs
outside the page's script and must not call `st`.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from smart_core.calibrators.base import Calibrator
from smart_core.data import Part
from smart_core.errors import ExportError
from smart_core.export import numpy_source, save_probabilities
from smart_core.export.probabilities import Format, confidence_columns
from smart_core.figures.chart import without_formulas

MEDIA_TYPES = {
    "csv": "text/csv",
    "json": "application/json",
    "tex": "text/x-tex",
    "py": "text/x-python",
    "html": "text/html",
    "zip": "application/zip",
}
"""File extension -> media type; every other file is `application/octet-stream`."""


def button(label: str, data: bytes | Callable[[], bytes], file_name: str, key: str, **options: Any) -> None:
    """Draw a download button; clicking it does not rerun the page.

    Content that is there already is handed over when the button is clicked, too: `reruns.keep_downloads` sees to it
    that such a click is not lost.
    """
    content = data if callable(data) else lambda: data
    media_type = MEDIA_TYPES.get(file_name.rpartition(".")[2], "application/octet-stream")
    st.download_button(label, data=content, file_name=file_name, mime=media_type, key=key, on_click="ignore", **options)


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Return a table as a CSV file; text that a spreadsheet would run as a formula is quoted."""
    return str(without_formulas(frame).to_csv(index=False)).encode()


def json_bytes(frame: pd.DataFrame) -> bytes:
    """Return a table as a JSON list of rows in full precision; NaN and infinity become null."""
    return str(frame.to_json(orient="records", indent=1, double_precision=15)).encode()


def file_stem(*names: str) -> str:
    """Return a file name without its extension: `cifar-10-corrupted-smart`."""
    words = [re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in names]
    return "-".join(word for word in words if word)[:80] or "calibration"


def module_name(*names: str) -> str:
    """Return the same as the name of a Python module: `cifar_10_smart`."""
    name = file_stem(*names).replace("-", "_")
    return name if name[0].isalpha() else f"calibrator_{name}"


def probabilities(calibrator: Calibrator, part: Part, form: Format, full: bool) -> Callable[[], bytes]:
    """Return a function that writes the calibrated probabilities of a part.

    Unless `full`, the file has the predicted class and its confidence only.
    """

    def content() -> bytes:
        if form == "csv" and part.confidence is not None:
            return csv_bytes(pd.DataFrame(confidence_columns(calibrator, part)))
        stream = io.BytesIO()
        save_probabilities(calibrator, part, stream, format=form, full=full)
        return stream.getvalue()

    return content


def numpy_file(calibrator: Calibrator) -> tuple[bytes | None, str]:
    """Return the Python file that needs only NumPy, or None and the reason why there is none."""
    return _numpy_file(fingerprint(calibrator), calibrator)


def fingerprint(calibrator: Calibrator) -> str:
    """Return the SHA-256 of the method, its settings and its learned parameters."""
    digest = hashlib.sha256(repr((calibrator.id, calibrator.settings_dict(), calibrator.classes_)).encode())
    for name, tensor in sorted(calibrator.state().items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).data)
    return digest.hexdigest()


@st.cache_data(max_entries=8, show_spinner="Writing the NumPy file", scope="session")
def _numpy_file(content_hash: str, _calibrator: Calibrator) -> tuple[bytes | None, str]:
    return written_for_numpy(_calibrator)


def written_for_numpy(calibrator: Calibrator) -> tuple[bytes | None, str]:
    """Compute `numpy_file` without the cache."""
    try:
        return numpy_source(calibrator).encode(), ""
    except ExportError as error:
        return None, str(error)
