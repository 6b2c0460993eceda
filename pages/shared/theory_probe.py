"""The view of NLL against calibration: what sharpening a margin slice does to both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import streamlit as st

from pages.shared import show
from pages.shared.theory_fits import name_of, temperature_maps, terms_of
from smart_core import LogitSet
from smart_core.figures.theme import style
from smart_core.figures.theory_probe import path_chart, said, slice_chart
from smart_core.formatting import join_words
from smart_core.theory.nll_probe import (
    Estimate,
    LocalTerms,
    Plateau,
    ScalingPath,
    growth,
    nll_derivative,
    scaling_path,
    witness,
)
from smart_core.theory.two_slice import (
    GROUPS,
    FoundSlice,
    TwoSlice,
    counterexample,
    find_conflict,
    two_slice,
    underconfident_range,
)

DEPTHS = (0.02, 0.05, 0.1, 0.2, 0.3)
LARGEST = 1e6
"""Margins beyond are one end of the slider."""
SURE = 2.0
"""Standard errors from which on a direction is called clear."""


@st.cache_resource(max_entries=16, show_spinner="Searching", scope="session")
def searched(content_hash: str, fit: str, _terms: LocalTerms) -> FoundSlice | None:
    """The slice of clearest conflict on validation."""
    return find_conflict(_terms)


@st.cache_resource(max_entries=32, show_spinner="Following the path", scope="session")
def followed(
    content_hash: str, fit: str, low: float, high: float, probe: Plateau, _data: LogitSet, _t: Any, _chosen: Any
) -> ScalingPath:
    """NLL, witness and smCE along the path."""
    return scaling_path(_data.test.logits, _data.test.labels, _t, _chosen, probe)


def moved(estimate: Estimate, what: str) -> str:
    """Which way a derivative points, where that is clear."""
    if abs(estimate.value) <= SURE * estimate.error:
        return f"does nothing clear to {what}"
    return f"lowers {what}" if estimate.value < 0 else f"raises {what}"


def clear(base: Estimate) -> bool:
    """Whether the witness lies away from 0 beyond noise: else its sign, and what raises its absolute value, is open."""
    return abs(base.value) > SURE * base.error


def in_conflict(loss: Estimate, rise: Estimate, base: Estimate) -> bool:
    """Whether NLL falls and the witness, which is not 0, rises, all beyond noise."""
    return clear(base) and loss.value < -SURE * loss.error and rise.value > SURE * rise.error


def direction_sentence(low: float, high: float, loss: Estimate, rise: Estimate, base: Estimate) -> str:
    """What sharpening the slice does to both."""
    joined = "yet" if in_conflict(loss, rise, base) else "and"
    witnessed = moved(rise, "the witness") if clear(base) else "moves a witness that noise cannot tell from 0"
    return f"Sharpening margins {low:.2f} to {high:.2f} {moved(loss, 'the NLL')} {joined} {witnessed}."


def search_sentence(found: FoundSlice | None, terms: LocalTerms) -> str:
    """What the search came to: on validation, and on test, which it has not seen."""
    if found is None:
        return "Too few hits or misses on validation for a search."
    if not found.conflict:
        return "Searched on validation: no slice whose sharpening lowers NLL and raises a witness."
    chosen = terms.within(found.low, found.high)
    loss, rise = nll_derivative(terms, chosen), growth(terms, chosen, found.probe)
    base = witness(terms, found.probe)
    what = (
        f"margins {found.low:.2f} to {found.high:.2f} with a probe of confidences {found.probe.low:.2f} to "
        f"{found.probe.high:.2f}, {found.score:.1f} standard errors"
    )
    if in_conflict(loss, rise, base):
        return f"Clearest on validation: {what}. On test it holds: NLL falls and the witness rises, both beyond noise."
    return f"Clearest on validation: {what}. On test it is not confirmed: the best of many may be the best by chance."


def boxed_slice(boxes: list[Any], largest: float) -> tuple[float, float] | None:
    """The margins that a box on the chart spans, within the slider's ends; None where nothing is boxed."""
    if not boxes:
        return None
    low, high = (min(max(round(float(end), 2), 0.0), largest) for end in sorted(boxes[-1]["x"]))
    return (low, high) if low < high else None


