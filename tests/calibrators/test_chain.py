"""Chains: two methods in a row are one calibrator, learned, saved, copied and exported like any other."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import onnxruntime
import pytest
import torch

import smart_core as sc
from smart_core.calibrators import get, load_calibrator, method_named, select
from smart_core.calibrators.store import calibrator_bytes
from smart_core.errors import CalibrationError, Cancelled
from smart_core.export import CalibratedLogits, as_module, numpy_source, onnx_bytes
from tests.calibrators.fits import QUICK
from tests.calibrators.problems import Problem, over_confident

CHAINS = ("svs+smart", "iop+smart", "smart+dirichlet", "ts+isotonic", "gc+beta", "fc+vector", "procal+smart")
EQUAL = 1e-6
"""Exported rows against those of the engine."""
STEEP = {"ts+isotonic": 1e-5}
"""Where the second map is steep, it enlarges the rounding of the first."""


@pytest.fixture(scope="module")
def problem() -> Problem:
    return over_confident(500, 5, seed=1)


@pytest.fixture(scope="module")
def other() -> Problem:
    return over_confident(800, 5, seed=2)


def quick(id: str, **settings: object) -> sc.Chain:
    parts = dict(zip(("first", "second"), id.split("+"), strict=True))
    short = {f"{name}.{key}": value for name, part in parts.items() for key, value in QUICK.get(part, {}).items()}
    return get(id, **{**short, **settings})


@pytest.fixture(scope="module")
def fits(problem: Problem) -> dict[str, sc.Chain]:
    return {id: quick(id).fit(problem.logits, problem.labels, **problem.fit_arguments()) for id in CHAINS}


@pytest.mark.parametrize("id", ["svs+smart", "ts+isotonic"])
def test_the_second_is_fitted_on_the_log_probabilities_of_the_first(id: str, problem: Problem, other: Problem, fits):
    first, second = (get(part, **QUICK.get(part, {})) for part in id.split("+"))
    first.fit(problem.logits, problem.labels)
    logs, more = (
        np.log(np.maximum(first.predict_proba(rows.logits).astype(np.float64), np.finfo(np.float32).tiny))
        for rows in (problem, other)
    )
    expected = second.fit(logs.astype(np.float32), problem.labels).predict_proba(more.astype(np.float32))
    np.testing.assert_allclose(fits[id].predict_proba(other.logits), expected, atol=1e-6)


@pytest.mark.parametrize("id", CHAINS)
def test_saved_copied_and_pickled_chains_give_the_same_bits(id: str, other: Problem, fits):
    chain = fits[id]
    rows = chain.predict_proba(other.logits, features=other.features)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-5)
    for again in (
        load_calibrator(calibrator_bytes(chain)),
        pickle.loads(pickle.dumps(chain)),
        copy.deepcopy(chain),
        chain.with_state(chain.state()),
    ):
        assert isinstance(again, sc.Chain)
        assert (again.id, again.label, again.parameters) == (id, chain.label, chain.parameters)
        assert again.settings_dict() == chain.settings_dict()
        assert again.notices_ == chain.notices_
        np.testing.assert_array_equal(again.predict_proba(other.logits, features=other.features), rows)


@pytest.mark.parametrize("id", CHAINS)
def test_exported_forms_agree(id: str, other: Problem, fits):
    chain = fits[id]
    rows = chain.predict_proba(other.logits, features=other.features)
    inputs = {"logits": other.logits} | ({"features": other.features} if chain.features_used_ else {})
    within = STEEP.get(id, EQUAL)
    names: dict = {}
    exec(numpy_source(chain), names)
    np.testing.assert_allclose(names["predict_proba"](*inputs.values()), rows, atol=within)
    (found,) = onnxruntime.InferenceSession(onnx_bytes(chain)).run(None, inputs)
    np.testing.assert_allclose(found, rows, atol=within)
    module = as_module(chain)(*(torch.from_numpy(array) for array in inputs.values()))
    np.testing.assert_allclose(module.detach(), rows, atol=within)


def test_a_chain_is_a_scikit_learn_classifier(problem: Problem, fits):
    from sklearn.base import clone

    estimator = CalibratedLogits("svs+smart", settings={"second.epochs": 60})
    rows = clone(estimator).fit(problem.logits, problem.labels).predict_proba(problem.logits)
    np.testing.assert_array_equal(rows, fits["svs+smart"].predict_proba(problem.logits))
    of = CalibratedLogits.of(fits["svs+smart"])
    np.testing.assert_array_equal(of.predict_proba(problem.logits), rows)


def test_near_ties_keep_their_prediction(other: Problem, fits):
    logits = other.logits.copy()
    order, rows = np.argsort(logits, axis=1), np.arange(len(logits))
    logits[rows, order[:, -2]] = np.nextafter(logits[rows, order[:, -1]], np.float32(-np.inf))
    for id in ("iop+smart", "ts+isotonic"):
        assert fits[id].keeps_top1
        np.testing.assert_array_equal(fits[id].predict_proba(logits).argmax(axis=1), logits.argmax(axis=1))
    assert not fits["svs+smart"].keeps_top1


def test_settings_of_the_parts_have_their_names(problem: Problem):
    chain = sc.Chain([sc.SVS(lambda_diagonal=3.0), sc.SMART(sigma=0.1, epochs=5)], seed=4)
    settings = chain.settings_dict()
    assert settings["first.lambda_diagonal"] == 3.0
    assert settings["second.sigma"] == 0.1
    assert settings["seed"] == 4
    assert [item.name for item in chain.settings()] == list(settings)
    same = get("svs+smart", **settings).fit(problem.logits, problem.labels)
    fitted = chain.fit(problem.logits, problem.labels)
    np.testing.assert_array_equal(fitted.predict_proba(problem.logits), same.predict_proba(problem.logits))
    assert "SVS(" in repr(chain)
    with pytest.raises(CalibrationError, match=r"no setting 'second.sigm'"):
        get("svs+smart", **{"second.sigm": 1})
    with pytest.raises(CalibrationError, match="sigma"):
        get("svs+smart", **{"second.sigma": -1.0}).fit(problem.logits, problem.labels)


def test_the_parts_share_one_seed():
    assert sc.Chain(["svs", sc.SMART(seed=3)]).seed == 3
    assert sc.Chain([sc.PTS(seed=3), sc.SMART()]).parts_["second"].seed == 3
    with pytest.raises(CalibrationError, match="share one seed"):
        sc.Chain([sc.PTS(seed=1), sc.SMART(seed=2)])


@pytest.mark.parametrize("wrong", ["svs", ["svs"], ["svs", "ts", "smart"], ["svs", 3], 7])
def test_what_is_no_chain_is_one_sentence(wrong: object):
    with pytest.raises(CalibrationError, match="A chain is two methods"):
        sc.Chain(wrong)


def test_other_misuse_is_one_sentence(problem: Problem):
    with pytest.raises(CalibrationError, match="single methods, not chains"):
        sc.Chain([sc.Chain(["svs", "smart"]), "ts"])
    with pytest.raises(CalibrationError, match="it can only come first"):
        get("ts+fc")
    for id in ("svs+", "+smart", "svs+smrt", "svs+smart+ts", "+"):
        with pytest.raises(CalibrationError, match="There is no method"):
            select([id])
    with pytest.raises(CalibrationError, match="not fitted"):
        sc.Chain(["svs", "smart"]).predict_proba(problem.logits)
    assert get("svs+quadratic").missing({}) == "needs two classes"


def test_cancel_and_progress(problem: Problem):
    seen: list[float] = []

    def stop(fraction: float, words: str) -> None:
        seen.append(fraction)
        if fraction > 0.6:
            raise Cancelled("enough")

    chain = quick("svs+smart")
    with pytest.raises(Cancelled):
        chain.fit(problem.logits, problem.labels, progress=stop)
    assert seen == sorted(seen)
    with pytest.raises(CalibrationError, match="not fitted"):
        chain.predict_proba(problem.logits)


@pytest.mark.parametrize(("rows", "classes"), [(50, 10), (200, 2)])
def test_few_rows_and_a_missing_class(rows: int, classes: int):
    small = over_confident(rows, classes, seed=3)
    kept = small.labels != classes - 1 if classes > 2 else np.ones(rows, bool)
    chain = quick("svs+smart").fit(small.logits[kept], small.labels[kept])
    found = chain.predict_proba(small.logits)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)


def test_compare_and_its_json_have_chains():
    data = sc.simulate_set(400, 400, 4, seed=0)
    result = sc.compare(data, "ts,svs+ts", seeds=2, settings={"svs+ts": {"first.lambda_diagonal": 2.0}})
    assert list(result.results) == ["ts", "svs+ts"]
    told = result.to_dict()["methods"]["svs+ts"]
    assert told["label"] == "SVS then TS"
    assert told["seeds"] == 1
    assert method_named("svs+ts") is type(result.results["svs+ts"].calibrators[0])
