"""Platt scaling (Platt, 1999) of the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.logistic import LEAST_COMPLEMENT, SLOPE_LIMIT, log_odds, logistic_coefficients, one_outcome
from smart_core.calibrators.rules import between
from smart_core.calibrators.toplabel import TopLabelCalibrator
from smart_core.device import precise
from smart_core.progress import Run
from smart_core.types import FloatArray


@dataclass(kw_only=True, eq=False)
class Platt(TopLabelCalibrator):
    """`c(s) = sigmoid(a log(s / (1 - s)) + b)`, a and b of least NLL of the hits.

    Departure: the original maps the score of a two-class support vector machine and shrinks the targets from 0 and 1
    towards the prior; this maps the log-odds of the top-1 confidence to plain hits, as Kumar, Liang and Ma (2019) do,
    and the other classes share the rest.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.Platt().fit(data.logits, data.labels).coefficients_.shape
    torch.Size([2])
    """

    id = "platt"
    label = "Platt"
    summary = "A logistic function of the top-1 log-odds, with a slope and an intercept."
    position = 19
    style = LineStyle("#B5651D", "6px,2px", "bowtie")
    shapes = (("coefficients_", (2,)),)
    rules = (("coefficients_", between(-SLOPE_LIMIT - 1, SLOPE_LIMIT + 1)),)
    libraries = ("scipy.optimize",)
    parameters = 2
    numpy_map = f"platt_map(u, COEFFICIENTS, {LEAST_COMPLEMENT})"

    def _fit_map(self, u: FloatArray, hits: FloatArray, run: Run) -> None:
        self.notices_ += one_outcome(hits)
        self.coefficients_ = self._store(platt_coefficients(u, hits, run))

    def _map(self, u: Tensor) -> Tensor:
        slope, intercept = precise(self.coefficients_).unbind()
        return torch.sigmoid(slope * log_odds(precise(u)) + intercept)


def platt_coefficients(u: FloatArray, hits: FloatArray, run: Run) -> FloatArray:
    features = log_odds(torch.from_numpy(u)).numpy()[:, None]
    return logistic_coefficients(features, hits, run, least_slope=-SLOPE_LIMIT)
