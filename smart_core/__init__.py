"""Judge and repair a classifier's confidence: SMART, its baselines, and statistics that tell repair from noise.

>>> import smart_core as sc
>>> data = sc.load("sample:digits")   # or a path
>>> ts = sc.TS().fit(data.validation.logits, data.validation.labels)
>>> ts.predict_proba(data.test.logits).shape == data.test.logits.shape
True
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

SLEEPING_THREADS = {
    "OMP_WAIT_POLICY": "passive",
    "GOMP_SPINCOUNT": "0",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_THREAD_TIMEOUT": "4",
}
"""Environment in which the threads of OpenMP and OpenBLAS sleep while they wait for each other.

By default they spin, which takes the core from the very thread that they wait for as soon as other processes are busy.
The libraries read these variables when they are loaded, so they are set before PyTorch and NumPy are imported."""

for _name, _value in SLEEPING_THREADS.items():
    os.environ.setdefault(_name, _value)

_HOMES = {
    "load": "smart_core.data.document",
    "LogitSet": "smart_core.data.logitset",
    "Part": "smart_core.data.logitset",
    "Notice": "smart_core.data.logitset",
    "simulate": "smart_core.data.simulate",
    "simulate_set": "smart_core.data.simulate",
    "SmartError": "smart_core.errors",
    "LogitFileError": "smart_core.errors",
    "CalibrationError": "smart_core.errors",
    "CalibratorFileError": "smart_core.errors",
    "Cancelled": "smart_core.errors",
    "load_calibrator": "smart_core.calibrators.store",
    "Evaluation": "smart_core.evaluation",
    "evaluate": "smart_core.evaluation",
    "diagnose": "smart_core.analysis.diagnosis",
    "compare": "smart_core.experiments.compare",
    "benchmark": "smart_core.experiments.benchmark",
    "recommend": "smart_core.experiments.recommend",
    "sensitivity": "smart_core.experiments.sensitivity",
    "ablation": "smart_core.experiments.ablation",
    "data_efficiency": "smart_core.experiments.data_efficiency",
    "shift": "smart_core.experiments.shift",
    "traces": "smart_core.experiments.traces",
    "runtime": "smart_core.experiments.runtime",
    "correlate": "smart_core.analysis.correlation",
    "carlini_wagner_l2": "smart_core.attacks",
}
_MODULES = {
    "analysis": "smart_core.analysis",
    "calibrators": "smart_core.calibrators",
    "correlation": "smart_core.analysis.correlation",
    "data": "smart_core.data",
    "experiments": "smart_core.experiments",
    "export": "smart_core.export",
    "figures": "smart_core.figures",
    "indicators": "smart_core.fitting.indicators",
    "metrics": "smart_core.metrics",
    "objectives": "smart_core.fitting.objectives",
    "paper": "smart_core.experiments.paper",
    "profile": "smart_core.fitting.profile",
    "report": "smart_core.report",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import smart_core` stays fast, and the command line's help faster still."""
    if name == "__all__":
        return __dir__()
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    elif name[:1].isupper() and name in _methods():
        value = _methods()[name]
    else:
        raise AttributeError(f"module 'smart_core' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOMES, *_MODULES, *_methods(), "__version__"])


def _methods() -> dict[str, Any]:
    """The classes of the registry by name: `TS`, `SMART` and all others."""
    from smart_core.calibrators import methods

    return {method.__name__: method for method in methods().values()}
