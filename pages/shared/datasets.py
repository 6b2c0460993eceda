"""The data sets that a session can select: the bundled samples, and those the user loaded.

A page gets the selected data set from `current()`. Loaded data sets and custom splits are kept in the `Session`.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

import sample_logits
from pages.shared import session, undo
from pages.shared.session import LoadedDataset
from smart_core import LogitSet, load
from smart_core.cli.dashboard import startup
from smart_core.data.samples import PREFIX
from smart_core.data.saved import LONGEST_NAME
from smart_core.formatting import printable
from smart_core.types import IntArray


class Sample(NamedTuple):
    """A bundled sample: its title, and one line about it."""

    title: str
    about: str


SAMPLES = {
    "fashion_ls_0_05": Sample(
        "Fashion-MNIST, smoothed labels",
        "Images of clothes and a small network trained on smoothed labels: one temperature does not repair it.",
    ),
    "cifar10": Sample("CIFAR-10", "Photographs and a small residual network, with features and C&W distances."),
    "cifar10_corrupted": Sample("CIFAR-10, corrupted", "The same network on noisy, blurred and hazy photographs."),
    "fashion": Sample("Fashion-MNIST", "Images of clothes and a small network, with features and C&W distances."),
    "fashion_corrupted": Sample(
        "Fashion-MNIST, corrupted", "A similar network on noisy, blurred and hazy images, and on their edges alone."
    ),
    "fashion_long_tail": Sample(
        "Fashion-MNIST, long tail", "A similar network where training and validation have few images of some classes."
    ),
    "fashion_brier": Sample("Fashion-MNIST, Brier", "The same network trained on the Brier score."),
    "fashion_mmce": Sample("Fashion-MNIST, MMCE", "The same network trained with a calibration penalty."),
    "fashion_flsd_53": Sample("Fashion-MNIST, FLSD-53", "The same network trained on a sample-dependent focal loss."),
    "fashion_fl_3": Sample("Fashion-MNIST, FL-3", "The same network trained on a focal loss."),
    "fashion_dfl": Sample("Fashion-MNIST, DFL", "The same network trained on the dual focal loss."),
    "fashion_mdca": Sample("Fashion-MNIST, MDCA", "The same network trained with a penalty on each class's gap."),
    "fashion_uwg": Sample("Fashion-MNIST, UWG", "The same network trained with gradients weighted by uncertainty."),
    "languages": Sample("Languages", "Which of 64 languages is this word from? A small network on its letters."),
    "languages_choices": Sample("Languages, multiple choice", "The same words with 2 to 10 languages to choose from."),
    "letters": Sample("Letters", "Capital letters described by 16 numbers, and a small network."),
    "letters_boosting": Sample("Letters, boosting", "The same letters and gradient boosting: raw scores, no features."),
    "digits": Sample("Digits", "Handwritten digits and a tiny network, small enough to attack while you watch."),
    "digits_corrupted": Sample("Digits, corrupted", "The same network on noisy and blurred digits."),
}

KEY_LENGTH = 12


def samples() -> dict[str, Sample]:
    """Return the samples whose files exist; a new session opens with the first.

    `opening()` in `sample_logits/summary.py` must name the same sample.
    """
    return {name: sample for name, sample in SAMPLES.items() if sample_logits.path(name).exists()}


def sample_size(name: str) -> str:
    """Return the size of a sample: `10 classes, 720 + 720 rows, 0.3 MB`."""
    validation, test, classes = _sample_shape(name, sample_logits.path(name).stat().st_mtime_ns)
    megabytes = sample_logits.path(name).stat().st_size / 1e6
    return f"{classes} classes, {validation:,} + {test:,} rows, {megabytes:.1f}\u00a0MB"


def classes(key: str) -> int:
    """Return the number of classes of a data set, without loading a sample."""
    own = session.current().datasets.get(key)
    return own.data.classes if own is not None else _sample_shape(key, sample_logits.path(key).stat().st_mtime_ns)[2]


@lru_cache(maxsize=64)
def _sample_shape(name: str, modified: int) -> tuple[int, int, int]:
    """Return validation rows, test rows and classes, from the headers of the arrays."""
    with zipfile.ZipFile(sample_logits.path(name)) as bundle:
        (validation, classes), (test, _) = (_shape(bundle, f"{side}_logits.npy") for side in ("val", "test"))
    return validation, test, classes


def test_labels(key: str) -> str:
    """Return a hash of the test labels of a data set: models of the same samples share it. A sample is not loaded.

    It is empty for confidences without logits, whose labels only say whether the prediction is correct.
    """
    here = session.current()
    if key in here.datasets or key in here.splits:
        data = get(key)
        return _hash(data.test.labels) if data.kind == "logits" else ""
    return _sample_labels(key, sample_logits.path(key).stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _sample_labels(name: str, modified: int) -> str:
    with np.load(sample_logits.path(name), allow_pickle=False) as bundle:
        return _hash(bundle["test_labels"])


def _hash(labels: IntArray) -> str:
    return hashlib.sha256(np.ascontiguousarray(labels, dtype=np.int64).data).hexdigest()


def _shape(bundle: zipfile.ZipFile, member: str) -> tuple[int, ...]:
    with bundle.open(member) as stream:
        np.lib.format.read_magic(stream)
        shape: tuple[int, ...] = np.lib.format.read_array_header_1_0(stream)[0]
        return shape


def titles() -> dict[str, str]:
    """Return key -> title of every data set that can be selected, the user's own first."""
    own = session.current().datasets
    return {key: own[key].title for key in reversed(list(own))} | {k: sample.title for k, sample in samples().items()}


