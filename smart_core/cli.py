"""The command line: `python -m smart_core COMMAND`, or `smart COMMAND`.

Only this module's light parts are imported to parse the arguments; a command imports the engine when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

METHODS_HELP = "all, or ids separated by commas (default: all); `smart methods` lists them"
METRICS = "ece, adaece, cece, nll, brier, smce, smece, accuracy, mce, ece_l2, aurc"
"""The metrics' names; here as text, so that --help does not wait for the engine."""

SIGMA_HELP = "bandwidths, numbers separated by commas (default: 0.01,0.05,0.1,0.5,1)"
DELTA_HELP = "Charbonnier smoothings, numbers separated by commas (default: 0.001,0.01,0.1,1)"


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one sentence, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message.rstrip('.')}; see {self.prog} --help.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    0 when it is done, 2 with one sentence on standard error when the input is bad, 130 with one when it was stopped.
    """
    from smart_core.console import spare_odd_letters

    spare_odd_letters()
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0

    def say(words: object) -> None:
        print(f"smart {options.command}: {words}", file=sys.stderr)

    try:
        from smart_core import commands
        from smart_core.command_words import on_the_command_line
        from smart_core.errors import Cancelled, SmartError

        run: Callable[[Any], None] = getattr(commands, options.command)
        try:
            run(options)
        except Cancelled as error:
            say(error)
            return 130
        except SmartError as error:
            say(on_the_command_line(str(error), sides=hasattr(options, "val")))
            return 2
    except BrokenPipeError:
        return 0
    except OSError as error:
        say(f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}.")
        return 2
    except KeyboardInterrupt:
        say("stopped.")
        return 130
    return 0


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = Parser(
        prog="smart",
        description="Judge and repair a classifier's confidence from its logits.",
        epilog="Each command has its own --help. The dashboard: streamlit run dashboard.py",
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _inspect(commands)
    _compare(commands)
    _fit(commands)
    _apply(commands)
    _sensitivity(commands)
    _attack(commands)
    _report(commands)
    _methods(commands)
    return parser


def _version() -> str:
    from smart_core import __version__

    return __version__


def _command(commands: Any, name: str, what: str) -> Any:
    """A command whose line in the list of all is also the description in its own help."""
    return commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")


def _inspect(commands: Any) -> None:
    parser = _command(commands, "inspect", "what a file holds: arrays, classes, accuracy, notices")
    _add_files(parser)


def _compare(commands: Any) -> None:
    parser = _command(commands, "compare", "fit methods on validation, judge them on test: the leaderboard")
    _add_files(parser)
    parser.add_argument("--methods", default="all", help=METHODS_HELP)
    _add_study(parser)


def _fit(commands: Any) -> None:
    parser = _command(commands, "fit", "fit one method on the validation part and save it")
    _add_files(parser)
    parser.add_argument("--method", default="smart", help="id of the method (default: smart)")
    parser.add_argument(
        "--set",
        action="extend",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="settings of the method; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice (default: 0)")
    parser.add_argument("--out", required=True, metavar="CAL", help="file to write (safetensors)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")


def _apply(commands: Any) -> None:
    parser = _command(commands, "apply", "load a saved calibrator and write calibrated probabilities")
    parser.add_argument("calibrator", metavar="CAL", help="file written by fit")
    parser.add_argument("files", nargs="+", metavar="FILE", help="logits, with or without labels")
    _add_role(parser)
    parser.add_argument("--out", required=True, metavar="PROBS.npz", help="file to write (npz)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    _add_json(parser)


def _sensitivity(commands: Any) -> None:
    parser = _command(commands, "sensitivity", "SMART over a grid of sigma and delta")
    _add_files(parser)
    parser.add_argument("--sigma", type=_numbers, default=None, metavar="A,B,...", help=SIGMA_HELP)
    parser.add_argument("--delta", type=_numbers, default=None, metavar="A,B,...", help=DELTA_HELP)
    _add_metric(parser, "metric of the printed grid")
    _add_study(parser)


def _attack(commands: Any) -> None:
    parser = commands.add_parser(
        "attack",
        help="Carlini-Wagner L2 distances of your own model on your own images",
        description="How far each image is from the nearest one that the model calls something else: the "
        "Carlini-Wagner L2 attack on the model's own predictions.",
        epilog="The module named by --model is imported and its code is run: use this only for models of your own.",
    )
    parser.add_argument(
        "--model",
        required=True,
        metavar="MODULE:FACTORY",
        help="package.module:factory; factory() gives a torch.nn.Module, images -> logits. Its code is run",
    )
    parser.add_argument("--weights", required=True, metavar="W", help="safetensors, or a saved state dict (.pt)")
    parser.add_argument(
        "--images",
        required=True,
        metavar="X.npz",
        help="holds images (N, C, H, W), floats in [0, 1] or uint8; with --bundle also rows (N,), the images' row "
        "numbers, where they are not the whole part",
    )
    parser.add_argument("--out", metavar="D.npz", help="file to write: cw_l2 (N,), NaN where the attack failed")
    parser.add_argument("--bundle", metavar="B.npz", help="logits of the same model on the same images")
    _add_role(parser)
    parser.add_argument("--part", choices=("val", "test"), default="test", help="the bundle's part (default: test)")
    parser.add_argument("--out-bundle", metavar="B2.npz", help="the bundle with the distances in it, to write")
    parser.add_argument("--batch-size", type=_positive, default=256, help="images at a time (default: 256)")
    parser.add_argument("--iterations", type=_positive, default=1000, help="most iterations a step (default: 1000)")
    parser.add_argument("--search-steps", type=_positive, default=5, help="values of c an image (default: 5)")
    parser.add_argument("--lr", type=float, default=5e-3, help="Adam's learning rate (default: 0.005)")
    parser.add_argument("--initial-c", type=float, default=0.01, help="the first c (default: 0.01)")
    parser.add_argument("--kappa", type=float, default=0.0, help="lead of the other class (default: 0)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    _add_json(parser)


def _report(commands: Any) -> None:
    parser = _command(commands, "report", "verdict, leaderboard and figures in one HTML file that needs nothing else")
    _add_files(parser)
    parser.add_argument("--methods", default="all", help=METHODS_HELP)
    _add_metric(parser, "metric that methods are ranked by")
    parser.add_argument(
        "--sensitivity", action="store_true", help="refit SMART over the paper's grid of sigma and delta too"
    )
    parser.add_argument("--out", required=True, metavar="REPORT.html", help="file to write (html)")
    _add_study(parser)


def _methods(commands: Any) -> None:
    parser = _command(commands, "methods", "the calibrators, and the settings of one of them")
    parser.add_argument("method", nargs="?", metavar="ID", help="show the settings of this method")
    _add_json(parser)


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="one bundle, or a logit file and its label file")
    parser.add_argument("--val", nargs="+", metavar="FILE", help="validation: a bundle, or logits and labels")
    parser.add_argument("--test", nargs="+", metavar="FILE", help="test: a bundle, or logits and labels")
    parser.add_argument(
        "--val-fraction",
        type=float,
        default=0.5,
        help="share for validation when there is no split (default: 0.5)",
    )
    parser.add_argument("--split-seed", type=int, default=0, help="seed of that split (default: 0)")
    _add_role(parser)
    _add_json(parser)


def _add_study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=_positive, default=5, help="fits of each random method (default: 5)")
    parser.add_argument("--bins", type=_positive, default=15, help="bins of the binned metrics (default: 15)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")


def _add_metric(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--metric", default="ece", metavar="NAME", help=f"{what}: one of {METRICS} (default: ece)")


def _add_role(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--role",
        action="append",
        type=_role,
        default=[],
        metavar="ROLE=ARRAY",
        help="which array of the files is what, e.g. val_logits=scores (of one side: val_ or test_ before logits, "
        "labels, features, cw_l2, group; FILE:ARRAY where two files share a name); may be repeated",
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="PATH", help="write the result as JSON; - for standard output")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers such as 0.01,0.05") from None


def _role(text: str) -> tuple[str, str]:
    role, equals, array = text.partition("=")
    if not (role and equals):
        raise argparse.ArgumentTypeError(f"'{text}' is not ROLE=ARRAY such as val_logits=scores")
    return role, array


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)
