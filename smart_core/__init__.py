"""Judge and repair a classifier's confidence: SMART, its baselines, and statistics that tell repair from noise.

>>> import smart_core as sc
>>> data = sc.load("sample:digits")   # or a path
>>> ts = sc.TS().fit(data.validation.logits, data.validation.labels)
>>> ts.predict_proba(data.test.logits).shape == data.test.logits.shape
True
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
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


def attach(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names are imported on first use.

    `names` are the public names of each of its modules.

    >>> getattr_, dir_, all_ = attach("smart_core.metrics", {"binned": "ece mce", "proper": "nll"})
    >>> all_, getattr_("mce").__module__
    (['ece', 'mce', 'nll'], 'smart_core.metrics.binned')
    """
    homes = {name: f"{package}.{module}" for module, listed in names.items() for name in listed.split()}

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted(homes), sorted(homes)


_own, _names, _ = attach(
    __name__,
    {
        "data.document": "load",
        "data.lazy.opening": "open",
        "data.logitset": "LogitSet Part Notice",
        "data.simulate": "simulate simulate_set",
        "errors": "SmartError LogitFileError CalibrationError CalibratorFileError CollectError Cancelled",
        "calibrators.chain": "Chain",
        "calibrators.store": "load_calibrator",
        "evaluation": "Evaluation evaluate",
        "data.collecting.collect": "collect",
        "data.collecting.adapters": "from_sklearn from_predictions",
        "analysis.diagnosis": "diagnose",
        "analysis.correlation": "correlate",
        "experiments.compare": "compare",
        "experiments.benchmark": "benchmark",
        "experiments.model_pair": "compare_models",
        "experiments.recommend": "recommend",
        "experiments.reduce": "reduce",
        "experiments.sensitivity": "sensitivity",
        "experiments.ablation": "ablation",
        "experiments.data_efficiency": "data_efficiency",
        "experiments.shift": "shift",
        "experiments.traces": "traces",
        "experiments.runtime": "runtime",
        "attacks": "carlini_wagner_l2",
    },
)
_MODULES = {
    **{
        name: name
        for name in ["analysis", "calibrators", "data", "experiments", "export", "figures", "metrics", "report"]
    },
    "correlation": "analysis.correlation",
    "indicators": "fitting.indicators",
    "objectives": "fitting.objectives",
    "paper": "experiments.paper",
    "profile": "fitting.profile",
}


def __getattr__(name: str) -> Any:
    """Import on first use."""
    if name == "__all__":
        return __dir__()
    if name in _MODULES:
        value = import_module(f"{__name__}.{_MODULES[name]}")
    else:
        value = _methods()[name] if name[:1].isupper() and name in _methods() else _own(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_names(), *_MODULES, *_methods(), "__version__"])


def _methods() -> dict[str, Any]:
    """The classes of the registry by name: `TS`, `SMART` and all others."""
    from smart_core.calibrators import methods

    return {method.__name__: method for method in methods().values()}
