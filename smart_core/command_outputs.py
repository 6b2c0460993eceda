"""Where a command's result goes: text on the terminal, JSON there or in a file; looked at before the work."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from smart_core.atomic import replacing
from smart_core.errors import CalibrationError
from smart_core.experiments.result import plain


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
    return Path(path).resolve()


def show(options: Namespace, content: dict[str, Any], text: str) -> None:
    """The result as JSON where that is asked for, and as text unless standard output has the JSON."""
    if options.json:
        _write_json(content, options.json)
    if options.json != "-":
        print(text)


def _write_json(value: Any, path: str) -> None:
    text = json.dumps(plain(value), indent=2, allow_nan=False)
    if path == "-":
        sys.stdout.write(text + "\n")
    else:
        with replacing(path) as handle:
            handle.write(f"{text}\n".encode())
