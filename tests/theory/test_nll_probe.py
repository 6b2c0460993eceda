"""Derivatives against finite differences of NLL and witness, computed here from the softmax alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from smart_core.data.simulate import simulate
from smart_core.errors import CalibrationError
from smart_core.theory.nll_probe import (
    Plateau,
    growth,
    local_terms,
    nll_derivative,
    probe_derivative,
    scaling_path,
    witness,
)
from tests.theory.rows import Rows, labelled_rows, rows


def direct(z: np.ndarray, y: np.ndarray, t: np.ndarray, chosen: np.ndarray, probe: Plateau, s: float) -> list[float]:
    """NLL and E[(a - p) psi(p)] with the slice's temperatures divided by s."""
    scaled = z / np.where(chosen, t / s, t)[:, None]
    p, a = softmax(scaled, axis=1).max(axis=1), z.argmax(axis=1) == y
    return [-log_softmax(scaled, axis=1)[np.arange(len(z)), y].mean(), ((a - p) * probe(p)).mean()]


@settings(max_examples=60)
@given(
    labelled_rows(),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.sampled_from([0.02, 0.1, 0.3]),
    st.sampled_from([-1.0, 1.0]),
)
def test_derivatives_are_those_of_finite_differences(
    given_rows: Rows, one: float, other: float, depth: float, sign: float
) -> None:
    z, y = given_rows
    t = np.linspace(0.7, 2.5, len(z))
    terms = local_terms(z, y, t)
    chosen = terms.within(*np.quantile(terms.margin, sorted([one, other])))
    probe = Plateau(min(one, other), max(one, other), sign * depth, 1.5 * depth)
    h = 1e-5
    up, down = (np.array(direct(z, y, t, chosen, probe, s)) for s in (1 + h, 1 - h))
    numeric = (up - down) / (2 * h)
    # psi' has bends where ramps end: there a central difference is off by h times the jump of psi''
    assert nll_derivative(terms, chosen).value == pytest.approx(numeric[0], rel=1e-5, abs=1e-7)
    assert probe_derivative(terms, chosen, probe).value == pytest.approx(numeric[1], rel=1e-4, abs=2e-4)
    base = direct(z, y, t, chosen, probe, 1.0)[1]
    assert witness(terms, probe).value == pytest.approx(base, abs=1e-12)


def test_derivatives_with_a_smooth_probe_to_many_digits() -> None:
    z, y = rows(400, 6, seed=2)
    terms = local_terms(z, y, 1.3)
    chosen = terms.within(0.5, 4.0)

    class Wave:
        def __call__(self, p: np.ndarray, /) -> np.ndarray:
            return np.asarray(np.sin(p))

        def slope(self, p: np.ndarray, /) -> np.ndarray:
            return np.asarray(np.cos(p))

    probe, h, t = Wave(), 1e-5, np.full(400, 1.3)
    up, down = (np.array(direct(z, y, t, chosen, probe, s)) for s in (1 + h, 1 - h))  # type: ignore[arg-type]
    numeric = (up - down) / (2 * h)
    assert nll_derivative(terms, chosen).value == pytest.approx(numeric[0], rel=1e-7)
    assert probe_derivative(terms, chosen, probe).value == pytest.approx(numeric[1], rel=1e-7)
    sign = np.sign(direct(z, y, t, chosen, probe, 1.0)[1])  # type: ignore[arg-type]
    assert growth(terms, chosen, probe).value == pytest.approx(sign * numeric[1], rel=1e-7)


def test_with_the_truth_known_the_outcomes_average_to_it() -> None:
    """The paper's form with r_X is the mean of the form with outcomes over many draws of the labels."""
    drawn = simulate(400, 5, "linear", seed=3)
    probe = Plateau.against(0.5, 0.9, 0.2)
    true = replace(local_terms(drawn.logits, drawn.labels, 1.0), correct=drawn.true_confidence)
    chosen = true.within(0.0, 3.0)
    expected = probe_derivative(true, chosen, probe).value
    truth = softmax(drawn.logits / drawn.temperature[:, None], axis=1)
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        labels = (truth.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1).clip(max=4)
        found.append(probe_derivative(local_terms(drawn.logits, labels, 1.0), chosen, probe).value)
    assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / 20)


@settings(max_examples=60)
@given(labelled_rows())
def test_the_lemmas_of_the_logits_hold_row_by_row(given_rows: Rows) -> None:
    """t_M - <t> >= (1 - p) m / T, and <t> - t_Y <= (p - a) g + (1 - a) Delta, exact for two classes."""
    z, y = given_rows
    terms = local_terms(z, y, 0.8)
    p, a, g = terms.confidence, terms.correct, terms.gap
    assert (terms.advantage >= (1 - p) * g - 1e-12).all()
    bound = (p - a) * g + (1 - a) * terms.spread
    assert (terms.pull <= bound + 1e-10).all()
    if z.shape[1] == 2:
        np.testing.assert_allclose(terms.pull, bound, atol=1e-12)


def test_terms_do_not_depend_on_a_shift_of_the_logits_nor_on_chunks() -> None:
    z, y = rows(50, 4)
    here, there = local_terms(z, y, 1.5), local_terms(z + 1e4, y, np.full(50, 1.5))
    for name in ("confidence", "margin", "gap", "spread", "pull", "advantage"):
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), atol=1e-9)


@settings(max_examples=60)
@given(st.floats(0, 1), st.floats(0, 0.5), st.floats(0.01, 1.0), st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_probes_are_bounded_1_lipschitz_and_have_their_slope(
    low: float, width: float, depth: float, at: list[float]
) -> None:
    probe = Plateau.against(low, low + width, depth)
    p = np.array(sorted(at))
    psi = probe(p)
    assert (np.abs(psi) <= 1).all()
    assert (np.abs(psi[:, None] - psi) <= np.abs(p[:, None] - p) + 1e-12).all()
    h = 1e-6
    np.testing.assert_allclose(probe.slope(p), (probe(p + h) - probe(p - h)) / (2 * h), atol=2e-5 / probe.ramp)
    assert (np.abs(probe.slope(p)) <= 1 + 1e-12).all()


def test_a_probe_that_is_too_steep_is_refused() -> None:
    with pytest.raises(CalibrationError, match="1-Lipschitz"):
        Plateau(0.2, 0.4, -0.2, 0.1)
    with pytest.raises(CalibrationError, match="1-Lipschitz"):
        Plateau(0.2, 0.4, -1.2, 9.0)
    with pytest.raises(CalibrationError, match="low to high"):
        Plateau.against(0.5, 0.4, 0.1)


def test_the_path_is_the_direct_computation_at_every_s() -> None:
    z, y = rows(120, 5, seed=4)
    t = np.linspace(0.8, 2.0, 120)
    terms = local_terms(z, y, t)
    chosen, probe = terms.within(0.3, 2.0), Plateau.against(0.5, 0.8, 0.1)
    path = scaling_path(z, y, t, chosen, probe, (0.9, 1.0, 1.2))
    for place, s in enumerate(path.s):
        nll, signed = direct(z, y, t, chosen, probe, s)
        assert path.nll[place] == pytest.approx(nll, abs=1e-12)
        assert path.witness[place] == pytest.approx(signed, abs=1e-12)
    # a witness of the class is never above the exact smCE
    assert (np.abs(path.witness) <= path.smce + 1e-12).all()
