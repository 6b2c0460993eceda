"""The view of the smCE certificate: every term of the bound, and the chain of inequalities."""

from __future__ import annotations

from typing import Any

import streamlit as st

import smart_core as sc
from pages.shared import cache, charts
from pages.shared.theory.fits import evaluations
from pages.shared.theory.symbols import meaning, typeset
from smart_core import LogitSet
from smart_core.figures.theme import style
from smart_core.figures.theory_certificate import certificate_chart
from smart_core.formatting import join_words
from smart_core.theory.certificate import Certificate, Step, certificate

SIGMAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
DELTAS = (0.0, 0.0001, 0.001, 0.01, 0.1, 1.0)


def certificate_of(evaluation: sc.Evaluation, sigma: float, delta: float) -> Certificate:
    """Compute the terms of the bound for one fit."""
    return _certificate_of(cache.digest(evaluation), sigma, delta, evaluation)


@st.cache_resource(max_entries=128, show_spinner="Computing the terms", scope="session")
def _certificate_of(digest: str, sigma: float, delta: float, _evaluation: sc.Evaluation) -> Certificate:
    return certificate(_evaluation.confidence, _evaluation.correct, sigma=sigma, delta=delta)


def step_line(step: Step) -> str:
    """Return one inequality with its numbers as a list item: a table would not fit a narrow screen."""
    terms = " + ".join(f"{term:.4f}" for term in step.terms)
    right = terms if len(step.terms) == 1 else f"{terms} = {step.right:.4f}"
    mark = "✓" if step.holds else "**✗ violated**"
    return f"- {mark} {step.source}: {typeset(step.statement)}  \n  {step.left:.4f} ≤ {right}"


def view(data: LogitSet, look: dict[str, Any]) -> str:
    """Draw the view and return its Python code."""
    text = "The paper bounds the smooth calibration error (smCE) by its training objective plus the kernel's bias B_λ. "
    st.markdown(typeset(f"{text}Here is every term on the test samples, computed exactly or by quadrature."))
    with st.container(horizontal=True):
        sigma = st.select_slider("Sigma", SIGMAS, 0.05, key="theory-sigma", persist_state="session", width=260)
        delta = st.select_slider("Delta", DELTAS, 0.001, key="theory-delta", persist_state="session", width=260)
    found = {id: certificate_of(evaluation, sigma, delta) for id, evaluation in evaluations(data).items()}
    labels = {id: style(id).label for id in found}
    violated = [
        f"{labels[id]}: {step.statement}" for id, each in found.items() for step in each.steps() if not step.holds
    ]
    if violated:
        st.error(typeset(f"Violated: {'; '.join(violated)}."))
    else:
        terms = meaning("smCE", "H", "ε_agg", "B_λ", "λ", "σ", "δ", "a", "p")
        st.markdown(f"##### Every inequality of the chain holds for {join_words(list(labels.values()))}.", help=terms)
    charts.show(certificate_chart(found, **look), "certificate")
    one = next(iter(found.values()))
    simple = f", {one.b_simple:.4f} by 1.339 / √λ" if one.b_simple is not None else ""
    text = (
        f"λ = 1 / (2 σ²) = {one.scale:g}. B_λ is {one.b:.4f} exactly, {one.b_closed:.4f} by the closed form{simple}. "
        "Label noise is E|a − p| of a perfectly calibrated model with these confidences. H and ε_agg contain it, and "
        "no calibrator can remove it, so the bounds are loose and do not rank methods."
    )
    st.caption(typeset(text))
    tightest, least = min(found, key=lambda id: found[id].h), min(found, key=lambda id: found[id].smce)
    if tightest != least:
        a, b = found[tightest], found[least]
        st.markdown(
            f"Here the bound and the error prefer different methods: {labels[least]} has the lowest smCE "
            f"({b.smce:.4f}, H {b.h:.4f}), {labels[tightest]} the lowest H ({a.h:.4f}, smCE {a.smce:.4f})."
        )
    chosen = st.selectbox("Chain of", list(found), format_func=labels.__getitem__, key="theory-chain", width=220)
    terms = meaning("smCE", "H", "ε_agg", "B_λ", "λ", "δ", "a", "p")
    st.markdown("\n".join(step_line(step) for step in found[chosen].steps()), help=terms)
    st.caption("Methods that you fit and select on Compare appear here too.")
    return f"""
from smart_core.theory.certificate import certificate

ts = sc.TS().fit(data.validation.logits, data.validation.labels)
evaluation = sc.evaluate(ts, data.test)
for step in certificate(evaluation.confidence, evaluation.correct, sigma={sigma:g}, delta={delta:g}).steps():
    print(step.holds, step.statement, step.left, step.right)
"""
