"""How long fits and evaluations take: seconds predicted for one core of the machine in `benchmarks/RESULTS.md`.

The predictions weigh the parts of a computation, so that its progress runs at an even pace; `estimate.py` makes
estimates of them. How many iterations a fit needs depends on the data, so one fit may take several times as long as
predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from smart_core.calibrators.refined import LEAST_ROWS, MOST_CLASSES_OF_SMS
from smart_core.calibrators.registry import CHAINED
from smart_core.data.logitset import LogitSet

Prediction = Callable[[float, float], float]

FIT: Mapping[str, Prediction] = {
    "ets": lambda n, k: 0.004 + 8e-6 * n + 8e-9 * n * k,
    "vector": lambda n, k: 0.004 + 3.3e-6 * n + 7e-9 * n * k,
    "matrix": lambda n, k: 0.01 + 1.1e-5 * n + 3e-10 * n * k * k,
    "dirichlet": lambda n, k: 0.035 + 1.7e-5 * n + 1e-10 * n * k * k,
    "svs": lambda n, k: 0.004 + 2.5e-6 * n + 1.8e-8 * n * k,
    "sms": lambda n, k: 0.005 + 1.1e-5 * n + 2e-10 * n * k * k,
    "pts": lambda n, k: 0.1 + 4e-5 * n + 8e-8 * n * k,
    "cts": lambda n, k: 0.01 + 1e-6 * n * k,
    "gc": lambda n, k: 0.03 + 7e-5 * n + 1e-7 * n * k,
    "procal": lambda n, k: 0.005 + 3.4e-9 * n * n,
    "fc": lambda n, k: 0.18 + 3e-5 * n + 1.5e-7 * n * k,
    "dac": lambda n, k: 0.005 + 2.5e-9 * n * n + 1.5e-11 * n * n * k,
    "irm": lambda n, k: 0.003 + 2.5e-8 * n * k,
    "logitclip": lambda n, k: 0.003 + 4e-8 * n * k,
    "iop": lambda n, k: 0.015 + 2.1e-5 * n + 2.5e-8 * n * k,
    "refined": lambda n, k: _refined(n, k),
    "bbq": lambda n, k: 0.004 + 9e-6 * n,
    "smart": lambda n, k: 0.02 + 4e-6 * n + 2e-8 * n * k,
}
"""Method -> seconds of a fit on n samples of k classes. The methods that are not listed solve for a few numbers."""


def _refined(n: float, k: float) -> float:
    """Six fits of each candidate, and twelve of SMART; with few rows for each class, six of SMART.

    Five of six are on a part of the rows, and take two thirds of a whole fit.
    """
    if n < LEAST_ROWS * k:
        return 4.0 * FIT["smart"](n, k)
    candidates = ("iop", "svs", "sms") if k <= MOST_CLASSES_OF_SMS else ("iop", "svs")
    return 4.0 * sum(FIT[id](n, k) for id in candidates) + 8.0 * FIT["smart"](n, k)


BATCHED = 0.5
"""A fit of SMART in a batch of many takes this share of a single one."""


def _quick(n: float, k: float) -> float:
    return 0.002 + 5e-9 * n * k


def fit_seconds(id: str, samples: float, classes: float, settings: Mapping[str, Any] | None = None) -> float:
    """Predict the seconds of one fit.

    >>> fit_seconds("ts", 5000, 10) < fit_seconds("cts", 5000, 10) < fit_seconds("cts", 5000, 1000)
    True
    """
    n, k, chosen = samples, classes, settings or {}
    objective = chosen.get("objective")
    # the compiled loops train SMART on one objective and on a single indicator
    if id == "smart" and chosen.get("indicator") == "all_logits":
        return 0.1 + 4e-4 * n + 2e-7 * n * k
    if id == "smart" and objective not in (None, "charbonnier"):
        soft = objective == "softece"
        return (0.1 + 1.6e-4 * n + 5e-7 * n * k) if soft else (0.25 + 1.5e-5 * n + 4e-8 * n * k)
    if id == "ts" and objective not in (None, "nll"):
        soft = objective in ("charbonnier", "softece")
        return 0.005 + (2.8e-5 if soft else 7e-6) * n + 2e-8 * n * k
    slower = 2.0 if id == "pts" and objective in ("charbonnier", "softece") else 1.0
    return slower * sum(FIT.get(part, _quick)(n, k) for part in id.split(CHAINED))


def evaluation_seconds(id: str, data: LogitSet, samples: float | None = None) -> float:
    """Predict the seconds of one evaluation on test, or on that many samples: metrics without their intervals."""
    rows = len(data.test) if samples is None else samples
    neighbours = 5e-9 * rows * len(data.validation) if id in ("dac", "procal") else 0.0
    return 0.002 + 5e-7 * rows + 1.5e-8 * rows * data.classes + neighbours


def interval_seconds(samples: float) -> float:
    """Predict the seconds of the intervals and noise floors of one evaluation."""
    return 0.06 + 4e-6 * samples
