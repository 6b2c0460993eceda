"""The two-slice condition of the NLL view: whether the paper's condition is met on a slice, term by term."""

from __future__ import annotations

import math
from typing import Any

import streamlit as st

from pages.shared.theory.symbols import meaning, typeset
from smart_core.formatting import decimal, join_words
from smart_core.theory.two_slice import GROUPS, TwoSlice, counterexample


def draw(found: TwoSlice) -> None:
    """Draw the verdict, the table of terms, and on request a counterexample."""
    terms = meaning("J_O, J_U", "ρ_O, ρ_U", "μ_O, μ_U", "γ_min, γ_max", "Δ_G", "ε", "c", "a", "p", "m", "T")
    st.subheader("The two-slice condition", help=terms)
    (st.error if found.contradicted else st.markdown)(f"##### {typeset(condition_verdict(found))}")
    st.markdown(typeset(condition_table(found)))
    text = (
        "J_O is the probe's range, J_U the most underconfident range beside it. Outcomes estimate the unknown "
        "P(Y = M | X). The paper's step from mean gaps to the derivative needs gaps of one sign within each range; the "
        "weighted bound does not. The baseline bound is about the slice's part of the witness; the paper states it for "
        "the whole witness, whose sign samples outside the slice may change."
    )
    st.caption(typeset(text))
    if st.toggle("Show a counterexample: the condition is met, and NLL rises", key="theory-counterexample"):
        bad = counterexample()
        groups = [f"{count} at p = {p:g} of which {hits} are correct" for p, count, hits in GROUPS]
        st.warning(typeset(condition_verdict(bad)))
        st.markdown(f"Samples of two classes with T = 1: {join_words(groups)}.\n\n{typeset(condition_table(bad))}")


def condition_verdict(found: TwoSlice) -> str:
    """Say whether the condition is met, and why not."""
    if found.contradicted:
        return (
            f"The paper's condition is met, yet NLL does not fall (dNLL/ds = {found.nll}): its proof treats mean "
            "gaps as gaps of every sample."
        )
    if found.holds:
        return f"The paper's condition is met, and NLL falls as it says (dNLL/ds = {found.nll})."
    if not found.assumed:
        return (
            "The paper's condition does not apply: it needs an underconfident and an overconfident range on this slice."
        )
    left, right = decimal(found.left, ".3g"), decimal(found.right, ".3g")
    text = f"The paper's condition is not met: {left} is not greater than {right}."
    if found.rho_u * found.gamma_min <= found.delta_g:
        text += (
            f" It cannot be met, whatever the masses: the spread Δ_G = {found.delta_g:.3g} alone exceeds ρ_U γ_min = "
            f"{decimal(found.rho_u * found.gamma_min, '.3g')}."
        )
    return text


def condition_table(found: TwoSlice) -> str:
    """Return each term of the condition as a Markdown table."""
    rows = [
        ("ρ_U", f"mean of a − p, confidences {found.under[0]:.2f} to {found.under[1]:.2f}", found.rho_u),
        ("ρ_O", f"mean of p − a, confidences {found.over[0]:.2f} to {found.over[1]:.2f}", found.rho_o),
        ("μ_U, μ_O", "mass of the slice in each range", (found.mu_u, found.mu_o)),
        ("μ_gap, μ_A", "mass in neither range, mass of the slice", (found.mu_gap, found.mu_a)),
        ("γ_min, γ_max", "smallest and largest m / T", (found.gamma_min, found.gamma_max)),
        ("Δ_G", "largest spread of the other logits / T", found.delta_g),
        ("left side", "ρ_U γ_min μ_U", found.left),
        ("right side", "γ_max (ρ_O μ_O + μ_gap) + Δ_G μ_A", found.right),
        ("weighted bound", "the same with the gap of each sample, ≥ dNLL/ds", found.weighted_bound),
        ("dNLL/ds", "the derivative", found.nll.value),
        ("witness bound", "c inf J_O (1 − sup J_O) γ_min μ_O − (1 + c) C_G ε", found.witness_bound),
        ("dC/ds", "the derivative of the witness", found.probe.value),
        ("baseline bound", "c (ρ_O μ_O − ε)", found.baseline_bound),
        ("slice's witness", "the slice's part of the witness, ≥ the baseline bound", found.baseline),
    ]
    lines = [f"| {name} | {text} | {_numbers(value)} |" for name, text, value in rows]
    return "| term | meaning | value |\n|---|---|---|\n" + "\n".join(lines)


def _numbers(value: Any) -> str:
    values = value if isinstance(value, tuple) else (value,)
    return ", ".join("no sample" if math.isnan(each) else decimal(each, ".4g") for each in values)
