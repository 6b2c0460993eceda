"""Many calibrators evaluated on a part in one pass over its rows.

The rows of a lazy part are read in fixed ranges. A worker gets the paths and the range, the labels of these rows and
the calibrators; it reads the range chunk by chunk, applies every calibrator to each chunk, and returns one evaluation
per calibrator. The evaluations of the ranges are joined in the order of the rows, so that the result is the same, bit
for bit, whatever the number of workers and wherever they run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from smart_core.calibrators.base import Calibrator
from smart_core.data.lazy.rows import LazyPart
from smart_core.data.logitset import Part
from smart_core.device import one_thread, rows_per_chunk
from smart_core.errors import SmartError
from smart_core.evaluation import Collector, Evaluation, evaluate, joined
from smart_core.experiments.compiled_rows import CompiledRows, supports
from smart_core.experiments.executors import in_order
from smart_core.formatting import plural
from smart_core.metrics.classwise import ClasswiseHistogram
from smart_core.metrics.summed import SamplePiece, SampleSums
from smart_core.progress import Run, attempt

CLASSWISE_UP_TO = 10_000
"""Classes up to which a pass over shards keeps classwise sums: a range returns 480 bytes per class for each
calibrator."""
VECTORS_BYTES = 1 << 30
"""What the evaluations of one pass may take; more calibrators need more passes."""
BYTES_PER_SAMPLE = 37
"""Of an evaluation's vectors."""
SUMMED_ABOVE = 100_000_000
"""Samples times calibrators of a pass from which their evaluations are sums, without vectors: 3.7 GB of these."""

Evaluated = Evaluation | Exception


def evaluate_all(
    calibrators: Sequence[Calibrator], part: Part, *, bins: int = 15, classwise: bool = True, run: Run | None = None
) -> list[Evaluated]:
    """Evaluate every calibrator on a part; one that fails gives its error instead.

    A part in memory is evaluated by one calibrator after the other, a lazy one in one pass for all. Its evaluations
    have classwise sums without random groups, so that its classwise ECE has no interval; above `CLASSWISE_UP_TO`
    classes they have none. Above `SUMMED_ABOVE` samples of all calibrators together, they are `SummedEvaluation`.
    """
    run = run or Run()
    if not isinstance(part, LazyPart):
        return [
            attempt(partial(evaluate, calibrator, part, bins=bins, classwise=classwise, run=span))
            for calibrator, span in run.each(calibrators)
        ]
    if not calibrators:
        return []
    summed = len(part) * len(calibrators) > SUMMED_ABOVE
    found: list[_Joined | _Summed] = [_Summed(bins) if summed else _Joined() for _ in calibrators]
    kept = bins if classwise and part.classes <= CLASSWISE_UP_TO else None
    ranges = part.ranges(0, len(part))
    pieces = (part.span(rows.start, rows.stop) for rows in ranges)
    ends = np.cumsum([shard.rows for shard in part.rows.shards])

    def words(done: int) -> str:
        row = ranges[done].start if done < len(ranges) else len(part)
        place = row if part.rows.index is None or row == len(part) else part.rows.index[row]
        shard = int(np.searchsorted(ends, place, side="right"))
        return f"{row:,} of {len(part):,} rows read, {min(shard, len(ends)):,} of {len(ends):,} shards"

    with closing(in_order(partial(_range, calibrators, kept, summed), pieces, run, words, len(ranges))) as results:
        for result in results:
            for whole, piece in zip(found, result, strict=True):
                whole.add(piece)
    return [each.result() for each in found]


def evaluate_one(
    calibrator: Calibrator, part: Part, *, bins: int = 15, classwise: bool = True, run: Run | None = None
) -> Evaluation:
    """`evaluate`, with the rows of a lazy part shared by the workers."""
    (found,) = evaluate_all([calibrator], part, bins=bins, classwise=classwise, run=run)
    if isinstance(found, Exception):
        raise found
    return found


def passes(calibrators: Sequence[Calibrator], part: Part) -> Iterator[slice]:
    """Yield which calibrators share a pass, so that their evaluations fit into memory together."""
    most = max(1, VECTORS_BYTES // (BYTES_PER_SAMPLE * len(part)))
    for start in range(0, len(calibrators), most):
        yield slice(start, start + most)


class _Joined:
    """The vectors of all ranges, joined in their order; the first error takes their place."""

    def __init__(self) -> None:
        self.pieces: list[Evaluation] = []
        self.error: Exception | None = None

    def add(self, piece: Any) -> None:
        if isinstance(piece, Exception):
            self.error = self.error or piece
        else:
            self.pieces.append(piece)

    def result(self) -> Evaluated:
        return self.error or joined(self.pieces)


class _Summed:
    """The sums of all ranges."""

    def __init__(self, bins: int) -> None:
        self.sums = SampleSums(bins)
        self.error: Exception | None = None

    def add(self, piece: Any) -> None:
        if isinstance(piece, Exception):
            self.error = self.error or piece
            return
        try:
            self.sums.add(piece)
        except OSError as error:
            problem = f"the sums of {plural(self.sums.samples, 'row')} cannot be written to {tempfile.gettempdir()}"
            raise SmartError(f"{problem} ({error.strerror or error})", "set TMPDIR to a disk with more room") from error

    def result(self) -> Any:
        return self.error or self.sums.evaluation()


def _range(calibrators: Sequence[Calibrator], bins: int | None, summed: bool, part: LazyPart) -> list[Any]:
    """What a worker does: the evaluations of every calibrator on a range of rows."""
    found: list[Collector | Exception] = [
        Collector(calibrator, None if bins is None else ClasswiseHistogram(part.classes, bins))
        for calibrator in calibrators
    ]
    fast = [supports(calibrator) and calibrator.classes_ == part.classes for calibrator in calibrators]
    with one_thread():
        for rows, logits in part.rows.blocks(rows_per_chunk(part.classes)):
            labels = part.labels[rows]
            compiled = CompiledRows.of(logits, labels) if any(fast) else None
            for number, collector in enumerate(found):
                if isinstance(collector, Collector):
                    add = partial(_add_compiled, collector, compiled) if fast[number] and compiled else None
                    error = attempt(add or partial(_add, collector, logits, labels))
                    if error is not None:
                        found[number] = error
    whole = [each.evaluation() if isinstance(each, Collector) else each for each in found]
    return [SamplePiece.of(each) if summed and isinstance(each, Evaluation) else each for each in whole]


def _add_compiled(collector: Collector, rows: CompiledRows) -> None:
    collector.add_vectors(rows.vectors(collector.calibrator, collector.cells))


def _add(collector: Collector, logits: object, labels: object) -> None:
    for _, rows, probabilities in collector.calibrator.stream_rows(logits):
        collector.add(rows, probabilities, labels)  # type: ignore[arg-type]
