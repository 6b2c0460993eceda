"""`LogitSet`, the result of loading: two checked, read-only `Part`s, of logits or of confidences alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from smart_core.errors import LogitFileError

Array = NDArray[Any]

Kind = Literal["logits", "confidence", "reduced"]
METADATA = "metadata."
"""What the names of metadata begin with in a bundle."""
REDUCED = "reduced."
"""What the names of the columns of reduced rows begin with in a bundle."""
TAIL_COLUMN = re.compile(r"tail_of_([1-9]\d{0,6})_classes")
"""The name of the column that marks reduced rows, and says how many classes there are."""
TRUE_LABEL, PREDICTED_LABEL = "true_label", "predicted_label"
"""The metadata of confidences that say which class was right, and which was predicted."""


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

    Confidences without logits are a part as well, with `confidence` and without columns in `logits`. Reduced rows are
    another kind: `logits` holds the largest ones, `reduced` what is kept of the others.

    >>> import numpy as np
    >>> part = Part(logits=np.eye(3, dtype=np.float32), labels=np.array([0, 1, 1]))
    >>> part, round(part.accuracy, 3)
    (Part(3 samples, 3 classes), 0.667)
    >>> part.subset(part.labels == 1)
    Part(2 samples, 3 classes)
    >>> Part.of_confidences(np.array([0.9, 0.6]), np.array([True, False])).correct
    array([ True, False])
    """

    in_memory: ClassVar[bool] = True
    """Whether all arrays are in memory; the logits of a `LazyPart` stay in their files."""

    logits: Array
    """(N, K) float32, C-contiguous, read-only, -inf for a class that a row does not have; (N, 0) for confidences."""
    labels: Array
    """(N,) int64 in 0..K-1; for confidences, 1 where the prediction is correct, else 0."""
    features: Array | None = None
    """(N, D) float32: the input of the last layer."""
    cw_l2: Array | None = None
    """(N,) float64: Carlini-Wagner L2 distances; NaN where not attacked."""
    group: Array | None = None
    """(N,) strings: corruption, domain, ..."""
    confidence: Array | None = None
    """(N,) float64 in [0, 1]: the confidence of each prediction, where that is all that is known."""
    metadata: Mapping[str, Array] = field(default_factory=dict)
    """Name -> (N,) numbers (int64 or float64, NaN where missing) or strings: what else is known of the samples."""
    reduced: Mapping[str, Array] = field(default_factory=dict)
    """Of reduced rows: the columns of `fitting.reduced`; empty for others."""

    def __post_init__(self) -> None:
        """Check the types and shapes of arrays that `load` did not make; their values are not checked."""
        for name, (kind, axes) in _FORMS.items():
            array = getattr(self, name)
            if array is None and name not in ("logits", "labels"):
                continue
            self._check(name, array, (kind,), axes)
        for name, array in self.metadata.items():
            self._check(f"the metadata '{name}'", array, (np.int64, np.float64, np.str_), 1)
        if not self.logits.flags.c_contiguous:
            raise _wrong("logits are not C-contiguous")
        if self.confidence is not None and self.logits.shape[1]:
            raise _wrong("there are both logits and confidences", fix="give one of them")
        if self.reduced:
            self._check_reduced()
        self.check_labels()

    def _check_columns(self) -> None:
        for name, (kind, low, high) in REDUCED_FORMS.items():
            values = self.reduced.get(name)
            self._check(f"the column '{name}'", values, (kind,), 1)
            if len(self) and not (values.min() >= low and values.max() <= high):  # type: ignore[union-attr]
                raise _wrong(f"the column '{name}' has values outside {low:g} to {high:g}")
        if len(self) and int(self.reduced["prediction"].max()) >= self.classes:
            raise _wrong("the predictions are out of range")

    def _check_reduced(self) -> None:
        self._check_columns()
        tails = [name for name in self.reduced if TAIL_COLUMN.fullmatch(name)]
        if len(tails) != 1 or len(self.reduced) != len(REDUCED_FORMS) + 1:
            raise _wrong("the columns are not those of reduced rows")
        tail, width = self.reduced[tails[0]], min(self.classes, 10)
        self._check(f"the column '{tails[0]}'", tail, (np.uint16,), 2)
        if self.logits.shape[1] != width or tail.shape[1] < 4 or tail.shape[1] % 9 != 1 or self.classes < 2:
            raise _wrong("the columns do not fit the number of classes")
        if not np.isfinite(self.logits).all():
            raise _wrong("the largest logits are not finite")

    def check_labels(self) -> None:
        """Raise if a label is not a class."""
        values = 2 if self.kind == "confidence" else self.classes
        if len(self) and not (self.labels.min() >= 0 and self.labels.max() < values):
            low, high = int(self.labels.min()), int(self.labels.max())
            needed = "0 or 1 is needed" if self.kind == "confidence" else f"there are {self.classes} classes"
            needed = f"the logits have {self.classes} columns" if self.kind == "logits" else needed
            raise _wrong(f"labels run from {low} to {high} where {needed}")

    def _check(self, name: str, array: Any, kinds: tuple[type[np.generic], ...], axes: int) -> None:
        if not isinstance(array, np.ndarray):
            raise _wrong(f"{name} is a {type(array).__name__} where a NumPy array is needed")
        if np.ma.is_masked(array):
            raise _wrong(f"{name} has masked entries", fix="fill them, or drop their rows")
        if array.dtype.type not in kinds or not array.dtype.isnative or array.ndim != axes:
            given = f"{name} is {'x'.join(map(str, array.shape)) or 'a single value'} of {array.dtype}"
            needed = "a matrix" if axes == 2 else "a vector"
            of = " or ".join("strings" if kind is np.str_ else kind.__name__ for kind in kinds)
            raise _wrong(f"{given} where {needed} of {of} is needed")
        if len(array) != len(self):
            raise _wrong(f"{name} has {len(array):,} rows and {self.kind} {len(self):,}")

    @classmethod
    def of_confidences(cls, confidence: Array, correct: Array, **others: Any) -> Self:
        """Return a part of confidences (N,) and whether each prediction is correct (N,)."""
        rows = len(confidence)
        none = read_only(np.empty((rows, 0), dtype=np.float32))
        labels = read_only(np.asarray(correct).astype(np.int64))
        return cls(none, labels, confidence=read_only(np.asarray(confidence, dtype=np.float64)), **others)

    @classmethod
    def of_arrays(cls, named: Mapping[str, Array]) -> Self:
        """Return the part whose `arrays` these are."""
        own = {name: array for name, array in named.items() if not name.startswith((METADATA, REDUCED))}
        others = {name.removeprefix(METADATA): named[name] for name in named if name.startswith(METADATA)}
        reduced = {name.removeprefix(REDUCED): named[name] for name in named if name.startswith(REDUCED)}
        if "confidence" in own:
            return cls.of_confidences(own.pop("confidence"), own.pop("correct"), metadata=others, **own)
        return cls(**own, metadata=others, reduced=reduced)

    def __len__(self) -> int:
        return int(self.logits.shape[0])

    def __repr__(self) -> str:
        extra = [name for name, _ in self.arrays() if name not in MAIN_ARRAYS]
        what = "confidences" if self.kind == "confidence" else f"{self.classes} classes"
        what += ", reduced" if self.kind == "reduced" else ""
        return f"Part({len(self):,} samples, {what}{', with ' if extra else ''}{', '.join(extra)})"

    @property
    def kind(self) -> Kind:
        """`logits`; `confidence` where there never were logits; `reduced` where few of them were kept."""
        return "reduced" if self.reduced else "logits" if self.confidence is None else "confidence"

    @property
    def classes(self) -> int:
        """K, the number of columns of the logits, or that before they were reduced; 0 for confidences."""
        marks = [found for name in self.reduced if (found := TAIL_COLUMN.fullmatch(name))]
        return int(marks[0][1]) if marks else int(self.logits.shape[1])

    @cached_property
    def ragged(self) -> bool:
        """Whether some rows lack classes: their logits are -inf."""
        return bool(self.logits.size and np.isneginf(self.logits.min()))

    @property
    def for_fit(self) -> Part:
        """The rows that a fit reads: all of them, but for a lazy part."""
        return self

    @property
    def correct(self) -> Array:
        """(N,) whether the prediction, the class of the largest logit, is the label."""
        if self.confidence is not None:
            return self.labels == 1
        if self.reduced:
            return np.asarray(self.reduced["prediction"] == self.labels)
        return np.asarray(self.logits.argmax(axis=1) == self.labels)

    @property
    def accuracy(self) -> float:
        """The fraction of correct predictions."""
        return float(np.mean(self.correct))

    def subset(self, indices: Array) -> Self:
        """Return the rows at `indices` (integers or a mask), in that order."""
        maps = ("metadata", "reduced")
        arrays = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in maps}
        rows: dict[str, Any] = {
            name: None if array is None else read_only(array[indices]) for name, array in arrays.items()
        }
        for name in maps:
            rows[name] = {key: read_only(array[indices]) for key, array in getattr(self, name).items()}
        return type(self)(**rows)

    @property
    def columns(self) -> Mapping[str, Array]:
        """Columns to group samples by: `group` and the metadata; class numbers are names, not quantities."""
        named = {name: array.astype(np.str_) for name, array in self.metadata.items() if name in _LABELS}
        return ({} if self.group is None else {"group": self.group}) | dict(self.metadata) | named

    def groups(self, by: str = "group") -> dict[str, Part]:
        """Return {value: its rows} of a column; empty without it.

        Groups are in order of first appearance; the values of other columns as `partition` sorts them, with many
        different numbers as intervals of equally many samples.
        """
        if by not in self.columns:
            return {}
        if by != "group" or self.group is None:
            from smart_core.data.grouping import partition

            return {name: self.subset(rows) for name, rows in partition(self.columns[by]).items()}
        names, first, member = np.unique(self.group, return_index=True, return_inverse=True)
        return {str(names[g]): self.subset(np.flatnonzero(member == g)) for g in np.argsort(first)}

    def reduced_blocks(self, size: int, curve: bool) -> Iterator[tuple[slice, Array, Mapping[str, Array]]]:
        """Yield (rows, their largest logits, their columns) of reduced rows in blocks of `size`.

        Where the `curve` is not needed, a part whose curves stay in their file leaves them out.
        """
        for start in range(0, len(self), size):
            rows = slice(start, min(start + size, len(self)))
            yield rows, self.logits[rows], {name: values[rows] for name, values in self.reduced.items()}

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield (name, array) of the arrays that are present, named as in a bundle without splits."""
        if self.confidence is not None:
            yield "confidence", self.confidence
            yield "correct", self.correct
        for name in _FORMS:
            array = getattr(self, name)
            if array is not None and (self.confidence is None or name not in MAIN_ARRAYS):
                yield name, array
        for name in sorted(self.metadata):  # their order is not content
            yield f"{METADATA}{name}", self.metadata[name]
        for name in sorted(self.reduced):
            yield f"{REDUCED}{name}", self.reduced[name]

    def content(self) -> Iterator[tuple[str, Array]]:
        """Yield what tells the part from others, for `LogitSet.content_hash`."""
        return self.arrays()


@dataclass(frozen=True, eq=False, repr=False)
class LogitSet:
    """Validation and test logits (or confidences) of one model, with the other arrays of the file.

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
            if not len(part) or (part.kind == "logits" and part.classes < 2):
                shape = f"{len(part)} x {part.classes}"
                raise _wrong(f"one part is {shape} where at least 1 x 2 is needed", "LogitSet")
        if self.validation.kind != self.test.kind:
            raise _wrong(f"validation holds {self.validation.kind} and test {self.test.kind}", "LogitSet")
        if self.validation.classes != self.test.classes:
            raise _wrong(f"validation has {self.validation.classes} classes and test {self.test.classes}", "LogitSet")
        if self.class_names is not None and len(self.class_names) != self.classes:
            raise _wrong(f"there are {len(self.class_names)} class names for {self.classes} classes", "LogitSet")

    def __repr__(self) -> str:
        what = "confidences" if self.kind == "confidence" else f"{self.classes} classes"
        what += ", reduced" if self.kind == "reduced" else ""
        return f"LogitSet({self.name!r}, {what}, {len(self.validation):,} + {len(self.test):,} samples)"

    @property
    def kind(self) -> Kind:
        """`logits`, or `confidence` where there never were logits."""
        return self.validation.kind

    @property
    def classes(self) -> int:
        """K, the same in both parts; 0 for confidences."""
        return self.validation.classes

    @property
    def what(self) -> str:
        """What the rows hold, in words."""
        classes = f"{self.classes:,} classes"
        return {"logits": classes, "reduced": f"{classes}, reduced", "confidence": "confidences without logits"}[
            self.kind
        ]

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over every array, the head and the class names; independent of the name and the notices."""
        digest = hashlib.sha256()
        for name, array in self._named(lambda part: part.content()):
            digest.update(f"{name} {array.dtype.kind} {array.shape}\n".encode())
            if array.dtype.kind == "U":
                # the width of a string type is not content
                digest.update("\0".join(array.tolist()).encode("utf-8", "surrogatepass"))
            else:
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Yield (name, array) as in a bundle: val_logits, val_labels, test_logits, ..., class_names."""
        return self._named(lambda part: part.arrays())

    def _named(self, of_part: Callable[[Part], Iterator[tuple[str, Array]]]) -> Iterator[tuple[str, Array]]:
        for split, part in (("val", self.validation), ("test", self.test)):
            for name, array in of_part(part):
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
    "confidence": (np.float64, 1),
}
"""Array of a part -> its type and number of axes."""
REDUCED_FORMS: dict[str, tuple[type[np.generic], float, float]] = {
    "prediction": (np.int64, 0, 2**31),
    "label_gap": (np.float32, -1e30, 0),
    "mean_gap": (np.float32, -1e30, 0),
    "tail_gap": (np.float32, -1e30, 0),
    "complement": (np.float32, 0, 1),
    "others_squared": (np.float32, 0, 1),
}
"""Column of reduced rows -> its type and range; beside them is the tail."""
_LABELS = (TRUE_LABEL, PREDICTED_LABEL)
MAIN_ARRAYS = ("logits", "labels", "confidence", "correct")
"""The arrays without which there is no part."""


def _wrong(
    problem: str, of: str = "Part", fix: str = "smart_core.data.from_arrays converts and checks arrays of any kind"
) -> LogitFileError:
    return LogitFileError(problem, fix, file=of)
