"""Exported NumPy files give what the engine gives, alone in a process that has neither it nor torch."""

from __future__ import annotations

import ast
import inspect
from functools import cache

import numpy as np
import pytest
import torch

from smart_core.calibrators import Calibrator, TemperatureCalibrator, get, load_calibrator
from smart_core.calibrators.store import calibrator_bytes
from smart_core.calibrators.ts import TS
from smart_core.errors import ExportError
from smart_core.export import numpy_code, numpy_functions
from smart_core.export.numpy_code import numpy_source
from tests.calibrators.fits import ALL, fitted
from tests.calibrators.problems import over_confident
from tests.export.alone import run_alone
from tests.export.fits import CASES, Case, arguments, probabilities_off, temperatures_off
from tests.tolerance import PROBABILITY, assert_within, float32_bound


def assert_same(calibrator: Calibrator, inputs: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> None:
    expected = calibrator.predict_proba(inputs["logits"], features=inputs.get("features"))
    assert found["probabilities"].dtype == np.float32
    assert_within(found["probabilities"], expected, probabilities_off(calibrator, inputs["logits"]), calibrator.label)
    if calibrator.keeps_top1:
        np.testing.assert_array_equal(found["probabilities"].argmax(axis=1), expected.argmax(axis=1))
    assert ("temperatures" in found) == isinstance(calibrator, TemperatureCalibrator)
    if isinstance(calibrator, TemperatureCalibrator):
        temperatures = calibrator.temperatures(inputs["logits"])
        off = temperatures_off(calibrator, inputs["logits"])
        assert_within(found["temperatures"], temperatures, off * temperatures, calibrator.label)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, np.ndarray]]:
    """What the exported file of every case gives, in one process that has nothing but NumPy."""
    files = {name: (numpy_source(calibrator), inputs) for name, (calibrator, inputs) in made().items()}
    return run_alone(tmp_path_factory.mktemp("alone"), files)


