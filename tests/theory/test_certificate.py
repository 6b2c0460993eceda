"""The certificate's terms by other routes (HiGHS, adaptive quadrature, loops), and every inequality on random data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import linprog

from smart_core.theory.certificate import Certificate, Step, certificate
from tests.metrics.samples import Pair, forecasts, small_sets
from tests.metrics.test_smooth_calibration import HIGHS


def smce_by_highs(p: np.ndarray, a: np.ndarray) -> float:
    """max sum r phi / N subject to |phi| <= 1 and neighbours no further apart than their confidences."""
    order = np.argsort(p)
    p, r = p[order], (a - p)[order]
    n = len(p)
    step = np.zeros((n - 1, n))
    step[np.arange(n - 1), np.arange(n - 1)], step[np.arange(n - 1), np.arange(1, n)] = -1, 1
    gaps = np.diff(p)
    found = linprog(-r / n, np.vstack([step, -step]), np.concatenate([gaps, gaps]), bounds=(-1, 1), method="highs")
    return float(-found.fun)


def kernel_mean(cost, p: float, sigma: float) -> float:  # type: ignore[no-untyped-def]
    def kernel(u: float) -> float:
        return math.exp(-((p - u) ** 2) / (2 * sigma**2))

    points = sorted({min(max(p + k * sigma, 0.0), 1.0) for k in (-6, -3, -1, 0, 1, 3, 6)})
    top = quad(lambda u: cost(u) * kernel(u), 0, 1, points=points, limit=200)[0]
    return float(top / quad(kernel, 0, 1, points=points, limit=200)[0])


@pytest.mark.parametrize(("sigma", "delta"), [(0.05, 1e-3), (0.2, 0.1)])
def test_every_term_by_another_route(sigma: float, delta: float) -> None:
    p, hit = forecasts(40, seed=5, shift=-0.15)
    a = hit.astype(float)
    found = certificate(p, hit, sigma=sigma, delta=delta, bins=15)
    assert found.smce == pytest.approx(smce_by_highs(p, a), abs=HIGHS)
    h = np.mean([kernel_mean(lambda u, y=y: math.hypot(y - u, delta), q, sigma) for q, y in zip(p, a, strict=True)])
    assert found.h == pytest.approx(h, abs=1e-7)
    radius = max(kernel_mean(lambda u, q=q: abs(q - u), q, sigma) for q in np.linspace(0, 1, 41))
    assert found.b == pytest.approx(radius, abs=1e-6)
    assert found.mean_phi == pytest.approx(np.mean([math.hypot(y - q, delta) for q, y in zip(p, a, strict=True)]))
    weights = np.array([[math.exp(-((q - (b + 0.5) / 15) ** 2) / (2 * sigma**2)) for b in range(15)] for q in p])
    weights /= weights.sum(axis=1, keepdims=True)
    mean, mismatch = 0.0, 0.0
    for w in weights.T:
        gap = float(w @ (a - p) / w.sum())
        mean += w.sum() / len(p) * math.hypot(gap, delta)
        mismatch += float(w @ np.abs(a - p - gap)) / len(p)
    assert found.bin_mean == pytest.approx(mean, abs=1e-12)
    assert found.objective == pytest.approx(mean - delta, abs=1e-12)
    assert found.eps_agg == pytest.approx(mismatch, abs=1e-12)
    assert found.label_noise == pytest.approx(np.mean([q * (1 - q) + (1 - q) * q for q in p]))


@settings(max_examples=300)
@given(
    small_sets(),
    st.sampled_from([0.01, 0.05, 0.2, 0.7, 1.5]),
    st.sampled_from([0.0, 1e-3, 0.1, 1.0]),
    st.sampled_from([1, 5, 15]),
)
def test_every_inequality_of_the_chain_holds(pair: Pair, sigma: float, delta: float, bins: int) -> None:
    found = certificate(*pair, sigma=sigma, delta=delta, bins=bins)
    for step in found.steps():
        assert step.left <= step.right + 1e-9, step
        assert step.holds


@settings(max_examples=100)
@given(small_sets(), st.sampled_from([0.0, 1e-3, 0.1]))
def test_a_larger_lambda_tightens_the_theorems_bound(pair: Pair, delta: float) -> None:
    """The paper's remark, for the whole right side and not B_lambda alone."""
    bounds = [certificate(*pair, sigma=sigma, delta=delta) for sigma in (1.5, 0.7, 0.3, 0.1, 0.05, 0.02)]
    right = np.array([each.h + 2 * each.b for each in bounds])
    assert (np.diff(right) <= 1e-9).all()


def test_a_broken_chain_is_seen() -> None:
    step = Step("Theorem", "1 <= 0.5", 1.0, (0.3, 0.2))
    assert not step.holds
    assert step.slack == pytest.approx(-0.5)
    lie = Certificate(0.05, 1e-3, 15, smce=0.9, h=0.1, mean_phi=0.1, bin_mean=0.1, eps_agg=0.1, b=0.04, b_closed=0.08,
                      label_noise=0.1)  # fmt: skip
    assert [each.source for each in lie.steps() if not each.holds] == ["Theorem", "Proposition", "Corollary"]


def test_the_papers_constants() -> None:
    found = certificate([0.8] * 10, [1] * 7 + [0] * 3)
    assert found.smce == pytest.approx(0.1)
    assert found.scale == pytest.approx(200)
    assert found.b_simple == pytest.approx(0.0947, abs=5e-5)
    assert certificate([0.8], [1], sigma=1.0).b_simple is None


def test_h_keeps_the_label_noise_of_a_calibrated_model() -> None:
    """smCE vanishes with the samples, H does not: it stays near E[2 p (1 - p)]."""
    p, hit = forecasts(20_000, seed=1)
    found = certificate(p, hit)
    assert found.smce < 0.01
    assert found.h > found.label_noise - found.b > 0.1
