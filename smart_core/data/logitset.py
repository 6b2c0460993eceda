"""What a loaded file becomes: a `LogitSet` of two checked, read-only `Part`s."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Notice:
    """Something understood on the user's behalf; `code` names it, `text` says it in one sentence."""

    code: str
    text: str

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
    """One side of the split: aligned arrays, one row a sample."""

    logits: Array
    """(N, K) float32, C-contiguous, read-only."""
    labels: Array
    """(N,) int64 in 0..K-1."""
    features: Array | None = None
    """(N, D) float32: what the last layer saw."""
    cw_l2: Array | None = None
    """(N,) float64: Carlini-Wagner L2 distances; NaN where not attacked."""
    group: Array | None = None
    """(N,) strings: corruption, domain, ..."""

    def __len__(self) -> int:
        return int(self.logits.shape[0])

    def __repr__(self) -> str:
        extra = [name for name, _ in self.arrays() if name not in ("logits", "labels")]
        return f"Part({len(self):,} samples, {self.classes} classes{', with ' if extra else ''}{', '.join(extra)})"

    @property
    def classes(self) -> int:
        """K, from the logits."""
        return int(self.logits.shape[1])

    @property
    def accuracy(self) -> float:
        """The fraction of rows whose largest logit is the label's."""
        return float(np.mean(self.logits.argmax(axis=1) == self.labels))

    def subset(self, indices: Array) -> Part:
        """The rows at `indices` (integers or a mask), in that order."""

        def rows(array: Array | None) -> Array | None:
            return None if array is None else read_only(array[indices])

        return Part(
            logits=read_only(self.logits[indices]),
            labels=read_only(self.labels[indices]),
            features=rows(self.features),
            cw_l2=rows(self.cw_l2),
            group=rows(self.group),
        )

    def groups(self) -> dict[str, Part]:
        """Group name -> its rows, in order of first appearance; empty without groups."""
        if self.group is None:
            return {}
        names, first, member = np.unique(self.group, return_index=True, return_inverse=True)
        return {str(names[g]): self.subset(np.flatnonzero(member == g)) for g in np.argsort(first)}

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """The arrays that are present, by their bundle name without the split."""
        for name in ("logits", "labels", "features", "cw_l2", "group"):
            array = getattr(self, name)
            if array is not None:
                yield name, array


@dataclass(frozen=True, eq=False, repr=False)
class LogitSet:
    """Validation and test logits of one model, with what else the file gave."""

    name: str
    validation: Part
    test: Part
    head: Head | None = None
    class_names: tuple[str, ...] | None = None
    notices: tuple[Notice, ...] = field(default=())

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
        for split, part in (("val", self.validation), ("test", self.test)):
            for name, array in part.arrays():
                _update(digest, f"{split}_{name}", array)
        if self.head is not None:
            _update(digest, "head_weight", self.head.weight)
            _update(digest, "head_bias", self.head.bias)
        if self.class_names is not None:
            _update(digest, "class_names", np.asarray(self.class_names, dtype=np.str_))
        return digest.hexdigest()

    def with_parts(self, *, validation: Part | None = None, test: Part | None = None) -> LogitSet:
        """The same set with one or both parts replaced."""
        return replace(self, validation=validation or self.validation, test=test or self.test)


def read_only(array: Array) -> Array:
    """The same array, marked unwritable."""
    array.flags.writeable = False
    return array


def _update(digest: hashlib._Hash, name: str, array: Array) -> None:
    digest.update(f"{name} {array.dtype.kind} {array.shape}\n".encode())
    if array.dtype.kind == "U":
        # the width of a string type is not content
        digest.update("\0".join(array.tolist()).encode("utf-8", "surrogatepass"))
    else:
        digest.update(np.ascontiguousarray(array).data)