@cache
def made() -> dict[str, Case]:
    return {name: make() for name, make in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_exported_alone_it_gives_what_the_engine_gives(name: str, alone: dict[str, dict[str, np.ndarray]]):
    calibrator, inputs = made()[name]
    assert_same(calibrator, inputs, alone[name])


def test_the_cases_read_features():
    assert all(made()[f"{id}_6_classes_seed_1"][0].features_used_ for id in ("gc", "procal", "fc"))


def test_a_confidence_on_the_edge_of_a_bin_falls_on_the_same_side():
    """All three logits equal: the complement 1 - s is 2/3, which is the edge between two of 15 bins of equal width."""
    fit_on = over_confident(400, 3, seed=3)
    calibrator = fitted("histogram", fit_on, scheme="width")
    equal = np.repeat(np.float32([0.0, 3.7, 1e30]), 3).reshape(3, 3)
    edge = calibrator.edges_.numpy()
    assert np.float32(2.0 / 3.0) in edge
    found = namespace(numpy_source(calibrator))["predict_proba"](equal)
    assert_within(found, calibrator.predict_proba(equal), PROBABILITY)
    below, above = (calibrator.values_[place] for place in (edge.tolist().index(np.float32(2 / 3)) + k for k in (0, 1)))
    assert abs(float(below) - float(above)) > 0.01  # the other side would show


def namespace(source: str) -> dict[str, object]:
    names: dict[str, object] = {"__name__": "exported"}
    exec(compile(source, "exported.py", "exec"), names)
    return names


@pytest.mark.parametrize("id", ALL)
def test_learned_numbers_come_back_bit_for_bit(id: str):
    calibrator = fitted(id, over_confident(300, 4, seed=4))
    kept = [value for value in namespace(numpy_source(calibrator)).values() if isinstance(value, np.ndarray)]
    assert all(value.dtype == np.float32 for value in kept)
    written = np.sort(np.concatenate([np.float32([]), *(value.ravel() for value in kept)]).view(np.uint32))
    learned = np.concatenate([np.float32([]), *(tensor.numpy().ravel() for tensor in calibrator.state().values())])
    np.testing.assert_array_equal(written, np.sort(learned.view(np.uint32)))


def test_awkward_numbers_are_written_exactly():
    hard = np.array([0.1, -0.0, 1e-45, 3.4028235e38, 1 / 3, 16777217, 7.038531e-26, 1.17549435e-38], dtype=np.float32)
    for array in (hard, np.tile(hard, 40).reshape(8, 40), hard[:0], np.float32([np.inf])):
        back = namespace(f"{inspect.getsource(numpy_functions)}\n{numpy_code._written('X', array)}")["X"]
        assert back.shape == array.shape
        assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("id", ALL)
def test_the_file_says_what_it_is_and_is_tidy(id: str):
    calibrator = fitted(id, over_confident(300, 4, seed=4), seed=11)
    source = numpy_source(calibrator)
    words = ast.get_docstring(ast.parse(source)) or ""
    assert words.startswith(f"{calibrator.label}: ")
    assert "seed=11" in words
    assert "Classes:  4" in words
    assert f"predict_proba({'logits, features' if calibrator.features_used_ else 'logits'})" in words
    assert ("temperatures(logits)" in words) == isinstance(calibrator, TemperatureCalibrator)
    assert max(map(len, source.splitlines())) <= 120
    tree = ast.parse(source)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {"numpy", "base64"}
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert defined - used <= {"predict_proba", "temperatures"}  # nothing is carried along unused


def test_wrong_input_is_one_sentence():
    fit_on = over_confident(300, 4, seed=4)
    names = namespace(numpy_source(fitted("gc", fit_on)))
    predict = names["predict_proba"]
    with pytest.raises(ValueError, match=r"logits must be \(N, 4\)"):
        predict(fit_on.logits[:, :3], fit_on.features)
    with pytest.raises(ValueError, match="5 rows of features for 6"):
        predict(fit_on.logits[:6], fit_on.features[:5])
    spoiled = fit_on.logits.copy()
    spoiled[1, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        predict(spoiled, fit_on.features)
    assert predict(fit_on.logits[:0], fit_on.features[:0]).shape == (0, 4)
    single = namespace(numpy_source(fitted("smart", fit_on)))
    rows = single["predict_proba"](fit_on.logits[:3].tolist())  # lists, and rows a few at a time
    np.testing.assert_array_equal(rows, single["predict_proba"](fit_on.logits)[:3])


@pytest.mark.parametrize("id", ALL)
def test_few_rows_at_a_time_give_the_same(id: str):
    fit_on = over_confident(300, 4, seed=4)
    calibrator = fitted(id, fit_on)
    source = numpy_source(calibrator)
    inputs = arguments(calibrator, fit_on.logits, fit_on.features).values()
    small = namespace(source.replace("CHUNK = 1 << 20", "CHUNK = 1 << 9"))
    assert small["CHUNK"] == 512
    at_once = namespace(source)["predict_proba"](*inputs)  # float64 sums in another order, rounded to float32 once
    assert_within(small["predict_proba"](*inputs), at_once, float32_bound(1))


def test_what_cannot_be_written_says_so(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ExportError, match="not fitted"):
        numpy_source(get("ts"))
    fit_on = over_confident(300, 4, seed=4)
    procal = fitted("procal", fit_on)
    monkeypatch.setattr(numpy_code, "MOST_BYTES", 1000)
    with pytest.raises(ExportError, match=r"keeps 3,\d\d\d numbers .*too many"):
        numpy_source(procal)
    monkeypatch.setattr(TS, "numpy_code", lambda self: None)
    with pytest.raises(ExportError, match="cannot be written"):
        numpy_source(fitted("ts", fit_on))


def test_a_setting_from_a_strange_file_cannot_become_code():
    smart = fitted("smart", over_confident(300, 4, seed=4))
    smart.objective = '"""\nraise SystemExit\n"""'
    with pytest.raises(ExportError, match="objective"):
        numpy_source(smart)


def test_a_loaded_calibrator_is_written_alike():
    smart = fitted("smart", over_confident(300, 4, seed=4))
    loaded = load_calibrator(calibrator_bytes(smart), device="cpu")
    assert numpy_source(loaded) == numpy_source(smart)
    assert torch.equal(loaded.theta_, smart.theta_)
