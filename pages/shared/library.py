"""The data sets a session can look at: the bundled samples and its own."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import streamlit as st

import sample_logits
from pages.shared import cached, state
from pages.shared.desk import SETS_KEPT, Desk, Held, Split, desk
from smart_core import LogitSet
from smart_core.cli.dashboard import opened
from smart_core.data.samples import PREFIX


@dataclass(frozen=True)
class Sample:
    """A bundled sample: what it is called, and one line about it."""

    title: str
    about: str


KNOWN = {
    "cifar10": Sample("CIFAR-10", "Photographs, a small residual network, with features and C&W distances."),
    "cifar10_corrupted": Sample("CIFAR-10, corrupted", "The same network on noisy, blurred and hazy photographs."),
    "fashion": Sample("Fashion-MNIST", "Pictures of clothes, a small network, with features and C&W distances."),
    "fashion_corrupted": Sample("Fashion-MNIST, corrupted", "The same network on noisy, blurred and hazy pictures."),
    "fashion_brier": Sample("Fashion-MNIST, Brier", "The same network trained on the Brier score."),
    "fashion_mmce": Sample("Fashion-MNIST, MMCE", "The same network trained with a calibration penalty."),
    "fashion_ls_0_05": Sample("Fashion-MNIST, smoothed labels", "The same network trained on smoothed labels."),
    "fashion_flsd_53": Sample("Fashion-MNIST, FLSD-53", "The same network trained on a sample-dependent focal loss."),
    "fashion_fl_3": Sample("Fashion-MNIST, FL-3", "The same network trained on a focal loss."),
    "digits": Sample("Digits", "Handwritten digits and a tiny network, small enough to attack while you watch."),
    "digits_corrupted": Sample("Digits, corrupted", "The same network on noisy and blurred digits."),
}

KEY_LENGTH = 12


def samples() -> dict[str, Sample]:
    """The samples that are there, the one to open with first."""
    return {name: sample for name, sample in KNOWN.items() if sample_logits.path(name).exists()}


def sample_size(name: str) -> str:
    """How large a sample is, in a few words."""
    path = sample_logits.path(name)
    return _size(name, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _size(name: str, changed: int) -> str:
    """Rows and classes stand in the arrays' headers: nothing is unpacked."""
    path = sample_logits.path(name)
    with zipfile.ZipFile(path) as bundle:
        shapes = [_shape(bundle, f"{side}_logits.npy") for side in ("val", "test")]
    (validation, classes), (test, _) = shapes
    return f"{classes} classes, {validation:,} + {test:,} rows, {path.stat().st_size / 1e6:.1f}\u00a0MB"


def _shape(bundle: zipfile.ZipFile, member: str) -> tuple[int, ...]:
    with bundle.open(member) as stream:
        np.lib.format.read_magic(stream)
        shape: tuple[int, ...] = np.lib.format.read_array_header_1_0(stream)[0]
        return shape


def first() -> str:
    """What a session opens with: what the command line gave, else a sample; empty where there is none."""
    given = [key_of(item.data) for item in opened.sets] + opened.samples
    known = titles(desk())
    return next((key for key in [*given, *samples()] if key in known), "")


def open_given() -> None:
    """Put the data sets that the command line gave on the desk of a new session."""
    if state.DESK in st.session_state:
        return
    here = desk()
    for item in reversed(opened.sets):
        key = key_of(item.data)
        here.sets[key] = Held(item.data, _unlike_others(item.data.name, key, here), item.call, item.options)


def nothing() -> bool:
    """Whether there is no data set to look at: no sample beside the program, and none loaded yet."""
    return not titles(desk())


def titles(held: Desk) -> dict[str, str]:
    """Key -> title of every data set this session can look at, its own ones first."""
    own = {key: held.sets[key].title for key in reversed(list(held.sets))}
    return own | {name: sample.title for name, sample in samples().items()}


def base(key: str) -> LogitSet:
    """A data set with the split of its file."""
    own = desk().sets.get(key)
    return own.data if own is not None else cached.sample(key)


def named(key: str) -> LogitSet:
    """A data set with the split the session asked for."""
    split = desk().splits.get(key)
    return base(key) if split is None else cached.resplit(base(key), split.fraction, split.seed)


def current_key() -> str:
    """Key of the data set in view."""
    key: str = st.session_state[state.DATA]
    return key


def current() -> LogitSet:
    """The data set in view."""
    return named(current_key())


def title() -> str:
    """What the data set in view is called."""
    return titles(desk())[current_key()]


def key_of(data: LogitSet) -> str:
    """The key of a data set of the session's own: the beginning of its fingerprint."""
    return data.content_hash[:KEY_LENGTH]


def add(
    data: LogitSet, title: str, call: str, options: dict[str, Any] | None = None, replaces: str | None = None
) -> str:
    """Put a data set on the desk and look at it; gives its key. Call it before the sidebar is drawn, or rerun after.

    `replaces` is the key of the same files read another way, which goes. On a full desk the oldest set makes room,
    which is kept under `PUT_AWAY` to be said.
    """
    here = desk()
    key = key_of(data)
    if replaces != key:
        here.sets.pop(replaces or "", None)
    if key not in here.sets and len(here.sets) == SETS_KEPT:
        st.session_state[PUT_AWAY] = next(iter(here.sets.values())).title
    here.sets[key] = Held(data, _unlike_others(title, key, here), call, options or {})
    look_at(key)
    return key


def _unlike_others(title: str, key: str, here: Desk) -> str:
    """A title that no other data set has."""
    taken = {other for known, other in titles(here).items() if known != key}
    numbered = (f"{title} ({number})" for number in range(2, len(taken) + 3))
    return title if title not in taken else next(name for name in numbered if name not in taken)


def look_at(key: str) -> None:
    """Make a data set the one in view, from the next run on."""
    st.session_state[NEXT] = key


PUT_AWAY = "put away"
"""Session key: the title of a data set that made room for another, until it is said."""

NEXT = "next data set"
"""Session key: a widget's value cannot be changed once it is drawn, so the wish waits for the next run."""


def split_by_hand(key: str, split: Split | None) -> None:
    """Ask for another split of a data set, or for its file's own (None)."""
    if split is None:
        desk().splits.pop(key, None)
    else:
        desk().splits[key] = split


def load_code(key: str | None = None) -> str:
    """The Python that loads the data set in view."""
    key = key or current_key()
    own = desk().sets.get(key)
    call = own.call if own is not None else f'sc.load("{PREFIX}{key}")'
    split = desk().splits.get(key)
    if split is not None:
        call += f".resplit({split.fraction:g}, seed={split.seed})"
    return f"import smart_core as sc\n\ndata = {call}\n"
