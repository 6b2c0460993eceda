"""Calibrator files that are not what they were: each gets one sentence, and nothing of them is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from smart_core.calibrators import get, load_calibrator, methods
from smart_core.calibrators.store import calibrator_bytes
from smart_core.data import sandbox
from smart_core.errors import CalibrationError, CalibratorFileError
from tests.calibrators.fits import ALL, QUICK, fitted
from tests.calibrators.problems import Problem, over_confident

State = dict[str, Tensor]
Header = dict[str, str]


@pytest.fixture(scope="module")
def problem() -> Problem:
    return over_confident(150, 4, seed=1)


@pytest.fixture(scope="module")
def files(problem: Problem) -> dict[str, bytes]:
    quick = {"smart": {"epochs": 2}, "gc": {"steps": 2, "partitions": 2}}
    return {id: calibrator_bytes(fitted(id, problem, **quick.get(id, {}))) for id in ALL}


def opened(content: bytes) -> tuple[State, Header]:
    length = int.from_bytes(content[:8], "little")
    return load(content), json.loads(content[8 : 8 + length])["__metadata__"]


def assert_refused(content: bytes, words: str) -> None:
    with pytest.raises(CalibratorFileError) as caught:
        load_calibrator(content)
    sentence = str(caught.value)
    assert words in sentence
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    assert "\n" not in sentence


@pytest.mark.parametrize("id", ALL)
def test_every_learned_tensor_is_as_declared(id: str, problem: Problem):
    """With its own arrays and, where it can, without features."""
    calibrator = fitted(id, problem)
    assert all(tensor.dtype == torch.float32 for tensor in calibrator.state().values())
    load_calibrator(calibrator_bytes(calibrator))
    if not methods()[id].needs:
        without = get(id, **QUICK.get(id, {})).fit(problem.logits[:40], problem.labels[:40])
        load_calibrator(calibrator_bytes(without))


@pytest.mark.parametrize("id", [id for id in ALL if id != "vanilla"])
def test_tensors_that_were_tampered_with(id: str, files: dict[str, bytes]):
    state, header = opened(files[id])
    for name, tensor in state.items():
        others = {key: value for key, value in state.items() if key != name}
        assert_refused(save(others, metadata=header), f"lacks {name}")
        assert_refused(save({**others, name: tensor.double()}, metadata=header), "float64, not float32")
        assert_refused(save({**others, name: tensor.unsqueeze(0).contiguous()}, metadata=header), "has shape")
        if tensor.numel():
            spoiled = tensor.clone()
            spoiled.view(-1)[-1] = np.nan
            assert_refused(save({**others, name: spoiled}, metadata=header), f"{name} holds NaN")
    extra = {**state, "_probabilities": torch.zeros(1)}
    assert_refused(save(extra, metadata=header), "'_probabilities', which this method does not have")


def spoilings(tensor: Tensor) -> dict[str, Tensor]:
    """The same tensor with values that a fit cannot give, or that another fit may have given."""
    first, last = tensor.clone(), tensor.clone()
    changed = {}
    for value in (0.0, -1.0, 2.0, 1e-30, 1e-8, 1e6, 1e38, -1e38, torch.nan, torch.inf, -torch.inf):
        first.view(-1)[:1] = value
        last.view(-1)[-1:] = value
        changed |= {f"all {value}": torch.full_like(tensor, value), f"first {value}": first.clone()}
        changed |= {f"last {value}": last.clone()}
    changed["reversed"] = tensor.flip(0)
    changed["alternating"] = 1e38 * (1 - 2 * (torch.arange(tensor.numel()) % 2)).float().view(tensor.shape)
    changed["longer"] = torch.cat([tensor, tensor])
    changed["shorter"] = tensor[:-1]
    return {name: each.contiguous() for name, each in changed.items()}


@pytest.mark.parametrize("id", [id for id in ALL if id != "vanilla"])
def test_values_that_no_fit_gives_are_refused_or_give_probabilities(
    id: str, files: dict[str, bytes], problem: Problem, monkeypatch: pytest.MonkeyPatch
):
    """Read in this process: hundreds of forks would prove nothing more."""
    monkeypatch.setattr(sandbox, "available", lambda: False)
    state, header = opened(files[id])
    rows = np.concatenate([problem.logits[:50], 30 * problem.logits[50:60], np.zeros((1, 4), np.float32)])
    features = np.concatenate([problem.features[:60], np.zeros((1, problem.features.shape[1]), np.float32)])
    for name, tensor in state.items():
        for kind, spoiled in spoilings(tensor).items():
            sentence = None
            try:
                loaded = load_calibrator(save({**state, name: spoiled}, metadata=header))
            except CalibratorFileError as error:
                sentence = str(error)
            if sentence is not None:
                assert sentence.startswith("the given bytes is a damaged calibrator file: "), (name, kind)
                assert "\n" not in sentence
                continue
            probabilities = loaded.predict_proba(rows, features=features)
            assert np.isfinite(probabilities).all(), (name, kind)
            assert (probabilities >= 0).all(), (name, kind)
            assert (probabilities <= 1).all(), (name, kind)
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5, err_msg=f"{name} {kind}")


def test_the_sentences_say_what_must_hold(files: dict[str, bytes]):
    for id, name, values, words in (
        ("ts", "temperature_", [0.0], "temperature_ must lie between 0.04 and 1000"),
        ("ts", "temperature_", [-1.0], "temperature_ must lie between 0.04 and 1000"),
        ("ets", "weights_", [0.5, 0.6, 0.5], "weights_ must sum to 1"),
        ("cts", "temperatures_", [1.0, 1.0, 0.0, 1.0], "temperatures_ must lie between"),
        ("pts", "std_", [1.0, 1.0, 0.0, 1.0], "std_ must lie between"),
        ("smart", "std_", [0.0], "std_ must lie between"),
        ("beta", "coefficients_", [-0.5, 1.0, 0.0], "coefficients_ must begin with two slopes of at least 0"),
    ):
        state, header = opened(files[id])
        assert_refused(save({**state, name: torch.tensor(values)}, metadata=header), words)


def test_a_deep_map_that_leaves_float32_is_refused(problem: Problem):
    deep = get("smart", layers=8, hidden=4, epochs=1).fit(problem.logits, problem.labels)
    state, header = opened(calibrator_bytes(deep))
    load_calibrator(save(state, metadata=header))
    grown = torch.where(torch.arange(len(state["theta_"])) % 3 == 0, -1.0, 1.0) * 1e6
    assert_refused(save({**state, "theta_": grown}, metadata=header), "theta_ must give temperatures")


SHORTENED = {
    "ts": "temperature_", "ets": "weights_", "vector": "bias_", "matrix": "bias_", "dirichlet": "weight_",
    "pts": "theta_", "cts": "temperatures_", "spline": "nodes_", "gc": "temperatures_", "procal": "hit_bandwidth_",
    "fc": "bias_", "histogram": "edges_", "isotonic": "values_", "bbq": "values_", "beta": "coefficients_",
    "smart": "theta_", "platt": "coefficients_", "vennabers": "low_", "cir": "nodes_", "scalingbinning": "values_",
    "irm": "values_", "dac": "weights_", "logitclip": "clip_",
}  # fmt: skip


@pytest.mark.parametrize("id", list(SHORTENED))
def test_short_tensors(id: str, files: dict[str, bytes]):
    state, header = opened(files[id])
    name = SHORTENED[id]
    state[name] = state[name][:-1].contiguous()
    assert_refused(save(state, metadata=header), "has shape")


def test_empty_maps_are_refused(files: dict[str, bytes]):
    for id in ("isotonic", "spline"):
        state, header = opened(files[id])
        assert_refused(save({name: torch.zeros(0) for name in state}, metadata=header), "has shape (0,)")


def test_infinity_is_refused_except_where_it_means_something(files: dict[str, bytes]):
    state, header = opened(files["ts"])
    assert_refused(save({"temperature_": torch.tensor([torch.inf])}, metadata=header), "NaN or infinity")
    state, header = opened(files["fc"])
    loaded = load_calibrator(save({**state, "clip_": torch.tensor([torch.inf])}, metadata=header))
    assert float(loaded.clip_) == float("inf")


def changed(key: str, value: str | None) -> Callable[[Header], Header]:
    def change(header: Header) -> Header:
        rest = {name: text for name, text in header.items() if name != key}
        return rest if value is None else {**rest, key: value}

    return change


HEADERS = {
    "bad version": (changed("version", "one"), "version in its header is 'one'"),
    "version zero": (changed("version", "0"), "version in its header"),
    "newer version": (changed("version", "99"), "newer version"),
    "no version": (changed("version", None), "lacks version"),
    "no method": (changed("method", None), "lacks method"),
    "unknown method": (changed("method", "smrt\nx"), "no method"),
    "no settings": (changed("settings", None), "lacks settings"),
    "settings no dict": (changed("settings", "[1]"), "settings in its header is not a dict"),
    "settings no json": (changed("settings", "{"), "damaged"),
    "settings too deep": (changed("settings", "[" * 100_000), "damaged"),
    "unknown setting": (changed("settings", '{"sigm": 1}'), "no setting 'sigm'"),
    "setting out of range": (changed("settings", '{"sigma": -1}'), "outside its range"),
    "setting not a number": (changed("settings", '{"sigma": NaN}'), "outside its range"),
    "wider network": (changed("settings", '{"hidden": 32}'), "theta_ has shape (49,), not (97,)"),
    "other indicator": (changed("settings", '{"indicator": "all_logits"}'), "has shape"),
    "one class": (changed("classes", "1"), "SMART: it was not fitted on 1 classes"),
    "no class": (changed("classes", "0"), "SMART: it was not fitted on 0 classes"),
    "many classes": (changed("classes", "9" * 30), "classes in its header"),
    "classes no number": (changed("classes", "4.0"), "classes in its header"),
    "features neither": (changed("features_used", '"yes"'), "features_used in its header is not a bool"),
    "notices no list": (changed("notices", '"none"'), "notices in its header is not a list"),
}


@pytest.mark.parametrize("case", list(HEADERS))
def test_headers_that_were_tampered_with(case: str, files: dict[str, bytes]):
    change, words = HEADERS[case]
    state, header = opened(files["smart"])
    assert_refused(save(state, metadata=change(header)), words)


def test_another_number_of_classes_is_noticed(files: dict[str, bytes]):
    for id in ("vector", "matrix", "dirichlet", "cts", "fc", "pts"):
        state, header = opened(files[id])
        assert_refused(save(state, metadata=changed("classes", "3")(header)), "has shape")


def test_a_wrong_device_is_not_blamed_on_the_file(files: dict[str, bytes]):
    with pytest.raises(CalibrationError, match="no device called 'abacus'"):
        load_calibrator(files["ts"], device="abacus")


def test_a_file_that_cannot_be_written_is_named_in_the_error(problem: Problem, tmp_path: Path):
    calibrator = get("ts").fit(problem.logits, problem.labels)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "absent" / "ts.safetensors", tmp_path / "file" / "ts.safetensors", tmp_path / "folder"):
        with pytest.raises(CalibratorFileError) as caught:
            calibrator.save(path)
        assert str(caught.value).startswith(f"{path} cannot be written: ")
        assert str(caught.value).endswith(".")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_settings_given_as_numpy_numbers_are_saved(problem: Problem):
    calibrator = get("smart", sigma=np.float32(0.1), epochs=np.int64(3), standardize=np.bool_(True), seed=np.uint8(2))
    calibrator.fit(problem.logits, problem.labels)
    loaded = load_calibrator(calibrator_bytes(calibrator))
    assert loaded.settings_dict() == calibrator.settings_dict()
    plain = get("smart", sigma=float(np.float32(0.1)), epochs=3, seed=2).fit(problem.logits, problem.labels)
    np.testing.assert_array_equal(loaded.predict_proba(problem.logits), plain.predict_proba(problem.logits))
