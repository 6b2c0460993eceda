"""The experiments: each a function from data to a plain result that becomes a DataFrame, JSON and a figure."""

from __future__ import annotations

from smart_core.experiments.ablation import Ablation, ablation
from smart_core.experiments.compare import Comparison, MethodResult, compare
from smart_core.experiments.data_efficiency import data_efficiency
from smart_core.experiments.results import SeedTable
from smart_core.experiments.runtime import Runtime, runtime
from smart_core.experiments.sensitivity import Sensitivity, sensitivity
from smart_core.experiments.shift import Shift, shift
from smart_core.experiments.traces import Traces, traces

__all__ = [
    "Ablation",
    "Comparison",
    "MethodResult",
    "Runtime",
    "SeedTable",
    "Sensitivity",
    "Shift",
    "Traces",
    "ablation",
    "compare",
    "data_efficiency",
    "runtime",
    "sensitivity",
    "shift",
    "traces",
]
