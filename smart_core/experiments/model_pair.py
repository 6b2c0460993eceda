"""Two models on the same test samples: what differs between them, and is the difference real?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from smart_core.data.logitset import LogitSet
from smart_core.errors import CalibrationError
from smart_core.evaluation import HEADLINE, METRICS, Evaluation, evaluate
from smart_core.experiments.results import Result
from smart_core.experiments.running import fit_method
from smart_core.metrics.uncertainty import Difference, paired_difference
from smart_core.types import IntArray


@dataclass(eq=False)
class ModelPair(Result):
    """Two models evaluated on the same samples."""

    names: tuple[str, str]
    method: str
    """The calibrator that each model was given, fitted on its own validation part."""
    evaluations: tuple[Evaluation, Evaluation]
    differences: dict[str, Difference]
    """Metric -> first minus second, with its 95% interval."""

    @property
    def disagreeing(self) -> IntArray:
        """Rows on which the two predict different classes, those with the largest difference in confidence first."""
        first, second = self.evaluations
        rows = np.flatnonzero(first.prediction != second.prediction)
        gap = np.abs(np.asarray(first.confidence[rows], dtype=np.float64) - second.confidence[rows])
        return rows[np.argsort(-gap, kind="stable")]

    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "metric": name,
                self.names[0]: self.evaluations[0].metric(name),
                self.names[1]: self.evaluations[1].metric(name),
                "difference": found.mean,
                "low": found.low,
                "high": found.high,
                "p_value": found.p_value,
            }
            for name, found in self.differences.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "method": self.method,
            "differences": {name: vars(found) for name, found in self.differences.items()},
            "disagreeing": len(self.disagreeing),
        }


def compare_models(first: LogitSet, second: LogitSet, method: str = "vanilla", *, bins: int = 15) -> ModelPair:
    """Evaluate two models on the test samples they share, and test every metric of the leaderboard.

    With `method`, each is calibrated first, on its own validation part.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(1000, 1000, 4, law="constant", seed=0)
    >>> part = sc.Part(data.test.logits * 2, data.test.labels)
    >>> pair = compare_models(data, data.with_parts(test=part))
    >>> bool(pair.differences["nll"].high < 0), len(pair.disagreeing)
    (True, 0)
    """
    if not np.array_equal(first.test.labels, second.test.labels):
        raise CalibrationError(
            f"{first.name} and {second.name} do not have the same test labels, so they cannot be compared sample "
            "by sample; open two models' predictions of the same test set."
        )
    a, b = (evaluate(fit_method(method, data).calibrator, data.test, bins=bins) for data in (first, second))
    names = [name for name in HEADLINE if METRICS[name].known(a) and METRICS[name].known(b)]
    differences = {name: paired_difference(name, a, b, bins=bins) for name in names}
    return ModelPair((first.name, second.name), method, (a, b), differences)
