"""The command `benchmark`: many data sets by many methods."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smart_core.cli.arguments import METHODS_HELP, add_json, add_metric, add_scheduler, add_study, positive
from smart_core.cli.output import check_extension, check_options, metric_cell, notes, show, stop_unless
from smart_core.cli.terminal import running, table

if TYPE_CHECKING:
    from smart_core.data.logitset import LogitSet
    from smart_core.experiments.benchmark_records import RecordFile
    from smart_core.experiments.benchmark_result import Benchmark
    from smart_core.progress import Run


def add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="a data set: a bundle, sample:NAME, a folder with its files, such as val.pt and test.pt, or all "
        "experiments of an HDF5 file or folder; NAME=FILE names it; without any, the fits of --out are shown",
    )
    parser.add_argument("--val", nargs="+", metavar="FILE", help="validation parts: a folder with a file per model")
    parser.add_argument("--test", nargs="+", metavar="FILE", help="test parts: a folder with files of the same names")
    parser.add_argument("--methods", default="all", help=METHODS_HELP)
    add_study(parser)
    parser.add_argument(
        "--splits", type=positive, default=1, help="random splits of files that have no split of their own (default: 1)"
    )
    parser.add_argument("--workers", type=positive, default=1, help="processes that share the fits (default: 1)")
    add_scheduler(parser)
    add_metric(parser, "the metric of the table and of the ranking")
    parser.add_argument(
        "--out", required=True, metavar="RESULTS", help="file of finished fits, .json; extended if it is there already"
    )
    parser.add_argument("--merge", nargs="+", default=[], metavar="RESULTS", help="files whose fits are added first")
    parser.add_argument("--latex", metavar="PATH", help="write the main table for a paper, .tex")
    add_json(parser)


def run(options: Namespace) -> None:
    from smart_core.cli.inputs import on_scheduler
    from smart_core.data.saving import atomic_write
    from smart_core.experiments.benchmark import benchmark as run_benchmark
    from smart_core.experiments.benchmark_records import RecordFile

    check_extension("--out", options.out, ".json")
    check_options(options)
    records = RecordFile.open(options.out)
    for path in options.merge:
        records.merge(path)
    known = len(records.records)
    sets = load_sets(options.files, options.val, options.test, options.scheduler is not None)
    with on_scheduler(options), running() as run:
        if sets:
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
        else:
            result = stored(records, options.metric, run)
            records.save()
    if options.latex and result.complete:
        with atomic_write(options.latex) as stream:
            stream.write(result.to_latex().encode())
    made = f"{len(records.records) - known} fits made, {known} found in {options.out}."
    show(options, result.to_dict(), "\n".join([benchmark_text(result), made]))
    stop_unless(result.complete or not sets)


def stored(records: RecordFile, metric: str, run: Run | None = None) -> Benchmark:
    """The benchmark of finished fits, with the methods tied with the best marked."""
    from smart_core.errors import Cancelled, SmartError
    from smart_core.experiments.benchmark import mark_ties
    from smart_core.experiments.benchmark_result import Benchmark

    result = Benchmark.of(records, metric)
    if not result.sets:
        raise SmartError("holds no finished fits", "run `smart benchmark` with data sets first", file=str(records.path))
    try:
        mark_ties(result, records, metric, run=run)
    except Cancelled:
        result.complete = False
    return result


def load_sets(
    files: list[str], val: list[str] | None = None, test: list[str] | None = None, lazy: bool = False
) -> dict[str, LogitSet]:
    """The data sets by name, every experiment of a file or folder; a name that occurs twice gets a number.

    `val` and `test` are two folders with a file per model, of which those of equal names belong together.
    Large files that are named alone, and with `lazy` all, are opened as shards of one set.
    """
    from smart_core.data.document import Document
    from smart_core.data.lazy.opening import are_large
    from smart_core.data.lazy.opening import open as open_shards
    from smart_core.experiments.benchmark_result import unused

    sets: dict[str, LogitSet] = {}
    both = [("", {"val": val, "test": test})] if val or test else []
    for name, arguments in [*map(_named, files), *both]:
        if lazy or ("source" in arguments and are_large([arguments["source"]])):
            found = [("", open_shards(**arguments))]
        else:
            document = Document.open(**arguments)
            found = [(group or "", document.load(group=group)) for group in document.groups or (None,)]
        for group, data in found:
            sets[unused(" ".join(part for part in (name, group) if part) or data.name, sets)] = data
    return sets


def _named(given: str) -> tuple[str, dict[str, Any]]:
    """The name in front of a file, if there is one, and the file."""
    name, equals, path = given.partition("=")
    return (name, {"source": path}) if equals and not Path(given).exists() else ("", {"source": given})


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
        return "\n".join([*lines, result.verdict()])
    summary = [
        [
            labels[id],
            f"{row.mean_rank:.2f}",
            f"{row.win_rate:.0%}",
            f"{row.win_rate_low:.0%} to {row.win_rate_high:.0%}",
        ]
        for id, row in result.summary().iterrows()
    ]
    left_out: dict[tuple[str, ...], list[str]] = {}
    for id in labels:
        if id not in found.methods:
            values = {name: cells[id].over_seeds(metric).mean for name, cells in result.cells.items() if id in cells}
            without = tuple(name for name, mean in values.items() if isnan(mean))
            left_out.setdefault(without, []).append(labels[id])
    lines += ["", table(["method", "mean rank", "win rate", "95% over sets"], summary)]
    lines.append(result.verdict().replace("\u00a0", " "))
    for without, methods in left_out.items():
        which = f"{without[0]} has" if len(without) == 1 else f"{len(without)} sets have"
        lines.append(f"Not ranked, because {which} no {METRICS[metric].label} of them: {', '.join(methods)}.")
    reasons = {
        f"{labels[id]}: {cell.reason}" for cells in result.cells.values() for id, cell in cells.items() if cell.reason
    }
    return "\n".join([*lines, *notes(sorted(reasons))])
