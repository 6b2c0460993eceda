"""The command `sensitivity`: SMART over a grid of sigma and delta."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from smart_core.cli.arguments import add_files, add_metric, add_study, numbers
from smart_core.cli.output import check_options, metric_cell, notes, show, stop_unless
from smart_core.cli.terminal import running, table
from smart_core.errors import CalibrationError
from smart_core.formatting import plural

if TYPE_CHECKING:
    from smart_core.experiments.sensitivity import Sensitivity

SIGMA_HELP = "bandwidths, numbers separated by commas (default: 0.01,0.05,0.1,0.5,1)"
DELTA_HELP = "Charbonnier smoothings, numbers separated by commas (default: 0.001,0.01,0.1,1)"


def add(parser: ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument("--sigma", type=numbers, default=None, metavar="A,B,...", help=SIGMA_HELP)
    parser.add_argument("--delta", type=numbers, default=None, metavar="A,B,...", help=DELTA_HELP)
    add_metric(parser, "metric of the printed grid")
    add_study(parser)


def run(options: Namespace) -> None:
    import numpy as np

    from smart_core.cli.inputs import load_data, on_scheduler
    from smart_core.experiments.sensitivity import PAPER_DELTAS, PAPER_SIGMAS
    from smart_core.experiments.sensitivity import sensitivity as run_sensitivity

    check_options(options)
    data = load_data(options)
    with on_scheduler(options), running() as run:
        result = run_sensitivity(
            data,
            options.sigma or PAPER_SIGMAS,
            options.delta or PAPER_DELTAS,
            options.seeds,
            metric=options.metric,
            bins=options.bins,
            device=options.device,
            progress=run.progress,
            cancel=run.cancel,
        )
    if result.complete and not np.isfinite(result.mean()).any():
        raise CalibrationError(f"no cell could be computed: {result.reason(0, 0)}", file=data.name)
    show(options, result.to_dict(), grid_text(result, len(data.test)))
    stop_unless(result.complete)


def grid_text(result: Sensitivity, samples: int) -> str:
    """Return the grid with its unit and a warning against choosing its best cell."""
    from smart_core.evaluation import METRICS

    header = ["sigma \\ delta", *(f"{delta:g}" for delta in result.deltas)]
    rows = [
        [f"{sigma:g}", *(metric_cell(result.metric, m, s) for m, s in zip(means, stds, strict=True))]
        for sigma, means, stds in zip(result.sigmas, result.mean(), result.std(), strict=True)
    ]
    metric = METRICS[result.metric]
    unit = " in %" if metric.percent else ""
    counts = f"{plural(samples, 'test sample')}, {plural(result.seeds, 'seed')} per cell"
    return "\n".join(
        [
            table(header, rows),
            f"{metric.label}{unit} on {counts}; +- is the spread over seeds.",
            "The grid shows how much the settings matter. Taking its best cell would be selection on test data, "
            "and its value would be too optimistic.",
            *notes(
                f"sigma {item['sigma']:g}, delta {item['delta']:g}, seed {item['seed']}: {item['reason']}"
                for item in result.reasons_list()
            ),
        ]
    )
