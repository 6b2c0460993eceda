"""Structured matrix scaling (Berta, Holzmueller, Jordan & Bach, 2026)."""

from __future__ import annotations

from dataclasses import dataclass

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.structured import StructuredScaling, strength


@dataclass(kw_only=True, eq=False)
class SMS(StructuredScaling):
    """`q = softmax(V x + b)`, x the tempered log-probabilities, with ridge penalties.

    `x = log((1 - u) softmax(z / T) + u / K)` with `u = 1 / (N + 1)`. The penalties are `K / N` times the sums of
    squares of b and of `diag V - 1`, and `K (K - 1) / N` times that of V off its diagonal. No departure from the
    authors' package `probmetrics`, which finds the same minimum by another optimiser.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.SMS().fit(data.logits, data.labels).parameters  # T, 10 x 10 weights, ten biases
    111
    """

    id = "sms"
    label = "SMS"
    summary = "A penalised K x K map of the log-probabilities, after temperature scaling."
    position = 18
    style = LineStyle("#9A5B13", "7px,2px,2px,2px", "triangle-right")

    lambda_off_diagonal: float = strength("V off its diagonal")
