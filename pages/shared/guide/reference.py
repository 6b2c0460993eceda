"""The screens of the Guide to look things up: metrics, methods, files, keyboard shortcuts, the paper."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from pages.shared import which_ece
from pages.shared.components import plain_text
from pages.shared.uploads import FOLDER_VARIABLE
from smart_core.calibrators import methods
from smart_core.calibrators.base import Calibrator
from smart_core.experiments import paper


def departure(method: type[Calibrator]) -> str:
    """Return what the method's documentation says of how it departs from its paper or its authors' code."""
    text = " ".join((method.__doc__ or "").partition("Settings:")[0].partition(">>>")[0].split())
    told = text.partition("Departure")[2].lstrip("s: ")
    return told[:1].upper() + told[1:]


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


def metrics() -> None:
    """The meaning of each metric, and when it misleads."""
    st.markdown("The ECE sorts $N$ samples by confidence into $B$ bins of equal width, each closed on the right:")
    st.latex(r"\mathrm{ECE} = \sum_{b=1}^{B} \frac{n_b}{N}\;\bigl|\,\mathrm{accuracy}_b - \mathrm{confidence}_b\bigr|")
    which_ece.metrics_table()


def method_table() -> None:
    """Each method and its requirements, and how it departs from its source."""
    known = methods().values()
    _list((method.label, f"{method.summary} {properties(method)}") for method in known)
    with st.expander("Departures from the papers and from the authors' code"):
        _list((method.label, departure(method)) for method in known if departure(method))


def _list(entries: Iterable[tuple[str, str]]) -> None:
    """Draw a list of names, each with its text: on a narrow screen, a table would be cut off."""
    st.markdown("\n".join(f"- **{name}**: {text}" for name, text in entries))


def files() -> None:
    """Which files can be opened."""
    st.markdown(
        f"""
npz, npy, pt, safetensors, csv, tsv, parquet, feather, HDF5, mat, JSON, JSON lines, zarr, and pickles of published
logits, also compressed (gz, bz2, xz, zst). Opening a file never runs code from it. If a file cannot be used, a
message says what is wrong with it and how to fix it.

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


def keyboard() -> None:
    """The keyboard shortcuts."""
    st.markdown(
        """
| keys | action |
|---|---|
| Ctrl+Enter | start the page's computation: its fits, its study or its attack |
| Esc | cancel the latest job; finished results are kept |
| Alt+→ | next page |
"""
    )


def inconsistencies() -> None:
    """Where the paper's statements disagree."""
    st.markdown(
        "Guo, Tao, Luo, Dong and Xu, *Sample Margin-Aware Recalibration of Temperature Scaling*, ICML 2026. These "
        "statements of the paper do not agree with each other:"
    )
    st.markdown("\n".join(f"- {plain_text(str(tension))}" for tension in paper.TENSIONS))
