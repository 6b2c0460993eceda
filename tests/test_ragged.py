"""Rows that lack classes: a multiple-choice set equals what each row gives alone, in every form of every method."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

import smart_core as sc
from smart_core import kernels
from smart_core.calibrators import Calibrator, methods, pts
from smart_core.data import from_arrays, save_bundle
from smart_core.data.logitset import Part
from smart_core.errors import CalibrationError, LogitFileError
from smart_core.experiments.running import unavailable
from smart_core.export import as_module, numpy_source, onnx_bytes
from smart_core.fitting.indicators import INDICATORS
from smart_core.fitting.ragged import filled
from smart_core.types import Logits

MOST = 10
ABLE = [id for id, method in methods().items() if method.whole_rows is None]
UNABLE = [id for id in methods() if id not in ABLE]


def questions(rows: int, seed: int, sharpness: float = 2.0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Questions with 2 to 10 choices: answers drawn from a softmax, and logits that are too sharp by a factor."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, MOST + 1, rows)
    logits = rng.normal(0.0, 1.5, (rows, MOST))
    logits[np.arange(MOST) >= counts[:, None]] = -np.inf
    cumulated = softmax(logits, axis=1).cumsum(axis=1)
    labels = (rng.random((rows, 1)) > cumulated).sum(axis=1)
    # too sharp by more where the margin is large, which one temperature cannot repair
    top = np.sort(logits, axis=1)[:, ::-1]
    factor = sharpness * (1.0 + 0.4 * np.minimum(top[:, :1] - top[:, 1:2], 3.0))
    return (logits * factor).astype(np.float32), np.minimum(labels, counts - 1)


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    (val, y_val), (test, y_test) = questions(10_000, 0), questions(10_000, 1)
    return from_arrays("choices", val_logits=val, val_labels=y_val, test_logits=test, test_labels=y_test)


@pytest.fixture(scope="module")
def fits(data) -> dict[str, Calibrator]:
    few = data.validation.subset(np.arange(2000))
    return {id: sc.calibrators.get(id, seed=0, device="cpu").fit_part(few) for id in ABLE}


def rows_alone(part: Part) -> list[tuple[NDArray[np.intp], NDArray[np.float64]]]:
    """Rows without the classes that they do not have: for each number of classes, which rows, and their logits."""
    counts = np.isfinite(part.logits).sum(axis=1)
    return [(np.flatnonzero(counts == k), part.logits[counts == k, :k].astype(np.float64)) for k in np.unique(counts)]


def test_what_is_read(data):
    assert data.test.ragged
    assert "ragged_rows" in {notice.code for notice in data.notices}
    assert "huge_logits" not in {notice.code for notice in data.notices}
    assert not sc.simulate_set(20, 20, 3).test.ragged


def test_what_can_run(data):
    assert {"vanilla", "ts", "ets", "pts", "smart", "isotonic", "histogram", "bbq", "beta", "spline"} <= set(ABLE)
    reasons = {id: unavailable(id, data) for id in methods()}
    assert [id for id, reason in reasons.items() if reason is None] == ABLE
    assert reasons["vector"] == "needs every class in every row: it has parameters for each class"
    for id in ("vector", "cts", "gc"):
        with pytest.raises(CalibrationError, match="needs every class in every row"):
            sc.calibrators.get(id).fit_part(data.validation)
    with pytest.raises(CalibrationError, match="with these settings it needs every class"):
        sc.SMART(indicator="all_logits").fit_part(data.validation)


def test_ts_is_the_minimiser_over_rows_alone(data):
    """The reference computes each row alone, in float64, and minimises its mean NLL."""
    groups = [(z, data.validation.labels[rows]) for rows, z in rows_alone(data.validation)]

    def nll(t: float) -> float:
        return sum(np.sum(logsumexp(z / t, axis=1) - z[np.arange(len(z)), y] / t) for z, y in groups)

    found = minimize_scalar(nll, bounds=(0.05, 20.0), method="bounded", options={"xatol": 1e-7}).x
    ts = sc.TS(device="cpu").fit_part(data.validation)
    assert float(ts.temperature_[0]) == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("id", ["ts", "smart", "vanilla", "pts"])
def test_each_row_equals_the_row_alone(id, data):
    calibrator = sc.calibrators.get(id, seed=0, device="cpu").fit_part(data.validation)
    probabilities = calibrator.predict_proba(data.test.logits)
    temperatures = calibrator.temperatures(data.test.logits)
    evaluation = sc.evaluate(calibrator, data.test)
    confidences, predictions = calibrator.predict(data.test.logits)
    for rows, z in rows_alone(data.test):
        alone, y = softmax(z / temperatures[rows, None], axis=1), data.test.labels[rows]
        classes, each = z.shape[1], np.arange(len(rows))
        np.testing.assert_allclose(probabilities[rows, :classes], alone, atol=1e-5)
        assert not probabilities[rows, classes:].any()
        np.testing.assert_allclose(evaluation.confidence[rows], alone.max(axis=1), atol=1e-5)
        np.testing.assert_allclose(confidences[rows], alone.max(axis=1), atol=1e-5)
        np.testing.assert_array_equal(predictions[rows], z.argmax(axis=1))
        np.testing.assert_allclose(evaluation.nll[rows], -np.log(alone[each, y]), atol=1e-4)
        brier = np.sum((alone - np.eye(classes)[y]) ** 2, axis=1)
        np.testing.assert_allclose(evaluation.brier[rows], brier, atol=1e-5)
        top = np.sort(z, axis=1)[:, ::-1]
        margin = top[:, 0] - top[:, 1]
        np.testing.assert_allclose(evaluation.margin[rows], margin, atol=1e-5)
        if id == "smart":
            mapped = calibrator.map(torch.tensor(margin[:, None], dtype=torch.float32)).detach().numpy()
            np.testing.assert_allclose(temperatures[rows], mapped, atol=1e-5)


def test_smart_improves_an_over_confident_set(data):
    result = sc.compare(data, "vanilla,ts,smart", seeds=1)
    ece = {id: row.mean("ece") for id, row in result.available.items()}
    assert ece["smart"] < 0.2 * ece["vanilla"]
    assert ece["smart"] < ece["ts"]
    assert not result.notices


@pytest.mark.parametrize("id", ABLE)
def test_absent_classes_get_nothing_and_rows_sum_to_one(id, data, fits):
    logits = data.test.logits[:500]
    probabilities = fits[id].predict_proba(logits)
    absent = np.isneginf(logits)
    assert not probabilities[absent].any()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-5)
    assert np.isfinite(probabilities).all()
    if fits[id].keeps_top1:
        np.testing.assert_array_equal(probabilities.argmax(axis=1), logits.argmax(axis=1))


@pytest.mark.parametrize("id", ABLE)
def test_a_row_does_not_depend_on_its_neighbours(id, data, fits):
    logits = data.test.logits[:50]
    whole = fits[id].predict_proba(logits)
    single = np.concatenate([fits[id].predict_proba(logits[i : i + 1]) for i in range(50)])
    np.testing.assert_allclose(whole, single, atol=1e-6)


@pytest.mark.parametrize("id", ABLE)
def test_exported_forms_agree(id, data, fits):
    onnxruntime = pytest.importorskip("onnxruntime")
    logits = np.array(data.test.logits[:300])
    wanted = fits[id].predict_proba(logits)
    names: dict[str, object] = {}
    exec(numpy_source(fits[id]), names)
    np.testing.assert_allclose(names["predict_proba"](logits), wanted, atol=2e-6)
    np.testing.assert_allclose(as_module(fits[id])(torch.from_numpy(logits)).numpy(), wanted, atol=2e-6)
    (found,) = onnxruntime.InferenceSession(onnx_bytes(fits[id])).run(None, {"logits": logits})
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    again = sc.load_calibrator(sc.calibrators.calibrator_bytes(fits[id]), device="cpu")
    np.testing.assert_array_equal(again.predict_proba(logits), wanted)


@pytest.mark.parametrize(("id", "settings"), [("ts", {}), ("smart", {"epochs": 30}), ("pts", {}), ("ets", {})])
def test_compiled_loops_and_their_twins_agree(id, settings, data, monkeypatch):
    monkeypatch.setitem(pts.FAST, "epochs", 20)  # more steps of Adam amplify rounding
    few, test = data.validation.subset(np.arange(2000)), data.test.logits[:500]
    compiled = sc.calibrators.get(id, device="cpu", **settings).fit_part(few)
    monkeypatch.setattr(kernels, "usable", lambda *given: False)
    twin = sc.calibrators.get(id, device="cpu", **settings).fit_part(few)
    np.testing.assert_allclose(twin.predict_proba(test), compiled.predict_proba(test), atol=5e-4)


@pytest.mark.parametrize("name", [name for name, indicator in INDICATORS.items() if indicator.scalar])
def test_indicators_of_rows_alone(name, data):
    rows = data.test.logits[:200]
    found = INDICATORS[name](Logits(filled(torch.from_numpy(np.array(rows)))))[:, 0]
    for i, row in enumerate(rows):
        alone = torch.from_numpy(row[np.isfinite(row)].copy()).unsqueeze(0)
        assert float(found[i]) == pytest.approx(float(INDICATORS[name](Logits(alone))[0, 0]), abs=1e-5)


def test_studies_and_label_smoothing(data):
    few = data.with_parts(validation=data.validation.subset(np.arange(1000)), test=data.test.subset(np.arange(1000)))
    grid = sc.sensitivity(few, [0.05], [0.001], seeds=1, settings={"epochs": 20})
    single = sc.SMART(epochs=20).fit_part(few.validation)
    assert grid.mean()[0, 0] == pytest.approx(sc.evaluate(single, few.test).metric("ece"), abs=1e-6)
    smoothed = sc.SMART(objective="ls", epochs=20).fit_part(few.validation)
    assert np.isfinite(smoothed.temperatures(few.test.logits)).all()


def test_a_bundle_and_a_new_split_keep_them(data, tmp_path):
    few = data.with_parts(validation=data.validation.subset(np.arange(100)), test=data.test.subset(np.arange(100)))
    again = sc.load(save_bundle(few, tmp_path / "a.npz"))
    assert again.content_hash == few.content_hash
    assert again.resplit(0.3).test.ragged


def test_many_classes_use_the_table(data):
    """Above 64 classes fits read the tabulated log-partition."""
    wide = [
        np.pad(part.logits[:1500], ((0, 0), (0, 70)), constant_values=-np.inf) for part in (data.validation, data.test)
    ]
    labels = [part.labels[:1500] for part in (data.validation, data.test)]
    broad = from_arrays(val_logits=wide[0], val_labels=labels[0], test_logits=wide[1], test_labels=labels[1])
    narrow = data.validation.subset(np.arange(1500))
    few = {"epochs": 100, "patience": None}
    one, other = sc.SMART(**few).fit_part(broad.validation), sc.SMART(**few).fit_part(narrow)
    margins = data.test.logits[:1500]
    np.testing.assert_allclose(one.temperatures(wide[1]), other.temperatures(margins), rtol=0.02)


@pytest.mark.parametrize(
    ("row", "label", "words"),
    [
        ([1.0, -np.inf, -np.inf], 0, "has a single class in row 3 .* drop rows with fewer than two classes"),
        ([-np.inf, -np.inf, -np.inf], 0, "has no class in row 3"),
        ([1.0, 2.0, -np.inf], 2, "holds 2 at row 3 .*, a class that the row does not have"),
        ([1.0, np.nan, -np.inf], 0, "holds NaN or infinity in 1 place, the first at row 3, column 1"),
        ([1.0, np.inf, -np.inf], 0, "holds NaN or infinity in 1 place, the first at row 3, column 1"),
    ],
)
def test_refused_in_one_sentence(row, label, words):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(8, 3)), np.arange(8) % 3
    logits[3], labels[3] = row, label
    with pytest.raises(LogitFileError, match=words):
        from_arrays(logits=logits, labels=labels)
    with pytest.raises(CalibrationError, match=r"row 3|the logits hold NaN"):
        sc.TS(device="cpu").fit(logits.astype(np.float32), labels)
