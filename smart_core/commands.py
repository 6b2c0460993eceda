"""The commands behind the command line: each takes the parsed options, does the work, and prints or writes it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from smart_core import printing
from smart_core.atomic import replacing
from smart_core.command_inputs import (
    assignments_and_files,
    check_arrays,
    check_fits,
    load_data,
    load_validation,
    parse_settings,
    roles_given,
)
from smart_core.command_outputs import check_targets, show
from smart_core.console import ProgressBar, stop_on_interrupt
from smart_core.data.found import plural
from smart_core.device import resolve_device
from smart_core.errors import CalibrationError, Cancelled
from smart_core.run import Run


def inspect(options: Namespace) -> None:
    """What was found."""
    check_targets(options)
    card = printing.data_card(load_data(options))
    show(options, card, printing.card_text(card))


def compare(options: Namespace) -> None:
    """The leaderboard."""
    from smart_core.calibrators import methods, select
    from smart_core.experiments.compare import compare as run_compare

    select(options.methods)
    resolve_device(options.device)
    check_targets(options)
    data = load_data(options)
    with ProgressBar() as bar, stop_on_interrupt() as token:
        result = run_compare(
            data, options.methods, options.seeds, bins=options.bins, device=options.device, progress=bar, cancel=token
        )
    if result.complete and not any(row.available for row in result.results.values()):
        reasons = [f"{methods()[id].label}: {(row.reason or '').rstrip('.')}" for id, row in result.results.items()]
        raise CalibrationError(f"{data.name}: no method could be run ({'; '.join(reasons)}).")
    show(options, result.to_dict(), printing.leaderboard_text(result))
    _stop_unless(result.complete)


def fit(options: Namespace) -> None:
    """Fit and save."""
    from smart_core.calibrators import get, methods, select
    from smart_core.experiments.fitting import fit_part

    (id,) = select([options.method])
    assignments, files = assignments_and_files(options)
    settings = {"seed": options.seed, "device": options.device, **parse_settings(methods()[id], assignments)}
    calibrator = get(id, **settings)
    calibrator.check_settings()
    resolve_device(calibrator.device)
    options.files = files
    check_targets(options)
    part, head, notices = load_validation(options, files)
    check_arrays(methods()[id], part, head, files or options.val)
    with ProgressBar() as bar, stop_on_interrupt() as token:
        fitted = fit_part(calibrator, part, head, Run(bar, token))
    calibrator.save(options.out)
    notices = [*notices, *calibrator.notices_]
    summary = {
        "method": id,
        "settings": calibrator.settings_dict(),
        "parameters": calibrator.parameters,
        "samples": len(part),
        "fit_seconds": fitted.seconds,
        "notices": notices,
        "out": str(options.out),
    }
    samples = plural(len(part), "sample")
    done = f"{calibrator.label} fitted on {samples} in {fitted.seconds:.2f} s, written to {options.out}"
    show(options, summary, "\n".join([done, *printing.notes(notices)]))


def apply(options: Namespace) -> None:
    """Load, apply, write probabilities."""
    import numpy as np

    from smart_core.calibrators import load_calibrator
    from smart_core.data.unlabelled import load_logits

    if Path(options.out).suffix != ".npz":
        raise CalibrationError(f"--out {options.out}: probabilities are written as npz; give a name that ends in .npz.")
    check_targets(options)
    calibrator = load_calibrator(options.calibrator, device=options.device)
    files = options.files if len(options.files) > 1 else options.files[0]
    parts = load_logits(files, classes=calibrator.classes_, roles=roles_given(options))
    check_fits(calibrator, parts, options)
    written = {
        f"{name}probs": calibrator.predict_proba(part.logits, features=part.features) for name, part in parts.items()
    }
    with replacing(options.out) as handle:
        np.savez_compressed(handle, **written)
    shapes = {name: list(array.shape) for name, array in written.items()}
    listed = ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())
    notices = list(dict.fromkeys(str(notice) for part in parts.values() for notice in part.notices))
    done = f"{calibrator.label} applied: {listed}, written to {options.out}"
    summary = {"out": str(options.out), "arrays": shapes, "notices": notices}
    show(options, summary, "\n".join([done, *printing.notes(notices)]))


def sensitivity(options: Namespace) -> None:
    """The heatmap as a table."""
    import numpy as np

    from smart_core.evaluation import metric_named
    from smart_core.experiments.sensitivity import PAPER_DELTAS, PAPER_SIGMAS
    from smart_core.experiments.sensitivity import sensitivity as run_sensitivity

    metric_named(options.metric)
    resolve_device(options.device)
    check_targets(options)
    data = load_data(options)
    with ProgressBar() as bar, stop_on_interrupt() as token:
        result = run_sensitivity(
            data,
            options.sigma or PAPER_SIGMAS,
            options.delta or PAPER_DELTAS,
            options.seeds,
            metric=options.metric,
            bins=options.bins,
            device=options.device,
            progress=bar,
            cancel=token,
        )
    if result.complete and not np.isfinite(result.mean()).any():
        raise CalibrationError(f"{data.name}: no cell could be computed: {result.reason(0, 0)}")
    show(options, result.to_dict(), printing.grid_text(result, len(data.test)))
    _stop_unless(result.complete)


def attack(options: Namespace) -> None:
    """Distances of a model on images, as a file, inside a bundle, or both."""
    from smart_core.attack_command import run_attack

    check_targets(options)
    with ProgressBar() as bar, stop_on_interrupt() as token:
        summary = run_attack(options, Run(bar, token))
    median = "" if summary["median"] is None else f", median distance {summary['median']:.4f}"
    done = (
        f"{summary['images']} images attacked in {summary['seconds']:.1f} s: "
        f"{summary['failures']} failed{median}, written to {' and '.join(summary['out'])}"
    )
    show(options, summary, "\n".join([done, *printing.notes(summary["notices"])]))


def report(options: Namespace) -> None:
    """The self-contained report."""
    from smart_core.report_command import run_report

    resolve_device(options.device)
    check_targets(options)
    with ProgressBar() as bar, stop_on_interrupt() as token:
        summary = run_report(options, Run(bar, token))
    show(options, summary, f"{summary['verdict']}\nwritten to {summary['out']} ({summary['bytes'] / 1e6:.1f} MB)")


def methods(options: Namespace) -> None:
    """The registry, or one method's settings."""
    from smart_core.calibrators import methods as all_methods
    from smart_core.calibrators import select

    chosen = select([options.method]) if options.method else list(all_methods())
    check_targets(options)
    cards = {id: printing.method_card(all_methods()[id]) for id in chosen}
    text = printing.settings_text(cards[chosen[0]]) if options.method else printing.methods_text(cards)
    show(options, cards, text)


def _stop_unless(complete: bool) -> None:
    if not complete:
        raise Cancelled("stopped; only what was finished by then is shown.")
