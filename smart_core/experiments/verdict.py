"""A comparison in words: which method is best, which are tied with it, and whether the repair is real."""

from __future__ import annotations

from smart_core.evaluation import METRICS, metric_value
from smart_core.experiments.compare import Comparison
from smart_core.formatting import join_words

MOST_NAMED = 5
"""Tied methods that a sentence names."""


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
        words += ", which noise alone explains"
    worse = ranked.against_model(best).warning
    words += f", but {worse}" if worse else ""
    if not ranked.tied:
        return f"{words}; there is no paired test of {metric.label}."
    tied = [id for id, same in ranked.tied.items() if same and id not in (best, "vanilla")]
    if tied:
        labels = [ranked.results[id].label for id in tied]
        named = join_words(labels) if len(labels) <= MOST_NAMED else f"{len(labels)} other methods"
        words += f"; {named} cannot be distinguished from it"
        harmful = [ranked.results[id].label for id in tied if ranked.against_model(id).worse]
        worsen = "worsens" if len(harmful) == 1 else "worsen"
        words += f", of which {join_words(harmful)} {worsen} the model's NLL, Brier or accuracy" if harmful else ""
    else:
        words += "; all other calibrators are worse beyond noise"
    return " ".join(part for part in (f"{words}.", _against_nothing(ranked)) if part)


def _against_nothing(ranked: Comparison) -> str:
    """Whether the best is better than the uncalibrated model."""
    if ranked.best == "vanilla":
        return "No method is better than the uncalibrated model."
    if "vanilla" not in ranked.results:
        return ""
    before = f"The uncalibrated model has {metric_value(ranked.metric, ranked.results['vanilla'].mean(ranked.metric))}"
    if ranked.tied.get("vanilla"):
        return f"{before}; the difference is not significant on {len(ranked.data.test):,} test samples."
    return f"{before}: the repair is real."
