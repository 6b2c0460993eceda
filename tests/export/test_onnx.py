"""ONNX files are valid, and onnxruntime computes from them what the engine gives."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smart_core.calibrators import Calibrator, get
from smart_core.calibrators.smart import SMART
from smart_core.errors import ExportError
from smart_core.export import onnx_bytes, onnx_model, onnx_refusal
from smart_core.export.onnx_graph import Graph
from smart_core.export.onnx_proto import OPSET, _varint, model
from tests.calibrators.fits import fitted
from tests.calibrators.problems import over_confident
from tests.export.fits import CASES, probabilities_off
from tests.tolerance import assert_within


def run(content: bytes, inputs: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == list(inputs)
    (found,) = session.run(["probabilities"], inputs)
    return found


def traced(function, rows: np.ndarray) -> np.ndarray:
    """What onnxruntime computes from the graph of a function of rows."""
    graph = Graph()
    graph.output(function(graph.input("x", rows.shape[1])), "probabilities")
    content = model(graph.nodes, graph.constants, graph.inputs, graph.outputs, words="", producer=("", ""), metadata={})
    return run(content, {"x": rows})


def assert_same(calibrator: Calibrator, inputs: dict[str, np.ndarray]) -> None:
    content = onnx_bytes(calibrator)
    onnx.checker.check_model(content, full_check=True)
    found = run(content, inputs)
    expected = calibrator.predict_proba(inputs["logits"], features=inputs.get("features"))
    assert found.dtype == np.float32
    assert_within(found, expected, probabilities_off(calibrator, inputs["logits"]), calibrator.label)
    if calibrator.keeps_top1:
        np.testing.assert_array_equal(found.argmax(axis=1), inputs["logits"].argmax(axis=1))


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_computes_what_the_engine_gives(name: str) -> None:
    assert_same(*CASES[name]())


def test_a_confidence_on_the_edge_of_a_bin_falls_on_the_same_side() -> None:
    """All three logits equal: the complement 1 - s is 2/3, which is the edge between two of 15 bins of equal width."""
    calibrator = fitted("histogram", over_confident(400, 3, seed=3), scheme="width")
    place = calibrator.edges_.numpy().tolist().index(np.float32(2.0 / 3.0))
    assert abs(float(calibrator.values_[place] - calibrator.values_[place + 1])) > 0.01  # the other side would show
    assert_same(calibrator, {"logits": np.repeat(np.float32([0.0, 3.7, 1e30]), 3).reshape(3, 3)})


def test_the_search_among_nodes_is_numpys() -> None:
    """Through a graph of its own: on the nodes, between them, beyond both ends, for every size up to 9."""
    for count in range(10):
        rising = np.linspace(0.1, 0.9, count).astype(np.float32)
        x = np.sort(np.concatenate([rising, rising + np.float32(0.01), np.float32([0.0, 1.0])]))[:, None]
        for side in ("left", "right"):
            search = partial(np.searchsorted, rising, side=side)
            found = traced(lambda rows, search=search: search(rows[:, 0])[:, None].astype(np.float32), x)
            np.testing.assert_array_equal(found, np.searchsorted(rising, x, side=side))


def test_what_the_file_says_of_itself() -> None:
    loaded = onnx.load_model_from_string(onnx_bytes(fitted("smart", over_confident(300, 4, seed=4), seed=11)))
    assert [entry.version for entry in loaded.opset_import] == [OPSET]
    assert OPSET <= 17
    assert "SMART" in loaded.graph.doc_string
    said = {entry.key: entry.value for entry in loaded.metadata_props}
    assert said["method"] == "smart"
    assert '"seed": 11' in said["settings"]
    assert "device" not in said["settings"]
    (rows, columns) = loaded.graph.input[0].type.tensor_type.shape.dim
    assert (rows.dim_param, columns.dim_value) == ("N", 4)


def test_any_number_of_rows() -> None:
    calibrator = fitted("smart", over_confident(300, 4, seed=4))
    content = onnx_bytes(calibrator)
    logits = over_confident(50, 4, seed=6).logits
    for rows in (0, 1, 50):
        found, expected = run(content, {"logits": logits[:rows]}), calibrator.predict_proba(logits[:rows])
        assert_within(found, expected, probabilities_off(calibrator, logits[:rows]))


@given(st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_are_written_as_protocol_buffers_reads_them(value: int) -> None:
    attribute = onnx.AttributeProto.FromString(bytes([3 << 3]) + _varint(value))
    assert attribute.i == value


def test_what_cannot_be_written_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert onnx_refusal(get("ts")) == "TS is not fitted yet; call fit first."
    smart = fitted("smart", over_confident(300, 4, seed=4))
    assert onnx_refusal(smart) is None
    monkeypatch.setattr(onnx_model, "MOST_BYTES", 100)
    with pytest.raises(ExportError, match=r"5[12] numbers, too many"):
        onnx_bytes(smart)
    monkeypatch.setattr(SMART, "numpy_code", lambda self: None)
    with pytest.raises(ExportError, match="cannot be written as ONNX"):
        onnx_bytes(smart)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z * np.float64(3) + z.astype(np.float64)[:, :1],  # of two kinds: NumPy's rules say which wins
        lambda z: 1.0 - z / np.arange(1, 5),
        lambda z: np.where(z <= 0.5, z, 7)[:, 1:-1],
        lambda z: (z[:, None] * np.ones((1, 3, 1), np.float32)).max(axis=1),
        lambda z: (np.ones((2, 4)) @ z.T).T,
        lambda z: np.ones_like(z) * z.argmax(axis=1, keepdims=True),
        lambda z: np.logaddexp(z, 0.0) + np.log1p(np.square(z)) - np.sqrt(np.abs(z)),
        lambda z: sum(row[:, None] for row in z.T) / 4 + np.clip(z, -0.5, 0.5),
        lambda z: np.take_along_axis(z, np.full_like(z, 2, dtype=np.int64), axis=1),
        lambda z: ((z > 0) & ~(z >= 1)).astype(np.float64),
    ],
)
def test_what_is_recorded_computes_what_numpy_does(function) -> None:
    z = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    expected = function(z)
    assert_within(traced(lambda rows: function(rows).astype(np.float32), z), expected.astype(np.float32), 1e-6)


@pytest.mark.parametrize(
    "function", [lambda z: z[: len(z)], lambda z: z if (z > 0) else -z, np.tan, np.cumsum, lambda z: np.add.reduce(z)]
)
def test_what_cannot_be_recorded_says_so(function) -> None:
    with pytest.raises(ExportError):
        function(Graph().input("z", 2))
