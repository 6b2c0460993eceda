"""The simulator against closed forms, its own stated laws, and scipy's tests of fit."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from smart_core.data.simulate import (
    BACKGROUND,
    BLOCK_ROWS,
    HARD_ROWS,
    LAWS,
    Simulated,
    constant,
    simulate,
    simulate_set,
    u_shaped,
)
from tests.tolerance import assert_within, float32_bound


def binned_error(confidence: np.ndarray, hit: np.ndarray, bins: int = 15) -> float:
    """Plain ECE, written here so that the simulator is not tested with the package that it tests."""
    cell = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    return sum(abs((confidence - hit)[cell == b].sum()) for b in range(bins)) / len(confidence)


def top(data: Simulated) -> np.ndarray:
    return data.logits.argmax(axis=1)


def stated(data: Simulated, temperature: float = 1.0) -> np.ndarray:
    return softmax(data.logits.astype(np.float64) / temperature, axis=1).max(axis=1)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("classes", [2, 10, 300])
def test_labels_follow_the_true_probabilities(law: str, classes: int) -> None:
    data = simulate(6000, classes, law, seed=3)
    truth = softmax(data.logits.astype(np.float64) / data.temperature[:, None], axis=1)
    rank = np.argsort(np.argsort(-truth, axis=1), axis=1)
    ordered = -np.sort(-truth, axis=1)
    # ranks 0, 1, 2..4, 5.. of the labels against their expected number, row by row a known multinomial
    cuts = [0, 1, 2, 5] if classes > 5 else [0, 1]
    seen = np.histogram(rank[np.arange(6000), data.labels], bins=[*cuts, classes])[0]
    share = np.add.reduceat(ordered, cuts, axis=1)
    expected, variance = share.sum(axis=0), (share * (1 - share)).sum(axis=0)
    z = (seen - expected) / np.sqrt(np.maximum(variance, 1))
    assert np.abs(z).max() < 4


def test_labels_of_one_repeated_truth_pass_a_chi_square_test() -> None:
    """Sum over all rows of the probability of each class is the expected number of each label."""
    data = simulate(40_000, 6, "constant", seed=1)
    expected = softmax(data.logits / data.temperature[:, None], axis=1).sum(axis=0)
    observed = np.bincount(data.labels, minlength=6)
    # row probabilities differ, so the statistic lies below chi-square: a low p-value would be a defect
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_the_truth_is_calibrated_and_nothing_else_is() -> None:
    data = simulate(40_000, 10, "u_shaped", seed=0)
    hit = top(data) == data.labels
    rng = np.random.default_rng(0)
    floor = [binned_error(data.true_confidence, rng.random(len(hit)) < data.true_confidence) for _ in range(200)]
    assert binned_error(data.true_confidence, hit) < np.quantile(floor, 0.999)
    for temperature in (0.7, 1.0, 1.4, 2.0, 3.0):
        assert binned_error(stated(data, temperature), hit) > 3 * np.max(floor)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("classes", [2, 10, 100, 1000])
def test_realistic_spread(law: str, classes: int) -> None:
    data = simulate(4000, classes, law, seed=5)
    assert 0.70 <= np.mean(top(data) == data.labels) <= 0.95
    low, high = np.quantile(data.margin, [0.02, 0.98])
    assert low < 0.3
    assert high > 14
    assert np.mean((data.margin > 2) & (data.margin < 6)) > 0.1


def test_background_mass_has_its_closed_form() -> None:
    """sum_k exp((z_k - z_rival) / T) averages to the integral of x^(-background / T) over 1..K-1."""
    classes, temperature, background = 50, 2.0, BACKGROUND
    data = simulate(20_000, classes, seed=2)
    ordered = -np.sort(-data.logits.astype(np.float64), axis=1)
    mass = np.exp((ordered[:, 2:] - ordered[:, 1:2]) / temperature).sum(axis=1)
    power = 1 - background / temperature
    assert mass.mean() == pytest.approx(((classes - 1) ** power - 1) / power, rel=0.02)


def test_margin_mixture_has_its_mean() -> None:
    data = simulate(60_000, 4, seed=4)
    assert data.margin.mean() == pytest.approx(HARD_ROWS * 1.2 * 1.5 + (1 - HARD_ROWS) * 6 * 1.5, rel=0.01)


def test_shapes_of_the_laws() -> None:
    margin = np.linspace(0, 15, 301)
    laws = {name: law(margin) for name, law in LAWS.items()}
    assert np.ptp(laws["constant"]) == 0
    assert np.allclose(np.diff(laws["linear"], 2), 0)
    assert (np.diff(laws["linear"]) > 0).all()
    assert (np.diff(laws["resnet"]) > 0).all()
    assert (np.diff(laws["resnet"], 2) < 0).all()
    turn = laws["u_shaped"].argmin()
    assert 2 < margin[turn] < 8
    assert (np.diff(laws["u_shaped"])[:turn] < 0).all()
    assert (np.diff(laws["u_shaped"])[turn:] > 0).all()
    assert (np.diff(margin / laws["u_shaped"]) > 0).all()
    assert all(values.min() >= 1 for values in laws.values())


def test_temperature_is_the_law_at_the_stored_margin() -> None:
    def own(m: np.ndarray) -> np.ndarray:
        return 0.5 + m**2 / 50

    data = simulate(700, 7, own, seed=9)
    two = np.sort(data.logits, axis=1)[:, -2:].astype(np.float64)
    np.testing.assert_array_equal(data.margin, two[:, 1] - two[:, 0])
    np.testing.assert_allclose(data.temperature, 0.5 + (two[:, 1] - two[:, 0]) ** 2 / 50)
    truth = softmax(data.logits.astype(np.float64) / data.temperature[:, None], axis=1)
    # the gap of two float32 logits is rounded; a probability follows it by as much as the gap is long
    off = truth * float32_bound(1, 1 + np.log(truth.max(axis=1, keepdims=True) / truth))
    assert_within(data.true_confidence, truth.max(axis=1), float32_bound(1))
    place = np.arange(700), np.random.default_rng(0).integers(7, size=700)
    assert_within(data.true_correctness(place[1]), truth[place], off[place])


@settings(max_examples=25)
@given(
    n=st.integers(1, 3 * BLOCK_ROWS),
    cut=st.integers(1, 3 * BLOCK_ROWS),
    classes=st.integers(2, 12),
    seed=st.integers(0, 2**31),
)
def test_a_shorter_set_is_the_beginning_of_a_longer_one(n: int, cut: int, classes: int, seed: int) -> None:
    whole, short = simulate(n, classes, seed=seed), simulate(min(n, cut), classes, seed=seed)
    for name in ("logits", "labels", "margin", "temperature", "true_confidence"):
        np.testing.assert_array_equal(getattr(whole, name)[: len(short)], getattr(short, name))
    assert whole.labels.min() >= 0
    assert whole.labels.max() < classes


def test_seeds_differ() -> None:
    assert not np.array_equal(simulate(50, seed=0).logits, simulate(50, seed=1).logits)


def test_calibration_errors_of_known_calibrators() -> None:
    data = simulate(20_000, 10, "constant", seed=0)
    assert data.true_calibration_error(data.true_confidence) == 0
    assert data.true_calibration_error(stated(data, 1.8)) == pytest.approx(0, abs=1e-6)
    # one constant confidence at the mean truth: right on average, wrong for each
    flat = np.full(len(data), data.true_confidence.mean())
    assert data.conditional_calibration_error(flat) == pytest.approx(0, abs=1e-12)
    assert data.true_calibration_error(flat) > 0.15
    # off by 0.05 everywhere
    assert data.true_calibration_error(data.true_confidence + 0.05) == pytest.approx(0.05)
    assert data.conditional_calibration_error(data.true_confidence + 0.05) == pytest.approx(0.05)
    # too confident throughout: no cancellation, so both errors agree
    both = data.true_calibration_error(stated(data)), data.conditional_calibration_error(stated(data))
    assert both[0] == pytest.approx(both[1])
    assert both[0] > 0.05


def test_conditional_error_is_the_limit_of_the_binned_error() -> None:
    data = simulate(100_000, 10, "u_shaped", seed=8)
    confidence = stated(data)
    hit = top(data) == data.labels
    assert binned_error(confidence, hit) == pytest.approx(data.conditional_calibration_error(confidence), abs=0.004)


def test_errors_use_the_truth_of_a_changed_prediction() -> None:
    data = simulate(500, 5, seed=0)
    second = np.argsort(data.logits, axis=1)[:, -2]
    truth = softmax(data.logits.astype(np.float64) / data.temperature[:, None], axis=1)
    exact = truth[np.arange(500), second]
    assert data.true_calibration_error(exact, second) == pytest.approx(0, abs=1e-6)
    assert data.true_calibration_error(exact) > 0.1


def test_set_holds_the_same_rows_as_its_truth() -> None:
    data = simulate_set(300, 200, 10, partial(u_shaped, fall=2.0), seed=6)
    truth = simulate(500, 10, partial(u_shaped, fall=2.0), seed=6)
    np.testing.assert_array_equal(data.validation.logits, truth.logits[:300])
    np.testing.assert_array_equal(data.test.labels, truth[300:].labels)
    assert not data.test.logits.flags.writeable
    assert data.classes == 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 0},
        {"classes": 1},
        {"law": "cubic"},
        {"law": lambda m: m - 100},
        {"law": partial(constant, temperature=float("nan"))},
    ],
)
def test_bad_settings_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        simulate(**{"n": 10, **wrong})  # type: ignore[arg-type]


def test_a_hundred_thousand_rows_of_a_thousand_classes_in_seconds() -> None:
    started = time.perf_counter()
    data = simulate(100_000, 1000, seed=0)
    assert time.perf_counter() - started < 60
    assert data.logits.shape == (100_000, 1000)
