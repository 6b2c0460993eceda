"""Evaluations with known numbers, and functions that read a figure."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from smart_core.evaluation import Evaluation

NASTY = '<b>bold</b> & "quoted" %{x} $a^2$'
"""What a class, group or file may be called."""

SHOWN = {"name", "hovertemplate", "text", "ticktext", "customdata"}
"""Keys of a figure whose strings are drawn."""


def evaluation_of(confidence: ArrayLike, correct: ArrayLike, margin: ArrayLike | None = None) -> Evaluation:
    """An evaluation of given vectors; what the figures do not read is zero."""
    p, a = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=bool)
    m = np.zeros(p.size) if margin is None else np.asarray(margin)
    nothing = np.zeros(p.size)
    return Evaluation(p, np.zeros(p.size, dtype=np.int64), a, nothing, nothing, m)


def too_sure(n: int = 3000, seed: int = 0) -> Evaluation:
    """Margins from 0 to about 15; the less the margin, the more too confident."""
    rng = np.random.default_rng(seed)
    margin = rng.gamma(2.0, 2.0, n)
    confidence = 1 / (1 + np.exp(-margin))
    return evaluation_of(confidence, rng.random(n) < np.where(margin < 3, confidence - 0.2, confidence), margin)


def named(figure: go.Figure, name: str) -> list[Any]:
    """The traces of a name."""
    return [trace for trace in figure.data if trace.name == name]


def texts(figure: go.Figure) -> str:
    """Everything the reader sees written: names, hovers, labels, ticks and notes; fails on what is not JSON."""

    def written(node: Any, key: str = "") -> list[str]:
        if isinstance(node, dict):
            return [line for name, item in node.items() for line in written(item, name)]
        if isinstance(node, list):
            return [line for item in node for line in written(item, key)]
        return [node] if isinstance(node, str) and key in SHOWN else []

    return "\n".join(written(json.loads(figure.to_json())))
