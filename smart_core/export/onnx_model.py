"""A fitted calibrator as an ONNX model: logits in, probabilities out, for any runtime that knows opset 17."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import smart_core
from smart_core.calibrators import Calibrator
from smart_core.errors import ExportError
from smart_core.export import check_exportable, feature_width, onnx_graph
from smart_core.export.numpy_code import row_namespace
from smart_core.export.numpy_functions import ABSENT
from smart_core.export.onnx_proto import model

MOST_BYTES = 1 << 30
"""Learned numbers up to which one file holds them in float64: the format ends at 2 GB."""


def onnx_refusal(calibrator: Calibrator) -> str | None:
    """Why there is no ONNX form, in one sentence; None if there is one."""
    try:
        check_exportable(calibrator)
    except ExportError as error:
        return str(error)
    if calibrator.numpy_code() is None:
        return f"{calibrator.label} cannot be written as ONNX; save the calibrator itself instead."
    size = 8 * sum(tensor.numel() for tensor in calibrator.state().values())
    if size > MOST_BYTES:
        return f"{calibrator.label} keeps {size // 8:,} numbers, too many for an ONNX file; save the calibrator itself."
    return None


def onnx_bytes(calibrator: Calibrator) -> bytes:
    """The model's file. Inputs: `logits` (N, K) and, for a fit that reads them, `features` (N, D); output:
    `probabilities` (N, K); all float32. For a fit on confidences the input is `confidence` (N, 1) and the output
    `calibrated` (N, 1). The graph is recorded while `calibrator.numpy_code()` runs.

    Rows must be finite: a graph cannot refuse those that are not. ProCal compares every row with every validation row
    at once: give it rows in batches.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> b"calibrator" in onnx_bytes(sc.TS().fit(data.logits, data.labels))
    True
    """
    refusal = onnx_refusal(calibrator)
    if refusal is not None:
        raise ExportError(refusal)
    graph, width = onnx_graph.Graph(), feature_width(calibrator)
    names = row_namespace(calibrator, softmax=onnx_graph.softmax, largest=onnx_graph.largest, taken=onnx_graph.taken)
    if calibrator.classes_ == 0:
        confidence = graph.input("confidence", 1)[:, 0]
        graph.output(names["row_confidences"](confidence)[:, None], "calibrated")
        return _model(calibrator, graph)
    inputs: list[Any] = [graph.input("logits", calibrator.classes_)]
    if calibrator.leaves_out_classes:
        inputs[0] = np.maximum(inputs[0], ABSENT)
    if width is not None:
        inputs.append(graph.input("features", width))
    graph.output(names["row_probabilities"](*inputs), "probabilities")
    return _model(calibrator, graph)


def _model(calibrator: Calibrator, graph: onnx_graph.Graph) -> bytes:
    settings = {name: value for name, value in calibrator.settings_dict().items() if name != "device"}
    what = "probabilities of finite logits" if calibrator.classes_ else "confidences"
    return model(
        graph.nodes,
        graph.constants,
        graph.inputs,
        graph.outputs,
        words=f"{calibrator.label}: calibrated {what}. {calibrator.summary}",
        producer=("smart_core", smart_core.__version__),
        metadata={"method": calibrator.id, "settings": json.dumps(settings), "classes": str(calibrator.classes_)},
    )
