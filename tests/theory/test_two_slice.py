"""The two-slice condition: its terms by loops, its true halves on random data, and where its conclusion fails."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from smart_core.theory.nll_probe import Plateau, local_terms
from smart_core.theory.two_slice import counterexample, counterexample_rows, two_slice, underconfident_range
from tests.theory.rows import Rows, labelled_rows, rows

Group = tuple[float, int, int]


def two_classes(*groups: Group) -> Rows:
    """Binary rows: of each group (confidence p, rows, hits) so many rows of margin logit(p), so many of them right."""
    z, y = [], []
    for p, count, hits in groups:
        z += [[math.log(p / (1 - p)), 0.0]] * count
        y += [0] * hits + [1] * (count - hits)
    return np.array(z), np.array(y)


def test_every_term_by_a_loop() -> None:
    z, y = rows(300, 4, seed=7)
    t = np.linspace(0.8, 1.6, 300)
    terms = local_terms(z, y, t)
    chosen = terms.within(0.3, 3.0)
    under, probe = (0.4, 0.6), Plateau.against(0.75, 0.95, 0.05)
    found = two_slice(terms, chosen, under, probe)
    sums = dict.fromkeys(("u", "o", "gap", "a", "wu", "wo", "wgap", "spread", "ru", "ro", "band"), 0.0)
    gammas, spreads, rates = [], [], []
    for row, label, temperature in zip(z, y, t, strict=True):
        scaled = np.sort(row / temperature)[::-1]
        m = (scaled[0] - scaled[1]) * temperature
        if not 0.3 <= m <= 3.0:
            continue
        q = np.exp(scaled) / np.exp(scaled).sum()
        p, a, g = q[0], float(row.argmax() == label), scaled[0] - scaled[1]
        gammas.append(g)
        spreads.append(scaled[1] - scaled[-1])
        rates.append(p * (scaled[0] - q @ scaled))
        sums["a"] += 1
        sums["spread"] += (1 - a) * spreads[-1]
        part = "u" if 0.4 <= p <= 0.6 else "o" if 0.75 <= p <= 0.95 else "gap"
        sums[part] += 1
        sums["w" + part] += (a - p) * g if part == "u" else (p - a) * g
        if part != "gap":
            sums["r" + part] += a - p if part == "u" else p - a
        sums["band"] += 0.675 < p < 0.75 or 0.95 < p < 1.025
    n = len(z)
    assert found.rho_u == pytest.approx(sums["ru"] / sums["u"])
    assert found.rho_o == pytest.approx(sums["ro"] / sums["o"])
    masses = [found.mu_u, found.mu_o, found.mu_gap, found.mu_a]
    np.testing.assert_allclose(masses, [sums[name] / n for name in ("u", "o", "gap", "a")])
    assert (found.gamma_min, found.gamma_max) == (pytest.approx(min(gammas)), pytest.approx(max(gammas)))
    assert found.delta_g == pytest.approx(max(spreads))
    weighted = (-sums["wu"] + sums["wo"] + sums["wgap"] + sums["spread"]) / n
    assert found.weighted_bound == pytest.approx(weighted)
    bound = 0.05 * 0.75 * (1 - 0.95) * min(gammas) * sums["o"] / n - 1.05 * max(rates) * sums["band"] / n
    assert found.witness_bound == pytest.approx(bound)
    assert found.baseline_bound == pytest.approx(0.05 * (sums["ro"] - sums["band"]) / n)
    right = max(gammas) * (found.rho_o * found.mu_o + found.mu_gap) + max(spreads) * found.mu_a
    assert (found.left, found.right) == (pytest.approx(found.rho_u * min(gammas) * found.mu_u), pytest.approx(right))


@settings(max_examples=150)
@given(labelled_rows(), st.floats(0.3, 0.9), st.floats(0.0, 0.3), st.sampled_from([0.02, 0.1, 0.4]))
def test_the_weighted_bound_and_the_witness_bound_hold(
    given_rows: Rows, start: float, width: float, depth: float
) -> None:
    z, y = given_rows
    terms = local_terms(z, y, 1.2)
    chosen = terms.margin <= np.quantile(terms.margin, 0.8)
    found = two_slice(terms, chosen, (0.0, start / 2), Plateau.against(start, start + width, depth))
    assert found.nll.value <= found.weighted_bound + 1e-10
    assert found.probe.value >= found.witness_bound - 1e-10
    assert found.baseline >= found.baseline_bound - 1e-10


def test_the_baseline_holds_on_the_slice_and_not_for_the_whole_set() -> None:
    """Rows at p = 0.8 in and outside A: wrong where the margin is log 4.2, right where it is log 8."""
    z = np.log(np.repeat([[0.8, 0.19, 0.01], [0.8, 0.1, 0.1]], [10, 100], axis=0))
    terms = local_terms(z, np.repeat([1, 0], [10, 100]), 1.0)
    found = two_slice(terms, terms.within(0.0, 1.5), (0.1, 0.2), Plateau.against(0.7, 0.9, 0.1))
    assert found.rho_o == pytest.approx(0.8)
    assert found.baseline == pytest.approx(0.1 * 0.8 * 10 / 110)
    assert found.baseline_bound == pytest.approx(0.1 * 0.8 * 10 / 110)
    assert found.witness.value < 0 < found.baseline_bound


def test_the_condition_does_what_it_says_where_gaps_keep_their_sign() -> None:
    """All right on J_U, all wrong on J_O: then average gaps are honest bounds, and the conclusion holds."""
    met = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        p = np.concatenate([rng.uniform(0.52, 0.62, 60), rng.uniform(0.9, 0.95, rng.integers(1, 4))])
        z = np.column_stack([np.log(p / (1 - p)), np.zeros(len(p))])
        terms = local_terms(z, (p >= 0.9).astype(int), 1.0)
        everything = np.ones(len(p), dtype=np.bool_)
        found = two_slice(terms, everything, (0.5, 0.7), Plateau.against(0.85, 0.97, 0.05))
        met += found.holds
        assert not found.contradicted
        assert not found.holds or found.nll.value < 0
    assert 0 < met < 300


def test_average_gaps_do_not_imply_the_conclusion() -> None:
    """The main text's condition, with average gaps, is met and NLL rises: J_U holds rows that are underconfident where
    m / T is small and overconfident where it is large."""
    z, y = two_classes((0.6, 100, 100), (0.95, 100, 65), (0.55, 2, 1))
    for built, mine in zip(counterexample_rows(), (z, y), strict=True):
        np.testing.assert_array_equal(built, mine)
    found = counterexample()
    p = softmax(z, axis=1).max(axis=1)
    right = y == 0
    assert (right - p)[p > 0.58].mean() == pytest.approx(found.rho_u)
    slope = [-log_softmax(z * s, axis=1)[np.arange(len(z)), y].mean() for s in (1 + 1e-5, 1 - 1e-5)]
    assert (slope[0] - slope[1]) / 2e-5 == pytest.approx(found.nll.value, rel=1e-6)
    assert (found.rho_u, found.rho_o) == (pytest.approx(0.05), pytest.approx(0.05))
    assert found.holds
    assert found.left > found.right
    assert found.nll.value > 0.3
    assert found.contradicted
    # the weighted terms are not deceived: for two classes they are the derivative itself
    assert found.weighted_bound == pytest.approx(found.nll.value, rel=1e-12)


def test_a_lower_bound_of_the_gap_on_j_o_does_not_imply_it_either() -> None:
    """The appendix's rho_O only has to lie below the gap, yet stands in for it from above: any small one will do."""
    z, y = two_classes((0.6, 100, 70), (0.95, 100, 45))
    terms = local_terms(z, y, 1.0)
    found = two_slice(terms, np.ones(200, dtype=np.bool_), (0.55, 0.65), Plateau.against(0.94, 0.96, 0.02))
    assert found.rho_u == pytest.approx(0.1)
    assert found.rho_o == pytest.approx(0.5)
    assert not found.holds
    allowed = replace(found, rho_o=0.001)  # p - r(p) >= 0.001 on J_O is true
    assert allowed.holds
    assert allowed.contradicted


