"""Guide: the method, the metrics and how to read them, on one page."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.shared import cache, datasets, navigation, session, sources, which_ece
from pages.shared.components import plain_text, python_code
from pages.shared.uploads import FOLDER_VARIABLE
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.experiments import paper
from smart_core.formatting import percent

navigation.enter()


def properties(method: type[Calibrator]) -> str:
    """Say what a method does to the prediction, what it needs, and whether its seed matters."""
    sentences = ["Keeps the prediction." if method().keeps_top1 else "May change the prediction."]
    if method.needs:
        sentences.append(f"Needs {' and '.join(method.needs)}.")
    elif method.uses:
        sentences.append("Uses features if there are any.")
    if method.stochastic:
        sentences.append("Depends on the seed.")
    return " ".join(sentences)


st.title("Guide")
st.markdown("What the dashboard computes, and how to read it.")

st.header("Calibration")
st.markdown(
    r"""
A classifier computes logits $z$ for each sample, predicts $\hat y = \arg\max_k z_k$ and has the confidence
$\hat p = \max_k \mathrm{softmax}(z)_k$. It is calibrated if, among the samples with confidence $p$, a fraction $p$ is
predicted correctly.
"""
)
st.latex(r"\Pr(\hat y = y \mid \hat p = p) = p \quad\text{for every } p")
st.markdown(
    """
A calibrator is fitted on validation samples and repairs the confidence of new ones. Every method here is fitted on
validation and evaluated on test; the sidebar shows their sizes. **Temperature scaling** divides all logits by one
number $T$: this makes every sample more or less confident by the same rule and keeps its prediction.
"""
)

st.header("SMART")
st.markdown(
    """
A single temperature is a compromise: a sample whose two best classes nearly tie needs another correction than one that
is far from every boundary. SMART measures how hard a sample is by its **margin**, the gap between its two largest
logits, and gives it its own temperature:
"""
)
st.latex(r"m = z_{(1)} - z_{(2)}, \qquad x = \frac{m - \mu}{s}")
# two short lines: one long line would be cut off on a narrow screen
st.latex(r"h(x) = W_2\,\mathrm{relu}(W_1 x + b_1) + b_2")
st.latex(r"T(m) = \mathrm{softplus}\bigl(h(x)\bigr) + 0.1")
st.markdown(
    r"""
$\mu$ and $s$ are the mean and standard deviation of the validation margins. With 16 hidden units, the map has 49
parameters for any number of classes. $T$ is one positive number per sample, so the predicted class never changes. The
map starts constant at the best single temperature and is trained on **Charbonnier-SoftECE**, a differentiable ECE.
Sample $i$, correct ($a_i = 1$) or not ($a_i = 0$), belongs to every bin $b$ with a weight that decreases with the
distance from its confidence to the bin's centre $c_b$, and the absolute value is smoothed:
"""
)
st.latex(r"w_{ib} = \frac{e^{-(p_i - c_b)^2 / 2\sigma^2}}{\sum_{b'} e^{-(p_i - c_{b'})^2 / 2\sigma^2}}")
st.latex(r"S_b = \sum_i w_{ib}, \qquad R_b = \sum_i w_{ib}\,(p_i - a_i)")
st.latex(r"L = \frac1N \sum_b \Bigl[\sqrt{R_b^2 + \delta^2 S_b^2} - \delta S_b\Bigr]")
st.markdown(
    rf"""
$\sigma$ is the bandwidth of the soft bins, $\delta$ the smoothing. The defaults are the paper's:
$\sigma = {paper.DEFAULT[0]}$, $\delta = {paper.DEFAULT[1]}$, 15 bins.

These pages show the **default**: $m$ standardised, full batches, training that ends after 200 epochs without progress,
a start at the best single temperature, and a map that is level beyond the margin that 97 % of the validation samples do
not exceed. It departs from the paper's text (raw margin, random start, mini-batches of 1024, every epoch) and from the
authors' code (two hidden layers, random start). Both are presets of SMART under Settings on Compare, and in Python
`sc.SMART(preset="paper")` and `sc.SMART(preset="release")`.
"""
)

st.header("Metrics")
st.markdown("The ECE sorts $N$ samples by confidence into $B$ bins of equal width, each closed on the right:")
st.latex(r"\mathrm{ECE} = \sum_{b=1}^{B} \frac{n_b}{N}\;\bigl|\,\mathrm{accuracy}_b - \mathrm{confidence}_b\bigr|")
which_ece.metrics_table()

data, bins = datasets.current(), session.bins()
which_ece.show(cache.uncalibrated(data), data.classes, datasets.current_title())

st.header("Noise")
floor = cache.diagnosis(cache.uncalibrated(data), bins).floor
st.markdown(
    """
