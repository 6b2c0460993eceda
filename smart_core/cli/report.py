"""The command `report`: one HTML file with the results, which includes how to reproduce them."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smart_core.cli.arguments import METHODS_HELP, add_files, add_metric, add_study
from smart_core.cli.benchmark import stored
from smart_core.cli.output import check_extension, check_options, show
from smart_core.cli.terminal import running

if TYPE_CHECKING:
    from smart_core.progress import Run

WRITING = 0.9
"""Fraction of the progress at which everything is computed."""


def add(parser: ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument("--methods", default="all", help=METHODS_HELP)
    add_metric(parser, "metric that methods are ranked by")
    parser.add_argument(
        "--sensitivity", action="store_true", help="also refit SMART over the paper's grid of sigma and delta"
    )
    parser.add_argument("--benchmark", metavar="RESULTS", help="add a section on the fits of `smart benchmark`, .json")
    parser.add_argument("--out", required=True, metavar="REPORT.html", help="file to write (html)")
    add_study(parser)


def run(options: Namespace) -> None:
    from smart_core.cli.inputs import on_scheduler

    check_extension("--out", options.out, ".html", ".htm")
    check_options(options)
    with on_scheduler(options), running() as run:
        summary = run_report(options, run)
    show(options, summary, f"{summary['verdict']}\nwritten to {summary['out']} ({summary['bytes'] / 1e6:.1f} MB)")


def run_report(options: Namespace, run: Run) -> dict[str, Any]:
    """Fit, evaluate and write; return the verdict, the best method, and the path and size of the file."""
    from smart_core.calibrators import select
    from smart_core.cli.inputs import load_data
    from smart_core.data.saving import atomic_write
    from smart_core.experiments.benchmark_records import RecordFile
    from smart_core.experiments.verdict import repair_verdict
    from smart_core.report.findings import findings
    from smart_core.report.page import report_html
    from smart_core.report.reproduce import compare_code

    ids = select(options.methods)
    over_sets = None
    if options.benchmark:
        over_sets = stored(RecordFile.open(options.benchmark), options.metric, run.part(0.0, 0.0))
    data = load_data(options)
    found = findings(
        data,
        ids,
        options.seeds,
        bins=options.bins,
        metric=options.metric,
        sensitivity=options.sensitivity,
        benchmark=over_sets,
        device=options.device,
        code=compare_code(_loading(options), ids, options.seeds, options.bins, options.metric),
        command=command(options),
        run=run.part(0.0, WRITING),
    )
    content = report_html(found, run.part(WRITING, 1.0)).encode()
    with atomic_write(options.out) as handle:
        handle.write(content)
    return {
        "out": str(options.out),
        "bytes": len(content),
        "best": found.comparison.best,
        "verdict": repair_verdict(found.comparison).replace("\u00a0", " "),
        "methods": {id: row.available for id, row in found.comparison.results.items()},
    }


def command(options: Namespace) -> str:
    """Return the command that writes the same report; files without their folders, which differ for each reader."""
    words = ["smart", "report", *_names(options.files)]
    for side in ("val", "test"):
        if getattr(options, side):
            words += [f"--{side}", *_names(getattr(options, side))]
    for role, array in options.role:
        words += ["--role", f"{role}={array}"]
    if options.transposed is not None:
        words += ["--transposed" if options.transposed else "--no-transposed"]
    defaults: dict[str, Any] = {"group": None, "values": None, "labels_start_at": None}
    defaults |= {"val_fraction": 0.5, "split_seed": 0, "metric": "ece", "bins": 15}
    for name, value in _chosen(options, **defaults).items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--methods", options.methods, "--seeds", str(options.seeds)]
    words += ["--sensitivity"] if options.sensitivity else []
    words += ["--benchmark", Path(options.benchmark).name] if options.benchmark else []
    return shlex.join([*words, "--out", Path(options.out).name])


def _loading(options: Namespace) -> str:
    from smart_core.cli.inputs import reading
    from smart_core.report.reproduce import load_code

    chosen = _chosen(options, val_fraction=0.5, split_seed=0) | reading(options)
    return load_code(_names(options.files), _names(options.val), _names(options.test), **chosen)


def _chosen(options: Namespace, **defaults: Any) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    return {name: value for name, default in defaults.items() if (value := getattr(options, name)) != default}


def _names(paths: list[str] | None) -> list[str]:
    return [Path(path).name for path in paths or []]
