"""The glossary: what the terms on the pages mean, and links to them from the text."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import streamlit as st

TOPIC, TERM = "topic", "term"
"""Query parameters of the Guide: its screen, and a term of the glossary."""

TITLE = "Glossary"
"""The screen of the Guide that shows the terms."""

TERMS = {
    "AdaECE": "The ECE over bins that hold equally many samples, so that crowded confidences are resolved.",
    "Brier score": "The mean squared distance between the predicted probabilities and the label. It mixes accuracy and "
    "calibration, and no single sample dominates it.",
    "C&W distance": "The length of the smallest change of an input that changes its prediction, found by the attack of "
    "Carlini and Wagner. A small distance means a hard sample.",
    "Charbonnier": "A smooth stand-in for the absolute value, √(x² + δ²) − δ. SMART uses it so that its gradient does "
    "not jump at 0.",
    "bins": "Intervals of confidence. A binned metric compares mean confidence and accuracy in each of them.",
    "bootstrap": "Drawing samples from the test set at random, with repetition, to see how much a number varies.",
    "calibration": "Making confidence mean what it says: among samples with a confidence of 80%, 80% are predicted "
    "correctly.",
    "confidence": "The largest probability that the model gives to any class: its own estimate of being right.",
    "cwECE": "The ECE of every class's probability, averaged over classes, instead of the top-1 confidence alone.",
    "delta": "The smoothing of the Charbonnier loss in SMART's objective.",
    "ECE": "Expected calibration error: the mean gap between confidence and accuracy over bins of equal width.",
    "features": "The model's activations before its last layer. GC, ProCal, FC and others can use them.",
    "indicator": "The number from which SMART computes a sample's temperature. The paper's is the margin.",
    "interval": "A range that contains the true value of the metric, over the whole population, for 95% of test sets.",
    "logits": "The model's outputs before the softmax, one per class.",
    "margin": "The largest logit minus the second largest. It is small where the model hesitates between two classes.",
    "margin group": "Test samples whose margins lie in one range.",
    "NLL": "Negative log-likelihood: the mean of minus the log of the label's probability. A single label with a "
    "probability close to 0 can dominate it.",
    "noise floor": "The error that a perfectly calibrated model with the same confidences would show by chance: its "
    "95th percentile over test sets. A measured error below the floor is no evidence of miscalibration.",
    "objective": "What a fit minimises on the validation part.",
    "overconfident": "Less accurate than the confidence says. Underconfident is the opposite.",
    "paired test": "A comparison of two methods on the same test samples. It finds differences that overlapping "
    "intervals hide, because both methods share much of their noise.",
    "primary metric": "The metric chosen in the sidebar, by which methods are ranked.",
    "proper score": "A metric that is best, on average, for the true probabilities: NLL and Brier score.",
    "reliability diagram": "Accuracy against confidence, bin by bin. A calibrated model lies on the diagonal.",
    "seed": "The number that starts the random number generator. Methods with random initial weights are fitted once "
    "per seed.",
    "sigma": "The bandwidth of the soft bins in SMART's objective.",
    "smCE": "Smooth calibration error: the largest correlation of the gap with any smooth function of the confidence.",
    "SmoothECE": "An ECE without bins: the gap is smoothed over confidence, with the error itself as the bandwidth.",
    "SoftECE": "A differentiable ECE: each sample belongs to every bin, with a weight that falls with its distance.",
    "temperature": "The number by which logits are divided before the softmax. Above 1 it lowers the confidence, below "
    "1 it raises it; the predicted class stays.",
    "temperature scaling": "TS: one temperature for every sample, fitted on validation.",
    "tied": "Not distinguishable from the best method by the paired test.",
    "top-1": "The predicted class, and its probability.",
    "uncalibrated": "The model without any calibration, called Vanilla in tables.",
    "witness": "A function of the confidence that reveals miscalibration: its correlation with the gap is the error.",
}
"""Term -> its meaning."""

_ALIASES = {"smECE": "SmoothECE", "underconfident": "overconfident", "Carlini-Wagner distance": "C&W distance"}
_NAMES = {name.lower(): name for name in TERMS} | {alias.lower(): name for alias, name in _ALIASES.items()}
_FOUND = re.compile(
    r"(`[^`]*`|\[[^\]]*\]\([^)]*\)|\$[^$]*\$)|(?<![\w\\-])("  # code, links and formulas are left alone
    + "|".join(re.escape(name) for name in sorted(_NAMES, key=len, reverse=True))
    + r")(s?)(?![\w-])",
    re.IGNORECASE,
)


def anchor(term: str) -> str:
    """Return the term in a link: `noise-floor`."""
    return re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def linked(text: str) -> str:
    """Link the first mention of each term in a Markdown text to the glossary, which opens in another tab."""
    seen: set[str] = set()

    def link(found: re.Match[str]) -> str:
        name = "" if found[1] else _NAMES[found[2].lower()]
        if not name or name in seen:
            return found[0]
        seen.add(name)
        return f"[{found[0]}](guide?{TOPIC}={TITLE}&{TERM}={quote(anchor(name))})"

    return _FOUND.sub(link, text)


def note(text: str, **options: Any) -> None:
    """Draw a caption whose terms are linked."""
    st.caption(linked(text), **options)


def say(text: str) -> None:
    """Draw a paragraph whose terms are linked."""
    st.markdown(linked(text))


def draw() -> None:
    """Draw the glossary, with the term of the URL first."""
    wanted = st.query_params.get(TERM, "")
    for name, meaning in TERMS.items():
        if anchor(name) == wanted:
            with st.container(border=True, key="wanted-term"):
                st.markdown(f"**{name}**: {meaning}")
    listed = sorted(TERMS.items(), key=lambda item: item[0].lower())
    st.markdown("\n".join(f"- **{name}**: {meaning}" for name, meaning in listed))
