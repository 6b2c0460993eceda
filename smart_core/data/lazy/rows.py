"""Shards joined into one matrix that is read by slices, and the part of a set whose logits are such a matrix."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from smart_core.data.lazy.readers import is_url, name_of, reader_of, reading
from smart_core.data.logitset import Array, Part
from smart_core.data.split import stratified_subset
from smart_core.device import rows_per_chunk
from smart_core.errors import LogitFileError

FIT_ROWS = 50_000
"""Rows of a validation part that a fit reads at most, twice as many as ImageNet's usual 25,000: what a calibrator of
few parameters loses by fewer rows falls with their number, and is then below the noise of any test set."""
FIT_LOGITS = 1 << 26
"""Numbers that a fit reads at most (256 MB in float32), because fits hold several copies."""
FIT_LEAST = 1000
"""Rows that a fit reads at least, however many classes there are."""
RANGES = 32
"""Ranges of rows that a part is cut into for the workers: more if they were larger than `RANGE_LOGITS`, fewer if they
were smaller than a chunk."""
RANGE_LOGITS = 1 << 26
"""Logits of a range at most (256 MB in float32): a fraction of a second of work, so that a piece that is repeated costs
little, and what a worker sends and receives is small beside it."""
SPARSE = 8
"""Rows are read one by one if fewer than one in this many is wanted; else with those between them."""
TINY = float(np.finfo(np.float32).tiny)
"""Takes the place of a probability of 0 under the logarithm."""


@dataclass(frozen=True)
class Shard:
    """Rows of one file: what a worker gets in place of an array."""

    path: str
    key: str
    """The array in the file."""
    rows: int
    first: int = 0
    """The row of the file that is row 0 of the shard."""

    @property
    def name(self) -> str:
        return name_of(self.path)


@dataclass(frozen=True, eq=False, repr=False)
class LazyRows:
    """(N, K) float32 logits in shards. `logits[a:b]` reads these rows; `np.asarray` reads all, if they are few."""

    shards: tuple[Shard, ...]
    classes: int
    index: NDArray[np.int64] | None = None
    """Which rows of the shards, joined in their order; None for all."""
    probabilities: bool = False
    """Whether the files hold probabilities, whose logarithms are the logits."""

    ndim = 2
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        return (sum(shard.rows for shard in self.shards) if self.index is None else len(self.index)), self.classes

    @property
    def size(self) -> int:
        return self.shape[0] * self.classes

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"LazyRows({self.shape[0]:,} x {self.classes:,} in {len(self.shards):,} shards)"

    def __getitem__(self, rows: slice) -> Array:
        """Read consecutive rows."""
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError("lazy logits are read by slices; take(index) selects rows without reading them")
        view = self.span(*rows.indices(len(self))[:2])
        blocks = [block for _, block in view.blocks(max(1, len(view)))]
        return np.concatenate(blocks) if blocks else np.empty((0, self.classes), dtype=np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.size > FIT_LOGITS * 4:
            raise LogitFileError(
                f"{len(self):,} x {self.classes:,} logits do not fit into memory", "use fit_part, or read slices"
            )
        return self[:].astype(dtype or np.float32, copy=False)

    def take(self, index: Array) -> LazyRows:
        """These rows (integers or a mask), in that order, without reading them."""
        wanted = np.flatnonzero(index) if index.dtype == np.bool_ else np.asarray(index, dtype=np.int64)
        return replace(self, index=wanted if self.index is None else self.index[wanted])

    def followed_by(self, other: LazyRows) -> LazyRows:
        """The rows of both, these first."""
        own = np.arange(len(self)) if self.index is None else self.index
        others = np.arange(len(other)) if other.index is None else other.index
        if self.shards == other.shards:
            return replace(self, index=np.concatenate([own, others]))
        offset = sum(shard.rows for shard in self.shards)
        return replace(self, shards=self.shards + other.shards, index=np.concatenate([own, others + offset]))

    def span(self, start: int, stop: int) -> LazyRows:
        """Consecutive rows, with those shards only that hold them."""
        start, stop = max(start, 0), min(stop, len(self))
        if start >= stop:
            return replace(self, shards=(), index=None)
        wanted = None if self.index is None else self.index[start:stop]
        low, high = (start, stop) if wanted is None else (int(wanted.min()), int(wanted.max()) + 1)
        kept, at, offset = [], 0, None
        for shard in self.shards:
            first, last = max(low - at, 0), min(high - at, shard.rows)
            if first < last:
                offset = at + first if offset is None else offset
                kept.append(replace(shard, first=shard.first + first, rows=last - first))
            at += shard.rows
        return replace(self, shards=tuple(kept), index=None if wanted is None else wanted - (offset or 0))

    def place(self, row: int) -> tuple[Shard, int]:
        """The shard that holds a row of this matrix, and which row of its file that is."""
        at = row if self.index is None else int(self.index[row])
        for shard in self.shards:
            if at < shard.rows:
                return shard, shard.first + at
            at -= shard.rows
        raise IndexError(row)

    def blocks(self, size: int) -> Iterator[tuple[slice, Array]]:
        """Yield (rows of this matrix, their logits) in blocks of `size` rows, the last one shorter.

        If they are asked for in another order than that of the files, they are read block by block.
        """
        at = 0
        for block in self._in_order(size):
            yield slice(at, at + len(block)), block
            at += len(block)

    def _in_order(self, size: int) -> Iterator[Array]:
        if self.index is None or bool((np.diff(self.index) >= 0).all()):
            yield from self._ascending(self.index, size)
            return
        for start in range(0, len(self.index), size):
            order, back = np.unique(self.index[start : start + size], return_inverse=True)
            for block in self._ascending(order, len(order)):
                yield block[back]

    def _ascending(self, index: NDArray[np.int64] | None, size: int) -> Iterator[Array]:
        """Blocks of `size` rows, each copied once from what was read."""
        left = len(self) if index is None else len(index)
        block, filled = np.empty((min(size, left), self.classes), dtype=np.float32), 0
        for shard, at, read, chosen in self._pieces(index, size):
            done = 0
            while done < len(chosen):
                rows = chosen[done : done + len(block) - filled]
                target = block[filled : filled + len(rows)]
                if read.dtype == np.float32:
                    np.take(read, rows, axis=0, out=target, mode="clip")
                else:
                    target[:] = read[rows]
                self._check(target, shard, at + rows)
                done, filled = done + len(rows), filled + len(rows)
                if filled == len(block):
                    yield block
                    left -= filled
                    block, filled = np.empty((min(size, left), self.classes), dtype=np.float32), 0

    def _pieces(
        self, index: NDArray[np.int64] | None, size: int
    ) -> Iterator[tuple[Shard, int, Array, NDArray[np.int64]]]:
        """Yield rows that were read of a shard, the first one's row in it, and which of them are wanted."""
        at = 0
        for shard in self.shards:
            wanted = np.arange(shard.rows)
            if index is not None:
                low, high = np.searchsorted(index, (at, at + shard.rows))
                wanted = index[low:high] - at
            if len(wanted):
                yield from self._read(shard, wanted, size)
            at += shard.rows

    def _read(
        self, shard: Shard, wanted: NDArray[np.int64], size: int
    ) -> Iterator[tuple[Shard, int, Array, NDArray[np.int64]]]:
        with reading(shard.path):
            reader = reader_of(shard.path)
            for start, stop in _runs(wanted, reader.sparse):
                at = start
                for block in reader.blocks(shard.path, shard.key, shard.first + start, shard.first + stop, size):
                    if block.ndim != 2 or block.shape[1] != self.classes:
                        problem = f"has {block.shape[-1]} columns where {self.classes} are needed"
                        raise LogitFileError(problem, "save every shard alike", file=shard.name)
                    low, high = np.searchsorted(wanted, (at, at + len(block)))
                    yield shard, at, block, wanted[low:high] - at
                    at += len(block)
                if at < stop:
                    problem = f"ends at row {shard.first + at:,}, before its last"
                    raise LogitFileError(problem, "copy it again", file=shard.name)

    def _check(self, logits: Array, shard: Shard, rows: NDArray[np.int64]) -> None:
        """Raise for NaN and +infinity; probabilities become their logarithms."""
        with np.errstate(invalid="ignore"):
            if logits.max() < np.inf:  # NaN is not less
                if self.probabilities:
                    np.log(np.maximum(logits, TINY, out=logits), out=logits)
                return
            bad = int(rows[np.argmax(~(logits < np.inf).all(axis=1))])
        problem = f"holds NaN or infinity in row {shard.first + bad:,} (counted from 0)"
        raise LogitFileError(problem, "remove these rows or compute them again", file=shard.name)

    def fingerprint(self) -> str:
        """SHA-256 of the paths, sizes and times of change of the files, and of the rows: the content is not read."""
        digest = hashlib.sha256(f"{self.shape} {self.probabilities}".encode())
        for shard in self.shards:
            changed = () if is_url(shard.path) else _stamp(shard.path)
            digest.update(f"{os.path.abspath(shard.path)}|{shard.key}|{shard.first}|{shard.rows}|{changed}\n".encode())
        if self.index is not None:
            digest.update(np.ascontiguousarray(self.index).data)
        return digest.hexdigest()


