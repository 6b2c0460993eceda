"""Structured vector scaling (Berta, Holzmueller, Jordan & Bach, 2026)."""

from __future__ import annotations

from dataclasses import dataclass

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.structured import StructuredScaling


@dataclass(kw_only=True, eq=False)
class SVS(StructuredScaling):
    """`q = softmax(v * x + b)`, elementwise, x the tempered log-probabilities, with ridge penalties.

    `x = log((1 - u) softmax(z / T) + u / K)` with `u = 1 / (N + 1)`. The penalties on `v - 1` and on b are
    `K / N` times the sums of their squares, so that few samples for each class leave temperature scaling. No departure
    from the authors' package `probmetrics`, which finds the same minimum by another optimiser.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> sc.SVS().fit(data.logits, data.labels).parameters  # T, ten scales, ten biases
    21
    """

    id = "svs"
    label = "SVS"
    summary = "A penalised scale and bias for each class's log-probability, after temperature scaling."
    position = 17
    style = LineStyle("#7B4FB5", "9px,3px", "triangle-left")
    diagonal = True
