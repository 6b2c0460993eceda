"""The screens of the Guide that explain: calibration, noise, the choice of a method, SMART."""

from __future__ import annotations

import streamlit as st

from pages.shared import cache, datasets, session, which_ece
from pages.shared.components import plain_text
from pages.shared.glossary import say
from smart_core.experiments import paper
from smart_core.formatting import percent


def calibration() -> None:
    """Calibration and calibrators, explained."""
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


def reading() -> None:
    """How the pages are built, and where to begin."""
    say(
        """
1. **Start** opens a file and shows its reliability diagram before and after calibration.
2. **Diagnose** answers whether the confidence can be trusted. The headline is the verdict; the metrics below give the
   measured error, its noise floor, and the range in which the true error lies.
3. **Compare** fits methods and names the one to deploy. Rows appear with their point values; the intervals and paired
   tests follow.
4. **Margin groups**, **Temperature curve** and **Hardness** show where the confidence is wrong, and what SMART does
   about it.
5. **Sensitivity**, **Ablation**, **Shift** and **Theory** repeat the paper's studies on your data.
6. **Export** gives you the calibrator as a file, the tables, and a report to share.

Everything is fitted on the validation part and evaluated on the test part. The link in the sidebar opens the same view
again; the code at the end of each page computes the same numbers in Python.
"""
    )


def noise() -> None:
    """The noise floor, intervals and ties."""
    data, bins = datasets.current(), session.bins()
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
{percent(floor.mean)} on average, and below {percent(floor.q95)} on 95% of test sets. A lower ECE is no evidence
of miscalibration.

**Intervals.** A 95% interval is for the *population value*: the same metric with the same bins on infinitely many test
samples. Calibration errors are biased upwards on finite data, and their intervals are corrected for that, so close to
zero the measured value may lie above its own interval: noise then explains the value. A spread written with ± is the
standard deviation over seeds instead.

**Tied with the best.** All methods are evaluated on the same test samples, so their errors share much of their noise,
and a paired test takes advantage of that. A method is tied with the best if the test, corrected for the number of
methods, cannot distinguish the two. Do not compare overlapping intervals instead: that misses real differences.
"""
    )


def which() -> None:
    """How the ECEs of other packages differ."""
    data = datasets.current()
    which_ece.show(cache.uncalibrated(data), data.classes, datasets.current_title())


def choosing() -> None:
    """The rule by which a method is recommended."""
    say(
        """
Compare, Export and the report recommend one method, by this rule:

1. A method is left out if its NLL or Brier score is worse than that of the uncalibrated model, or its accuracy lower,
   beyond noise: a low calibration error alone can hide a worse proper score. So is a method that improves nothing.
2. Of the others, those remain whose calibration error is tied with the lowest.
3. Of these, the one with the best NLL and Brier score is recommended, among methods that keep every prediction. Where
   the paired test cannot tell, the one with the fewest parameters wins.
4. A method that may change predictions is recommended only if its accuracy, NLL and Brier score are all better, beyond
   noise.

If no method qualifies, the advice is to keep the uncalibrated model. Settings that were chosen on test data, on
Sensitivity, make SMART's results optimistic; a note on each page says so.
"""
    )


def smart() -> None:
    """How SMART gives each sample its own temperature."""
    st.markdown(
        """
A single temperature is a compromise: a sample whose two best classes nearly tie needs a different correction from one
far from every decision boundary. SMART measures how hard a sample is by its **margin**, the gap between its two largest
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

These pages show the **default**: $m$ standardised, full batches, early stopping with a patience of 200
epochs, a start at the best single temperature, and a map that is constant above the 97th percentile of the validation
margins. It departs from the paper's text (raw margin, random start, mini-batches of 1024, every epoch) and from the
authors' code (two hidden layers, random start). Both are presets of SMART under Settings on Compare, and in Python
`sc.SMART(preset="paper")` and `sc.SMART(preset="release")`.

A temperature cannot repair a model whose classes are biased. **Refined SMART** first maps the classes, by SVS, SMS or
IOP if one of them lowers the NLL in cross-validation on validation beyond noise, and fits SMART on the result; a notice
of the fit on Compare says what it chose and why. Any two methods in a row are a **chain**, under Choose methods on
Compare: the second one is fitted on the log-probabilities that the first one gives.
"""
    )
