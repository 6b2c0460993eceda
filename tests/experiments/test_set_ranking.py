"""Statistics over data sets, against SciPy, Demšar's published example, and simulated sets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from smart_core.errors import CalibrationError
from smart_core.experiments.set_ranking import critical_difference, friedman, rank_methods, wilcoxon

# Table 6 of Demšar (JMLR 2006): AUC of four variants of C4.5 on 14 data sets
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
VARIANTS = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]


@pytest.fixture(scope="module")
def demsar():
    return rank_methods(DEMSAR, VARIANTS, higher_is_better=True)


def test_demsars_example(demsar):
    assert demsar.mean_rank == pytest.approx([3.143, 2.000, 2.893, 1.964], abs=5e-4)
    assert demsar.critical_difference == pytest.approx(1.25, abs=0.005)  # 2.569 sqrt(4 * 5 / (6 * 14))
    # the paper's chi-square of 9.28 and F of 3.69 leave out the correction for ties, which SciPy makes
    chi_square = 12 * 14 / (4 * 5) * ((demsar.mean_rank**2).sum() - 4 * 5**2 / 4)
    assert chi_square == pytest.approx(9.28, abs=0.005)
    assert demsar.friedman_p < stats.f.sf(13 * chi_square / (14 * 3 - chi_square), 3, 3 * 13) < 0.05


def test_groups_that_cannot_be_told_apart(demsar):
    """All four lie within the critical difference of 1.25, as in the paper's test between all pairs."""
    assert demsar.cliques() == [("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")]
    spread = rank_methods(np.arange(4.0) + np.zeros((60, 1)), list("abcd"))
    assert spread.cliques() == []


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_scipy(seed: int):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 8, (12, 5)).astype(float)  # ties within a set
    found = rank_methods(values, list("abcde"))
    assert found.mean_rank == pytest.approx(np.mean([stats.rankdata(row) for row in values], axis=0))
    chi_square = stats.friedmanchisquare(*values.T).statistic
    assert friedman(values) == pytest.approx(stats.f.sf(11 * chi_square / (12 * 4 - chi_square), 4, 4 * 11))
    assert wilcoxon(values[:, 0], values[:, 1]) == pytest.approx(stats.wilcoxon(values[:, 0], values[:, 1]).pvalue)
    wins = [[np.mean((a < b) + 0.5 * (a == b)) for b in values.T] for a in values.T]
    off = ~np.eye(5, dtype=bool)
    assert found.wins[off] == pytest.approx(np.array(wins)[off])
    assert found.win_rate == pytest.approx((np.sum(wins, axis=1) - 0.5) / 4)


def test_the_critical_differences_of_the_textbook():
    """q of Nemenyi's test at 5%, Table 5(a) of Demšar: 1.960, 2.343, ..., 3.164 for 2 to 10 methods."""
    table = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
    for methods, q in table.items():
        sets = methods * (methods + 1)  # the root is then the square root of 1 / 6
        assert critical_difference(methods, sets) == pytest.approx(q / np.sqrt(6), abs=4e-4)


def test_intervals_of_win_rates_cover():
    """On sets drawn from a law with a known win rate, the interval holds it in about 95% of benchmarks."""
    rng = np.random.default_rng(0)
    held = 0
    for trial in range(150):
        better = rng.random(30) < 0.7  # the first method beats the second on 70% of sets
        values = np.stack([np.where(better, 0.0, 1.0), np.full(30, 0.5)], axis=1)
        low, high = rank_methods(values, ["a", "b"], seed=trial).win_interval[0]
        held += low <= 0.7 <= high
    assert 0.88 <= held / 150 <= 0.99


def test_methods_that_never_differ():
    found = rank_methods(np.ones((4, 3)), list("abc"))
    assert found.friedman_p is None
    assert found.mean_rank.tolist() == [2.0, 2.0, 2.0]
    assert wilcoxon(np.ones(4), np.ones(4)) == 1.0


def test_missing_values_are_refused():
    with pytest.raises(CalibrationError, match="every one of them has a value"):
        rank_methods(np.array([[1.0, np.nan]]), ["a", "b"])
