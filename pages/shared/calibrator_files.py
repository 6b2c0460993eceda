"""The downloads of a fitted calibrator, one per format, each with the code that uses it."""

from __future__ import annotations

import streamlit as st

from pages.shared import datasets, downloads
from pages.shared.components import plain_text
from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.store import calibrator_bytes
from smart_core.export import onnx_bytes, onnx_refusal


def draw(calibrator: Calibrator) -> None:
    """Draw every format, two side by side."""
    name = downloads.file_stem(datasets.current_title(), calibrator.id)
    formats = [_own_format, _numpy, _onnx, _torch, _sklearn]
    for start in range(0, len(formats), 2):
        for column, draw_format in zip(st.columns(2), formats[start : start + 2], strict=False):
            with column:
                draw_format(calibrator, name)


def _own_format(calibrator: Calibrator, name: str) -> None:
    st.markdown("**Calibrator.** Settings and parameters as safetensors; no pickle.")
    downloads.button(
        "Download calibrator",
        lambda: calibrator_bytes(calibrator),
        f"{name}.safetensors",
        "export-calibrator",
        type="primary",
    )
    arguments = "logits, features=features" if calibrator.features_used_ else "logits"
    call = f"predict_proba({arguments})" if calibrator.classes_ else "predict_confidence(confidence)"
    _code(f'import smart_core as sc\n\nprobs = sc.load_calibrator("{name}.safetensors").{call}')


def _numpy(calibrator: Calibrator, name: str) -> None:
    st.markdown("**NumPy file.** One Python file that needs only NumPy.")
    content, reason = downloads.numpy_file(calibrator)
    if content is None:
        st.info(plain_text(reason))
        return
    module = downloads.module_name(datasets.current_title(), calibrator.id)
    downloads.button("Download NumPy file", content, f"{module}.py", "export-numpy")
    function, arguments = "predict_proba", "logits, features" if calibrator.features_used_ else "logits"
    if not calibrator.classes_:
        function, arguments = "predict_confidence", "confidence"
    _code(f"from {module} import {function}\n\nprobs = {function}({arguments})")


def _onnx(calibrator: Calibrator, name: str) -> None:
    what = "Logits in, probabilities out" if calibrator.classes_ else "Confidences in, calibrated confidences out"
    st.markdown(f"**ONNX.** {what}, in any runtime with opset 17.")
    reason = onnx_refusal(calibrator)
    if reason is not None:
        st.info(plain_text(reason))
        return
    downloads.button("Download ONNX", lambda: onnx_bytes(calibrator), f"{name}.onnx", "export-onnx")
    inputs = '{"logits": logits, "features": features}' if calibrator.features_used_ else '{"logits": logits}'
    if not calibrator.classes_:
        inputs = '{"confidence": confidence[:, None]}'
    run = f'onnxruntime.InferenceSession("{name}.onnx").run(None, {inputs})[0]'
    _code(f"import onnxruntime\n\nprobs = {run}  # float32 arrays")


def _torch(calibrator: Calibrator, name: str) -> None:
    what = "A last layer" if calibrator.classes_ else "A module"
    st.markdown(
        f"**PyTorch module.** {what} built from the calibrator file; it works with `.to(device)` and model export."
    )
    layer = f'sc.export.as_module(sc.load_calibrator("{name}.safetensors"))'
    if calibrator.features_used_ or not calibrator.classes_:
        arguments = "logits, features" if calibrator.classes_ else "confidence"
        _code(f"import smart_core as sc\n\nlayer = {layer}\nprobs = layer({arguments})")
    else:
        _code(f"import smart_core as sc\nimport torch\n\nmodel = torch.nn.Sequential(model, {layer})")


def _sklearn(calibrator: Calibrator, name: str) -> None:
    st.markdown(
        "**scikit-learn estimator.** Takes logits as X, works in Pipeline and GridSearchCV, and is built from the "
        "calibrator file."
    )
    if calibrator.features_used_ or not calibrator.classes_:
        on = (
            "with features, but an estimator gets only" if calibrator.classes_ else "on confidences; an estimator reads"
        )
        st.info(f"{calibrator.label} was fitted {on} logits.")
        return
    _code(
        "import smart_core as sc\n\n"
        f'estimator = sc.export.CalibratedLogits.of(sc.load_calibrator("{name}.safetensors"))\n'
        "probs = estimator.predict_proba(logits)"
    )


def _code(code: str) -> None:
    st.code(code, language="python", wrap_lines=True)
