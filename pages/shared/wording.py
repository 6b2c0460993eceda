"""Numbers and judgements in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from smart_core.calibrators import methods
from smart_core.evaluation import METRICS
from smart_core.experiments import Comparison

MARKS = re.compile(r"([\\`*_{}\[\]<>#|~$:&^])|^(\s*(?:[-+]|\d+(?=[.)])))")
"""What Markdown would read as more than the letter itself, anywhere or at the beginning."""


def plain_text(text: str) -> str:
    """A name from a file or a user as Markdown shows it letter by letter, on one line."""
    return MARKS.sub(lambda found: f"\\{found[0]}" if found[1] else f"{found[0]}\u200b", " ".join(text.split()))


def percent(value: float, digits: int = 1) -> str:
    """A fraction in per cent, in one piece: the space does not break."""
    return f"{100 * value:.{digits}f}\u00a0%"


def verdict(ece: float, floor: float, confidence: float, accuracy: float, samples: int) -> str:
    """One sentence: is the confidence off, which way, and by more than noise?

    `floor` is the ECE that a perfectly calibrated model with the same confidences exceeds in 5 % of
    test sets. The error has a direction where the mean gap makes up at least half of it.
    """
    if ece <= floor:
        return (
            f"No miscalibration can be seen: an ECE of {percent(ece)} is within the {percent(floor)} that a "
            f"perfectly calibrated model would show by chance on {samples:,} samples."
        )
    beyond = f"its ECE of {percent(ece)} is more than the {percent(floor)} that chance explains"
    gap = confidence - accuracy
    if abs(gap) < ece / 2:
        return f"Too confident in some ranges and not confident enough in others: {beyond}."
    which = "Too confident" if gap > 0 else "Not confident enough"
    claim = f"it claims {percent(confidence)} on average and is right {percent(accuracy)} of the time"
    return f"{which}: {claim}; {beyond}."


def duration(seconds: float) -> str:
    """Seconds as a reader says them: `4 s`, `2 min 10 s`."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds:.1f}\u00a0s"
    if whole < 60:
        return f"{whole}\u00a0s"
    return f"{whole // 60}\u00a0min {whole % 60}\u00a0s" if whole % 60 else f"{whole // 60}\u00a0min"


def counted(number: int, noun: str) -> str:
    """`no fit`, `1 fit`, `3 studies`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}" if number else f"no {noun}"


def listed(names: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def comparison_verdict(ranked: Comparison) -> str:
    """Which method is best by the primary metric, who is tied with it, and whether it beats doing nothing."""
    best, metric = ranked.best, METRICS[ranked.metric]
    if best is None:
        return "No method could be fitted."
    result = ranked.results[best]
    value = _amount(result.mean(ranked.metric), metric.percent)
    tied = [methods()[id].label for id, same in ranked.tied.items() if same and id not in (best, "vanilla")]
    if len(ranked.results) == 1:
        return f"{methods()[best].label}: {metric.label} {value}. Fit others to compare."
    words = (
        f"{methods()[best].label} has the {'highest' if metric.higher_is_better else 'lowest'} {metric.label}, {value}"
    )
    floor = result.floor.get(ranked.metric)
    if floor is not None and result.mean(ranked.metric) <= floor.q95:
        words += ", no more than chance explains"
    if not ranked.tied:
        return f"{words}; there is no paired test of {metric.label}."
    words += f"; {listed(tied)} cannot be told apart from it" if tied else "; every other repair is worse beyond noise"
    if best == "vanilla":
        return f"{words}. No repair beats leaving the model as it is."
    if "vanilla" not in ranked.results:
        return f"{words}."
    before = _amount(ranked.results["vanilla"].mean(ranked.metric), metric.percent)
    if ranked.tied.get("vanilla"):
        samples = f"{len(ranked.data.test):,} test samples"
        return f"{words}. The model as it is shows {before}: {samples} are too few to call the repair real."
    return f"{words}. The model as it is shows {before}: the repair is real."


def _amount(value: float, in_percent: bool) -> str:
    return f"{100 * value:.2f}\u00a0%" if in_percent else f"{value:.4f}"
