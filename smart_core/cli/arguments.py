"""Arguments that several commands share. Nothing here imports the engine, so that --help is quick."""

from __future__ import annotations

import argparse

METHODS_HELP = "all, or ids separated by commas (default: all); `smart methods` lists them, `svs+smart` is a chain"
METRICS = "ece, adaece, cece, nll, brier, smce, smece, accuracy, mce, ece_l2, aurc"
"""The names of the metrics, as text so that --help does not import the engine."""


def add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="one bundle, a logit file and its label file, a folder, or a pattern"
    )
    parser.add_argument("--val", nargs="+", metavar="FILE", help="validation: a bundle, or logits and labels")
    parser.add_argument("--test", nargs="+", metavar="FILE", help="test: a bundle, or logits and labels")
    parser.add_argument(
        "--val-fraction", type=float, default=0.5, help="fraction for validation when there is no split (default: 0.5)"
    )
    parser.add_argument("--split-seed", type=int, default=0, help="seed of that split (default: 0)")
    parser.add_argument(
        "--labels", nargs="+", metavar="FILE", help="labels of shards; the logits then stay in their files"
    )
    add_scheduler(parser)
    add_reading(parser)
    add_json(parser)


def add_scheduler(parser: argparse.ArgumentParser) -> None:
    """Where the rows of shards are read; giving one also leaves the logits in their files."""
    parser.add_argument(
        "--scheduler",
        metavar="NAME",
        help="where rows of shards are read: threads (default), local (a Dask cluster on this machine) or "
        "tcp://HOST:PORT (a running one); logits above 1 GB, or with this option, stay in their files",
    )
    parser.add_argument(
        "--scheduler-workers", type=positive, metavar="N", help="threads, or workers of a local cluster"
    )


def part_of(text: str) -> tuple[int, int]:
    """Read `2/8`, the second of eight parts of the work."""
    first, slash, last = text.partition("/")
    if not (slash and first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"'{text}' is not I/N such as 2/8, the second of eight parts")
    return int(first), int(last)


def add_study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=positive, default=5, help="number of seeds for randomly initialised methods (default: 5)"
    )
    parser.add_argument("--bins", type=positive, default=15, help="bins of the binned metrics (default: 15)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")


def add_metric(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--metric", default="ece", metavar="NAME", help=f"{what}: one of {METRICS} (default: ece)")


def add_model(parser: argparse.ArgumentParser, returns: str, *, weights_required: bool) -> None:
    what = f"package.module:factory; factory() returns {returns}. Its code is run"
    parser.add_argument("--model", required=True, metavar="MODULE:FACTORY", help=what)
    weights = "safetensors, or a saved state dict (.pt), for the model"
    parser.add_argument("--weights", required=weights_required, metavar="W", help=weights)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How files are read, where their names, shapes and values do not say it."""
    parser.add_argument(
        "--role",
        action="append",
        type=role,
        default=[],
        metavar="ROLE=ARRAY",
        help="the role of an array, e.g. val_logits=scores (val_ or test_ before logits, labels, features, cw_l2, "
        "group for one split; FILE:ARRAY where two files share a name); may be repeated",
    )
    parser.add_argument(
        "--group",
        metavar="PATH",
        help="the experiment, if a file or folder holds several: the path of an HDF5 group, or a model's folder",
    )
    parser.add_argument("--values", choices=["logits", "probabilities"], help="what the scores are")
    parser.add_argument("--labels-start-at", type=int, choices=[0, 1], help="label of the first class")
    parser.add_argument(
        "--transposed", action=argparse.BooleanOptionalAction, help="treat columns, not rows, of the scores as samples"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="PATH", help="write the result as JSON; - for standard output")


def numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers such as 0.01,0.05") from None


def role(text: str) -> tuple[str, str]:
    role, equals, array = text.partition("=")
    if not (role and equals):
        raise argparse.ArgumentTypeError(f"'{text}' is not ROLE=ARRAY such as val_logits=scores")
    return role, array


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)