def condition_table(found: TwoSlice) -> str:
    """Each term of the two-slice condition, as a Markdown table."""
    rows = [
        ("ρ_U", f"mean of a − p, confidences {found.under[0]:.2f} to {found.under[1]:.2f}", found.rho_u),
        ("ρ_O", f"mean of p − a, confidences {found.over[0]:.2f} to {found.over[1]:.2f}", found.rho_o),
        ("μ_U, μ_O", "mass of the slice in each range", (found.mu_u, found.mu_o)),
        ("μ_gap, μ_A", "mass in neither, mass of the slice", (found.mu_gap, found.mu_a)),
        ("γ_min, γ_max", "smallest and largest m / T", (found.gamma_min, found.gamma_max)),
        ("Δ_G", "largest spread of the other logits / T", found.delta_g),
        ("left side", "ρ_U γ_min μ_U", found.left),
        ("right side", "γ_max (ρ_O μ_O + μ_gap) + Δ_G μ_A", found.right),
        ("weighted bound", "the same with each sample's own gap, ≥ dNLL/ds", found.weighted_bound),
        ("dNLL/ds", "the derivative itself", found.nll.value),
        ("witness bound", "c inf J_O (1 − sup J_O) γ_min μ_O − (1 + c) C_G ε", found.witness_bound),
        ("dC/ds", "the witness's derivative itself", found.probe.value),
        ("baseline bound", "c (ρ_O μ_O − ε)", found.baseline_bound),
        ("slice's witness", "the slice's part of the witness, ≥ that", found.baseline),
    ]
    lines = [f"| {name} | {words} | {_figures(value)} |" for name, words, value in rows]
    return "| term | what it is | value |\n|---|---|---|\n" + "\n".join(lines)


def _figures(value: Any) -> str:
    values = value if isinstance(value, tuple) else (value,)
    return ", ".join("no sample" if math.isnan(each) else f"{each:.4g}" for each in values)


def condition_sentence(found: TwoSlice) -> str:
    """Whether the paper's condition is met, and what it would take."""
    if found.contradicted:
        return (
            f"The paper's condition is met, and yet NLL does not fall (dNLL/ds = {said(found.nll)}): its proof takes "
            "average gaps for gaps of every sample."
        )
    if found.holds:
        return f"The paper's condition is met, and NLL falls as it says (dNLL/ds = {said(found.nll)})."
    if not found.assumed:
        return (
            "The paper's condition does not apply: it needs an underconfident and an overconfident range on this slice."
        )
    words = f"The paper's condition is not met: {found.left:.3g} is not more than {found.right:.3g}."
    if found.rho_u * found.gamma_min <= found.delta_g:
        words += (
            f" It cannot be, whatever the masses: the spread Δ_G = {found.delta_g:.3g} alone exceeds ρ_U γ_min = "
            f"{found.rho_u * found.gamma_min:.3g}."
        )
    return words


