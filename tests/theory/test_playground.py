"""The playground against the simulator's own truth."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import softmax

from smart_core.calibrators import get
from smart_core.data.simulate import LAWS, simulate
from smart_core.errors import CalibrationError
from smart_core.theory.playground import Playground, identifiable, knot_law, law_at, playground, sizes_below, unfitted


def test_errors_are_those_of_the_fits() -> None:
    result = playground("linear", 800, 4, ["vanilla", "ts", "isotonic"], seeds=2, test_rows=1500)
    assert (result.sizes, result.complete) == ((50, 200, 800), True)
    test = simulate(1500, 4, "linear", seed=0)
    for seed in range(2):
        rows = simulate(800, 4, "linear", seed=seed + 1)[:200]
        for place, id in enumerate(result.methods):
            fitted = get(id, seed=seed).fit(rows.logits, rows.labels)
            q = np.asarray(fitted.predict_proba(test.logits))
            truth = softmax(test.logits / test.temperature[:, None], axis=1)[np.arange(1500), q.argmax(axis=1)]
            assert result.error[place, 1, seed] == pytest.approx(np.abs(q.max(axis=1) - truth).mean(), abs=1e-6)
    assert (result.conditional <= result.error + 1e-9).all()
    np.testing.assert_allclose(result.mean(), result.error.mean(axis=2))
    assert result.density.sum() == pytest.approx(1.0)


def test_smart_finds_a_law_and_more_so_with_more_rows() -> None:
    result = playground("u_shaped", 4000, 10, ["vanilla", "ts", "smart"], seeds=1, test_rows=4000)
    vanilla, ts, smart = result.mean()[:, -1]
    assert smart < ts < vanilla
    assert result.mean()[2, -1] < result.mean()[2, 0]
    assert result.recovery(4000) < 0.3
    np.testing.assert_allclose(result.truth, LAWS["u_shaped"](result.x))
    assert result.smart[4000].shape == (1, len(result.x))
    off = np.abs(np.log(result.smart[4000][0] / result.truth))
    middle = (result.density_edges[:-1] + result.density_edges[1:]) / 2
    assert result.recovery(4000) == pytest.approx(np.average(np.interp(middle, result.x, off), weights=result.density))


def test_the_true_temperature_is_recovered_by_ts_where_there_is_one() -> None:
    result = playground("constant", 16_000, 5, ["ts"], seeds=1, test_rows=1000)
    assert result.ts[16_000] == pytest.approx(1.8, rel=0.05)


def test_cancel_keeps_what_is_finished() -> None:
    stop, seen = threading.Event(), []

    def first(result: Playground) -> None:
        seen.append(np.isfinite(result.error).sum())
        stop.set()

    result = playground("linear", 400, 3, ["vanilla", "ts"], seeds=2, test_rows=300, cancel=stop, on_cell=first)
    assert not result.complete
    assert seen == [2]
    assert np.isfinite(result.error).sum() == 2
    assert np.isfinite(result.error[:, -1, 0]).all()


def test_a_method_that_cannot_be_fitted_says_why() -> None:
    result = playground("linear", 100, 3, ["fc", "ts"], seeds=1, test_rows=200)
    assert "needs" in result.reasons["fc"]
    assert np.isnan(result.error[0]).all()
    assert np.isfinite(result.error[1]).all()


def test_sizes() -> None:
    assert sizes_below(4000) == (62, 250, 1000, 4000)
    assert sizes_below(250) == (62, 250)
    assert sizes_below(60) == (60,)
    with pytest.raises(CalibrationError, match="50 validation rows"):
        playground("linear", 10)
    with pytest.raises(ValueError, match="no law 'x'"):
        law_at("x", np.zeros(1))


def test_a_law_goes_through_its_knots_and_stays_between_them() -> None:
    at, t = (0.0, 3.0, 6.0, 10.0), (3.0, 1.0, 1.5, 0.4)
    law = knot_law(at, t)
    np.testing.assert_allclose(law(np.array(at)), t)
    np.testing.assert_allclose(law(np.array([12.0, 50.0])), 0.4)
    m = np.linspace(0, 10, 400)
    for (a, b), (low, high) in zip(pairwise(at), pairwise(t), strict=True):
        inside = law(m[(m >= a) & (m <= b)])
        assert (inside >= min(low, high) - 1e-12).all()
        assert (inside <= max(low, high) + 1e-12).all()
    for bad in (((0.0, 1.0), (1.0, -1.0)), ((1.0, 0.0), (1.0, 1.0)), ((0.0,), (1.0,)), ((0.0, 1.0), (1.0, 0.0))):
        with pytest.raises(CalibrationError, match="two or more knots"):
            knot_law(*bad)


def test_which_laws_are_identifiable() -> None:
    assert all(identifiable(law) for law in LAWS.values())
    assert not identifiable(knot_law((0.0, 3.0, 6.0), (1.0, 1.0, 5.0)))


def test_the_law_is_available_before_any_fit() -> None:
    blank = unfitted("linear", 3, rows=300)
    np.testing.assert_allclose(blank.truth, LAWS["linear"](blank.x))
    assert np.isnan(blank.recovery(100))
