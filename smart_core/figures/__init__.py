"""Results drawn as plotly figures: pure functions used by pages, reports and notebooks alike.

Each returns a `Chart`: the figure, its words, and the numbers it draws. A module is loaded when one of its names is
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Chart": "chart",
    "palette": "theme",
    "Style": "theme",
    "style": "theme",
    "template": "theme",
    "Curve": "reliability",
    "reliability_diagram": "reliability",
    "smooth_reliability": "reliability",
    "confidence_histogram": "histogram",
    "margin_histogram": "histogram",
    "leaderboard_plot": "leaderboard",
    "margin_group_grid": "margin_groups",
    "gap_heatmap": "margin_groups",
    "confidence_change_plot": "confidence_change",
    "temperature_chart": "temperature",
    "hardness_scatter": "hardness",
    "sensitivity_heatmap": "seed_tables",
    "seed_table_heatmap": "seed_tables",
    "efficiency_curves": "efficiency",
    "divergence_chart": "training",
    "gradient_chart": "training",
    "reduction_bars": "shift",
    "shift_heatmap": "seed_tables",
}

__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
