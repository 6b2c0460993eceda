"""Where a command's result goes: text on the terminal, JSON there or in a file; looked at before the work."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from smart_core.atomic import replacing
from smart_core.bundled import located
from smart_core.errors import CalibrationError, Cancelled, Fix, SmartError


def check_targets(options: Namespace) -> None:
    """Whether what is to be written can be, before any work is done for it, and would not replace what is read."""
    read = {_place(path) for path in _inputs(options)}
    for option in ("out", "json"):
        target = getattr(options, option, None)
        if not target or (option == "json" and target == "-"):
            continue
        if _place(target) in read:
            raise CalibrationError(f"--{option} {target}: this file is to be read or written already; name another.")
        read.add(_place(target))
        folder = Path(target).parent
        if not folder.is_dir():
            raise CalibrationError(f"--{option} {target}: there is no such folder, {folder}; make it first.")
        if Path(target).is_dir():
            raise CalibrationError(f"--{option} {target}: this is a folder; give the name of a file.")
        if not os.access(folder, os.W_OK):
            raise CalibrationError(f"--{option} {target}: the folder {folder} cannot be written to; choose another.")


def _inputs(options: Namespace) -> list[str]:
    """Every file of logits and the calibrator that a command reads; `attack` looks after its own."""
    lists = [getattr(options, name, None) or [] for name in ("files", "val", "test")]
    saved = getattr(options, "calibrator", None)
    return [*(path for paths in lists for path in paths), *([saved] if saved else [])]


def _place(path: str) -> Path:
    return located(path).resolve()


def show(options: Namespace, content: dict[str, Any], text: str) -> None:
    """The result as JSON where that is asked for, and as text unless standard output has the JSON."""
    if options.json:
        _write_json(content, options.json)
    if options.json != "-":
        print(text)


def _write_json(value: Any, path: str) -> None:
    from smart_core.experiments.results import json_value

    text = json.dumps(json_value(value), indent=2, allow_nan=False)
    if path == "-":
        sys.stdout.write(text + "\n")
    else:
        with replacing(path) as handle:
            handle.write(f"{text}\n".encode())


def metric_cell(name: str, mean: float, std: float) -> str:
    """A mean with its spread, in per cent where the metric is read so; nothing where there is no value."""
    from smart_core.evaluation import METRICS

    if mean != mean:
        return ""
    scale, digits = (100.0, 2) if METRICS[name].percent else (1.0, 4)
    spread = f"+-{scale * std:.{digits}f}" if std > 0.0 else ""
    return f"{scale * mean:.{digits}f}{spread}"


def notes(notices: Iterable[str]) -> list[str]:
    """Notices, one a line."""
    return [f"note: {notice}" for notice in dict.fromkeys(notices)]


def stop_unless(complete: bool) -> None:
    """Raise `Cancelled` where only a part is finished."""
    if not complete:
        raise Cancelled("stopped; only what was finished by then is shown.")


def on_the_command_line(error: SmartError, splits: bool = True) -> str:
    """The sentence of an error; `splits` says whether the command has --val and --test."""

    def word(fix: Fix) -> str | None:
        array = f"array holds the {fix.role} with --role {fix.role}" if fix.role else "array is which with --role ROLE"
        return {
            "roles": f"say which {array}=ARRAY",
            "val": "give --val as well",
            "test": "give --test as well",
            "splits": "give the files as --val and --test" if splits else None,
            "values": None,
        }[fix.option]

    return error.sentence(word)
