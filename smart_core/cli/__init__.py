"""The command line: `python -m smart_core COMMAND`, or `smart COMMAND`.

One module per command: `add` declares its arguments and `run` does the work. Only the module of the chosen command is
imported, and it imports the engine only when it runs, so that --help is quick.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from smart_core import __version__
from smart_core.cli.terminal import escape_unprintable, handling

COMMANDS = {
    "inspect": "show what files hold: arrays, classes, accuracy, notices",
    "compare": "fit methods on validation, evaluate them on test, and print the leaderboard",
    "benchmark": "rank many methods over many data sets; when run again, it fits only what is new",
    "fit": "fit one method on the validation part and save it",
    "apply": "load a saved calibrator and write calibrated probabilities",
    "reduce": "reduce shards too large for memory to a compact set, which the other commands and the dashboard open",
    "sensitivity": "evaluate SMART over a grid of sigma and delta",
    "attack": "measure the Carlini-Wagner L2 distances of your own model on your own images",
    "collect": "run your own model on your own data and save its logits, labels, features and head",
    "report": "write the verdict, leaderboard and figures to one self-contained HTML file",
    "dashboard": "open the dashboard in the browser, with these files loaded",
    "methods": "list the methods, or show the settings of one",
}
"""A description of each command in one line; the module of a command has its name."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message.rstrip('.')}; see {self.prog} --help.\n")


class CommandParser(Parser):
    """The parser of one command, which gets its arguments from the command's module when it first parses."""

    command = ""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.command:
            module_of(self.command).add(self)
            self.command = ""
        return super().parse_known_args(args, namespace)


def module_of(command: str) -> Any:
    return import_module(f"{__name__}.{command}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Return 0 if it succeeds, 2 with one sentence on standard error if the input is bad, and 130 if it is stopped.
    """
    escape_unprintable()
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0

    from smart_core.cli.output import on_the_command_line
    from smart_core.errors import Cancelled, SmartError

    def say(words: object) -> None:
        print(f"smart {options.command}: {words}", file=sys.stderr)

    try:
        try:
            with handling(signal.default_int_handler, signal.SIGTERM):
                module_of(options.command).run(options)
        except Cancelled as error:
            say(error)
            return 130
        except SmartError as error:
            say(on_the_command_line(error, splits=hasattr(options, "val")))
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
    parser = Parser(
        prog="smart",
        description="Judge and repair a classifier's confidence from its logits.",
        epilog="Each command has its own --help. FILE may be sample:NAME, a sample that comes with the program.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=CommandParser)
    for name, what in COMMANDS.items():
        commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.").command = name
    return parser
