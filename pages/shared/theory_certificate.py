"""The view of the smCE certificate: every term of the bound, and the chain of inequalities."""

from __future__ import annotations

import hashlib
from typing import Any

import streamlit as st

import smart_core as sc
from pages.shared import board, show
from pages.shared.theory_fits import evaluations
from pages.shared.wording import plain_text
from smart_core import LogitSet
from smart_core.figures.theme import style
from smart_core.figures.theory_certificate import certificate_chart
from smart_core.formatting import join_words
from smart_core.theory.certificate import Certificate, Step, certificate

SIGMAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
DELTAS = (0.0, 0.0001, 0.001, 0.01, 0.1, 1.0)


def certified(judged: sc.Evaluation, sigma: float, delta: float) -> Certificate:
    """The terms of the bound for one fit."""
    digest = hashlib.sha256(judged.confidence.tobytes() + judged.correct.tobytes()).hexdigest()
    return _certified(digest, sigma, delta, judged)


@st.cache_resource(max_entries=128, show_spinner="Computing the terms", scope="session")
def _certified(digest: str, sigma: float, delta: float, _judged: sc.Evaluation) -> Certificate:
    return certificate(_judged.confidence, _judged.correct, sigma=sigma, delta=delta)


def step_line(step: Step) -> str:
    """One inequality with its numbers, as an item of a list: tables of this width do not fit a narrow screen."""
    terms = " + ".join(f"{term:.4f}" for term in step.terms)
    right = terms if len(step.terms) == 1 else f"{terms} = {step.right:.4f}"
    mark = "✓" if step.holds else "**✗ violated**"
    return f"- {mark} {step.source}: {plain_text(step.statement)}  \n  {step.left:.4f} ≤ {right}"


def view(data: LogitSet, look: dict[str, Any]) -> str:
    st.markdown(
        "The paper bounds the smooth calibration error (smCE) by its objective: a term that training lowers plus the "
        "kernel's own bias B_λ. Here is every term, computed exactly or by quadrature on the test samples."
    )
    with st.container(horizontal=True):
        sigma = st.select_slider("Sigma", SIGMAS, 0.05, key="theory-sigma", persist_state="session", width=260)
        delta = st.select_slider("Delta", DELTAS, 0.001, key="theory-delta", persist_state="session", width=260)
    found = {id: certified(judged, sigma, delta) for id, judged in evaluations(data).items()}
    broken = [f"{style(id).label}: {step.statement}" for id, c in found.items() for step in c.steps() if not step.holds]
    labels = join_words([style(id).label for id in found])
    if broken:
        st.error(f"Violated: {'; '.join(broken)}.")
    else:
        st.markdown(f"##### Every inequality of the chain holds for {labels}.")
    show.chart(certificate_chart(found, **look), "certificate")
    one = next(iter(found.values()))
    simple = f", {one.b_simple:.4f} by 1.339 / √λ" if one.b_simple is not None else ""
    st.caption(
        f"λ = 1 / (2 σ²) = {one.scale:g}. B_λ is {one.b:.4f} exactly, {one.b_closed:.4f} by the closed form{simple}. "
        "Label noise is E|a − p| of a perfectly calibrated model with these confidences: H and ε_agg hold it, and no "
        "calibrator removes it, so the bounds are loose and do not rank methods."
    )
    tightest, least = min(found, key=lambda id: found[id].h), min(found, key=lambda id: found[id].smce)
    if tightest != least:
        a, b = found[tightest], found[least]
        st.markdown(
            f"On these data the bound and the error disagree on the better one: {style(least).label} has the lowest "
            f"smCE ({b.smce:.4f}, H {b.h:.4f}), {style(tightest).label} the lowest H ({a.h:.4f}, smCE {a.smce:.4f})."
        )
    chosen = st.selectbox(
        "The chain of", list(found), format_func=lambda id: style(id).label, key="theory-chain", width=220
    )
    st.markdown("\n".join(step_line(step) for step in found[chosen].steps()))
    others = len(board.fitted(data).keys() - {"vanilla", "ts"})
    if not others:
        st.caption("Methods fitted on Compare stand here too.")
    return f"""
from smart_core.theory.certificate import certificate

ts = sc.TS().fit(data.validation.logits, data.validation.labels)
judged = sc.evaluate(ts, data.test)
for step in certificate(judged.confidence, judged.correct, sigma={sigma:g}, delta={delta:g}).steps():
    print(step.holds, step.statement, step.left, step.right)
"""
