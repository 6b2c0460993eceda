"""Which method of a comparison to deploy, by one rule.

1. A method is out if its NLL or Brier score is worse than the model's own, or its accuracy lower, beyond noise (paired
   test on the same samples, 95%); it is also out if it improves nothing beyond noise.
2. Of the others, those remain whose calibration error the paired test cannot tell from the lowest.
3. Of those that keep every prediction, those remain whose NLL and Brier score the test cannot tell from the lowest; a
   difference below 0.5% of the score decides nothing. The one with the fewest parameters is recommended.
4. One of step 2 that may change predictions takes its place if it has a higher accuracy, a lower NLL and a lower Brier
   score than it, all beyond noise, or if no method that keeps predictions is left.

The model itself takes part as a method without parameters, until one that keeps predictions improves it beyond noise.
A method that raises the accuracy beyond noise is always named, recommended or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from smart_core.calibrators import method_named
from smart_core.evaluation import CALIBRATION_ERRORS, METRICS, Evaluation, metric_value
from smart_core.formatting import duration, join_words, percent, plural
from smart_core.metrics.uncertainty import compare_all, paired_difference

if TYPE_CHECKING:
    from smart_core.experiments.compare import Comparison
    from smart_core.experiments.method_result import MethodResult

PROPER_SCORES = ("nll", "brier")
DECISIVE = 0.005
"""Share of a proper score below which a difference, even if beyond noise, is not worth more parameters."""


@dataclass(frozen=True)
class AgainstModel:
    """How a method differs from the uncalibrated model, beyond noise, on the same test samples."""

    worse: tuple[str, ...] = ()
    """Of NLL, Brier score and accuracy, those that are worse."""
    better: tuple[str, ...] = ()
    """Those that are better, and the calibration error if it is lower."""

    @property
    def warning(self) -> str:
        """`worse NLL and Brier than the model`; empty if nothing is worse."""
        return f"worse {join_words([METRICS[name].label for name in self.worse])} than the model" if self.worse else ""


@dataclass(frozen=True)
class Recommendation:
    """The method to deploy, and why."""

    method: str
    metric: str
    """The calibration error that decided."""
    gain: str
    """Its effect: calibration error and NLL before and after."""
    choice: str
    """Why this method and not another; empty where there is no other."""
    cost: str
    """Parameters, time of the fit, and whether predictions change."""
    alternative: str
    """Another method that raises the accuracy, or has a lower NLL but may change predictions; empty if none does."""
    warning: str
    """Methods that worsen the model's NLL or Brier score; empty if none does."""
    against_model: Mapping[str, AgainstModel] = field(default_factory=dict)
    """Every method that has values, against the uncalibrated model."""

    @property
    def reason(self) -> str:
        """All of it in a few sentences."""
        parts = self.gain, self.choice, self.cost, self.alternative, self.warning
        return " ".join(part for part in parts if part)

    @property
    def label(self) -> str:
        return method_named(self.method).label

    @property
    def title(self) -> str:
        """`Recommended: TS`, or that the model is best left as it is."""
        return "Keep the uncalibrated model" if self.method == "vanilla" else f"Recommended: {self.label}"


def recommend(comparison: Comparison) -> Recommendation:
    """Recommend the method to deploy; see the rule at the top of this module.

    The calibration error is the comparison's primary metric, or the ECE if the primary metric is not one.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(1000, 2000, 5, seed=0)
    >>> sc.recommend(sc.compare(data, "vanilla,ts,histogram", seeds=1)).method
    'ts'
    """
    from smart_core.experiments.method_result import evaluate_method

    bins = comparison.bins
    metric = comparison.metric if comparison.metric in CALIBRATION_ERRORS else "ece"
    rows = {id: row for id, row in comparison.available.items() if row.evaluations and math.isfinite(row.mean(metric))}
    model = rows.get("vanilla") or comparison.model or evaluate_method("vanilla", comparison.data, 1, bins=bins)
    rows = {"vanilla": model, **rows}
    if metric == "cece" and any(row.typical(metric).cells is None for row in rows.values()):
        metric = "ece"
    return _Choice(rows, metric, bins).recommendation()


