"""How often the intervals hold the population value and the floors hold a calibrated model: 95 % within two points."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from smart_core import metrics
from smart_core.metrics.classwise_cells import classwise_cells
from smart_core.metrics.floor import noise_floor
from smart_core.metrics.intervals import interval
from smart_core.metrics.paired import paired_difference
from tests.metrics.simulated import LAWS, ClassLaw, TopLabelLaw

SETS = 500
FEWER_DRAWS = {"ece": 600, "adaece": 600, "smce": 300, "smece": 300}
CLASS_LAWS = {
    "calibrated": ClassLaw(5, 1.0),
    "mild": ClassLaw(5, 1.15),
    "strong": ClassLaw(5, 2.0),
}


def _assert_nominal(hits: list[bool]) -> None:
    coverage = 100 * float(np.mean(hits))
    print(f"coverage {coverage:.1f} % of {len(hits)} sets")
    assert 93 <= coverage <= 97


@pytest.mark.parametrize("law_name", LAWS)
@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece"])
def test_interval_of_a_calibration_error_covers(metric: str, law_name: str) -> None:
    law, samples = LAWS[law_name]
    truth = law.population(metric)
    generator = np.random.default_rng(2024)
    hits = []
    for _ in range(SETS):
        p, a = law.draw(samples, generator)
        found = interval(metric, p, a, draws=FEWER_DRAWS[metric])
        hits.append(found.low <= truth <= found.high)
    _assert_nominal(hits)


@pytest.mark.parametrize("law_name", CLASS_LAWS)
def test_interval_of_the_classwise_error_covers(law_name: str) -> None:
    law = CLASS_LAWS[law_name]
    truth = law.classwise_error()
    generator = np.random.default_rng(7)
    hits = []
    for seed in range(SETS):
        p, y = law.draw(1000, generator)
        found = interval("cece", [], [], cells=classwise_cells(p, y, seed=seed))
        hits.append(found.low <= truth <= found.high)
    _assert_nominal(hits)


@pytest.mark.parametrize("samples", [1000, 4000])
@pytest.mark.parametrize("metric", ["nll", "brier", "accuracy"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_interval_of_a_mean_covers(metric: str, temperature: float, samples: int) -> None:
    law = ClassLaw(10, temperature, scale=5.0)
    generator = np.random.default_rng(11)
    p, y = law.draw(400_000, generator)  # the population, drawn from with replacement
    hit = p.argmax(axis=1) == y
    p_label = p[np.arange(len(y)), y]
    losses = {"nll": -np.log(p_label), "brier": (p**2).sum(axis=1) - 2 * p_label + 1}
    truth = float(np.mean(hit if metric == "accuracy" else losses[metric]))
    hits = []
    for _ in range(2000):
        i = generator.integers(len(y), size=samples)
        found = interval(metric, p[i, 0], hit[i], nll=losses["nll"][i], brier=losses["brier"][i])
        hits.append(found.low <= truth <= found.high)
    _assert_nominal(hits)


@pytest.mark.parametrize("metric", ["ece", "adaece", "mce", "smce", "smece"])
def test_floor_holds_a_calibrated_model(metric: str) -> None:
    law, samples = LAWS["calibrated"]
    generator = np.random.default_rng(5)
    hits = []
    for _ in range(25):
        p, _ = law.draw(samples, generator)
        floor = noise_floor(metric, p, draws=600)
        for _ in range(SETS // 25):
            value = getattr(metrics, metric)(p, generator.random(samples) < p)
            hits.append(value <= floor.q95)
    _assert_nominal(hits)


def test_floor_of_the_classwise_error_holds_a_calibrated_model() -> None:
    generator = np.random.default_rng(13)
    hits = []
    for seed in range(SETS):
        cells = classwise_cells(*CLASS_LAWS["calibrated"].draw(1000, generator), seed=seed)
        hits.append(cells.ece() <= noise_floor("cece", cells=cells).q95)
    _assert_nominal(hits)


PAIRS = {
    "both calibrated": (lambda p: p, lambda p: p),
    "equal errors": (lambda p: p - 0.05, lambda p: p + 0.05),
    "one calibrated": (lambda p: p, lambda p: p - 0.04),
}


def _pair(shape_a: object, shape_b: object, samples: int, generator: np.random.Generator) -> tuple[object, object]:
    """Two confidences of the same samples: correct has probability t, the models say what each shape makes of t."""
    t = 0.25 + 0.65 * generator.beta(3, 1.5, samples)
    correct = generator.random(samples) < t
    return tuple(  # type: ignore[return-value]
        SimpleNamespace(confidence=shape(t), correct=correct, nll=None, brier=None) for shape in (shape_a, shape_b)
    )


@pytest.mark.parametrize("name", PAIRS)
def test_paired_difference_covers_and_seldom_rejects_equality(name: str) -> None:
    shapes = PAIRS[name]
    generator = np.random.default_rng(17)
    exact = [abs(float(shape(np.array([0.5]))[0]) - 0.5) for shape in shapes]  # one sign everywhere: ECE = |shift|
    hits, rejected = [], []
    for _ in range(SETS):
        a, b = _pair(*shapes, 1000, generator)
        found = paired_difference("ece", a, b, draws=600)
        hits.append(found.low <= exact[0] - exact[1] <= found.high)
        rejected.append(found.p_value < 0.05)
    if name == "both calibrated":
        assert all(hits)  # the two confidences are the same
        assert not any(rejected)
        return
    print(f"rejected {np.mean(rejected):.3f}")
    _assert_nominal(hits)
    if exact[0] == exact[1]:
        assert np.mean(rejected) <= 0.07


def test_top_label_law_is_what_it_says() -> None:
    law = TopLabelLaw((3, 1.5), lambda p: p - 0.05)
    assert law.population("ece") == pytest.approx(0.05, abs=1e-6)
    assert law.population("smce") == pytest.approx(0.05, abs=1e-6)
    assert law.population("smece") == pytest.approx(0.05, abs=1e-4)
