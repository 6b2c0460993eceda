"""`LogitSet`, the result of loading: two checked, read-only `Part`s."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smart_core.errors import LogitFileError

Array = NDArray[Any]


@dataclass(frozen=True)
class Cure:
    """Another way to read a file, `load(..., **{option: value})`; `label` is the text of its button.

    A value of None is for the user to choose, for instance the `roles` in a form that lists what `describe` returns.
    """

    option: str
    value: bool | int | str | None
    label: str


@dataclass(frozen=True)
class Notice:
    """A decision made for the user, or a warning; `code` identifies it and `text` is one sentence.

    `cure` is the option of `load` that decides otherwise, if there is one.

    >>> import smart_core as sc
    >>> data = sc.data.from_arrays(logits=[[0.9, 0.1], [0.2, 0.8]] * 5, labels=[0, 1] * 5)
    >>> data.notices[0].code, data.notices[0].cure.label
    ('probabilities', 'These are logits')
    """

    code: str
    text: str
    cure: Cure | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Head:
    """The last linear layer: logits = features @ weight.T + bias."""

    weight: Array
    """(K, D) float32."""
    bias: Array
    """(K,) float32."""


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Validation or test: arrays with one row per sample.

    >>> import numpy as np
    >>> part = Part(logits=np.eye(3, dtype=np.float32), labels=np.array([0, 1, 1]))
    >>> part, round(part.accuracy, 3)
    (Part(3 samples, 3 classes), 0.667)
    >>> part.subset(part.labels == 1)
    Part(2 samples, 3 classes)
    """

    logits: Array
    """(N, K) float32, C-contiguous, read-only."""
    labels: Array
    """(N,) int64 in 0..K-1."""
    features: Array | None = None
    """(N, D) float32: the input of the last layer."""
    cw_l2: Array | None = None
    """(N,) float64: Carlini-Wagner L2 distances; NaN where not attacked."""
    group: Array | None = None
    """(N,) strings: corruption, domain, ..."""

    def __post_init__(self) -> None:
        """Check the types and shapes of arrays that `load` did not make; their values are not checked."""
        for name, (kind, axes) in _FORMS.items():
            array = getattr(self, name)
            if array is None and name not in ("logits", "labels"):
                continue
            if not isinstance(array, np.ndarray):
                raise _wrong(f"{name} is a {type(array).__name__} where a NumPy array is needed")
            if np.ma.is_masked(array):
                raise _wrong(f"{name} has masked entries", fix="fill them, or drop their rows")
            if array.dtype.type is not kind or not array.dtype.isnative or array.ndim != axes:
                given = f"{name} is {'x'.join(map(str, array.shape)) or 'a single value'} of {array.dtype}"
                needed = "a matrix" if axes == 2 else "a vector"
                raise _wrong(f"{given} where {needed} of {_NAMES.get(name, kind.__name__)} is needed")
            if len(array) != len(self):
                raise _wrong(f"{name} has {len(array):,} rows and logits {len(self):,}")
        if not self.logits.flags.c_contiguous:
            raise _wrong("logits are not C-contiguous")
        if len(self) and not (self.labels.min() >= 0 and self.labels.max() < self.classes):
            low, high = int(self.labels.min()), int(self.labels.max())
            raise _wrong(f"labels run from {low} to {high} where the logits have {self.classes} columns")

    def __len__(self) -> int:
        return int(self.logits.shape[0])

    def __repr__(self) -> str:
        extra = [name for name, _ in self.arrays() if name not in ("logits", "labels")]
        return f"Part({len(self):,} samples, {self.classes} classes{', with ' if extra else ''}{', '.join(extra)})"

    @property
    def classes(self) -> int:
        """K, the number of columns of the logits."""
        return int(self.logits.shape[1])

    @property
    def accuracy(self) -> float:
        """The fraction of rows whose largest logit is the label's."""
        return float(np.mean(self.logits.argmax(axis=1) == self.labels))

    def subset(self, indices: Array) -> Part:
        """Return the rows at `indices` (integers or a mask), in that order."""
        return Part(**{name: read_only(array[indices]) for name, array in self.arrays()})

    def groups(self) -> dict[str, Part]:
        """Return {group name: its rows} in order of first appearance; empty without groups."""
        if self.group is None:
            return {}
        names, first, member = np.unique(self.group, return_index=True, return_inverse=True)
        return {str(names[g]): self.subset(np.flatnonzero(member == g)) for g in np.argsort(first)}

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield (name, array) of the arrays that are present, named as in a bundle without splits."""
        for name in _FORMS:
            array = getattr(self, name)
            if array is not None:
                yield name, array


@dataclass(frozen=True, eq=False, repr=False)
class LogitSet:
    """Validation and test logits of one model, with the other arrays of the file.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(300, 200, classes=3)
    >>> data
    LogitSet('simulated (u_shaped)', 3 classes, 300 + 200 samples)
    >>> data.test
    Part(200 samples, 3 classes)
    >>> data.test.logits.shape, data.test.labels.dtype
    ((200, 3), dtype('int64'))
    >>> data.resplit(0.2, seed=1)
    LogitSet('simulated (u_shaped)', 3 classes, 100 + 400 samples)
    """

    name: str
    validation: Part
    test: Part
    head: Head | None = None
    class_names: tuple[str, ...] | None = None
    notices: tuple[Notice, ...] = field(default=())

    def __post_init__(self) -> None:
        for part in (self.validation, self.test):
            if not isinstance(part, Part):
                raise _wrong(f"one part is a {type(part).__name__} where a Part is needed", "LogitSet")
            if not len(part) or part.classes < 2:
                shape = f"{len(part)} x {part.classes}"
                raise _wrong(f"one part is {shape} where at least 1 x 2 is needed", "LogitSet")
        if self.validation.classes != self.test.classes:
            raise _wrong(f"validation has {self.validation.classes} classes and test {self.test.classes}", "LogitSet")
        if self.class_names is not None and len(self.class_names) != self.classes:
            raise _wrong(f"there are {len(self.class_names)} class names for {self.classes} classes", "LogitSet")

    def __repr__(self) -> str:
        return f"LogitSet({self.name!r}, {self.classes} classes, {len(self.validation):,} + {len(self.test):,} samples)"

    @property
    def classes(self) -> int:
        """K, the same in both parts."""
        return self.validation.classes

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over every array, the head and the class names; independent of the name and the notices."""
        digest = hashlib.sha256()
        for name, array in self.arrays():
            digest.update(f"{name} {array.dtype.kind} {array.shape}\n".encode())
            if array.dtype.kind == "U":
                # the width of a string type is not content
                digest.update("\0".join(array.tolist()).encode("utf-8", "surrogatepass"))
            else:
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield (name, array) as in a bundle: val_logits, val_labels, test_logits, ..., class_names."""
        for split, part in (("val", self.validation), ("test", self.test)):
            for name, array in part.arrays():
                yield f"{split}_{name}", array
        if self.head is not None:
            yield "head_weight", self.head.weight
            yield "head_bias", self.head.bias
        if self.class_names is not None:
            yield "class_names", np.array(self.class_names, dtype=np.str_)

    def with_parts(self, *, validation: Part | None = None, test: Part | None = None) -> LogitSet:
        """Return the same set with one or both parts replaced."""
        return replace(self, validation=validation or self.validation, test=test or self.test)

    def resplit(self, val_fraction: float = 0.5, seed: int = 0) -> LogitSet:
        """Return the rows of both parts, split again at random and stratified by label."""
        from smart_core.data.split import resplit

        return resplit(self, val_fraction, seed)


def read_only(array: Array) -> Array:
    """Mark an array read-only and return it."""
    array.flags.writeable = False
    return array


_FORMS: dict[str, tuple[type[np.generic], int]] = {
    "logits": (np.float32, 2),
    "labels": (np.int64, 1),
    "features": (np.float32, 2),
    "cw_l2": (np.float64, 1),
    "group": (np.str_, 1),
}
"""Array of a part -> its type and number of axes."""
_NAMES = {"group": "strings"}


def _wrong(
    problem: str, of: str = "Part", fix: str = "smart_core.data.from_arrays converts and checks arrays of any kind"
) -> LogitFileError:
    return LogitFileError(problem, fix, file=of)
