"""The view of NLL against calibration: what sharpening one margin slice does to each of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import streamlit as st

from pages.shared import cache, charts
from pages.shared.theory import two_slice as condition
from pages.shared.theory.fits import local_terms_of, temperature_maps
from pages.shared.theory.symbols import meaning
from smart_core import LogitSet
from smart_core.figures.theme import style
from smart_core.figures.theory_probe import path_chart, slice_chart
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
from smart_core.theory.two_slice import FoundSlice, find_conflict, two_slice, underconfident_range

DEPTHS = (0.02, 0.05, 0.1, 0.2, 0.3)
MAX_MARGIN = 1e6
"""Upper end of the slider; larger margins belong to the last slice."""
CLEAR = 2.0
"""A value is clearly nonzero if it exceeds this many standard errors."""


@st.cache_resource(max_entries=16, show_spinner="Searching", scope="session")
def search_conflict(content_hash: str, fit: str, _terms: LocalTerms) -> FoundSlice | None:
    """Find the slice with the clearest conflict on validation."""
    return find_conflict(_terms)


@st.cache_resource(max_entries=32, show_spinner="Computing the path", scope="session")
def path_of(
    content_hash: str, fit: str, low: float, high: float, probe: Plateau, _data: LogitSet, _t: Any, _chosen: Any
) -> ScalingPath:
    """Compute NLL, witness and smCE while the slice is scaled."""
    return scaling_path(_data.test.logits, _data.test.labels, _t, _chosen, probe)


def effect(estimate: Estimate, what: str) -> str:
    """Say in which direction a derivative points, if that is clear."""
    if not is_clear(estimate):
        return f"has no clear effect on {what}"
    return f"lowers {what}" if estimate.value < 0 else f"raises {what}"


def is_clear(estimate: Estimate) -> bool:
    """Return whether an estimate differs from 0 beyond noise."""
    return abs(estimate.value) > CLEAR * estimate.error


def in_conflict(loss: Estimate, rise: Estimate, base: Estimate) -> bool:
    """Return whether NLL falls and the nonzero witness rises, all beyond noise."""
    return is_clear(base) and is_clear(loss) and loss.value < 0 and is_clear(rise) and rise.value > 0


def direction_verdict(low: float, high: float, loss: Estimate, rise: Estimate, base: Estimate) -> str:
    """Say what sharpening the slice does to NLL and witness. The sign of a witness within noise of 0 is unknown."""
    start = f"Sharpening margins {low:.2f} to {high:.2f} {effect(loss, 'the NLL')}"
    if not is_clear(base):
        return f"{start}; the witness itself cannot be distinguished from 0."
    return f"{start} {'but' if in_conflict(loss, rise, base) else 'and'} {effect(rise, 'the witness')}."


def search_verdict(found: FoundSlice | None, terms: LocalTerms) -> str:
    """Say what the search found on validation, and whether test confirms it."""
    if found is None:
        return "There are too few correct or too few wrong predictions on validation for a search."
    if not found.conflict:
        return "On validation, no slice was found whose sharpening lowers NLL and raises a witness."
    chosen = terms.within(found.low, found.high)
    loss, rise = nll_derivative(terms, chosen), growth(terms, chosen, found.probe)
    what = (
        f"The clearest conflict on validation is at margins {found.low:.2f} to {found.high:.2f} with a probe of "
        f"confidences {found.probe.low:.2f} to {found.probe.high:.2f} ({found.score:.1f} standard errors)."
    )
    if in_conflict(loss, rise, witness(terms, found.probe)):
        return f"{what} Test confirms it: NLL falls and the witness rises, both beyond noise."
    return f"{what} Test does not confirm it: the best of many slices may be best by chance."


def boxed_slice(boxes: list[Any], largest: float) -> tuple[float, float] | None:
    """Return the margins that the last box on the chart spans, within the slider's range; None without a box."""
    if not boxes:
        return None
    low, high = (min(max(round(float(end), 2), 0.0), largest) for end in sorted(boxes[-1]["x"]))
    return (low, high) if low < high else None


