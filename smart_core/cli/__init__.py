"""The command line: `python -m smart_core COMMAND`, or `smart COMMAND`.

One module per command: `add` declares its arguments and `run` does the work. A module imports the engine only when it
runs, so that --help is quick.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from smart_core import __version__
from smart_core.cli import (
    apply,
    attack,
    benchmark,
    collect,
    compare,
    dashboard,
    fit,
    inspect,
    methods,
    report,
    sensitivity,
)
from smart_core.cli.output import on_the_command_line
from smart_core.cli.terminal import escape_unprintable, handling
from smart_core.errors import Cancelled, SmartError

COMMANDS: dict[str, Any] = {
    "inspect": inspect,
    "compare": compare,
    "benchmark": benchmark,
    "fit": fit,
    "apply": apply,
    "sensitivity": sensitivity,
    "attack": attack,
    "collect": collect,
    "report": report,
    "dashboard": dashboard,
    "methods": methods,
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message.rstrip('.')}; see {self.prog} --help.\n")


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

    def say(words: object) -> None:
        print(f"smart {options.command}: {words}", file=sys.stderr)

    try:
        try:
            with handling(signal.default_int_handler, signal.SIGTERM):
                COMMANDS[options.command].run(options)
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
    """Return the parser of all commands."""
    parser = Parser(
        prog="smart",
        description="Judge and repair a classifier's confidence from its logits.",
        epilog="Each command has its own --help. FILE may be sample:NAME, a sample that comes with the program.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS.values():
        command.add(commands)
    return parser
