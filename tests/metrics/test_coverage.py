"""How often the intervals hold the population value and the floors hold a calibrated model: 95 % within two points."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from smart_core import metrics
from smart_core.metrics.classwise_cells import classwise_cells
from smart_core.metrics.floor import noise_floor
from smart_core.metrics.intervals import interval
from smart_core.metrics.paired import paired_difference
from tests.metrics.simulated import LAWS, ClassLaw, TopLabelLaw

Vector = NDArray[np.float64]
Shape = Callable[[Vector], Vector]

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


CASES = [(metric, law) for metric in ("ece", "adaece", "smce") for law in LAWS]
CASES += [("smece", "calibrated"), ("smece", "mild")]


@pytest.mark.parametrize(("metric", "law_name"), CASES)
def test_interval_of_a_calibration_error_covers(metric: str, law_name: str) -> None:
    law, samples = LAWS[law_name]
    truth = law.population(metric)
    generator = np.random.default_rng(31)
    hits = []
    for seed in range(SETS):
        p, a = law.draw(samples, generator)
        found = interval(metric, p, a, draws=FEWER_DRAWS[metric], seed=seed)
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
    for _ in range(1000):
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


MEDIAN = 0.25 + 0.65 * float(beta.ppf(0.5, 3, 1.5))
PAIRS: dict[str, tuple[Shape, Shape, float, int]] = {
    "equal_errors_opposite_signs": (lambda t: t - 0.05, lambda t: t + 0.05, 0.0, 1000),
    "one_calibrated": (lambda t: t, lambda t: t - 0.04, -0.04, 1000),
    "both_calibrated": (lambda t: t, lambda t: _coarse(t), 0.0, 1000),
    "equal_errors_spread_differently": (lambda t: t + 0.05, lambda t: t + 0.1 * (t > MEDIAN), 0.0, 4000),
}


@cache
def _means_of_tenths() -> Vector:
    node = 0.25 + 0.65 * beta.ppf((np.arange(100_000) + 0.5) / 100_000, 3, 1.5)
    tenth = (10 * node).astype(int)
    return np.asarray(np.bincount(tenth, node) / np.maximum(np.bincount(tenth), 1))


def _coarse(t: Vector) -> Vector:
    """Calibrated confidences that tell apart tenths of t only: the mean of t in each."""
    return np.asarray(_means_of_tenths()[(10 * t).astype(int)])


def _paired_results(metric: str, name: str, samples: int | None = None) -> tuple[list[bool], float]:
    """Whether each interval held the true difference, and the share of sets in which equality was rejected."""
    shape_a, shape_b, truth, usual = PAIRS[name]
    generator = np.random.default_rng(17)
    hits, rejected = [], []
    for seed in range(SETS):
        t = 0.25 + 0.65 * generator.beta(3, 1.5, samples or usual)
        correct = generator.random(t.size) < t
        a, b = (SimpleNamespace(confidence=shape(t), correct=correct) for shape in (shape_a, shape_b))
        found = paired_difference(metric, a, b, draws=400, seed=seed)
        hits.append(found.low <= truth <= found.high)
        rejected.append(found.p_value < 0.05)
    print(f"rejected {100 * np.mean(rejected):.1f} %, covered {100 * np.mean(hits):.1f} %")
    return hits, float(np.mean(rejected))


@pytest.mark.parametrize("name", PAIRS)
def test_paired_difference_of_ece_covers(name: str) -> None:
    """At least nominal; above it where both are near the floor, which errs towards calling a tie."""
    hits, rejected = _paired_results("ece", name)
    assert np.mean(hits) >= 0.93
    if PAIRS[name][2] == 0:
        assert rejected <= 0.07


@pytest.mark.xfail(
    strict=True, reason="at 1000 samples the bias of errors spread differently over the bins is not known well enough"
)
def test_paired_difference_covers_errors_spread_differently_in_small_sets() -> None:
    hits, _ = _paired_results("adaece", "equal_errors_spread_differently", samples=1000)
    assert np.mean(hits) >= 0.93


def test_top_label_law_is_what_it_says() -> None:
    law = TopLabelLaw((3, 1.5), lambda p: p - 0.05)
    assert law.population("ece") == pytest.approx(0.05, abs=1e-6)
    assert law.population("smce") == pytest.approx(0.05, abs=1e-6)
    assert law.population("smece") == pytest.approx(0.05, abs=1e-4)
