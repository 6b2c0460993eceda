"""Many calibrators evaluated on a part in one pass over its rows.

The rows of a lazy part are read in fixed ranges. A worker gets the paths and the range, the labels of these rows and
the calibrators; it reads the range chunk by chunk, applies every calibrator to each chunk, and returns one evaluation
per calibrator. The evaluations of the ranges are joined in the order of the rows, so that the result is the same, bit
for bit, whatever the number of workers and wherever they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial

from smart_core.calibrators.base import Calibrator
from smart_core.data.lazy.rows import LazyPart
from smart_core.data.logitset import Part
from smart_core.device import one_thread, rows_per_chunk
from smart_core.evaluation import Collector, Evaluation, evaluate, joined
from smart_core.experiments.compiled_rows import CompiledRows, takes
from smart_core.experiments.executors import in_order
from smart_core.metrics.classwise import ClasswiseHistogram
from smart_core.progress import Run, attempt

CLASSWISE_UP_TO = 10_000
"""Classes up to which a pass over shards keeps classwise sums: a range returns 480 bytes per class for each
calibrator."""
VECTORS_BYTES = 1 << 30
"""What the evaluations of one pass may take; more calibrators need more passes."""
BYTES_PER_SAMPLE = 37
"""Of an evaluation's vectors."""

Evaluated = Evaluation | Exception


def evaluate_all(
    calibrators: Sequence[Calibrator], part: Part, *, bins: int = 15, classwise: bool = True, run: Run | None = None
) -> list[Evaluated]:
    """Evaluate every calibrator on a part; one that fails gives its error instead.

    A part in memory is evaluated by one calibrator after the other, a lazy one in one pass for all. Its evaluations
    have classwise sums without random groups, so that its classwise ECE has no interval; above `CLASSWISE_UP_TO`
    classes they have none.
    """
    run = run or Run()
    if not isinstance(part, LazyPart):
        return [
            attempt(partial(evaluate, calibrator, part, bins=bins, classwise=classwise, run=span))
            for calibrator, span in run.each(calibrators)
        ]
    found: list[list[Evaluated]] = [[] for _ in calibrators]
    kept = bins if classwise and part.classes <= CLASSWISE_UP_TO else None
    ranges = part.ranges(0, len(part))
    pieces = (part.span(rows.start, rows.stop) for rows in ranges)
    words = f"reading {len(part):,} rows of {len(part.rows.shards):,} shards"
    with closing(in_order(partial(_range, calibrators, kept), pieces, run, words, len(ranges))) as results:
        for result in results:
            for pieces_of_one, piece in zip(found, result, strict=True):
                pieces_of_one.append(piece)
    return [_whole(each) for each in found]


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


def _whole(pieces: Sequence[Evaluated]) -> Evaluated:
    error = next((piece for piece in pieces if isinstance(piece, Exception)), None)
    return error or joined([piece for piece in pieces if isinstance(piece, Evaluation)])


def _range(calibrators: Sequence[Calibrator], bins: int | None, part: LazyPart) -> list[Evaluated]:
    """What a worker does: the evaluations of every calibrator on a range of rows."""
    found: list[Collector | Exception] = [
        Collector(calibrator, None if bins is None else ClasswiseHistogram(part.classes, bins))
        for calibrator in calibrators
    ]
    fast = [takes(calibrator) and calibrator.classes_ == part.classes for calibrator in calibrators]
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
    return [each.evaluation() if isinstance(each, Collector) else each for each in found]


def _add_compiled(collector: Collector, rows: CompiledRows) -> None:
    collector.add_vectors(rows.vectors(collector.calibrator, collector.cells))


def _add(collector: Collector, logits: object, labels: object) -> None:
    for _, rows, probabilities in collector.calibrator.stream_rows(logits):
        collector.add(rows, probabilities, labels)  # type: ignore[arg-type]
