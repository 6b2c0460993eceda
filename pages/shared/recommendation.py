"""The card that names the method to deploy, the same on every page."""

from __future__ import annotations

import streamlit as st

from pages.shared import leaderboard, navigation, session
from pages.shared.glossary import note
from smart_core import LogitSet
from smart_core.calibrators import method_named
from smart_core.evaluation import METRICS, metric_value
from smart_core.experiments import Comparison, MethodResult
from smart_core.experiments.recommend import Recommendation


def current(data: LogitSet) -> Comparison | None:
    """Return the ranking of the data set's fresh rows; None while nothing is fitted or a job is running."""
    if leaderboard.active_job(data) is not None:
        return None
    bins = session.bins()
    fresh = leaderboard.fresh(data, seeds=st.session_state.get(session.SEEDS), bins=bins)
    return leaderboard.ranking(data, fresh, session.metric(), bins) if fresh else None


def row(ranking: Comparison | None) -> MethodResult | None:
    """Return the row of the recommended method; None if there is no choice, or the model is best left as it is."""
    chosen = None if ranking is None or len(ranking.available) < 2 else ranking.recommended
    return None if ranking is None or chosen is None or chosen.method == "vanilla" else ranking.results[chosen.method]


def draw(ranking: Comparison) -> bool:
    """Draw the card, with a button to Export; return False if there is no choice to recommend from."""
    chosen = ranking.recommended
    if chosen is None or len(ranking.available) < 2:
        return False
    with st.container(border=True, key="recommendation"):
        st.markdown(f"#### {chosen.title}")
        note(method_named(chosen.method).summary)
        if chosen.method == "vanilla":
            st.markdown(chosen.gain)
        else:
            _numbers(ranking, chosen)
        st.markdown(" ".join(part for part in (chosen.choice, chosen.cost) if part))
        if chosen.alternative:
            st.info(chosen.alternative)
        if chosen.warning:
            st.caption(chosen.warning)
        if chosen.method in ranking.results and st.button("Export it", key="recommendation-export"):
            navigation.go("pages/export.py")
    return True


def brief(ranking: Comparison | None) -> None:
    """Name the method to deploy, and say what it changes and costs; the card on Compare says why."""
    chosen = None if ranking is None or len(ranking.available) < 2 else ranking.recommended
    if chosen is not None:
        st.markdown(" ".join(part for part in (f"**{chosen.title}**.", chosen.gain, chosen.cost) if part))


def _numbers(ranking: Comparison, chosen: Recommendation) -> None:
    """Show the recommended method's figures, each with the model's; green and red only beyond noise."""
    before, after = ranking.results.get("vanilla"), ranking.results[chosen.method]
    against = ranking.against_model(chosen.method)
    with st.container(horizontal=True):
        for name in dict.fromkeys((chosen.metric, "nll", "brier", "accuracy")):
            color = "green" if name in against.better else "red" if name in against.worse else "gray"
            delta, arrow = None, "off"
            if before is not None:
                change = after.mean(name) - before.mean(name)
                delta = f"from {metric_value(name, before.mean(name))}" if change else "unchanged"
                arrow = "up" if change > 0 else "down" if change < 0 else "off"
            value = metric_value(name, after.mean(name))
            st.metric(METRICS[name].label, value, delta, color, delta_arrow=arrow, width=150)  # type: ignore[arg-type]
