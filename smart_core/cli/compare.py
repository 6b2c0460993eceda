"""The command `compare`: the leaderboard."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from smart_core.cli.arguments import METHODS_HELP, add_files, add_study
from smart_core.cli.output import check_options, metric_cell, notes, show, stop_unless
from smart_core.cli.terminal import running, table

if TYPE_CHECKING:
    from smart_core.experiments.compare import Comparison, MethodResult


def add(parser: ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument("--methods", default="all", help=METHODS_HELP)
    add_study(parser)


def run(options: Namespace) -> None:
    from smart_core.cli.inputs import load_data, on_scheduler
    from smart_core.experiments.compare import compare as run_compare

    check_options(options)
    data = load_data(options)
    with on_scheduler(options), running() as run:
        result = run_compare(
            data,
            options.methods,
            options.seeds,
            bins=options.bins,
            device=options.device,
            progress=run.progress,
            cancel=run.cancel,
        )
    result.check_any()
    show(options, result.to_dict(), leaderboard_text(result))
    stop_unless(result.complete)


def leaderboard_text(result: Comparison) -> str:
    """Return the leaderboard and the explanations needed to read it."""
    from smart_core.evaluation import HEADLINE, MEASURED_AND_TRUE, METRICS, TRUE_RANGE, measured_label

    data = result.data
    labels = [METRICS[name].label for name in HEADLINE if name != "ece"]
    by = f"by {METRICS[result.metric].label}"
    ece = [measured_label("ece"), "ECE noise floor", f"ECE {TRUE_RANGE}"]
    header = ["method", *ece, *labels, "parameters", "fit s", "top-1", by]
    rows = [_leaderboard_row(row, result, len(header)) for row in result.results.values()]
    chosen = result.recommended
    recommendation = [f"{chosen.title}. {chosen.reason}"] if chosen else []
    return "\n".join(
        [
            f"{data.name}: fitted on {len(data.validation)}, evaluated on {len(data.test)}, {data.what}",
            *notes(map(str, data.notices)),
            table(header, rows),
            *recommendation,
            "ECE, AdaECE, cwECE, smCE, SmoothECE and accuracy in %; +- is the spread over seeds.",
            MEASURED_AND_TRUE,
            '"worse NLL, Brier or Accuracy": worse than the uncalibrated model, beyond noise, on the same samples.',
            "tied: the paired test cannot distinguish the method from the best; worse: it can.",
            *notes(result.notices),
            *notes(f"{row.label}: {notice}" for row in result.results.values() for notice in row.notices),
        ]
    )


def _leaderboard_row(row: MethodResult, result: Comparison, width: int) -> list[str]:
    from smart_core.evaluation import HEADLINE, metric_number

    if not row.available:
        return [row.label, *[""] * (width - 2), row.reason or ""]
    ends = [metric_number("ece", end) for end in row.ends("ece")]
    return [
        row.label,
        metric_cell("ece", row.mean("ece"), row.std("ece")),
        metric_number("ece", row.floor_q95("ece")),
        " to ".join(ends) if all(ends) else "",
        *(metric_cell(name, row.mean(name), row.std(name)) for name in HEADLINE if name != "ece"),
        str(row.parameters),
        f"{row.fit_seconds:.1f}",
        "kept" if row.keeps_top1 else "may change",
        result.standing_text(row.id),
    ]
