"""The Guide's tables of metrics, and its section "Which ECE?": the set's ECE by the conventions of other packages."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.shared.components import plain_text
from smart_core.evaluation import DETAILS, METRICS, Evaluation, metric_value
from smart_core.metrics.conventions import CONVENTIONS

# the meaning of each metric is in the registry; this is when it misleads
CAVEATS = {
    "ece": "Gaps of opposite sign in one bin cancel, and most samples of a good model share the last bin. It is never "
    "zero on a finite set: compare it with its noise floor.",
    "adaece": "Resolves the crowded high confidences and blurs the sparse low ones. Has its own noise floor.",
    "cece": "With many classes, nearly every probability is close to 0, so the mean is small for any model.",
    "nll": "Also measures accuracy and sharpness: a more accurate model may win with worse confidence. A single label "
    "with a probability close to 0 can dominate it.",
    "brier": "Bounded, so no sample dominates. Mixes accuracy and calibration, as the NLL does.",
    "smce": "Needs no bins, but has its own scale: do not compare it with an ECE.",
    "smece": "Chooses its own bandwidth. Close to the ECE, but not equal to it. Has its own noise floor.",
    "accuracy": "Says nothing about confidence. It serves as a check: dividing by a temperature cannot change it.",
    "mce": "The worst bin is often the emptiest one, and then it measures noise.",
    "ece_l2": "Weights large gaps more than the ECE does. The debiased square can be negative and is then shown as 0.",
    "aurc": "Depends only on the order of the confidences: no increasing map of them changes it.",
}

DIFFERENCES = """
Packages agree on the idea of the ECE and differ in its details, so one model has many ECEs. What differs:

- **The number of bins**, 5 to 15 by default, and their kind: equal width, or equally many samples (AdaECE, ECE-sweep).
- **Which end of a bin is closed.** It matters where many confidences are equal, and for a confidence of exactly 1,
  which some packages give a bin of its own.
- **Top-1 or classwise.** The ECE of papers looks at the confidence of the predicted class. A classwise (marginal) ECE
  averages over the classes and is far smaller, for most probabilities are close to 0. With two classes, some packages
  take the probability of class 1 without saying so.
- **L1 or L2.** A mean of absolute gaps, or the root of a mean of squared ones, which is never smaller.
- **Debiased or not.** A measured ECE is too large on average. Debiased forms subtract an estimate of that; here the
  noise floor and the interval account for it.
"""


def metrics_table() -> None:
    """Draw the metrics that methods are ranked by: what each means, and when it misleads."""
    rows = [
        {"metric": metric.label, "what it means": metric.help, "when it misleads": CAVEATS[name]}
        for name, metric in METRICS.items()
    ]
    st.table(pd.DataFrame(rows).set_index("metric"))


def show(evaluation: Evaluation, classes: int, title: str) -> None:
    """Draw the section for the uncalibrated model's evaluation on the loaded set's test part."""
    st.markdown(DIFFERENCES)
    rows = [
        {
            "package": each.package,
            "ECE": metric_value("ece", each.of(evaluation, classes)),
            "its convention": each.difference,
        }
        for each in CONVENTIONS
    ]
    st.markdown(
        f"The uncalibrated model on the test part of {plain_text(title)}, by the default of each package. The values "
        "are computed here, by each package's rule:"
    )
    st.table(pd.DataFrame(rows).set_index("package"))
    st.markdown(
        "Further metrics, in **All columns** on Compare and **All metrics** on Diagnose; they have no interval. PHI on "
        "Compare is the post-hoc improvement: the share of the model's NLL or Brier score that a method removes."
    )
    rows = [{"metric": described.label, "what it means": described.help} for described in DETAILS.values()]
    st.table(pd.DataFrame(rows).set_index("metric"))
