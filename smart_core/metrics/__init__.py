"""Calibration metrics as plain functions of NumPy or torch arrays; each docstring states its convention.

This package's own modules hold point values and the bands of reliability diagrams. Noise floors, intervals, paired
differences and ties are in `uncertainty`, which is imported on first use because it needs SciPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from smart_core.metrics.arrays import Samples, top_label
from smart_core.metrics.bands import bootstrap_reliability_band
from smart_core.metrics.binned import adaece, ece, ece_l2, ece_l2_debiased, mce
from smart_core.metrics.binning import Reliability, bin_edges, bin_index, reliability
from smart_core.metrics.classwise import ClasswiseCells, ClasswiseHistogram, classwise_cells, classwise_ece
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
from smart_core.metrics.surrogate import b_lambda, b_lambda_bound, charbonnier_soft_ece, eps_agg, h_continuous, soft_ece

if TYPE_CHECKING:
    from smart_core.metrics.uncertainty import (
        Difference,
        Floor,
        Interval,
        compare_all,
        holm,
        interval,
        noise_floor,
        paired_difference,
    )

__all__ = [
    "ClasswiseCells",
    "ClasswiseHistogram",
    "Difference",
    "Floor",
    "Interval",
    "Reliability",
    "Samples",
    "SmoothReliability",
    "Witness",
    "accuracy",
    "adaece",
    "aurc",
    "b_lambda",
    "b_lambda_bound",
    "bin_edges",
    "bin_index",
    "bootstrap_reliability_band",
    "brier",
    "charbonnier_soft_ece",
    "classwise_cells",
    "classwise_ece",
    "compare_all",
    "e_aurc",
    "ece",
    "ece_l2",
    "ece_l2_debiased",
    "eps_agg",
    "h_continuous",
    "holm",
    "interval",
    "mce",
    "nll",
    "noise_floor",
    "paired_difference",
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
]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"{__name__}.uncertainty"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