@dataclass(frozen=True, eq=False)
class _Choice:
    """The steps of the rule."""

    rows: Mapping[str, MethodResult]
    metric: str
    bins: int

    @cached_property
    def typical(self) -> dict[str, Evaluation]:
        return {id: row.typical(self.metric) for id, row in self.rows.items()}

    @cached_property
    def against(self) -> dict[str, AgainstModel]:
        """Every method against the model; a worse calibration error is left to step 2."""
        found = {}
        for id in self.rows:
            if id != "vanilla":
                scores = {name: self.beats(id, "vanilla", name) for name in (*PROPER_SCORES, "accuracy", self.metric)}
                worse = (name for name, sign in scores.items() if sign < 0 and name != self.metric)
                found[id] = AgainstModel(tuple(worse), tuple(name for name, sign in scores.items() if sign > 0))
        return found

    def beats(self, a: str, b: str, metric: str) -> int:
        """1 if a is better than b by a metric beyond noise, -1 if it is worse, else 0."""
        found = paired_difference(metric, self.typical[a], self.typical[b], bins=self.bins)
        sign = 1 if METRICS[metric].higher_is_better else -1
        return sign if found.low > 0 else -sign if found.high < 0 else 0

    @cached_property
    def eligible(self) -> list[str]:
        """Step 1, with the model itself."""
        return ["vanilla", *(id for id, found in self.against.items() if found.better and not found.worse)]

    @cached_property
    def calibrated(self) -> list[str]:
        """Step 2; without the model if a method that keeps predictions improves it."""
        tied = [id for id in self.eligible if self.ties(self.eligible, self.metric)[id]]
        improved = any(self.rows[id].keeps_top1 for id in tied if id != "vanilla")
        return [id for id in tied if id != "vanilla" or not improved]

    def ties(self, ids: Sequence[str], metric: str) -> Mapping[str, bool]:
        """Which methods the test cannot tell from the best of them."""
        best = min(ids, key=lambda id: METRICS[metric].sort_key(self.rows[id].mean(metric)))
        return compare_all(metric, {id: self.typical[id] for id in ids}, bins=self.bins, best=best).tied_with_best

    def not_beaten(self, ids: Sequence[str]) -> list[str]:
        """Step 3: those tied with the lowest NLL and the lowest Brier score; where none is both, the NLL decides."""
        kept = {}
        for score in PROPER_SCORES:
            tied, lowest = self.ties(ids, score), min(np.mean(getattr(self.typical[id], score)) for id in ids)
            near = lowest + DECISIVE * abs(lowest)
            kept[score] = [id for id in ids if tied[id] or np.mean(getattr(self.typical[id], score)) <= near]
        return [id for id in kept["nll"] if id in kept["brier"]] or kept["nll"]

    def simplest(self, ids: Sequence[str]) -> str:
        return min(ids, key=lambda id: (self.rows[id].parameters, self.rows[id].mean("nll")))

    def recommendation(self) -> Recommendation:
        """Steps 3 and 4, and the explanatory text."""
        keeping = [id for id in self.calibrated if self.rows[id].keeps_top1]
        equals = self.not_beaten(keeping or self.calibrated)
        chosen = first = self.simplest(equals)
        if keeping:
            gains = ("accuracy", *PROPER_SCORES)
            changing = [id for id in self.calibrated if id not in keeping]
            ahead = [id for id in changing if all(self.beats(id, first, name) > 0 for name in gains)]
            if ahead:
                equals = self.not_beaten(ahead)
                chosen = self.simplest(equals)
        instead_of = first if chosen != first else None
        return Recommendation(
            chosen,
            self.metric,
            gain=self.gain(chosen),
            choice=self.choice(chosen, equals, instead_of),
            cost=self.cost(chosen),
            alternative=self.alternative(chosen),
            warning=self.warning(),
            against_model=self.against,
        )

    def value(self, id: str, metric: str) -> str:
        return metric_value(metric, self.rows[id].mean(metric))

    def gain(self, chosen: str) -> str:
        if chosen == "vanilla":
            errors = f"{METRICS[self.metric].label}, NLL or Brier score"
            whose = "method that keeps every prediction" if len(self.eligible) > 1 else "calibrator"
            return f"No {whose} improves the model's {errors} beyond noise. Deploy the model without calibration."
        names = (self.metric, "nll", *(["accuracy"] if "accuracy" in self.against[chosen].better else []))
        changes: dict[str, list[str]] = {}
        for name in names:
            up = self.rows[chosen].mean(name) > self.rows["vanilla"].mean(name)
            change = f"the {_written(name)} from {self.value('vanilla', name)} to {self.value(chosen, name)}"
            changes.setdefault("raises" if up else "lowers", []).append(change)
        return f"{self.rows[chosen].label} {join_words([f'{verb} {join_words(of)}' for verb, of in changes.items()])}."

    def choice(self, chosen: str, equals: Sequence[str], instead_of: str | None) -> str:
        label, parts = METRICS[self.metric].label, []
        if instead_of is not None:
            what = "the uncalibrated model" if instead_of == "vanilla" else self.rows[instead_of].label
            parts.append(
                "It may change predictions, but its accuracy, NLL and Brier score are all better, beyond noise, than "
                f"those of {what}, the best choice that keeps every prediction."
            )
        others = [self.rows[id].label for id in equals if id != chosen]
        rivals = [id for id in self.calibrated if id != chosen]
        if chosen == "vanilla":
            return ""
        if others:
            named = join_words(others) if len(others) < 4 else f"{len(others)} others"
            perform, have = ("performs", "has") if len(others) == 1 else ("perform", "have")
            own = self.rows[chosen].parameters
            larger = all(self.rows[id].parameters > own for id in equals if id != chosen)
            more = f" but {have} more parameters" if larger else ""
            parts.append(f"{named} {perform} equally well within noise{more}.")
        elif rivals and instead_of is None:
            parts.append(f"Of the methods tied by {label}, {self.rows[chosen].label} has the best NLL and Brier score.")
        lowest = min(self.eligible, key=lambda id: self.rows[id].mean(self.metric))
        lower = self.rows[lowest].mean(self.metric) < self.rows[chosen].mean(self.metric)
        if lower and lowest not in (chosen, *equals):
            within = ", a difference within noise" if self.beats(lowest, chosen, self.metric) == 0 else ""
            parts.append(f"{self.rows[lowest].label} has a lower {label}, {self.value(lowest, self.metric)}{within}.")
        return " ".join(parts)

    def cost(self, chosen: str) -> str:
        if chosen == "vanilla":
            return ""
        row = self.rows[chosen]
        changed = float(np.mean(self.typical[chosen].prediction != self.typical["vanilla"].prediction))
        kept = "keeps every prediction" if row.keeps_top1 else f"changes {percent(changed)} of the predictions"
        time = duration(row.fit_seconds) if row.fit_seconds >= 0.1 else f"under {duration(0.1)}"
        return f"{row.label} has {plural(row.parameters, 'parameter')}, fits in {time} and {kept}."

    def alternative(self, chosen: str) -> str:
        label, changing = METRICS[self.metric].label, [id for id in self.eligible if not self.rows[id].keeps_top1]
        raised = [id for id in changing if "accuracy" in self.against[id].better]
        if raised and chosen not in raised:
            best = min(raised, key=lambda id: self.rows[id].mean("nll"))
            change = f"from {self.value('vanilla', 'accuracy')} to {self.value(best, 'accuracy')}"
            error = f"; its {label} is {self.value(best, self.metric)} and its NLL {self.value(best, 'nll')}"
            return (
                f"If changed predictions are acceptable, {self.rows[best].label} raises the accuracy {change}, beyond "
                f"noise{error}."
            )
        lower = [id for id in changing if id != chosen and id in self.calibrated and self.beats(id, chosen, "nll") > 0]
        if not lower:
            return ""
        best = min(lower, key=lambda id: self.rows[id].mean("nll"))
        return (
            f"If changed predictions are acceptable, {self.rows[best].label} has a lower NLL, "
            f"{self.value(best, 'nll')}, beyond noise."
        )

    def warning(self) -> str:
        worse = [self.rows[id].label for id, found in self.against.items() if set(found.worse) & set(PROPER_SCORES)]
        return f"Worse than the model in NLL or Brier score, beyond noise: {join_words(worse)}." if worse else ""


def _written(metric: str) -> str:
    """A metric's name within a sentence."""
    return "accuracy" if metric == "accuracy" else METRICS[metric].label
