"""SMART: its formula, its options, what it recovers where the truth is known, and the figures on real logits."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import smart_core as sc
from smart_core.calibrators.smart import SMART, inverse_softplus
from smart_core.errors import CalibrationError
from smart_core.evaluation import evaluate
from smart_core.fitting.indicators import INDICATORS
from tests.calibrators.problems import over_confident
from tests.conftest import real_data

QUICK = {"epochs": 40}


def test_the_formula_of_the_paper():
    """T(m) = softplus(W2 relu(W1 x + b1) + b2) + 0.1 with x the standardised margin, written out in NumPy."""
    problem = over_confident(300, 5, seed=1)
    smart = SMART(tail=1.0, **QUICK).fit(problem.logits, problem.labels)
    theta = smart.theta_.numpy().astype(np.float64)
    w1, b1, w2, b2 = theta[:16], theta[16:32], theta[32:48], theta[48]
    ordered = np.sort(problem.logits.astype(np.float64), axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    x = (margin - margin.mean()) / margin.std()
    hidden = np.maximum(np.outer(x, w1) + b1, 0.0)
    expected = np.log1p(np.exp(hidden @ w2 + b2)) + 0.1
    np.testing.assert_allclose(smart.temperatures(problem.logits), expected, rtol=1e-4)
    scaled = problem.logits / expected[:, None]
    rows = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(smart.predict_proba(problem.logits), rows, atol=1e-5)


def test_the_map_is_level_beyond_the_last_margins():
    problem = over_confident(400, 5, seed=1)
    smart = SMART(tail=0.9, **QUICK).fit(problem.logits, problem.labels)
    ordered = np.sort(problem.logits, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    limit = np.sort(margin)[359]
    assert float(smart.limit_) == limit
    temperatures = smart.temperatures(problem.logits)
    assert len(np.unique(temperatures[margin >= limit])) == 1
    assert len(np.unique(temperatures[margin < limit])) > 200
    free = SMART(tail=1.0, **QUICK).fit(problem.logits, problem.labels)
    assert float(free.limit_) == float("inf")
    assert len(np.unique(free.temperatures(problem.logits)[margin >= limit])) > 20


def test_a_file_of_an_older_version_has_no_level_part():
    from safetensors.torch import load, save

    from smart_core.calibrators.store import calibrator_bytes, load_calibrator
    from tests.calibrators.test_store import opened

    problem = over_confident(200, 4, seed=1)
    smart = SMART(tail=1.0, epochs=5).fit(problem.logits, problem.labels)
    state, header = opened(calibrator_bytes(smart))
    assert load(calibrator_bytes(smart)).keys() == state.keys()
    del state["limit_"]
    settings = {name: value for name, value in smart.settings_dict().items() if name != "tail"}
    loaded = load_calibrator(save(state, metadata={**header, "settings": json.dumps(settings)}))
    assert loaded.tail == 1.0
    np.testing.assert_array_equal(loaded.predict_proba(problem.logits), smart.predict_proba(problem.logits))


def test_presets_are_the_papers_text_and_the_authors_code():
    paper, release = SMART(preset="paper"), SMART(preset="release")
    assert (paper.standardize, paper.init, paper.batch_size, paper.patience) == (False, "random", 1024, None)
    assert paper.parameters == 49
    assert (release.standardize, release.init, release.batch_size, release.patience) == (True, "random", None, 200)
    assert release.parameters == 321
    assert paper.tail == release.tail == 1.0
    assert SMART(preset="paper", patience=200).patience == 200
    with pytest.raises(CalibrationError, match="no preset 'papr'; it has paper, release"):
        SMART(preset="papr")
    with pytest.raises(TypeError, match="no setting 'sigm'"):
        SMART(sigm=1.0)
    problem = over_confident(200, 4, seed=1)
    SMART(preset="paper", epochs=2).fit(problem.logits, problem.labels)


def test_forty_nine_parameters_whatever_the_classes():
    for classes in (3, 80):
        problem = over_confident(100, classes, seed=2)
        assert SMART(epochs=2).fit(problem.logits, problem.labels).parameters == 49
    assert SMART(layers=2).parameters == 321


def test_the_default_start_is_flat_at_the_temperature_scaling_optimum():
    problem = over_confident(300, 5, seed=3)
    smart = SMART(epochs=1).fit(problem.logits, problem.labels)
    temperatures = smart.temperatures(problem.logits)
    ts = sc.TS().fit(problem.logits, problem.labels)
    np.testing.assert_allclose(temperatures, float(ts.temperature_), rtol=0.05)
    spread = SMART(epochs=1, init="random").fit(problem.logits, problem.labels).temperatures(problem.logits)
    assert np.std(spread) > 3 * np.std(temperatures)


@pytest.mark.parametrize("indicator", list(INDICATORS))
def test_every_indicator_trains(indicator: str):
    problem = over_confident(300, 5, seed=4)
    smart = SMART(indicator=indicator, **QUICK).fit(problem.logits, problem.labels)
    first = SMART(indicator=indicator, epochs=1).fit(problem.logits, problem.labels)
    from smart_core.metrics import charbonnier_soft_ece, top_label

    def objective(calibrator: SMART) -> float:
        return charbonnier_soft_ece(*top_label(calibrator.predict_proba(problem.logits), problem.labels))

    assert objective(smart) < objective(first)
    assert smart.parameters == (49 if indicator != "all_logits" else 16 * 5 + 16 + 17)


def test_mini_batches_and_full_epochs():
    problem = over_confident(300, 5, seed=5)
    batched = SMART(batch_size=64, epochs=10).fit(problem.logits, problem.labels, trace=True)
    assert len(batched.trace_) == 10
    every = SMART(epochs=300, patience=None).fit(problem.logits, problem.labels, trace=True)
    assert len(every.trace_) == 300
    assert set(every.trace_.values) == {"objective", "gradient_norm", "ece", "nll"}


def test_trace_is_of_the_validation_set():
    problem = over_confident(300, 5, seed=6)
    smart = SMART(epochs=1).fit(problem.logits, problem.labels, trace=True)
    rows = smart.predict_proba(problem.logits)
    from smart_core.metrics import ece, nll, top_label

    assert smart.trace_["nll"][0] == pytest.approx(nll(rows, problem.labels), rel=1e-4)
    assert smart.trace_["ece"][0] == pytest.approx(ece(*top_label(rows, problem.labels)), abs=1e-4)


def test_the_table_fit_is_the_direct_fit():
    """100 classes are read from the table; the same fit over exact sums must give the same map."""
    import smart_core.fitting.profile as profile_module

    problem = over_confident(400, 100, seed=7)
    table = SMART(epochs=20).fit(problem.logits, problem.labels)
    limit = profile_module.DIRECT_UP_TO
    try:
        profile_module.DIRECT_UP_TO = 1000
        direct = SMART(epochs=20).fit(problem.logits, problem.labels)
    finally:
        profile_module.DIRECT_UP_TO = limit
    torch.testing.assert_close(table.theta_, direct.theta_, rtol=0, atol=2e-3)


def test_inverse_softplus():
    for value in (1e-3, 0.5, 2.4, 19.0):
        assert float(torch.nn.functional.softplus(torch.tensor(inverse_softplus(value)))) == pytest.approx(
            value, rel=1e-5
        )


def test_a_u_shaped_law_is_recovered():
    """On simulated logits with a U-shaped T*, the true calibration error is a third of TS's or less."""
    from smart_core.data.simulate import simulate

    validation = simulate(10_000, 10, law="u_shaped", seed=0)
    test = simulate(20_000, 10, law="u_shaped", seed=1)
    errors = {}
    for name, calibrator in {"ts": sc.TS(), "smart": SMART()}.items():
        calibrator.fit(validation.logits, validation.labels)
        rows = calibrator.predict_proba(test.logits)
        np.testing.assert_array_equal(rows.argmax(axis=1), test.logits.argmax(axis=1))
        errors[name] = test.true_calibration_error(rows.max(axis=1), rows.argmax(axis=1))
    assert errors["ts"] > 3.0 * errors["smart"], errors


def test_the_figures_on_real_cifar10_logits():
    """Mean of five seeds on the paper's CIFAR-10 ResNet-50: ECE <= 0.85%, AdaECE <= 1.1%, NLL <= 0.206."""
    folder = real_data("resnet50_cifar10_ce")
    data = sc.load(val=folder / "val.pt", test=folder / "test.pt")
    values = []
    for seed in range(5):
        smart = SMART(seed=seed).fit(data.validation.logits, data.validation.labels)
        judged = evaluate(smart, data.test)
        values.append([judged.metric(name) for name in ("ece", "adaece", "nll")])
        np.testing.assert_array_equal(judged.prediction, data.test.logits.argmax(axis=1))
    ece, adaece, nll = np.mean(values, axis=0)
    assert ece <= 0.0085
    assert adaece <= 0.011
    assert nll <= 0.206