def test_a_range_without_samples_meets_no_condition() -> None:
    z, y = two_classes((0.6, 10, 9))
    terms = local_terms(z, y, 1.0)
    everything = np.ones(10, dtype=np.bool_)
    found = two_slice(terms, everything, (0.55, 0.65), Plateau.against(0.9, 0.95, 0.02))
    assert math.isnan(found.rho_o)
    assert not found.assumed
    assert not found.holds
    nothing = two_slice(terms, ~everything, (0.55, 0.65), Plateau.against(0.9, 0.95, 0.02))
    assert nothing.mu_a == 0
    assert not nothing.holds


def test_the_underconfident_range_is_the_best_on_its_grid() -> None:
    z, y = rows(500, 3, seed=9)
    terms = local_terms(z, y, 2.0)
    chosen, over = terms.within(0.2, 4.0), (0.6, 0.8)
    low, high = underconfident_range(terms, chosen, over)
    p, r = terms.confidence[chosen], (terms.correct - terms.confidence)[chosen]
    edges = np.linspace(0, 1, 21)
    best = max(
        r[(p >= a) & (p < b)].sum()
        for i, a in enumerate(edges)
        for b in edges[i + 1 :]
        if b <= 0.6 + 1e-9 or a >= 0.8 - 1e-9
    )
    assert r[(p >= low) & (p < high)].sum() == pytest.approx(best)
    assert high <= 0.6 + 1e-9 or low >= 0.8 - 1e-9
