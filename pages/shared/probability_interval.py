"""The interval of Venn-Abers, below the leaderboard."""

from __future__ import annotations

import streamlit as st

from pages.shared import cache, charts
from pages.shared.glossary import note
from smart_core import LogitSet
from smart_core.analysis.probability_interval import probability_interval
from smart_core.calibrators.vennabers import VennAbers
from smart_core.experiments import Comparison
from smart_core.figures import probability_interval_plot


def draw(data: LogitSet, ranking: Comparison) -> None:
    """Offer the chart of p0 and p1 over the confidence if Venn-Abers is fitted."""
    row = ranking.available.get(VennAbers.id)
    if row is None or not st.toggle(
        "Show the Venn-Abers interval",
        key="show-interval",
        persist_state="session",
        help="How uncertain the calibrated probability is at each confidence.",
    ):
        return
    (calibrator,) = row.calibrators
    assert isinstance(calibrator, VennAbers)
    found = probability_interval(calibrator, cache.uncalibrated(data).confidence)
    charts.show(probability_interval_plot(found, **charts.look(data)), "probability-interval")
    note(
        "p0 and p1 are what isotonic regression gives if the new sample is counted as incorrect or as correct; one of "
        "the two is calibrated. The band is wide where the validation part has few samples."
    )
