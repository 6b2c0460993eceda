"""The command `benchmark`: many data sets by many methods."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from smart_core.cli.arguments import METHODS_HELP, add_json, add_metric, add_study, positive
from smart_core.cli.output import check_extension, check_targets, metric_cell, notes, show, stop_unless
from smart_core.cli.terminal import running, table

if TYPE_CHECKING:
    from smart_core.data.logitset import LogitSet
    from smart_core.experiments.benchmark_result import Benchmark


def add(parser: ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a data set: a bundle, sample:NAME, or a folder with its files, such as val.pt and test.pt; of an HDF5 "
        "file or folder with several experiments, all; NAME=FILE names it",
    )
    parser.add_argument("--methods", default="all", help=METHODS_HELP)
    add_study(parser)
    parser.add_argument(
        "--splits", type=positive, default=1, help="random splits of files that have no split of their own (default: 1)"
    )
    parser.add_argument("--workers", type=positive, default=1, help="processes that share the fits (default: 1)")
    add_metric(parser, "the metric of the table and of the ranking")
    parser.add_argument(
        "--out", required=True, metavar="RESULTS", help="file of finished fits, .json; extended if it is there already"
    )
    parser.add_argument("--merge", nargs="+", default=[], metavar="RESULTS", help="files whose fits are added first")
    parser.add_argument("--latex", metavar="PATH", help="write the main table for a paper, .tex")
    add_json(parser)


def run(options: Namespace) -> None:
    """Fit what is missing and print the table and the ranking."""
    from smart_core.calibrators import select
    from smart_core.data.saving import atomic_write
    from smart_core.device import resolve_device
    from smart_core.experiments.benchmark import benchmark as run_benchmark
    from smart_core.experiments.benchmark_records import RecordFile

    select(options.methods)
    resolve_device(options.device)
    check_extension("--out", options.out, ".json")
    check_targets(options)
    records = RecordFile.open(options.out)
    for path in options.merge:
        records.merge(path)
    known = len(records.records)
    sets = load_sets(options.files)
    with running() as run:
        result = run_benchmark(
            sets,
            options.methods,
            options.seeds,
            options.splits,
            bins=options.bins,
            metric=options.metric,
            device=options.device,
            workers=options.workers,
            records=records,
            progress=run.progress,
            cancel=run.cancel,
        )
    if options.latex and result.complete:
        with atomic_write(options.latex) as stream:
            stream.write(result.to_latex().encode())
    made = f"{len(records.records) - known} fits made, {known} found in {options.out}."
    show(options, result.to_dict(), "\n".join([benchmark_text(result), made]))
    stop_unless(result.complete)


def load_sets(files: list[str]) -> dict[str, LogitSet]:
    """The data sets by name, every experiment of a file or folder; a name that occurs twice gets a number."""
    from smart_core.data.document import Document

    sets: dict[str, LogitSet] = {}
    for given in files:
        name, equals, path = given.partition("=")
        if not equals or Path(given).exists():
            name, path = "", given
        document = Document.open(path)
        for group in document.groups or (None,):
            data = document.load(group=group)
            title = " ".join(part for part in (name, group or "") if part) or data.name
            own, number = title, 2
            while own in sets:
                own, number = f"{title} ({number})", number + 1
            sets[own] = data
    return sets


def benchmark_text(result: Benchmark) -> str:
    """The main table, and below it the ranking over sets."""
    from smart_core.calibrators import method_named
    from smart_core.evaluation import METRICS, metric_label, metric_number

    metric = result.metric
    labels = {id: method_named(id).label for id in result.methods}
    rows = []
    for name, cells in result.cells.items():
        row = [name]
        for id in result.methods:
            figures = cells[id].over_seeds(metric) if id in cells else None
            text = metric_cell(metric, float(figures.mean), float(figures.std)) if figures else ""
            row.append(text + ("*" if text and result.tied.get(metric, {}).get(name, {}).get(id) else ""))
        rows.append([*row, metric_number(metric, result.sets[name].floor) if metric == "ece" else ""])
    lines = [
        f"{metric_label(metric)}; * the best, or tied with it by a paired test; +- over splits and seeds",
        table(["set", *labels.values(), "floor" if metric == "ece" else ""], rows),
    ]
    found = result.ranking()
    if found is None:
        return "\n".join([*lines, "No ranking: it needs two methods with values on every set."])
    summary = [
        [
            labels[id],
            f"{row.mean_rank:.2f}",
            f"{row.win_rate:.0%}",
            f"{row.win_rate_low:.0%} to {row.win_rate_high:.0%}",
        ]
        for id, row in result.summary().iterrows()
    ]
    left_out = [label for id, label in labels.items() if id not in found.methods]
    lines += ["", table(["method", "mean rank", "win rate", "95 % over sets"], summary)]
    if found.sets > 1:
        lines.append(
            f"Nemenyi: mean ranks that differ by less than {found.critical_difference:.2f} cannot be told apart"
            + (f"; Friedman test of no difference: p = {found.friedman.f_p:.2g}." if found.friedman else ".")
        )
    if left_out:
        lines.append(f"Not ranked, because a set has no {METRICS[metric].label} of them: {', '.join(left_out)}.")
    reasons = {
        f"{labels[id]}: {cell.reason}" for cells in result.cells.values() for id, cell in cells.items() if cell.reason
    }
    return "\n".join([*lines, *notes(sorted(reasons))])