def _stamp(path: str) -> tuple[int, ...]:
    try:
        info = os.stat(path)
    except OSError:  # whoever reads it says so
        return ()
    return info.st_size, info.st_mtime_ns


def _runs(wanted: NDArray[np.int64], sparse: bool) -> Iterator[tuple[int, int]]:
    """Ranges that hold the wanted rows: one, or many where few rows are wanted and can be read by themselves."""
    first, last = int(wanted[0]), int(wanted[-1]) + 1
    if not sparse or last - first < SPARSE * len(wanted):
        yield first, last
        return
    cuts = np.flatnonzero(np.diff(wanted) > 1)
    for start, stop in zip([0, *(cuts + 1).tolist()], [*(cuts + 1).tolist(), len(wanted)], strict=True):
        yield int(wanted[start]), int(wanted[stop - 1]) + 1


@dataclass(frozen=True, eq=False, repr=False)
class LazyPart(Part):
    """A part whose logits lie in shards: labels and metadata are in memory, and `logits` are `LazyRows`.

    Evaluations read every row; a fit reads `for_fit`.
    """

    in_memory = False

    def __post_init__(self) -> None:
        self.check_labels()

    def __repr__(self) -> str:
        return f"LazyPart({self.rows!r})"

    @property
    def rows(self) -> LazyRows:
        """The logits, by their type."""
        return cast(LazyRows, self.logits)

    @property
    def ragged(self) -> bool:
        """False: rows that lack classes are found when they are read, and refused by methods that need all."""
        return False

    @property
    def correct(self) -> Array:
        """(N,) whether the prediction is the label; reads every row the first time."""
        return self._correct

    @cached_property
    def _correct(self) -> Array:
        found = [block.argmax(axis=1) for _, block in self.rows.blocks(rows_per_chunk(self.classes))]
        return np.asarray(np.concatenate(found) == self.labels)

    def subset(self, indices: Array) -> LazyPart:
        """The rows at `indices` (integers or a mask), in that order; none is read."""
        return self._of(self.rows.take(indices), indices)

    def span(self, start: int, stop: int) -> LazyPart:
        """Consecutive rows, with those shards only that hold them: what a worker gets."""
        return self._of(self.rows.span(start, stop), slice(start, stop))

    def ranges(self, start: int, stop: int) -> list[slice]:
        """The rows from `start` to `stop` in ranges of whole chunks, one for a worker at a time."""
        chunk = rows_per_chunk(self.classes)
        wanted = min(-(-(stop - start) // RANGES), RANGE_LOGITS // self.classes)
        step = max(1, wanted // chunk) * chunk
        return [slice(first, min(first + step, stop)) for first in range(start, stop, step)]

    def _of(self, logits: LazyRows, rows: Any) -> LazyPart:
        metadata = {name: array[rows] for name, array in self.metadata.items()}
        group = None if self.group is None else self.group[rows]
        return LazyPart(logits, self.labels[rows], group=group, metadata=metadata)  # type: ignore[arg-type]

    @property
    def fit_size(self) -> int:
        """How many rows a fit reads: all if they are few, else `FIT_ROWS`, or fewer where classes are very many."""
        return min(len(self), FIT_ROWS, max(FIT_LOGITS // self.classes, FIT_LEAST))

    @cached_property
    def for_fit(self) -> Part:
        """The rows that a fit reads, in memory: all, or a sample stratified by label."""
        chosen = self
        if self.fit_size < len(self):
            chosen = self.subset(stratified_subset(self.labels, self.fit_size, seed=0))
        logits = np.ascontiguousarray(chosen.rows[:])
        return Part(logits, chosen.labels, group=chosen.group, metadata=chosen.metadata)

    def content(self) -> Iterator[tuple[str, Array]]:
        """What tells the part from others: for the logits, the state of their files."""
        yield "shards", np.frombuffer(self.rows.fingerprint().encode(), dtype=np.uint8)
        for name, array in (("labels", self.labels), ("group", self.group), *sorted(self.metadata.items())):
            if array is not None:
                yield name, array

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """Refused: the logits are not in memory."""
        raise LogitFileError(
            "The logits of a lazy set stay in their files", "reduce the shards to a compact set, or load them with load"
        )
