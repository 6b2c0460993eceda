"""Guide: the method, the metrics and how to read them, on one page."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.shared import cached, library, routing, show, state
from pages.shared.uploads import FOLDER_VARIABLE
from pages.shared.wording import plain_text
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.evaluation import METRICS
from smart_core.experiments import paper
from smart_core.formatting import percent

routing.enter()

# what each metric means stands in the registry; here, when it misleads
MISLEADS = {
    "ece": "Gaps of opposite sign inside one bin cancel, and most samples of a good model share the last bin. "
    "Never zero on a finite set: read it beside its floor.",
    "adaece": "Resolves the crowded high confidences and blurs the sparse low ones. Has a floor of its own.",
    "cece": "With many classes nearly every probability is nearly 0, so the mean is small whatever the model does.",
    "nll": "Measures accuracy and sharpness too: a more accurate model may win with worse confidence. "
    "One label given a probability near 0 can dominate it.",
    "brier": "Bounded, so no sample dominates; mixes accuracy and calibration as the NLL does.",
    "smce": "Has no bins to choose, and a scale of its own: do not compare its values with an ECE.",
    "smece": "Chooses its own width; near the ECE, not equal to it. Has a floor of its own.",
    "accuracy": "Says nothing of confidence. It is here as a check: dividing by a temperature cannot change it.",
    "mce": "The worst bin is often the emptiest one: then it measures noise.",
    "ece_l2": "Weighs large gaps more than the ECE does. The debiased square can fall below 0 and is then shown as 0.",
    "aurc": "Judges the order of the confidences only: any increasing map of them leaves it as it is.",
}


def what_to_know(method: type[Calibrator]) -> str:
    """What it does to the prediction, what it needs, and whether chance has a part; in one narrow column."""
    words = ["Keeps the prediction." if method().keeps_top1 else "May change the prediction."]
    if method.needs:
        words.append(f"Needs {' and '.join(method.needs)}.")
    elif method.uses:
        words.append("Uses features, if there are any.")
    if method.stochastic:
        words.append("The seed matters.")
    return " ".join(words)


st.title("Guide")
st.markdown("What is computed here, and how to read it.")

st.header("Calibration")
st.markdown(
    r"""
A classifier gives each sample logits $z$, predicts $\hat y = \arg\max_k z_k$ and claims the confidence
$\hat p = \max_k \mathrm{softmax}(z)_k$. It is calibrated if the claim comes true: of the samples with
confidence $p$, a share $p$ is predicted correctly.
"""
)
st.latex(r"\Pr(\hat y = y \mid \hat p = p) = p \quad\text{for every } p")
st.markdown(
    """
A calibrator is fitted on validation samples and repairs the confidence of new ones. Here every method is fitted on
validation and judged on test; the sidebar says on how many. **Temperature scaling** divides all logits by one
number $T$: every sample becomes less sure (or more) by the same rule, and keeps its prediction.
"""
)

st.header("SMART")
st.markdown(
    """
One temperature for all is a compromise: a sample whose two best classes nearly tie needs another correction than
one that is far from every boundary. SMART reads how hard a sample is off its **margin**, the gap between its two
largest logits, and gives it a temperature of its own:
"""
)
st.latex(r"m = z_{(1)} - z_{(2)}, \qquad x = \frac{m - \mu}{s}")
# two short lines: one long one is cut off on a narrow screen
st.latex(r"h(x) = W_2\,\mathrm{relu}(W_1 x + b_1) + b_2")
st.latex(r"T(m) = \mathrm{softplus}\bigl(h(x)\bigr) + 0.1")
st.markdown(
    r"""
$\mu$ and $s$ are the mean and standard deviation of the validation margins. With 16 hidden units the map has 49
parameters, whatever the number of classes. $T$ is one positive number a sample, so the predicted class never
changes. The map starts flat at the best single temperature and is trained on **Charbonnier-SoftECE**, an ECE that
can be differentiated. Sample $i$, correct ($a_i = 1$) or not ($a_i = 0$), belongs to every bin $b$ with a weight
that falls off with the distance from its confidence to the bin's centre $c_b$, and the corner of the absolute value
is rounded:
"""
)
st.latex(r"w_{ib} = \frac{e^{-(p_i - c_b)^2 / 2\sigma^2}}{\sum_{b'} e^{-(p_i - c_{b'})^2 / 2\sigma^2}}")
st.latex(r"S_b = \sum_i w_{ib}, \qquad R_b = \sum_i w_{ib}\,(p_i - a_i)")
st.latex(r"L = \frac1N \sum_b \Bigl[\sqrt{R_b^2 + \delta^2 S_b^2} - \delta S_b\Bigr]")
st.markdown(
    rf"""
