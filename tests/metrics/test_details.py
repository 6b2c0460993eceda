"""The further metrics against independent packages, brute force and the formulas of their papers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import smart_core as sc
from smart_core.evaluation import DETAILS, FURTHER, METRICS
from smart_core.metrics import (
    ClasswiseHistogram,
    adaece,
    auroc,
    ece,
    ece_l2_debiased,
    ece_sweep,
    improvement,
    kde_ece,
    ks,
    kuiper,
    log_loss_parts,
    over_confidence,
    squared_error_parts,
    under_confidence,
)


def drawn(seed: int, n: int = 800) -> tuple[np.ndarray, np.ndarray]:
    """Confidences with ties, and hits of an over-confident model."""
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(4, 1.2, n), 2 if seed % 2 else 6).clip(0.1, 0.99)
    return p, rng.random(n) < p**1.5


def rows(seed: int, n: int = 600, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, classes)) * 2
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    soft = np.exp(z / 2) / np.exp(z / 2).sum(axis=1, keepdims=True)
    return p, (soft.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1)


SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


@SEEDS
def test_both_signs_add_up_to_the_ece(seed: int):
    p, a = drawn(seed)
    assert over_confidence(p, a) + under_confidence(p, a) == pytest.approx(ece(p, a))
    assert over_confidence(p, a) > under_confidence(p, a) >= 0


@SEEDS
def test_ks_and_kuiper_are_those_of_probmetrics(seed: int):
    """Its two-class metrics read the second column; ties are spread here, for it takes them in any order."""
    metrics = pytest.importorskip("probmetrics.metrics")
    import torch
    from probmetrics.distributions import CategoricalLogits, CategoricalProbs

    p, a = drawn(2 * seed, 500)
    p = p + np.arange(500) * 1e-9
    truth = CategoricalLogits(torch.eye(2)[torch.from_numpy(a.astype(int))] * 1e4)
    forecast = CategoricalProbs(torch.from_numpy(np.column_stack([1 - p, p])))
    for ours, theirs in (
        (ks, metrics.KolmogorovSmirnovCalibrationMetric()),
        (kuiper, metrics.KuiperCalibrationMetric()),
    ):
        assert ours(p, a) == pytest.approx(float(theirs._compute_mean(truth, forecast)), abs=1e-5)


def test_the_order_of_ties_does_not_matter():
    p = np.full(100, 0.5)
    a = np.arange(100) < 60
    assert ks(p, a) == pytest.approx(0.1)
    assert kuiper(p, a) == kuiper(p, a[::-1]) == pytest.approx(0.1)


@SEEDS
def test_auroc_is_scikit_learns(seed: int):
    p, a = drawn(seed)
    assert auroc(p, a) == pytest.approx(roc_auc_score(a, p))
    assert np.isnan(auroc(p, np.ones(len(p))))


@SEEDS
def test_the_parts_are_the_scores_before_and_after_isotonic_regression(seed: int):
    p, a = drawn(seed)
    q = IsotonicRegression().fit(p, a).predict(p).clip(0, 1)
    for ours, score in ((log_loss_parts, log_loss), (squared_error_parts, brier_score_loss)):
        parts = ours(p, a)
        assert parts.calibration + parts.refinement == pytest.approx(score(a, p), abs=1e-9)
        assert parts.refinement == pytest.approx(score(a, q), abs=1e-6)
        assert 0 < parts.calibration < parts.refinement


def test_a_monotone_map_leaves_the_refinement():
    p, a = drawn(0)
    for ours in (log_loss_parts, squared_error_parts):
        assert ours(p**0.3, a).refinement == pytest.approx(ours(p, a).refinement)


def swept(p: np.ndarray, a: np.ndarray) -> float:
    """Roelofs et al.: chunks of sorted samples, for distinct confidences."""
    order = np.argsort(p)
    found = np.nan
    for bins in range(1, len(p) + 1):
        chunks = np.array_split(order, bins)
        accuracy = np.array([a[chunk].mean() for chunk in chunks])
        if (np.diff(accuracy) < 0).any():
            break
        found = sum(abs(a[chunk].sum() - p[chunk].sum()) for chunk in chunks) / len(p)
    return found


@given(st.integers(0, 10_000), st.integers(2, 200))
def test_the_sweep_is_that_of_the_paper(seed: int, n: int):
    rng = np.random.default_rng(seed)
    p = rng.permutation(np.linspace(0.2, 0.99, n))
    a = rng.random(n) < p
    assert ece_sweep(p, a) == pytest.approx(swept(p, a))


def test_the_sweep_keeps_ties_together():
    p, a = drawn(1)
    assert len(np.unique(p)) < 120
    candidates = [ece(p, a, 2) if bins < 2 else adaece(p, a, bins) for bins in range(2, 60)]
    assert any(ece_sweep(p, a) == pytest.approx(value) for value in candidates)
    assert ece_sweep(np.full(40, 0.7), np.arange(40) < 20) == pytest.approx(0.2)


def kernel_by_hand(p: np.ndarray, a: np.ndarray) -> float:
    """The reflected triweight densities, summed over a grid, sample by sample."""
    h = p[a].std() * (2 * len(p)) ** -0.2
    z = np.linspace(0, 1, 4001)
    density = np.zeros((2, len(z)))
    for centre in (p, -p, 2 - p):
        kernel = np.clip(1 - ((z[:, None] - centre) / (3 * h)) ** 2, 0, None) ** 3
        density += np.stack([kernel.sum(axis=1), kernel[:, a].sum(axis=1)])
    return float(np.abs(z * density[0] - density[1]).sum() / density[0].sum())


@SEEDS
def test_the_kernel_form_is_the_formulas(seed: int):
    p, a = drawn(seed)
    assert kde_ece(p, a) == pytest.approx(kernel_by_hand(p, a), abs=2e-4)


def test_the_kernel_form_of_confidences_without_spread():
    assert kde_ece(np.ones(10), np.ones(10)) == pytest.approx(0, abs=1e-3)
    assert kde_ece(np.full(10, 0.7), np.zeros(10)) == pytest.approx(0.7, abs=1e-3)


@SEEDS
def test_debiased_errors_are_those_of_uncertainty_calibration(seed: int):
    package = pytest.importorskip("calibration")
    from calibration.utils import get_equal_prob_bins

    probs, labels = rows(seed)
    for mode, ours in (("marginal", ClasswiseHistogram(probs.shape[1]).update(probs, labels).l2_debiased()),
                       ("top-label", ece_l2_debiased(probs.max(axis=1), probs.argmax(axis=1) == labels))):  # fmt: skip
        theirs = package.lower_bound_scaling_ce(
            probs, labels, p=2, debias=True, num_bins=15, binning_scheme=get_equal_prob_bins, mode=mode
        )
        assert ours == pytest.approx(theirs, abs=1e-9)


def test_improvement_is_a_share_of_the_models_loss():
    assert improvement(0.3, 0.4) == pytest.approx(0.25)
    assert improvement(0.5, 0.4) == pytest.approx(-0.25)
    assert np.isnan(improvement(0.1, 0.0))


@pytest.fixture(scope="module")
def comparison() -> sc.experiments.Comparison:
    return sc.compare(sc.simulate_set(800, 800, classes=4, law="constant", seed=0), "ts,histogram", seeds=1)


def test_a_comparison_has_every_detail_and_the_improvement(comparison):
    row = comparison.to_dict()["methods"]["ts"]
    assert row["details"].keys() == FURTHER.keys()
    assert all(np.isfinite(value) for value in row["details"].values())
    frame = comparison.to_frame()
    model = sc.evaluate(sc.Vanilla().fit(*two(comparison.data.validation)), comparison.data.test)
    for loss in ("nll", "brier"):
        expected = 1 - frame.loc["ts", loss] / model.metric(loss)
        assert frame.loc["ts", f"{loss}_improvement"] == row["improvement"][loss] == pytest.approx(expected)


def two(part) -> tuple[np.ndarray, np.ndarray]:
    return part.logits, part.labels


def test_names_and_labels_are_distinct():
    assert not METRICS.keys() & DETAILS.keys()
    labels = [metric.label for metric in (*METRICS.values(), *DETAILS.values())]
    assert len(set(labels)) == len(labels)
