"""A comparison in words: which method is best, which are tied with it, and whether the repair is real."""

from __future__ import annotations

from smart_core.evaluation import METRICS, metric_value
from smart_core.experiments.compare import Comparison
from smart_core.formatting import join_words, plural


def repair_verdict(ranked: Comparison) -> str:
    """Which method is best by the primary metric, which are tied with it, and whether it beats no calibration."""
    best, metric = ranked.best, METRICS[ranked.metric]
    if best is None:
        return "No method could be fitted."
    row = ranked.results[best]
    value = metric_value(ranked.metric, row.mean(ranked.metric))
    if len(ranked.available) == 1:
        return f"{row.label}: {metric.label} {value}."
    words = f"{row.label} has the {'highest' if metric.higher_is_better else 'lowest'} {metric.label}, {value}"
    if row.mean(ranked.metric) <= row.floor_q95(ranked.metric):
        words += ", no more than chance explains"
    if not ranked.tied:
        return f"{words}; there is no paired test of {metric.label}."
    tied = [ranked.results[id].label for id, same in ranked.tied.items() if same and id not in (best, "vanilla")]
    if tied:
        words += f"; {join_words(tied)} cannot be distinguished from it"
    else:
        words += "; all other calibrators are worse beyond noise"
    return " ".join(part for part in (f"{words}.", _simplest(ranked), _against_nothing(ranked)) if part)


def _simplest(ranked: Comparison) -> str:
    """Of the best and the methods tied with it, the one with the fewest parameters that keeps every prediction.

    Empty where that is the best itself, or where none keeps them.
    """
    kept = [row for id, row in ranked.available.items() if ranked.standing(id) in ("best", "tied") and row.keeps_top1]
    # among equally many parameters, the best itself
    simplest = min(kept, key=lambda row: (row.parameters, row.id != ranked.best), default=None)
    if simplest is None or simplest.id == ranked.best:
        return ""
    among = "The simplest of all" if simplest.id == "vanilla" else "The simplest of these"
    size = plural(simplest.parameters, "parameter")
    return f"{among} that keeps every prediction: {simplest.label} ({size})."


def _against_nothing(ranked: Comparison) -> str:
    """Whether the best is better than the uncalibrated model."""
    if ranked.best == "vanilla":
        return "No method is better than the uncalibrated model."
    if "vanilla" not in ranked.results:
        return ""
    before = f"The uncalibrated model has {metric_value(ranked.metric, ranked.results['vanilla'].mean(ranked.metric))}"
    if ranked.tied.get("vanilla"):
        return f"{before}: {len(ranked.data.test):,} test samples are too few to call the repair real."
    return f"{before}: the repair is real."
