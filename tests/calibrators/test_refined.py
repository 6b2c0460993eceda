"""Refined SMART: what it chooses, on what grounds, and that the choice is told, kept and repeated."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import smart_core as sc
from smart_core.calibrators import get, load_calibrator
from smart_core.calibrators.refined import folds_of, shrunk
from smart_core.calibrators.smart import temperature_map
from smart_core.calibrators.store import calibrator_bytes
from smart_core.errors import CalibrationError, CalibratorFileError
from tests.calibrators.made_up import draw_labels
from tests.calibrators.problems import over_confident


def biased(rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose second class is 2 too high: a bias that no temperature, and no order-preserving map, repairs."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(rows, 4)) * 2.0
    labels = draw_labels(truth, rng)
    truth[:, 1] += 2.0
    return (truth * 1.5).astype(np.float32), labels


def nll(calibrator: sc.Refined, logits: np.ndarray, labels: np.ndarray) -> float:
    rows = calibrator.predict_proba(logits)
    return float(-np.log(rows[np.arange(len(rows)), labels]).mean())


@pytest.fixture(scope="module")
def fitted() -> sc.Refined:
    return sc.Refined(folds=3).fit(*biased(1500))


def test_a_biased_class_is_refined(fitted: sc.Refined):
    assert fitted.choice_["refinement"] in ("svs", "sms")
    assert set(fitted.choice_["nll"]) == {"none", "iop", "svs", "sms"}
    assert not fitted.keeps_top1
    other = biased(4000, seed=2)
    assert nll(fitted, *other) < 0.9 * nll(sc.SMART().fit(*biased(1500)), *other)
    assert fitted.parameters == fitted.parts_["first"].parameters + 49
    (notice,) = fitted.notices_
    assert notice.startswith(f"Chosen: {fitted.parts_['first'].label}, then SMART on ")
    assert "Cross-validated NLL: " in notice


def test_a_model_that_a_temperature_repairs_is_left_alone():
    problem = over_confident(1500, 5, seed=3)
    fit = sc.Refined(folds=3).fit(problem.logits, problem.labels)
    assert fit.choice_["refinement"] == "none"
    assert fit.keeps_top1
    assert list(fit.parts_) == ["second"]
    assert "no refinement, plain SMART" in fit.notices_[0]


def test_few_rows_for_each_class_fall_back_to_smart_and_say_so():
    problem = over_confident(300, 30, seed=4)
    fit = sc.Refined(folds=3).fit(problem.logits, problem.labels)
    assert fit.choice_["refinement"] == "none"
    assert fit.choice_["nll"] == {}
    assert "10 validation rows per class are too few" in fit.notices_[0]


def test_so_few_rows_that_nothing_can_be_judged_are_plain_smart():
    problem = over_confident(40, 4, seed=5)
    fit = sc.Refined(seed=2).fit(problem.logits, problem.labels)
    smart = sc.SMART(seed=2).fit(problem.logits, problem.labels)
    np.testing.assert_array_equal(fit.predict_proba(problem.logits), smart.predict_proba(problem.logits))
    asked = sc.Refined(refinement="svs", seed=2).fit(problem.logits, problem.labels)
    chain = sc.Chain(["svs", "smart"], seed=2).fit(problem.logits, problem.labels)
    np.testing.assert_array_equal(asked.predict_proba(problem.logits), chain.predict_proba(problem.logits))


def test_the_prediction_stays_where_it_must():
    logits, labels = biased(1500)
    fit = sc.Refined(folds=3, top1="keep").fit(logits, labels)
    assert set(fit.choice_["nll"]) == {"none", "iop"}
    assert fit.keeps_top1
    other, _ = biased(2000, seed=2)
    np.testing.assert_array_equal(fit.predict_proba(other).argmax(axis=1), other.argmax(axis=1))


def test_quadratic_scaling_is_tried_for_two_classes_only():
    problem = over_confident(400, 2, seed=6)
    fit = sc.Refined(folds=2).fit(problem.logits, problem.labels)
    assert set(fit.choice_["nll"]) == {"none", "iop", "quadratic", "svs", "sms"}
    with pytest.raises(CalibrationError, match="quadratic scaling is for two classes"):
        sc.Refined(refinement="quadratic").fit(*biased(200))


def test_the_choice_does_not_depend_on_the_seed(fitted: sc.Refined):
    other = sc.Refined(folds=3, seed=7).fit(*biased(1500))
    assert other.choice_["nll"] == fitted.choice_["nll"]
    assert other.choice_["refinement"] == fitted.choice_["refinement"]


def test_a_saved_choice_is_told_again(fitted: sc.Refined):
    from safetensors.torch import save

    from tests.calibrators.test_store import opened

    loaded = load_calibrator(calibrator_bytes(fitted))
    assert loaded.choice_ == fitted.choice_
    assert loaded.keeps_top1 == fitted.keeps_top1
    state, header = opened(calibrator_bytes(fitted))
    for decided in ("{}", '{"refinement": "smart"}', '{"refinement": "none"}', "[]", '{"refinement": ["svs"]}'):
        with pytest.raises(CalibratorFileError, match="damaged"):
            load_calibrator(save(state, metadata={**header, "decided": decided}))
    ts = calibrator_bytes(get("ts").fit(*biased(100)))
    state, header = opened(ts)
    with pytest.raises(CalibratorFileError, match="decides nothing"):
        load_calibrator(save(state, metadata={**header, "decided": '{"refinement": "svs"}'}))


def test_the_json_of_a_comparison_tells_the_choice():
    logits, labels = biased(1200)
    data = sc.LogitSet("biased", sc.Part(logits[:600], labels[:600]), sc.Part(logits[600:], labels[600:]))
    told = sc.compare(data, "refined", seeds=1, settings={"refined": {"folds": 2}}).to_dict()["methods"]["refined"]
    assert told["notices"][0].startswith("Chosen: ")


def test_folds_hold_equal_shares_of_every_class():
    labels = torch.from_numpy(np.random.default_rng(0).integers(0, 7, 701))
    fold = folds_of(labels, 5)
    assert torch.equal(fold, folds_of(labels, 5))
    for label in range(7):
        counts = torch.bincount(fold[labels == label], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_a_shrunk_map_lies_between_the_whole_and_the_flat_one():
    generator = torch.Generator().manual_seed(0)
    theta, x = torch.randn(49, generator=generator), torch.linspace(-2.0, 2.0, 50).unsqueeze(1)
    whole, half, none = (temperature_map(shrunk(theta, 16, d, 1.3), (1, 16, 1), x) for d in (1.0, 0.5, 0.0))
    torch.testing.assert_close(whole, temperature_map(theta, (1, 16, 1), x))
    torch.testing.assert_close(none, torch.full_like(none, float(np.log1p(np.exp(1.3))) + 0.1))
    assert bool(((half - whole) * (half - none) <= 1e-6).all())