def empty() -> bool:
    """Return whether there is no data set to select: no sample files, and nothing loaded."""
    return not titles()


def default_key() -> str:
    """Return the data set that a session opens with: the command line's, else the first sample, else an empty key."""
    given = [key_of(item.data) for item in startup.sets] + startup.samples
    return next((key for key in [*given, *samples()] if key in titles()), "")


def current_key() -> str:
    """Return the key of the selected data set."""
    key: str = st.session_state[session.DATA]
    return key


def current() -> LogitSet:
    """Return the selected data set, with its custom split if it has one."""
    return get(current_key())


def is_sample(data: LogitSet) -> bool:
    """Return whether this is the selected data set, and a bundled sample with the split of its file."""
    key = current_key()
    return key not in session.current().datasets and data is as_loaded(key)


def current_title() -> str:
    """Return the title of the selected data set."""
    return titles()[current_key()]


def get(key: str) -> LogitSet:
    """Return a data set, with its custom split if it has one."""
    data, split = as_loaded(key), session.current().splits.get(key)
    return data if split is None else _resplit(data.content_hash, split.fraction, split.seed, data)


def as_loaded(key: str) -> LogitSet:
    """Return a data set with the split of its file."""
    own = session.current().datasets.get(key)
    if own is not None:
        return own.data
    content = sample_logits.path(key).read_bytes()
    return _load_sample(hashlib.sha256(content).hexdigest(), f"{key}.npz", content)


@st.cache_resource(max_entries=16, show_spinner="Reading the logits")
def _load_sample(content_hash: str, name: str, _content: bytes) -> LogitSet:
    return load(_content, name=name)


@st.cache_resource(max_entries=2, show_spinner="Splitting", scope="session")
def _resplit(content_hash: str, fraction: float, seed: int, _data: LogitSet) -> LogitSet:
    return _data.resplit(fraction, seed=seed)


def key_of(data: LogitSet) -> str:
    """Return the key of a loaded data set: the first characters of its content hash."""
    return data.content_hash[:KEY_LENGTH]


def add_from_command_line() -> None:
    """Add the data sets of the command line to the workspace; they are saved when something is computed from them."""
    own = session.current().datasets
    for item in reversed(startup.sets):
        key = key_of(item.data)
        if key not in own:
            title, paths = _unique_title(item.data.name, key), tuple(map(os.path.abspath, item.files))
            own.set_unsaved(
                key, LoadedDataset(item.data, title, {"whole": item.files}, item.options, paths, item.in_place)
            )


def add(
    data: LogitSet,
    files: Mapping[str, Sequence[str]],
    options: dict[str, Any],
    replaces: str | None = None,
    paths: tuple[str, ...] = (),
) -> str:
    """Add a data set, select it at the next run, and return its key.

    `replaces` is the key of the same files read with other options, which is removed. If the session is full, the
    oldest data set is removed, and its title is kept under `REMOVED_DATASET` to tell the user. `paths` are files in the
    server's folder, which are not copied.
    """
    own = session.current().datasets
    key = key_of(data)
    if replaces is not None and replaces != key and replaces in own:
        undo.remember(f"change to the reading options of {own[replaces].title}")
        del own[replaces]
    if key not in own and len(own) == session.MAX_DATASETS:
        undo.remember(f"removal of {next(iter(own.values())).title}")
        st.session_state[session.REMOVED_DATASET] = next(iter(own.values())).title
    in_place = not data.test.in_memory
    own[key] = LoadedDataset(data, _unique_title(data.name, key), files, options, paths, in_place, bool(paths))
    select(key)
    return key


def _unique_title(title: str, key: str) -> str:
    taken = {other for known, other in titles().items() if known != key}
    numbered = (f"{title} ({number})" for number in range(2, len(taken) + 3))
    return title if title not in taken else next(name for name in numbered if name not in taken)


def rename(key: str, title: str) -> None:
    """Give a data set of the user another title."""
    own = session.current().datasets
    own[key] = replace(own[key], title=_unique_title(printable(title.strip(), LONGEST_NAME), key))
    select(key)  # otherwise the sidebar's field keeps the earlier title


def select(key: str) -> None:
    """Select a data set at the next run."""
    st.session_state[session.NEXT_DATASET] = key


def load_call(key: str) -> str:
    """Return the Python expression that loads a data set: `sc.load("logits.npz")`."""
    own = session.current().datasets.get(key)
    call = own.call if own is not None else f'sc.load("{PREFIX}{key}")'
    split = session.current().splits.get(key)
    return call if split is None else f"{call}.resplit({split.fraction:g}, seed={split.seed})"


def load_code() -> str:
    """Return the Python lines that load the selected data set."""
    return f"import smart_core as sc\n\ndata = {load_call(current_key())}\n"
