"""Calibration metrics as plain functions of NumPy or torch arrays; every convention is stated once, in its
docstring.

Point values live in this package's own modules; intervals, floors and paired tests are loaded when first
asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from smart_core.metrics.arrays import top_label
from smart_core.metrics.binned import adaece, ece, ece_l2, ece_l2_debiased, mce
from smart_core.metrics.binning import Reliability, bin_edges, bin_index, reliability
from smart_core.metrics.classwise import ClasswiseHistogram, classwise_ece
from smart_core.metrics.proper import accuracy, brier, nll
from smart_core.metrics.selective import aurc, e_aurc, risk_coverage
from smart_core.metrics.smooth_calibration import (
    Witness,
    residual_mass,
    smce,
    smce_batch,
    smce_from_residuals,
    smce_witness,
)
from smart_core.metrics.smooth_ece import SmoothReliability, smece, smooth_reliability
from smart_core.metrics.surrogate import (
    b_lambda,
    b_lambda_bound,
    charbonnier_soft_ece,
    eps_agg,
    h_continuous,
    soft_ece,
)

_LATER = {
    "Interval": "intervals",
    "interval": "intervals",
    "Floor": "floor",
    "noise_floor": "floor",
    "floor_pvalue": "floor",
    "is_beyond_noise": "floor",
    "bootstrap_reliability_band": "bootstrap",
    "Difference": "difference",
    "paired_difference": "difference",
    "compare_all": "paired",
    "holm": "paired",
}

__all__ = [
    "ClasswiseHistogram",
    "Reliability",
    "SmoothReliability",
    "Witness",
    "accuracy",
    "adaece",
    "aurc",
    "b_lambda",
    "b_lambda_bound",
    "bin_edges",
    "bin_index",
    "brier",
    "charbonnier_soft_ece",
    "classwise_ece",
    "e_aurc",
    "ece",
    "ece_l2",
    "ece_l2_debiased",
    "eps_agg",
    "h_continuous",
    "mce",
    "nll",
    "reliability",
    "residual_mass",
    "risk_coverage",
    "smce",
    "smce_batch",
    "smce_from_residuals",
    "smce_witness",
    "smece",
    "smooth_reliability",
    "soft_ece",
    "top_label",
    *_LATER,
]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
