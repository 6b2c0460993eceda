"""A calibrator applied to shards: calibrated rows in a folder, one file per file, each written when it is complete.

A folder belongs to one calibrator, which its `calibrator.json` names. Run again, only what is missing or older than its
source is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from smart_core.calibrators.base import Calibrator
from smart_core.data.lazy.readers import is_url
from smart_core.data.lazy.rows import LazyRows, Shard
from smart_core.data.saving import atomic_write
from smart_core.device import one_thread, rows_per_chunk
from smart_core.errors import CalibrationError, ExportError
from smart_core.experiments.executors import in_order
from smart_core.progress import Run

MARK = "calibrator.json"


@dataclass(frozen=True)
class Applied:
    """What `apply_to_shards` wrote."""

    written: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    """Files that were there already."""


def apply_to_shards(
    calibrator: Calibrator, logits: LazyRows, folder: Path, *, top_label: bool = False, run: Run | None = None
) -> Applied:
    """Write the calibrated probabilities of each file to `folder`, as NAME.npy (N, K) float32.

    With `top_label`, NAME.npz has the `confidence` and `prediction` of each row instead.
    """
    run = run or Run()
    if calibrator.features_used_:
        raise CalibrationError(f"{calibrator.label} was fitted with features, which shards do not have.")
    if calibrator.classes_ != logits.classes:
        raise CalibrationError(
            f"{calibrator.label} was fitted on {calibrator.classes_} classes; the shards have {logits.classes}."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _claim(folder, {"calibrator": _identity(calibrator), "top_label": top_label})
        targets = _targets(logits.shards, folder, ".npz" if top_label else ".npy")
        pending = [(shard, target) for shard, target in targets if not _finished(shard, target)]
        found = Applied(kept=[target for shard, target in targets if _finished(shard, target)])
        work = partial(_apply, calibrator, logits.classes, logits.probabilities, top_label)
        with closing(in_order(work, pending, run, f"writing {len(pending):,} shards", len(pending))) as done:
            for target in done:
                found.written.append(target)
    except OSError as error:
        raise ExportError(f"{folder} cannot be written: {error.strerror or error}; finished shards stay.") from error
    run.tick(1.0, "shards written")
    return found


def _identity(calibrator: Calibrator) -> str:
    """SHA-256 of the method, its settings but for the device, and what it learned."""
    settings = {name: value for name, value in calibrator.settings_dict().items() if name != "device"}
    digest = hashlib.sha256(json.dumps([calibrator.id, settings], sort_keys=True, default=str).encode())
    for name, tensor in sorted(calibrator.state().items()):
        digest.update(name.encode() + np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
    return digest.hexdigest()


def _claim(folder: Path, own: dict[str, object]) -> None:
    mark = folder / MARK
    if mark.exists():
        try:
            same = json.loads(mark.read_text(encoding="utf-8")) == own
        except ValueError:
            same = False
        if not same:
            raise ExportError(f"{folder} holds the output of another calibrator; give another folder.")
        return
    if any(folder.iterdir()):
        raise ExportError(f"{folder} is not empty; give a folder of its own.")
    with atomic_write(mark) as handle:
        handle.write(json.dumps(own).encode())


def _targets(shards: Sequence[Shard], folder: Path, suffix: str) -> list[tuple[Shard, Path]]:
    names: dict[str, int] = {}
    found = []
    for shard in shards:
        stem = Path(shard.path).stem
        names[stem] = number = names.get(stem, 0) + 1
        found.append((shard, folder / f"{stem}{f'-{number}' if number > 1 else ''}{suffix}"))
    return found


def _finished(shard: Shard, target: Path) -> bool:
    if not target.exists():
        return False
    return is_url(shard.path) or target.stat().st_mtime_ns >= Path(shard.path).stat().st_mtime_ns


def _apply(
    calibrator: Calibrator, classes: int, probabilities: bool, top_label: bool, task: tuple[Shard, Path]
) -> Path:
    """What a worker does with one file."""
    shard, target = task
    rows = LazyRows((shard,), classes, None, probabilities)
    blocks = (calibrator.predict_proba(block) for _, block in rows.blocks(rows_per_chunk(classes)))
    with one_thread(), atomic_write(target) as handle:
        if top_label:
            tops = [(block.max(axis=1), block.argmax(axis=1)) for block in blocks]
            confidence, prediction = (np.concatenate(column) for column in zip(*tops, strict=True))
            np.savez(handle, confidence=confidence, prediction=prediction)
        else:
            npy.write_array_header_1_0(handle, {"descr": "<f4", "fortran_order": False, "shape": (len(rows), classes)})
            for block in blocks:
                handle.write(block.astype("<f4", copy=False).data)
    return target