**The noise floor.** Even a perfectly calibrated model does not have an ECE of 0: in every bin the accuracy differs from
the confidence by chance, and the ECE adds up the absolute differences. The noise floor is the ECE of such a model with
the same confidences, computed by drawing the labels from the confidences. Roughly,
"""
)
st.latex(r"\mathrm{floor} \approx \sqrt{\tfrac{2B}{\pi N}}\;\cdot\;\mathrm{mean}\,\sqrt{p\,(1-p)}")
st.markdown(
    f"""
On the test part of {plain_text(datasets.current_title())} ({len(data.test):,} samples, {bins} bins) it is
{percent(floor.mean)} on average, and below {percent(floor.q95)} on 95\u00a0% of test sets. A lower ECE is no evidence
of miscalibration.

**Intervals.** A 95 % interval is for the *population value*: the same metric with the same bins on infinitely many test
samples. Calibration errors are biased upwards on finite data, and their intervals are corrected for that, so close to
zero the measured value may lie above its own interval: noise then explains the value. A spread written with ± is the
standard deviation over seeds instead.

**Tied with the best.** All methods are evaluated on the same test samples, so their errors share much of their noise,
and a paired test takes advantage of that. A method is tied with the best if the test, corrected for the number of
methods, cannot distinguish the two. Do not compare overlapping intervals instead: that misses real differences.
"""
)

st.header("Methods")
rows = [
    {"method": method.label, "what it does": method.summary, "properties": properties(method)}
    for method in methods().values()
]
st.table(pd.DataFrame(rows).set_index("method"))

st.header("Files")
st.markdown(
    f"""
npz, npy, pt, safetensors, csv, tsv, parquet, feather, HDF5, mat, JSON, JSON lines, zarr, and pickles of published
logits, also compressed (gz, bz2, xz, zst). Files cannot run code. If a file cannot be used, a message says
what is wrong with it and how to fix it.

- **One bundle** with `val_logits`, `val_labels`, `test_logits`, `test_labels`; or with `logits` and `labels`, which are
  split at random, stratified by class. Other common names work too: `scores`, `probs`, `targets`, `y_true`, ...
- **A logit file and its label file**, or **validation and test files**.
- **A folder of numbered pieces**, which are joined: `logits_00.npy`, `part-*.parquet`, `predictions_0.pt` with
  `batch_indices_0.pt` of each rank.
- **Several experiments**, in the groups of an HDF5 file or zarr store or in a folder per model: Start asks for one.
- **Samples of lm-evaluation-harness** (`--log_samples`): the log-likelihood of each choice is its logit.
- Logits have a row per sample and a column per class. For probabilities, the logarithm is taken. Labels are class
  indices, one-hot rows or class names.
- **Confidences alone**: a table with `confidence` and `correct`, or `true_label`, `pred_label` and `confidence`.
- Optional: `*_features`, `head_weight` and `head_bias` (GC, ProCal, FC); `*_cw_l2`, attack distances (Hardness);
  `*_group`, a corruption or domain (Shift); `class_names`.

Files up to 1 GB can be uploaded on Start. For larger ones, set the environment variable `{FOLDER_VARIABLE}` of the
server to a folder; its files are then listed on Start.
"""
)

sources.draw()

st.header("Keyboard shortcuts")
st.markdown(
    """
| keys | action |
|---|---|
| Ctrl+Enter | start the page's computation: its fits, its study or its attack |
| Esc | cancel the latest job; finished results are kept |
| Alt+→ | next page |
"""
)

st.header("Inconsistencies in the paper")
st.markdown(
    "Guo, Tao, Luo, Dong and Xu, *Sample Margin-Aware Recalibration of Temperature Scaling*, ICML 2026. These of its "
    "statements do not agree with each other:"
)
st.markdown(
    "\n".join(f"- {plain_text(tension.text)} *({plain_text(', '.join(tension.tables))})*" for tension in paper.TENSIONS)
)
python_code(
    f"""
from smart_core.metrics import noise_floor

model = sc.Vanilla().fit_part(data.validation)
evaluation = sc.evaluate(model, data.test, bins={bins})
print(noise_floor("ece", evaluation, bins={bins}))
"""
)
