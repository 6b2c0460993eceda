"""Each fit is no worse, by what it minimises on validation, than the neutral map it could have kept.

The values are computed here from the calibrated rows alone, not by the code that was minimised.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.calibrators.fits import ALL, fitted
from tests.calibrators.problems import Problem, over_confident

Rows = NDArray[np.float64]


def softmax(logits: NDArray[np.floating]) -> Rows:
    wide = logits.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def nll(rows: Rows, problem: Problem) -> float:
    return float(-np.log(rows[np.arange(len(rows)), problem.labels]).mean())


def mse(rows: Rows, problem: Problem) -> float:
    return float(((rows - np.eye(rows.shape[1])[problem.labels]) ** 2).mean())


def top(rows: Rows, problem: Problem) -> tuple[Rows, Rows]:
    """Confidence of the model's own prediction, and its hits."""
    prediction = problem.logits.argmax(axis=1)
    return rows[np.arange(len(rows)), prediction], (prediction == problem.labels).astype(np.float64)


def ece(rows: Rows, problem: Problem) -> float:
    confidence, correct = rows.max(axis=1), rows.argmax(axis=1) == problem.labels
    index = np.clip(np.ceil(confidence * 15) - 1, 0, 14)
    return sum(abs((confidence - correct)[index == b].sum()) for b in range(15)) / len(rows)


def hit_nll(rows: Rows, problem: Problem) -> float:
    confidence, hits = top(rows, problem)
    return float(-np.log(np.where(hits == 1.0, confidence, 1.0 - confidence)).mean())


def hit_error(rows: Rows, problem: Problem) -> float:
    confidence, hits = top(rows, problem)
    return float(((confidence - hits) ** 2).mean())


def cumulative_gap(rows: Rows, problem: Problem) -> float:
    """Mean square of the running sum of hits minus confidences, in the order of the uncalibrated confidence."""
    confidence, hits = top(rows, problem)
    order = np.argsort(top(softmax(problem.logits), problem)[0], kind="stable")
    return float((np.cumsum((hits - confidence)[order]) ** 2).mean()) / len(rows) ** 2


def charbonnier(rows: Rows, problem: Problem) -> float:
    confidence, hits = top(rows, problem)
    centres = (np.arange(15) + 0.5) / 15
    weights = np.exp(-((confidence[:, None] - centres) ** 2) / (2 * 0.05**2))
    weights /= weights.sum(axis=1, keepdims=True)
    mass, residual = weights.sum(axis=0), weights.T @ (confidence - hits)
    return float((np.sqrt(residual**2 + 1e-6 * mass**2) - 1e-3 * mass).sum()) / len(rows)


def the_model(problem: Problem) -> Rows:
    return softmax(problem.logits)


@cache
def problem_of(seed: int) -> Problem:
    return over_confident(600, 6, seed=seed)


@cache
def tempered(problem: Problem) -> Rows:
    """Temperature scaling, its T found by brute force."""
    grid = np.exp(np.linspace(np.log(0.5), np.log(8.0), 300))
    best = min(grid, key=lambda t: nll(softmax(problem.logits / t), problem))
    return softmax(problem.logits / best)


def one_level(problem: Problem) -> Rows:
    """Every confidence the accuracy: what a single bin would give."""
    rows = softmax(problem.logits)
    hits = rows.argmax(axis=1) == problem.labels
    level = np.full_like(rows, (1.0 - hits.mean()) / (rows.shape[1] - 1))
    level[np.arange(len(rows)), rows.argmax(axis=1)] = hits.mean()
    return level


OBJECTIVES: dict[str, tuple[Callable[[Rows, Problem], float], Callable[[Problem], Rows]]] = {
    "ts": (nll, the_model),
    "ets": (mse, tempered),
    "vector": (nll, tempered),
    "matrix": (nll, tempered),
    "dirichlet": (nll, tempered),
    "pts": (mse, tempered),
    "cts": (ece, tempered),
    "spline": (cumulative_gap, the_model),
    "gc": (nll, tempered),
    "procal": (hit_nll, the_model),
    "fc": (ece, the_model),
    "histogram": (hit_error, one_level),
    "isotonic": (hit_error, the_model),
    "bbq": (hit_nll, one_level),
    "beta": (hit_nll, the_model),
    "smart": (charbonnier, tempered),
    "svs": (nll, tempered),
    "sms": (nll, tempered),
    "platt": (hit_nll, the_model),
    "vennabers": (hit_error, the_model),
    "cir": (hit_error, the_model),
    "scalingbinning": (hit_nll, one_level),
    "irm": (mse, the_model),
    "dac": (nll, tempered),
    "logitclip": (ece, the_model),
    "iop": (nll, tempered),
    "refined": (charbonnier, tempered),
}
"""Method -> what its fit makes small on validation, and the neutral map of its family."""

PENALISED = {"dirichlet": lambda fit: off_diagonal_square(fit.weight_.numpy()) + float((fit.bias_**2).mean())}
"""What a fit minimises beside the error of its rows; 0 at the neutral map."""


def off_diagonal_square(weight: NDArray[np.floating]) -> float:
    off = weight[~np.eye(len(weight), dtype=bool)]
    return float((off.astype(np.float64) ** 2).mean())


def test_every_method_that_learns_is_here():
    assert set(OBJECTIVES) == set(ALL) - {"vanilla"}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("id", list(OBJECTIVES))
def test_a_fit_improves_its_own_objective(id: str, seed: int):
    problem = problem_of(seed)
    objective, neutral = OBJECTIVES[id]
    settings = {"top1": "keep"} if id == "spline" else {}
    calibrator = fitted(id, problem, **settings)
    rows = calibrator.predict_proba(problem.logits, features=problem.features).astype(np.float64)
    after = objective(rows, problem) + PENALISED.get(id, lambda fit: 0.0)(calibrator)
    before = objective(neutral(problem), problem)
    assert after < before + 1e-6
    if id not in ("ets", "fc"):  # these two may find nothing better than the neutral map
        assert after < before - 1e-6


def test_the_values_tell_a_spoiled_fit_from_a_good_one():
    """The oracles themselves: a map far from the optimum is worse than the neutral one by each of them."""
    problem = problem_of(1)
    sharper = np.clip(softmax(problem.logits * 4.0), 1e-300, 1.0 - 1e-12)
    for objective, neutral in OBJECTIVES.values():
        assert objective(sharper, problem) > objective(neutral(problem), problem)
