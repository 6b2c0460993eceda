"""Judgements in a sentence: is the model's confidence off, and which repair is real?"""

from __future__ import annotations

from smart_core.calibrators import methods
from smart_core.evaluation import METRICS
from smart_core.experiments.compare import Comparison
from smart_core.formatting import join_words, metric_value, percent, plural
from smart_core.metrics.intervals import FEWEST


def model_verdict(ece: float, floor: float, confidence: float, accuracy: float, samples: int) -> str:
    """One sentence: is the confidence off, which way, and by more than noise?

    `floor` is the ECE that a perfectly calibrated model with the same confidences exceeds in 5 % of test sets. The
    error has a direction where the mean gap makes up at least half of it.
    """
    if ece <= floor:
        what = "No miscalibration can be seen" if samples >= FEWEST else "Too few samples to judge"
        return (
            f"{what}: an ECE of {percent(ece)} is within the {percent(floor)} that a perfectly calibrated model would "
            f"show by chance on {plural(samples, 'sample')}."
        )
    beyond = f"its ECE of {percent(ece)} is more than the {percent(floor)} that chance explains"
    gap = confidence - accuracy
    if abs(gap) < ece / 2:
        return f"Too confident in some ranges and not confident enough in others: {beyond}."
    which = "Too confident" if gap > 0 else "Not confident enough"
    claim = f"it claims {percent(confidence)} on average and is right {percent(accuracy)} of the time"
    return f"{which}: {claim}; {beyond}."


def repair_verdict(ranked: Comparison) -> str:
    """Which method is best by the primary metric, who is tied with it, and whether it beats doing nothing."""
    best, metric = ranked.best, METRICS[ranked.metric]
    if best is None:
        return "No method could be fitted."
    result = ranked.results[best]
    value = metric_value(ranked.metric, result.mean(ranked.metric))
    if sum(row.available for row in ranked.results.values()) == 1:
        return f"{methods()[best].label}: {metric.label} {value}."
    words = (
        f"{methods()[best].label} has the {'highest' if metric.higher_is_better else 'lowest'} {metric.label}, {value}"
    )
    floor = result.floor.get(ranked.metric)
    if floor is not None and result.mean(ranked.metric) <= floor.q95:
        words += ", no more than chance explains"
    if not ranked.tied:
        return f"{words}; there is no paired test of {metric.label}."
    tied = [methods()[id].label for id, same in ranked.tied.items() if same and id not in (best, "vanilla")]
    others = f"{join_words(tied)} cannot be told apart from it" if tied else "every other repair is worse beyond noise"
    words += f"; {others}"
    return " ".join(part for part in (f"{words}.", _simplest(ranked), _against_nothing(ranked)) if part)


def _simplest(ranked: Comparison) -> str:
    """Of the methods that cannot be told from the best, the one with the fewest parameters that keeps predictions.

    Nothing where that is the best itself, or where none keeps them.
    """
    rows = [ranked.results[id] for id in ranked.results if id == ranked.best or ranked.tied.get(id)]
    kept = [row for row in rows if row.available and row.keeps_top1]
    # of equally many, the best itself
    simplest = min(kept, key=lambda row: (row.parameters, row.id != ranked.best), default=None)
    if simplest is None or simplest.id == ranked.best:
        return ""
    among = "The simplest of all" if simplest.id == "vanilla" else "The simplest of these"
    size = plural(simplest.parameters, "parameter")
    return f"{among} that keeps every prediction: {methods()[simplest.id].label} ({size})."


def _against_nothing(ranked: Comparison) -> str:
    """Whether the best beats leaving the model as it is."""
    if ranked.best == "vanilla":
        return "No repair beats leaving the model as it is."
    if "vanilla" not in ranked.results:
        return ""
    before = f"The model as it is shows {metric_value(ranked.metric, ranked.results['vanilla'].mean(ranked.metric))}"
    if ranked.tied.get("vanilla"):
        return f"{before}: {len(ranked.data.test):,} test samples are too few to call the repair real."
    return f"{before}: the repair is real."
