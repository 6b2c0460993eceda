"""Text for pages: names from files letter by letter, durations and counts; judgements are the engine's own."""

from __future__ import annotations

import re

from smart_core.experiments import Comparison
from smart_core.figures.words import listed
from smart_core.report.verdict import model_verdict as verdict
from smart_core.report.verdict import percent, repair_verdict

__all__ = ["comparison_verdict", "counted", "duration", "listed", "percent", "plain_text", "verdict"]

MARKS = re.compile(r"([\\`*_{}\[\]<>#|~$:&^])|^(\s*(?:[-+]|\d+(?=[.)])))")
"""What Markdown would read as more than the letter itself, anywhere or at the beginning."""


def plain_text(text: str) -> str:
    """A name from a file or a user as Markdown shows it letter by letter, on one line."""
    return MARKS.sub(lambda found: f"\\{found[0]}" if found[1] else f"{found[0]}\u200b", " ".join(text.split()))


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


def comparison_verdict(ranked: Comparison) -> str:
    """Which repair is best and whether it is real; with one method alone, what to do next."""
    alone = len(ranked.results) == 1 and ranked.best is not None
    return repair_verdict(ranked) + (" Fit others to compare." if alone else "")
