"""Results drawn as plotly figures: pure functions used by pages, reports and notebooks alike.

Each returns a `Chart`: the figure, its words, and the numbers it draws. A module is loaded when one of its names is
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "chart": ("Chart",),
    "theme": ("palette", "Style", "style", "template"),
    "reliability": ("Curve", "reliability_diagram", "smooth_reliability"),
    "histogram": ("confidence_histogram", "margin_histogram"),
    "leaderboard": ("leaderboard_plot", "row_images"),
    "margin_groups": ("margin_group_grid", "gap_heatmap"),
    "confidence_change": ("confidence_change_plot",),
    "temperature": ("temperature_chart",),
    "hardness": ("hardness_scatter",),
    "seed_tables": ("sensitivity_heatmap", "seed_table_heatmap", "shift_heatmap"),
    "efficiency": ("efficiency_curves",),
    "training": ("divergence_chart", "gradient_chart"),
    "shift": ("reduction_bars",),
    "benchmark": ("benchmark_matrix", "critical_difference_diagram", "property_scatter", "win_matrix"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
