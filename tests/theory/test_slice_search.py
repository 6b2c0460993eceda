"""The search against brute force, on data with a conflict, and on data without one."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.data.simulate import simulate
from smart_core.theory.nll_probe import Estimate, Plateau, growth, local_terms, nll_derivative, witness
from smart_core.theory.two_slice import MIN_OUTCOMES, find_conflict
from tests.theory.rows import rows


def sure(estimate: Estimate) -> float:
    """The value in standard errors; 0 if the error is 0."""
    return estimate.value / estimate.error if estimate.error else 0.0


def test_the_best_window_is_that_of_brute_force() -> None:
    z, y = rows(400, 4, seed=1)
    terms = local_terms(z, y, 0.7)
    probes = [Plateau.against(0.5, 0.7, 0.1), Plateau.against(0.8, 1.0, 0.05)]
    found = find_conflict(terms, probes, windows=8)
    assert found is not None
    edges = np.quantile(terms.margin, np.linspace(0, 1, 9))
    best = -np.inf
    for i, low in enumerate(edges[:-1]):
        for j, high in enumerate(edges[i + 1 :], start=i + 1):
            chosen = (terms.margin >= low) & ((terms.margin < high) | (j == 8))
            hits = terms.correct[chosen].sum()
            if min(hits, chosen.sum() - hits) < MIN_OUTCOMES:
                continue
            for probe in probes:
                loss, rise, base = nll_derivative(terms, chosen), growth(terms, chosen, probe), witness(terms, probe)
                best = max(best, min(-sure(loss), sure(rise), abs(sure(base))))
    assert found.score == pytest.approx(best, rel=1e-9)
    chosen = terms.within(found.low, found.high)
    loss, rise = nll_derivative(terms, chosen), growth(terms, chosen, found.probe)
    assert min(-sure(loss), sure(rise)) >= found.score - 1e-9


def test_a_conflict_is_found_and_seen_on_other_rows() -> None:
    """Underconfident rows everywhere but for one range of confidence that is overconfident."""

    def made(seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.55, 0.95, 8000)
        r = np.where(p > 0.85, p - 0.15, np.minimum(p + 0.12, 1.0))
        return np.column_stack([np.log(p / (1 - p)), np.zeros(8000)]), (rng.random(8000) > r).astype(int)

    searched, judged = (local_terms(*made(seed), 1.0) for seed in (0, 1))
    found = find_conflict(searched)
    assert found is not None
    assert found.score > 2
    chosen = judged.within(found.low, found.high)
    assert nll_derivative(judged, chosen).value < 0
    assert growth(judged, chosen, found.probe).value > 0


def test_a_calibrated_model_shows_no_clear_conflict() -> None:
    drawn = simulate(4000, 5, "linear", seed=0)
    found = find_conflict(local_terms(drawn.logits, drawn.labels, drawn.temperature))
    assert found is not None
    assert found.score < 3


def test_too_few_incorrect_samples_give_no_slice() -> None:
    z, _ = rows(200, 3)
    assert find_conflict(local_terms(z, z.argmax(axis=1), 1.0)) is None
