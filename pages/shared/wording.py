"""Numbers and judgements in words."""

from __future__ import annotations


def percent(value: float) -> str:
    """A fraction in per cent with one digit, in one piece: the space does not break."""
    return f"{100 * value:.1f}\u00a0%"


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
