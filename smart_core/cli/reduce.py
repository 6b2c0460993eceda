"""The command `reduce`: shards to a compact set that every command opens."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from smart_core.cli.arguments import add_json, add_scheduler, part_of
from smart_core.cli.output import check_extension, check_targets, notes, show
from smart_core.cli.terminal import running


def add(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="SHARD", help="shards of logits, a folder, or a pattern")
    parser.add_argument("--labels", nargs="+", metavar="FILE", help="their labels, if they are not among the shards")
    parser.add_argument("--val", nargs="+", metavar="FILE", help="validation: shards and labels")
    parser.add_argument("--test", nargs="+", metavar="FILE", help="test: shards and labels")
    parser.add_argument("--values", choices=["logits", "probabilities"], help="what the scores are")
    parser.add_argument("--labels-start-at", type=int, choices=[0, 1], help="label of the first class")
    parser.add_argument("--out", required=True, metavar="SET.parquet", help="file to write (parquet)")
    parser.add_argument(
        "--shard",
        type=part_of,
        default=(1, 1),
        metavar="I/N",
        help="process only part I of N of the rows (job arrays)",
    )
    add_scheduler(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    from smart_core.cli.inputs import on_scheduler
    from smart_core.experiments.reduce import reduce
    from smart_core.formatting import bytes_text

    check_extension("--out", options.out, ".parquet")
    check_targets(options)
    with on_scheduler(options), running() as run:
        made = reduce(
            options.files or None,
            options.out,
            labels=options.labels,
            val=options.val,
            test=options.test,
            values=options.values,
            labels_start_at=options.labels_start_at,
            share=options.shard,
            progress=run.progress,
            cancel=run.cancel,
        )
    notices = list(map(str, made.notices))
    summary = {"out": options.out, "rows": made.rows, "classes": made.classes, "bytes": made.bytes, "notices": notices}
    each = f"{made.bytes / made.rows:.0f} bytes a row"
    done = f"{made.rows:,} rows of {made.classes:,} classes reduced to {bytes_text(made.bytes)} ({each}), {options.out}"
    show(options, summary, "\n".join([done, *notes(notices)]))
