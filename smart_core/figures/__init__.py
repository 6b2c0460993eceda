"""Results drawn as plotly figures: pure functions used by pages, reports and notebooks alike.

Each returns a `Chart`: the figure, its words, and the numbers it draws. A module is loaded when one of its names is
first used.
"""

from smart_core import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "chart": "Chart",
        "theme": "palette Style style template",
        "reliability": "Curve reliability_diagram smooth_reliability",
        "histogram": "confidence_histogram margin_histogram",
        "leaderboard": "leaderboard_plot row_images",
        "margin_groups": "margin_group_grid gap_heatmap",
        "confidence_change": "confidence_change_plot",
        "probability_interval": "probability_interval_plot",
        "temperature": "temperature_chart",
        "hardness": "hardness_scatter",
        "seed_tables": "sensitivity_heatmap seed_table_heatmap shift_heatmap",
        "efficiency": "efficiency_curves",
        "training": "divergence_chart gradient_chart",
        "shift": "reduction_dots",
        "slices": "slice_dots",
        "benchmark": "benchmark_matrix critical_difference_diagram property_scatter win_matrix",
    },
)
