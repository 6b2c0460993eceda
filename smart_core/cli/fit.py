"""The command `fit`: fit one method and save it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from smart_core.cli.arguments import add_files
from smart_core.cli.output import check_targets, notes, show
from smart_core.cli.terminal import running
from smart_core.formatting import plural


def add(parser: ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument(
        "--method", default="smart", help="id of the method, or of a chain such as svs+smart (default: smart)"
    )
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="settings of the method, those of a chain as second.sigma=0.1; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice (default: 0)")
    parser.add_argument("--out", required=True, metavar="CAL", help="file to write (safetensors)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")


def run(options: Namespace) -> None:
    from smart_core.calibrators import get, method_named, select
    from smart_core.cli.inputs import assignments_and_files, check_arrays, load_validation, parse_settings
    from smart_core.device import resolve_device
    from smart_core.experiments.running import fit_part

    (id,) = select([options.method])
    assignments, options.files = assignments_and_files(options)
    settings = {"seed": options.seed, "device": options.device, **parse_settings(method_named(id), assignments)}
    calibrator = get(id, **settings)
    calibrator.check_settings()
    resolve_device(calibrator.device)
    check_targets(options)
    part, head, notices = load_validation(options)
    check_arrays(method_named(id), part, head, options.files or options.val)
    with running() as run:
        fitted = fit_part(calibrator, part, head, run)
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
    show(options, summary, "\n".join([done, *notes(notices)]))