$\sigma$ says how far a sample reaches over the bins, $\delta$ how much the corner is rounded. The paper's choice,
and the default: $\sigma = {paper.DEFAULT[0]}$, $\delta = {paper.DEFAULT[1]}$, 15 bins.
"""
)

st.header("Metrics")
st.markdown("The ECE sorts $N$ samples by confidence into $B$ bins of equal width, each closed on the right:")
st.latex(r"\mathrm{ECE} = \sum_{b=1}^{B} \frac{n_b}{N}\;\bigl|\,\mathrm{accuracy}_b - \mathrm{confidence}_b\bigr|")
st.table(
    pd.DataFrame(
        [
            {"metric": metric.label, "what it means": metric.help, "when it misleads": MISLEADS[name]}
            for name, metric in METRICS.items()
        ]
    ).set_index("metric")
)

st.header("Noise")
data, bins = library.current(), st.session_state[state.BINS]
floor = cached.ece_noise(data, bins).floor
st.markdown(
    """
**The noise floor.** A perfectly calibrated model does not have an ECE of 0: in every bin the accuracy differs from
the confidence by chance, and the ECE adds up the sizes of these differences. The floor is what such a model would
show with the same confidences; it is found by drawing the labels from the confidences themselves. Roughly,
"""
)
st.latex(r"\mathrm{floor} \approx \sqrt{\tfrac{2B}{\pi N}}\;\cdot\;\mathrm{mean}\,\sqrt{p\,(1-p)}")
st.markdown(
    f"""
On the test part of {plain_text(library.title())} ({len(data.test):,} samples, {bins} bins) it is
{percent(floor.mean)} on average, and below {percent(floor.q95)} in 95 % of sets. An ECE below that is no evidence of
miscalibration.

**Intervals.** A 95 % interval is one for the *population value*: what the same metric with the same bins would be
on endlessly many test samples. Measured errors are biased upwards, so their intervals are corrected for that, and
near zero the measured value may lie above its own interval. That is no mistake: it says that noise explains the
value. A spread written with ± is another thing: the standard deviation over seeds, how much a fit depends on chance.

**Tied with best.** All methods are judged on the same test samples, so their errors share much of their noise, and
a paired test makes use of that. A method is tied with the best if the test, corrected for the number of methods,
cannot tell the two apart. Overlapping intervals are no such test: they miss real differences.
"""
)

st.header("Methods")
st.table(
    pd.DataFrame(
        [
            {
                "method": method.label,
                "what it does": method.summary,
                "what to know": what_to_know(method),
            }
            for method in methods().values()
        ]
    ).set_index("method")
)

st.header("Files")
st.markdown(
    f"""
npz, npy, pt, safetensors, csv, tsv, parquet, feather, mat, and pickles of published logits. No file can run code;
one that cannot be used gets a sentence that says what is wrong, where, and the cure.

- **One bundle** with `val_logits`, `val_labels`, `test_logits`, `test_labels`; or `logits` and `labels`, which are
  split at random, each class in proportion. The usual other names are understood too: `scores`, `probs`,
  `targets`, `y_true`, ...
- **A logit file and its label file**, or **validation and test files**.
- Logits have a row for each sample and a column for each class. Probabilities are understood, and their logarithm
  is taken. Labels are class numbers, one-hot rows or class names.
- Optional: `*_features`, and `head_weight` and `head_bias` (GC, ProCal, FC); `*_cw_l2`, distances of an attack
  (Hardness); `*_group`, a corruption or domain (Shift); `class_names`.

Files up to 1 GB can be dropped on Start. For larger ones, whoever runs the server names a folder in the environment
variable `{FOLDER_VARIABLE}`; its files are then listed on Start.
"""
)

st.header("Keys")
st.markdown(
    """
| keys | what they do |
|---|---|
| Ctrl+Enter | run what the page computes: its fits, its study, its attack |
| Esc | cancel the newest computation; what is finished is kept |
| Alt+→ | next page |
"""
)

st.header("Where the paper disagrees with itself")
st.markdown(
    "The paper: Guo, Tao, Luo, Dong and Xu, *Sample Margin-Aware Recalibration of Temperature Scaling*, ICML 2026. "
    "Statements of it that do not fit together, with the tables and sections they stand in:"
)
st.markdown(
    "\n".join(f"- {plain_text(tension.text)} *({plain_text(', '.join(tension.tables))})*" for tension in paper.TENSIONS)
)
show.python(
    library.load_code()
    + f"""
from smart_core.metrics import noise_floor

model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
judged = sc.evaluate(model, data.test, bins={bins})
print(noise_floor("ece", judged.confidence, bins={bins}))
"""
)
