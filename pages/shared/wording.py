"""Text for pages: names from files escaped for Markdown, and verdicts."""

from __future__ import annotations

import re

from smart_core.experiments import Comparison
from smart_core.report.verdict import model_verdict as verdict
from smart_core.report.verdict import repair_verdict

__all__ = ["comparison_verdict", "plain_text", "verdict"]

MARKS = re.compile(r"([\\`*_{}\[\]<>#|~$:&^])|^(\s*(?:[-+]|\d+(?=[.)])))")
"""What Markdown would read as more than the letter itself, anywhere or at the beginning."""


def plain_text(text: str) -> str:
    """A name from a file or a user as Markdown shows it letter by letter, on one line."""
    return MARKS.sub(lambda found: f"\\{found[0]}" if found[1] else f"{found[0]}\u200b", " ".join(text.split()))


def comparison_verdict(ranked: Comparison) -> str:
    """Which repair is best and whether it is real; with one method alone, what to do next."""
    alone = len(ranked.results) == 1 and ranked.best is not None
    return repair_verdict(ranked) + (" Fit others to compare." if alone else "")