def view(data: LogitSet, look: dict[str, Any]) -> str:
    """Draw the view and return its Python code."""
    st.markdown(
        "Dividing the temperatures of one margin slice by s sharpens it. The derivatives at s = 1 show its effect on "
        "the NLL and on a calibration witness: the mean of (a − p) ψ(p) for a probe ψ of one confidence range, whose "
        "absolute value is a lower bound of smCE."
    )
    maps = temperature_maps(data)
    fit = st.selectbox(
        "Temperatures of",
        list(maps),
        format_func=lambda id: style(id).label,
        key="theory-map",
        width=220,
        help="The temperatures that are perturbed. Temperature methods that you fit on Compare appear here too.",
    )
    name = cache.fit_id(maps[fit])
    terms, t = local_terms_of(data, "test", maps[fit])
    validation, _ = local_terms_of(data, "validation", maps[fit])
    largest = math.ceil(min(float(max(terms.margin.max(), validation.margin.max())), MAX_MARGIN) * 10) / 10 or 0.1
    keys = {part: f"theory-{part}-{data.content_hash[:8]}" for part in ("slice", "range", "found")}
    middle = [min(round(float(end), 1), largest - 0.1) for end in np.quantile(terms.margin, [0.05, 0.35])]

    def search() -> None:
        found = search_conflict(data.content_hash, name, validation)
        st.session_state[keys["found"]] = (fit, search_verdict(found, terms))
        if found is not None:
            st.session_state[keys["slice"]] = (min(found.low, largest), min(found.high, largest))
            st.session_state[keys["range"]] = (found.probe.low, found.probe.high)
            st.session_state["theory-depth"] = abs(found.probe.height)

    def use_box() -> None:
        chosen = boxed_slice(st.session_state["slice"].selection.box, largest)
        if chosen is not None:
            st.session_state[keys["slice"]] = chosen

    kept: dict[str, Any] = {"persist_state": "session"}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        ends = (middle[0], max(middle[1], middle[0] + 0.1))
        low, high = st.slider("Margin slice", 0.0, largest, ends, 0.01, key=keys["slice"], width=320, **kept)
        start, stop = st.slider(
            "Confidence range of the probe", 0.0, 1.0, (0.6, 0.8), 0.01, key=keys["range"], width=320, **kept
        )
        depth = st.select_slider(
            "Depth c", DEPTHS, 0.1, key="theory-depth", width=180, help="ψ = −c on the range.", **kept
        )
        st.button("Search for a slice", type="primary", key="search-slice", shortcut="Ctrl+Enter", on_click=search)
    searched_fit, verdict = st.session_state.get(keys["found"], (None, ""))
    if searched_fit == fit:
        st.info(verdict)
    chosen, probe = terms.within(low, high), Plateau.against(start, stop, depth)
    if not chosen.any():
        st.info("No test sample has such a margin. Move the slice.")
        return ""
    loss, rise, base = nll_derivative(terms, chosen), growth(terms, chosen, probe), witness(terms, probe)
    terms_help = meaning("s", "C", "ψ", "c", "a", "p")
    st.markdown(f"##### {direction_verdict(low, high, loss, rise, base)}", help=terms_help)
    left, right = st.columns(2)
    with left:
        st.markdown("**Contribution of each margin.** Drag across the chart to choose the slice.")
        charts.show(slice_chart(terms, low, high, probe, **look), "slice", on_select=use_box, selection_mode="box")
    with right:
        st.markdown("**All test samples while the slice is scaled**")
        path = path_of(data.content_hash, name, low, high, probe, data, t, chosen)
        charts.show(path_chart(path, loss.value, rise.value, **look), "path")
    st.caption(
        f"dNLL/ds = {loss}, d|witness|/ds = {rise} (± one standard error). The witness is {base}; "
        f"{int(chosen.sum()):,} of {len(terms):,} test samples are in the slice. The paper's statement is about NLL "
        "and the witness. smCE, the largest witness, is drawn beside them."
    )
    condition.draw(two_slice(terms, chosen, underconfident_range(terms, chosen, (start, stop)), probe))
    return f"""
from smart_core.theory.nll_probe import Plateau, growth, local_terms, nll_derivative

fitted = sc.calibrators.get("{fit}").fit(data.validation.logits, data.validation.labels)
terms = local_terms(data.test.logits, data.test.labels, fitted.temperatures(data.test.logits))
chosen = terms.within({low!r}, {high!r})
probe = Plateau.against({start!r}, {stop!r}, {depth!r})
print(nll_derivative(terms, chosen), growth(terms, chosen, probe))
"""
