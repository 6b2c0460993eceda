"""Intervals: what a caller relies on, from ordinary sets to degenerate ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smart_core import metrics
from smart_core.metrics import Samples, interval, paired_difference
from smart_core.metrics.uncertainty.intervals import DESCRIPTIONS
from tests.conftest import real_data
from tests.metrics.samples import classwise_cells
from tests.metrics.simulated import ClassLaw, beta_sample, softmax


def test_lower_end_leaves_out_zero_just_where_the_error_is_beyond_noise() -> None:
    for shift in (0.0, 0.02, 0.06):
        for seed in range(5):
            drawn = Samples(*beta_sample(1000, seed, shift))
            floor = metrics.noise_floor("ece", drawn)
            found = interval("ece", drawn)
            value = metrics.ece(drawn.confidence, drawn.correct)
            if value > 1.1 * floor.q95:
                assert found.low > 0
            if value < 0.5 * floor.mean:
                assert found.low == 0


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from(["ece", "adaece", "smce"]), st.integers(30, 400))
def test_interval_is_ordered_within_the_unit_interval_and_repeatable(seed: int, metric: str, samples: int) -> None:
    drawn = Samples(*beta_sample(samples, seed))
    first, second = (interval(metric, drawn, seed=3) for _ in range(2))
    assert 0 <= first.low <= first.high <= 1
    assert first == second


def test_wider_level_contains_the_narrower_interval() -> None:
    drawn = Samples(*beta_sample(shift=0.08))
    for metric in ("ece", "adaece", "smce", "smece"):
        narrow, wide = (interval(metric, drawn, level=level) for level in (0.8, 0.95))
        assert wide.low <= narrow.low <= narrow.high <= wide.high


def test_always_certain_and_right_is_bounded_by_about_the_rule_of_three() -> None:
    for certain in (1.0, 1 - 1e-7):
        for metric in ("ece", "adaece", "smce", "smece"):
            found = interval(metric, Samples(np.full(100, certain), np.ones(100)))
            assert found.low == 0.0
            assert 0.02 < found.high < 0.04, metric


def test_always_certain_and_wrong_leaves_room_for_the_right_answers_not_seen() -> None:
    for metric in ("ece", "adaece", "smce", "smece"):
        found = interval(metric, Samples(np.ones(100), np.zeros(100)))
        assert found.high == 1.0
        assert 0.95 < found.low < 0.98, metric


def test_a_constant_confidence_that_is_exactly_right_does_not_leave_out_zero() -> None:
    for metric in ("ece", "adaece", "smce", "smece"):
        found = interval(metric, Samples(np.full(1000, 0.99), np.arange(1000) >= 10))
        assert found.low == 0.0
        assert found.high > 0.005, metric


BOUNDED = {
    "ece": 1.0,
    "adaece": 1.0,
    "smce": 1.0,
    "smece": 1.0,
    "cece": 1.0,
    "nll": 709.0,
    "brier": 2.0,
    "accuracy": 1.0,
}


@st.composite
def degenerate_sets(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """One to forty samples: constant, of two values, tied, certain; all right, all wrong or mixed."""
    samples = draw(st.sampled_from([1, 2, 3, 5, 40]))
    value = st.sampled_from([0.0, 1e-9, 0.1, 0.5, 0.99, 1 - 1e-7, 1.0]) | st.floats(0, 1, allow_subnormal=False)
    values = draw(st.lists(value, min_size=1, max_size=draw(st.sampled_from([1, 2, 40]))))
    p = np.array(draw(st.lists(st.sampled_from(values), min_size=samples, max_size=samples)))
    kind = draw(st.sampled_from(["right", "wrong", "mixed"]))
    if kind == "mixed":
        return p, np.array(draw(st.lists(st.booleans(), min_size=samples, max_size=samples)))
    return p, np.full(samples, kind == "right")


def _two_classes(p: np.ndarray, a: np.ndarray) -> Samples:
    """Class 0 is predicted with confidence p; class 1 is the label where that is wrong."""
    rows, labels = np.column_stack([p, 1 - p]), np.where(a, 0, 1)
    label = np.maximum(rows[np.arange(p.size), labels], 1e-300)
    losses = {"nll": -np.log(label), "brier": 2 * (1 - label) ** 2}
    return Samples(p, a, **losses, cells=classwise_cells(rows, labels))


def _plug_in(metric: str, one: Samples) -> float:
    if metric == "cece":
        return float(one.cells.ece())
    if metric in ("nll", "brier"):
        return float(np.mean(getattr(one, metric)))
    return float(
        np.mean(one.correct) if metric == "accuracy" else getattr(metrics, metric)(one.confidence, one.correct)
    )


@settings(max_examples=60)
@given(degenerate_sets())
@example((np.array([0.0, 1e-9]), np.array([True, True])))
@example((np.array([1.0, 1.0 - 1e-9]), np.array([True, True])))
@example((np.array([0.0, 0.03125]), np.array([False, False])))
def test_every_interval_of_a_degenerate_set_is_ordered_finite_and_holds_the_plug_in(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    one = _two_classes(*pair)
    for metric, largest in BOUNDED.items():
        found = interval(metric, one)
        value = _plug_in(metric, one)
        assert 0 <= found.low <= value + 1e-6, metric
        assert value - 1e-6 <= found.high <= largest, metric
        if len(one.confidence) <= 2:
            assert found.high - found.low > 0.05, metric  # so few samples say little


@settings(max_examples=40)
@given(degenerate_sets(), st.floats(0, 1))
def test_every_difference_of_degenerate_sets_is_ordered_and_finite(
    pair: tuple[np.ndarray, np.ndarray], share: float
) -> None:
    p, a = pair
    one, other = _two_classes(p, a), _two_classes(share * p + (1 - share) * 0.5, a)
    for metric, largest in BOUNDED.items():
        found = paired_difference(metric, one, other)
        assert -largest <= found.low <= found.mean + 1e-6, metric
        assert found.mean - 1e-6 <= found.high <= largest, metric
        assert 0 <= found.p_value <= 1
        expected = _plug_in(metric, one) - _plug_in(metric, other)
        assert found.mean == pytest.approx(expected, abs=1e-5), metric


def test_every_interval_says_what_it_is_of() -> None:
    z, y = ClassLaw(3).draw(400, np.random.default_rng(0))
    p = softmax(1.5 * z)
    confidence, correct = metrics.top_label(p, y)
    losses = -np.log(p[np.arange(400), y])
    one = Samples(confidence, correct, losses, losses, classwise_cells(p, y, bins=10))
    for metric in DESCRIPTIONS:
        found = interval(metric, one, bins=10)
        assert "population" in found.of or "expected" in found.of or "probability" in found.of
        assert "{" not in found.of


def test_what_is_missing_is_named() -> None:
    drawn = Samples(*beta_sample(50))
    with pytest.raises(ValueError, match="cells"):
        interval("cece", drawn)
    with pytest.raises(ValueError, match="nll"):
        interval("nll", drawn)
    with pytest.raises(ValueError, match="choose one of"):
        interval("mce", drawn)


def test_real_logits_after_temperature_scaling() -> None:
    """The percentile bootstrap gives 1.08 to 1.77%; the population value may lie lower, by the bias."""
    import torch

    saved = torch.load(real_data("resnet50_cifar10_ce") / "test.pt", weights_only=True, map_location="cpu")
    logits, labels = saved.values() if isinstance(saved, dict) else saved
    p = torch.softmax(logits.double() / 2.4975, dim=1).numpy()
    confidence, correct = metrics.top_label(p, labels)
    found = interval("ece", Samples(confidence, correct))
    assert 0.005 < found.low < 0.0108
    assert 0.013 < found.high < 0.0185  # the estimate of a cell may be too low, too


@pytest.mark.parametrize("samples", [1, 5, 12])
def test_a_loss_beyond_its_bound_is_held_by_its_interval(samples: int) -> None:
    """Logits of some thousands give an NLL of thousands, more than float64's log of 0."""
    found = interval("nll", Samples(nll=np.full(samples, 2305.0)))
    assert found.low <= 2305 <= found.high


def test_one_wrong_of_thirty_at_nine_tenths_is_no_evidence() -> None:
    """A calibrated model shows 1 wrong of 30 in 14% of all sets, and fewer than 2 in 18%."""
    right = np.arange(30) > 0
    for metric in ("ece", "adaece", "smce", "smece"):
        assert interval(metric, Samples(np.full(30, 0.9), right)).low == 0


@pytest.mark.parametrize("metric", ["ece", "adaece", "smce", "smece", "cece"])
def test_a_floor_that_is_known_already_changes_nothing(metric: str) -> None:
    one = _two_classes(*beta_sample(600, 1, shift=0.05))
    floor = metrics.noise_floor(metric, one)
    found = [interval(metric, one, floor=known) for known in (None, floor)]
    assert found[0] == found[1]
