"""Run a model over loaders and keep logits, labels, penultimate features and head: what every method may need."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from smart_core.data.collecting.batches import inputs_and_labels, logits_of, run_model
from smart_core.data.collecting.head import Observer, head_of
from smart_core.data.collecting.spool import Spool
from smart_core.data.document import from_arrays
from smart_core.data.logitset import Head, LogitSet
from smart_core.data.saving import atomic_write, write_npz
from smart_core.device import resolve_device
from smart_core.errors import CollectError
from smart_core.progress import CancelToken, Progress, Run

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
PARTIAL = ".partial"
"""Suffix of the folder that holds the rows of an unfinished collection."""
HEAD_TOLERANCE = 1e-2
"""How far, relative to the logits, the head may be from reproducing them: bfloat16 has three digits."""

Loaders = Iterable[Any] | Mapping[str, Iterable[Any]] | tuple[Iterable[Any], Iterable[Any]]


def collect(
    model: nn.Module,
    loader: Loaders,
    *,
    features: str | None = "auto",
    device: str = "auto",
    out: str | os.PathLike[str] | None = None,
    autocast: str | None = None,
    class_names: Iterable[str] | None = None,
    name: str | None = None,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> LogitSet:
    """Run a model over one loader, or over loaders for validation and test, and return what it gave as a set.

    Batches are pairs (inputs, labels), or mappings with the labels in them. The model may return logits, or an object
    or mapping with `logits`; it is put into evaluation mode and back.

    Parameters
    ----------
    loader
        One loader, whose rows are split at random; a pair (validation, test); or {"val": ..., "test": ...}.
    features
        `auto` takes the input of the linear layer that gives the logits, and that layer as the head; the name of a
        module takes its input; None takes neither.
    out
        Write the bundle to this npz file. Rows go to the folder `OUT.partial` while the model runs; if it is stopped,
        the same call goes on where it stopped, provided that the loaders give the same rows in the same order.
    autocast
        `bf16` or `fp16` to run the model in that precision.

    Examples
    --------
    >>> import torch, smart_core as sc
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    >>> rows = torch.utils.data.TensorDataset(torch.randn(60, 8), torch.arange(60) % 3)
    >>> data = sc.collect(model, torch.utils.data.DataLoader(rows, batch_size=16))
    >>> data.test, data.head.weight.shape
    (Part(30 samples, 3 classes, with features), (3, 5))
    """
    if autocast is not None and autocast not in AUTOCAST:
        raise CollectError(f"autocast must be {' or '.join(AUTOCAST)}, not {autocast!r}.")
    if not isinstance(model, nn.Module):
        raise CollectError(f"The model is a {type(model).__name__}", "give a torch.nn.Module")
    if out is not None and Path(out).suffix.lower() != ".npz":
        raise CollectError(f"The bundle is written as npz, not {Path(out).suffix or 'without an extension'}.")
    loaders, place, run = _loaders(loader), resolve_device(device), Run(progress, cancel)
    with _folder(out) as folder, _evaluating(model, place):
        about = {"model": _fingerprint(model), "features": features, "autocast": autocast}
        spools = {split: Spool(folder / split, about) for split in loaders}
        for number, (split, batches) in enumerate(loaders.items()):
            part = run.part(number / len(loaders), (number + 1) / len(loaders))
            _run(model, batches, spools[split], features, place, autocast, part)
        arrays = _bundle(model, loaders, spools, class_names)
        data = from_arrays(
            name or (Path(out).stem if out else type(model).__name__),
            val_fraction=val_fraction,
            split_seed=split_seed,
            **arrays,
        )
        if out is not None:
            with atomic_write(out) as handle:
                write_npz(handle, arrays)
        del arrays, spools  # they are mapped to files of the folder
    if out is not None:
        shutil.rmtree(_partial(out), ignore_errors=True)
    return data


def _loaders(loader: Loaders) -> dict[str, Iterable[Any]]:
    """Return {"val": ..., "test": ...}, or {"": ...} for one loader."""
    if isinstance(loader, Mapping):
        known = {"val": "val", "validation": "val", "calibration": "val", "test": "test"}
        found = {known[key]: each for key, each in loader.items() if key in known}
        if set(found) != {"val", "test"} or len(found) != len(loader):
            given = ", ".join(map(str, loader)) or "nothing"
            raise CollectError(f"The loaders are named {given}", "name them val and test")
        return found
    if isinstance(loader, tuple):
        if len(loader) != 2:
            raise CollectError(f"There are {len(loader)} loaders", "give one, or the pair of validation and test")
        return {"val": loader[0], "test": loader[1]}
    if not isinstance(loader, Iterable):
        raise CollectError(f"The loader is a {type(loader).__name__}", "give a DataLoader, or any iterable of batches")
    return {"": loader}


def _run(
    model: nn.Module,
    batches: Iterable[Any],
    spool: Spool,
    features: str | None,
    device: torch.device,
    autocast: str | None,
    run: Run,
) -> None:
    """Append every batch that the spool does not hold yet."""
    if spool.done:
        return
    total = len(batches) if isinstance(batches, Sized) else 0
    observer = None if features is None else Observer(model, features, spool.layer)
    finished, rows = spool.batches, 0
    for number, batch in enumerate(batches):
        run.tick(number / total if total else 0.0, f"batch {number + 1}" + (f" of {total}" if total else ""))
        inputs, labels = inputs_and_labels(batch)
        if number < finished:
            spool.check(labels.numpy(), rows)
            rows += len(labels)
            continue
        precision = torch.autocast(device.type, AUTOCAST[autocast]) if autocast else nullcontext()
        with torch.inference_mode(), precision, observer.watching() if observer else nullcontext():
            logits = logits_of(run_model(model, inputs, device))
        if len(logits) != len(labels):
            raise CollectError(f"A batch has {len(labels)} labels, and the model gives {len(logits)} rows of logits")
        arrays = {"logits": logits.cpu().numpy(), "labels": labels.numpy()}
        read = observer.features(logits) if observer else None
        if read is not None and observer is not None:
            arrays["features"], spool.layer = read.cpu().numpy(), observer.layer
        spool.append(arrays)
    if not spool.rows:
        raise CollectError("A loader is empty", "give at least one batch; an iterator can be read only once")
    spool.finish()


def _bundle(
    model: nn.Module, loaders: Mapping[str, Iterable[Any]], spools: Mapping[str, Spool], names: Iterable[str] | None
) -> dict[str, Any]:
    """Return the arrays of the bundle; the head if it reproduces the logits, and class names if any are known."""
    first = next(iter(spools.values()))
    classes = first.widths["logits"]
    arrays: dict[str, Any] = {
        f"{split}_{name}" if split else name: array
        for split, spool in spools.items()
        for name, array in spool.arrays().items()
    }
    head = None if first.layer is None else head_of(model.get_submodule(first.layer), classes)
    if head is not None and _reproduces(head, first):
        arrays |= {"head_weight": head.weight, "head_bias": head.bias}
    known = list(map(str, names)) if names is not None else _class_names(model, loaders.values(), classes)
    return arrays | ({} if known is None else {"class_names": np.array(known, dtype=np.str_)})


def _reproduces(head: Head, spool: Spool) -> bool:
    """Return whether the head gives the logits of the first rows, up to the precision of the model."""
    rows = slice(0, 64)
    logits, features = spool.read("logits")[rows], spool.read("features")[rows]
    if features.shape[1] != head.weight.shape[1]:
        return False
    off = np.abs(features @ head.weight.T + head.bias - logits).max()
    return bool(off <= HEAD_TOLERANCE * max(float(np.abs(logits).max()), 1e-30))


def _class_names(model: nn.Module, loaders: Iterable[Any], classes: int) -> list[str] | None:
    """Return the names in a Hugging Face config, or those of the data set; None if there are none."""
    by_id = getattr(getattr(model, "config", None), "id2label", None)
    if isinstance(by_id, Mapping) and len(by_id) == classes:
        names = [str(by_id.get(k, by_id.get(str(k), ""))) for k in range(classes)]
        if names != [f"LABEL_{k}" for k in range(classes)]:
            return names
    for loader in loaders:
        listed = getattr(getattr(loader, "dataset", None), "classes", None)
        if isinstance(listed, list | tuple) and len(listed) == classes:
            return [str(each) for each in listed]
    return None


def _fingerprint(model: nn.Module) -> str:
    """Return a hash of the model's tensors, by a few numbers of each: whether a stopped run is one of this model."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, tensor in model.state_dict().items():
        some = tensor.detach().reshape(-1)[:: max(1, tensor.numel() // 64)].float().cpu()
        digest.update(f"{name} {tuple(tensor.shape)}".encode() + some.numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def _folder(out: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Yield the folder for the rows: beside the bundle, where it stays after a stop, or a temporary one."""
    if out is not None:
        yield _partial(out)
        return
    with tempfile.TemporaryDirectory(prefix="smart-collect-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _partial(out: str | os.PathLike[str]) -> Path:
    path = Path(out)
    return path.with_name(path.name + PARTIAL)


@contextmanager
def _evaluating(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Put the model into evaluation mode on a device, and back afterwards."""
    training, first = model.training, next((each.device for each in model.parameters()), device)
    try:
        model.to(device).eval()
        yield
    finally:
        model.train(training)
        model.to(first)
