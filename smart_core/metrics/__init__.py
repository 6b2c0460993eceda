"""Calibration metrics as plain functions of NumPy or torch arrays; each docstring states its convention.

This package's own modules hold point values and the bands of reliability diagrams. Noise floors, intervals, paired
differences and ties are in `uncertainty`. A module is loaded when one of its names is first used: SciPy is slow to
import.
"""

from smart_core import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "arrays": "Samples top_label",
        "bands": "bootstrap_reliability_band",
        "binned": "adaece ece ece_l2 ece_l2_debiased ece_sweep mce over_confidence under_confidence",
        "binning": "Reliability bin_edges bin_index reliability",
        "classwise": "ClasswiseCells ClasswiseHistogram classwise_ece",
        "cumulative": "cumulative_gap ks kuiper",
        "decomposition": "Parts log_loss_parts squared_error_parts",
        "kernel_ece": "kde_ece",
        "proper": "accuracy brier improvement nll",
        "selective": "aurc auroc e_aurc risk_coverage",
        "smooth_calibration": "residual_mass smce smce_batch smce_from_residuals",
        "smooth_ece": "SmoothReliability smece smooth_reliability",
        "surrogate": "b_lambda b_lambda_bound charbonnier_soft_ece eps_agg h_continuous",
        "uncertainty": "Difference Floor Interval compare_all holm interval noise_floor paired_difference",
    },
)