def view(data: LogitSet, look: dict[str, Any]) -> str:
    st.markdown(
        "Dividing the temperatures of one margin slice by s sharpens it. The derivatives at s = 1 say what that does "
        "to the NLL, and to a calibration witness: the mean of (a − p) ψ(p) for a probe ψ that looks at one range of "
        "confidence. Its absolute value is a lower bound of smCE."
    )
    maps = temperature_maps(data)
    fit = st.selectbox(
        "Temperatures of",
        list(maps),
        format_func=lambda id: style(id).label,
        key="theory-map",
        width=220,
        help="The map that is perturbed. Temperature methods fitted on Compare stand here too.",
    )
    name = name_of(maps[fit])
    terms, t = terms_of(data, "test", maps[fit])
    validation, _ = terms_of(data, "validation", maps[fit])
    largest = math.ceil(min(float(max(terms.margin.max(), validation.margin.max())), LARGEST) * 10) / 10 or 0.1
    ids = {part: f"theory-{part}-{data.content_hash[:8]}" for part in ("slice", "range", "found")}
    middle = [min(round(float(end), 1), largest - 0.1) for end in np.quantile(terms.margin, [0.05, 0.35])]

    def search() -> None:
        found = searched(data.content_hash, name, validation)
        st.session_state[ids["found"]] = (fit, search_sentence(found, terms))
        if found is not None:
            st.session_state[ids["slice"]] = (min(found.low, largest), min(found.high, largest))
            st.session_state[ids["range"]] = (found.probe.low, found.probe.high)
            st.session_state["theory-depth"] = abs(found.probe.height)

    def boxed() -> None:
        chosen = boxed_slice(st.session_state["slice"].selection.box, largest)
        if chosen is not None:
            st.session_state[ids["slice"]] = chosen

    with st.container(horizontal=True, vertical_alignment="bottom"):
        low, high = st.slider(
            "Margin slice",
            0.0,
            largest,
            (middle[0], max(middle[1], middle[0] + 0.1)),
            step=0.01,
            key=ids["slice"],
            persist_state="session",
            width=320,
        )
        start, stop = st.slider(
            "Confidences that the probe looks at",
            0.0,
            1.0,
            (0.6, 0.8),
            step=0.01,
            key=ids["range"],
            persist_state="session",
            width=320,
        )
        depth = st.select_slider(
            "Depth c", DEPTHS, 0.1, key="theory-depth", persist_state="session", width=180, help="ψ = −c on the range."
        )
        st.button("Search a slice", type="primary", key="search-slice", shortcut="Ctrl+Enter", on_click=search)
    said_before = st.session_state.get(ids["found"])
    if said_before is not None and said_before[0] == fit:
        st.info(said_before[1])
    chosen, probe = terms.within(low, high), Plateau.against(start, stop, depth)
    if not chosen.any():
        st.info("No test sample has such a margin: move the slice.")
        return ""
    loss, rise, base = nll_derivative(terms, chosen), growth(terms, chosen, probe), witness(terms, probe)
    st.markdown(f"##### {direction_sentence(low, high, loss, rise, base)}")
    st.markdown(
        f"dNLL/ds = {said(loss)}, d|witness|/ds = {said(rise)} (± one standard error); the witness is {said(base)} and "
        f"{int(chosen.sum()):,} of {len(terms):,} test samples lie in the slice."
    )
    left, right = st.columns(2)
    with left:
        st.markdown("**What each margin adds:** drag across to choose the slice")
        drawn = slice_chart(terms, low, high, probe, **look)
        show.chart(drawn, "slice", on_select=boxed, selection_mode="box")
    with right:
        st.markdown("**The set as the slice is scaled**")
        path = followed(data.content_hash, name, low, high, probe, data, t, chosen)
        show.chart(path_chart(path, loss.value, rise.value, **look), "path")
    st.caption(
        "The paper's statement is about NLL and the witness. smCE, the largest of all witnesses, is drawn beside them."
    )
    st.subheader("The two-slice condition")
    found = two_slice(terms, chosen, underconfident_range(terms, chosen, (start, stop)), probe)
    (st.error if found.contradicted else st.markdown)(f"##### {condition_sentence(found)}")
    st.markdown(condition_table(found))
    st.caption(
        "J_O is the probe's range; J_U the most underconfident range beside it. Outcomes stand in for the unknown "
        "P(Y = M | X). The paper's step from average gaps to the derivative needs gaps of one sign within each range; "
        "the weighted bound needs no such assumption. The baseline bound is of the slice's part; the paper writes "
        "it for the whole witness, which samples outside the slice may turn."
    )
    if st.toggle("A set that meets the condition and whose NLL rises", key="theory-counterexample"):
        bad = counterexample()
        groups = [f"{count} at p = {p:g} of which {hits} are right" for p, count, hits in GROUPS]
        st.warning(condition_sentence(bad))
        st.markdown(f"Rows of two classes, T = 1: {join_words(groups)}.\n\n{condition_table(bad)}")
    return f"""
from smart_core.theory.nll_probe import Plateau, growth, local_terms, nll_derivative
from smart_core.theory.two_slice import GROUPS, counterexample

fitted = sc.calibrators.get("{fit}").fit(data.validation.logits, data.validation.labels)
terms = local_terms(data.test.logits, data.test.labels, fitted.temperatures(data.test.logits))
chosen = terms.within({low!r}, {high!r})
probe = Plateau.against({start!r}, {stop!r}, {depth!r})
print(nll_derivative(terms, chosen), growth(terms, chosen, probe))
"""
