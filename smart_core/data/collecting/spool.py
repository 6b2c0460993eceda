"""Rows on disk while a model runs: appended batch by batch, and found again after a stop."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from smart_core.data.logitset import Array
from smart_core.errors import CollectError

TYPES: dict[str, np.dtype[Any]] = {"logits": np.dtype("<f4"), "labels": np.dtype("<i8"), "features": np.dtype("<f4")}
STATE = "state.json"


class Spool:
    """The rows of one split, in a folder: one file per array, and `state.json` with what is complete in them."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.widths: dict[str, int] = {}
        self.rows = self.batches = 0
        self.done = False
        self.layer: str | None = None
        """The module whose input the features are, once it is known."""
        self.about = about
        self._resume(about)

    def _resume(self, about: dict[str, Any]) -> None:
        """Continue after the last batch that was written whole; start anew if the state is of another model."""
        try:
            state = json.loads((self.folder / STATE).read_text())
        except (OSError, ValueError):
            state = None
        if state is None or state["about"] != about:
            for path in self.folder.iterdir():
                path.unlink()
            return
        self.widths, self.rows = state["widths"], state["rows"]
        self.batches, self.done, self.layer = state["batches"], state["done"], state["layer"]
        for name, width in self.widths.items():
            with open(self.folder / name, "r+b") as handle:
                handle.truncate(self.rows * width * TYPES[name].itemsize)

    def check(self, labels: Array, start: int) -> None:
        """Raise unless these labels are those that were written from row `start` on."""
        known = self.read("labels")[start : start + len(labels), 0]
        if not np.array_equal(known, labels):
            raise CollectError(
                "The loader gives other rows than before the stop",
                "load without shuffling",
                f"delete the folder {self.folder.parent} to start again",
            )

    def append(self, arrays: dict[str, Array]) -> None:
        """Add one batch: arrays (n,) or (n, width)."""
        columns = {name: array.reshape(len(array), -1) for name, array in arrays.items()}
        widths = {name: int(array.shape[1]) for name, array in columns.items()}
        if self.widths and widths != self.widths:
            raise CollectError(f"A batch has other widths than those before it: {widths}, not {self.widths}")
        self.widths = widths
        for name, array in columns.items():
            with open(self.folder / name, "ab") as handle:
                handle.write(np.ascontiguousarray(array, dtype=TYPES[name]).data)
        self.rows += len(columns["labels"])
        self.batches += 1
        self._save()

    def finish(self) -> None:
        """Note that the loader is at its end."""
        self.done = True
        self._save()

    def _save(self) -> None:
        state = {name: getattr(self, name) for name in ("about", "widths", "rows", "batches", "done", "layer")}
        temporary = self.folder / f"{STATE}.new"
        temporary.write_text(json.dumps(state))
        os.replace(temporary, self.folder / STATE)

    def read(self, name: str) -> Array:
        """Return an array (rows, width) as it lies on disk."""
        shape = (self.rows, self.widths[name])
        return np.memmap(self.folder / name, TYPES[name], "r", shape=shape) if self.rows else np.empty(shape)

    def arrays(self) -> dict[str, Array]:
        return {name: self.read(name)[:, 0] if name == "labels" else self.read(name) for name in self.widths}
