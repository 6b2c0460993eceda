"""The interval of one calibration error, by testing candidate values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.arrays import Values, confidence_and_correct
from smart_core.metrics.binning import check_bins
from smart_core.metrics.cells import correlated_normals, joint_covariance
from smart_core.metrics.inversion import REACH, Candidates, inverted, judged, one_sided_at_zero
from smart_core.metrics.top_label_errors import DRAWS, KINDS, Errors

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

_INWARD, _OUTWARD = 8, 3


def error_interval(
    metric: str, confidence: Values, correct: Values, bins: int, level: float, seed: int, draws: int | None
) -> tuple[float, float]:
    """Interval of the population value of ece, adaece, smce or smece."""
    check_bins(bins)
    errors = KINDS[metric](*confidence_and_correct(confidence, correct), bins)
    covariance = joint_covariance([errors.sums])
    noise = errors.sd * correlated_normals(covariance, draws or DRAWS[metric], np.random.default_rng(seed))
    observed = errors.observed

    def judge(places: Vector) -> Candidates:
        mu = errors.shrunk(-places)
        return judged(errors.population(mu), _statistics(errors, mu, noise), observed)

    inward = np.linspace(-errors.clear, 0, _INWARD)
    outward = np.linspace(0, REACH, _OUTWARD + 1)[1:]
    return inverted(judge, np.concatenate([inward, outward]), one_sided_at_zero(level))


def _statistics(errors: Errors, mu: Matrix, noise: Matrix) -> Matrix:
    """T (L, R) of the noise around each candidate."""
    rows = (mu[:, None, :] + noise).reshape(-1, noise.shape[1])
    return errors.statistic(rows).reshape(len(mu), len(noise))
