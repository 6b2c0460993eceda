"""Results drawn as plotly figures: pure functions used by pages, reports and notebooks alike.

Each gives a `Chart`: the figure, what it says in words, and the numbers it draws. A module is loaded when a name
of it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Chart": "chart",
    "PALETTE": "theme",
    "Style": "theme",
    "style": "theme",
    "template": "theme",
    "Curve": "reliability",
    "reliability_diagram": "reliability",
    "smooth_reliability": "smooth",
    "confidence_histogram": "histogram",
    "margin_histogram": "histogram",
    "leaderboard_plot": "intervals_plot",
    "margin_group_grid": "margin_groups",
    "gap_heatmap": "gap_map",
    "confidence_change_plot": "change_plot",
    "temperature_chart": "temperature",
    "hardness_scatter": "hardness",
    "sensitivity_heatmap": "sensitivity",
    "seed_table_heatmap": "seed_tables",
    "efficiency_curves": "seed_tables",
    "divergence_chart": "traces_plot",
    "gradient_chart": "traces_plot",
    "reduction_bars": "shift_plot",
    "shift_heatmap": "shift_plot",
}

__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
