"""Indicators against NumPy, and standardisation."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import softmax
from scipy.stats import entropy

from smart_core.fitting.indicators import INDICATORS, Standardizer


def test_indicators_against_numpy():
    z = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32) * 3
    q = softmax(z.astype(np.float64), axis=1)
    ordered = np.sort(z, axis=1)
    expected = {
        "margin": ordered[:, -1] - ordered[:, -2],
        "entropy": entropy(q, axis=1),
        "confidence": q.max(axis=1),
        "max_logit": z.max(axis=1),
        "max_minus_mean": z.max(axis=1) - z.mean(axis=1),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(INDICATORS[name](torch.from_numpy(z))[:, 0], values, rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(INDICATORS["all_logits"](torch.from_numpy(z)), z)


def test_the_width_is_that_of_the_values():
    for indicator in INDICATORS.values():
        for classes in (2, 7):
            assert indicator(torch.zeros(1, classes)).shape == (1, indicator.width(classes))


def test_entropy_of_a_certain_row_is_zero_not_nan():
    row = torch.tensor([[1e30, 0.0, -1e30]])
    assert float(INDICATORS["entropy"](row)) == 0.0


def test_standardizer_uses_the_population_std_and_survives_constants_and_1e30():
    values = torch.tensor([[1.0, 5.0, 1e30], [3.0, 5.0, -1e30], [8.0, 5.0, 2e30]])
    scaled = Standardizer.of(values)(values)
    assert torch.isfinite(scaled).all()
    wide = values.double().numpy()
    np.testing.assert_allclose(scaled[:, 0], (wide[:, 0] - 4.0) / wide[:, 0].std(), rtol=1e-6)
    np.testing.assert_array_equal(scaled[:, 1], 0.0)
    np.testing.assert_allclose(scaled[:, 2].std(correction=0), 1.0, rtol=1e-6)


def test_logits_at_the_end_of_float32_give_finite_inputs():
    signs = torch.tensor([[1.0, -1.0, -1.0], [-1.0, -1.0, -1.0], [1.0, 1.0, -1.0], [1.0, 1.0, 1.0]])
    for indicator in INDICATORS.values():
        values = indicator(signs * 3.3e38)
        assert torch.isfinite(Standardizer.of(values)(values)).all()
        assert torch.isfinite(values / 1e-3).all()  # the spread of ordinary logits, or less
    assert torch.isfinite(INDICATORS["margin"].function(signs * 3.3e38)).all()
    ordinary = torch.tensor([[3.0, 1.5, -2.0]])
    assert float(INDICATORS["margin"](ordinary)) == 1.5
