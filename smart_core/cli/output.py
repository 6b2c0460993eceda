"""The result of a command: text on the terminal, JSON there or in a file. Targets are checked before the work."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from smart_core.errors import Cancelled, Fix, SmartError

_INPUTS = {"files": "an input file", "val": "an input file", "test": "an input file", "calibrator": "the calibrator"}
_INPUTS |= {name: f"the file of --{name}" for name in ("images", "weights", "bundle")}
"""Option that names one or more files to read -> how an error calls such a file."""


def check_targets(options: Namespace) -> None:
    """Raise if a file that is to be written cannot be, or is also read or written under another option."""
    from smart_core.data.samples import located

    taken: dict[Path, str] = {}
    for name, what in _INPUTS.items():
        given = getattr(options, name, None) or []
        for path in [given] if isinstance(given, str) else given:
            taken[located(path).resolve()] = what
    for option in ("out", "out_bundle", "json"):
        target = getattr(options, option, None)
        if not target or (option == "json" and target == "-"):
            continue
        flag, place, folder = f"--{option.replace('_', '-')}", located(target).resolve(), Path(target).parent
        other = taken.get(place)
        if other and (other, option) != (_INPUTS["bundle"], "out_bundle"):  # a bundle may get its distances in place
            raise SmartError(f"is also {other}", "give another name", file=f"{flag} {target}")
        taken[place] = f"the file of {flag}"
        if not folder.is_dir():
            raise SmartError(f"there is no such folder, {folder}", "create it first", file=f"{flag} {target}")
        if Path(target).is_dir():
            raise SmartError("is a folder", "give the name of a file", file=f"{flag} {target}")
        if not os.access(folder, os.W_OK):
            raise SmartError(f"the folder {folder} is not writable", "choose another", file=f"{flag} {target}")


def check_options(options: Namespace) -> None:
    """Raise for a method, metric, device or target that cannot be used, before any file is read."""
    from smart_core.calibrators import select
    from smart_core.device import resolve_device
    from smart_core.evaluation import metric_named

    if hasattr(options, "methods"):
        select(options.methods)
    if hasattr(options, "metric"):
        metric_named(options.metric)
    resolve_device(options.device)
    check_targets(options)


def check_extension(option: str, path: str, *extensions: str) -> None:
    """Raise if a file to write does not have one of the extensions."""
    if Path(path).suffix.lower() not in extensions:
        raise SmartError(f"the name must end in {' or '.join(extensions)}.", file=f"{option} {path}")


def show(options: Namespace, content: dict[str, Any], text: str) -> None:
    """Write the result as JSON if requested, and print the text unless standard output has the JSON."""
    if options.json:
        _write_json(content, options.json)
    if options.json != "-":
        print(text)


def _write_json(value: Any, path: str) -> None:
    from smart_core.data.saving import atomic_write
    from smart_core.experiments.results import json_value

    text = json.dumps(json_value(value), indent=2, allow_nan=False)
    if path == "-":
        sys.stdout.write(text + "\n")
    else:
        with atomic_write(path) as handle:
            handle.write(f"{text}\n".encode())


def metric_cell(name: str, mean: float, std: float) -> str:
    """Return a mean with its spread, in per cent where the metric is a fraction; empty where there is no value."""
    from smart_core.evaluation import metric_number

    spread = f"+-{metric_number(name, std)}" if std > 0.0 else ""
    return metric_number(name, mean) + spread


def notes(notices: Iterable[str]) -> list[str]:
    """Return one line per notice."""
    return [f"note: {notice}" for notice in dict.fromkeys(notices)]


def stop_unless(complete: bool) -> None:
    """Raise `Cancelled` if the result is incomplete."""
    if not complete:
        raise Cancelled("stopped; only what was finished by then is shown.")


def on_the_command_line(error: SmartError, splits: bool = True) -> str:
    """Return the sentence of an error; `splits` says whether the command has --val and --test."""

    def word(fix: Fix) -> str | None:
        array = f"array holds the {fix.role} with --role {fix.role}" if fix.role else "array is which with --role ROLE"
        return {
            "roles": f"say which {array}=ARRAY",
            "val": "give --val as well",
            "test": "give --test as well",
            "splits": "give the files as --val and --test" if splits else None,
            "values": "set --values to logits or probabilities",
            "group": "choose one with --group",
        }[fix.option]

    return error.sentence(word)
