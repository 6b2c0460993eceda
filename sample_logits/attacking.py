"""Carlini-Wagner distances of a sample's images, chunk by chunk; each is kept, so that a stopped run goes on.

Chunks go to as many processes as there are cores, one thread each: the network is too small for threads to pay.
"""

from __future__ import annotations

import hashlib
import io
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from threading import current_thread, main_thread

import numpy as np
import torch
from numpy.typing import NDArray

from sample_logits.fetch import cache_folder
from sample_logits.images import Bytes
from sample_logits.networks import Classifier, fused
from sample_logits.training import Say, to_pixels
from smart_core.attacks import Search, carlini_wagner_l2
from smart_core.progress import CancelToken, Run

CHUNK = 50
"""Images a chunk: few enough to lose little when stopped, enough to fill a batch."""

Distances = NDArray[np.float32]


def distances(
    name: str, model: Classifier, images: Bytes, search: Search, say: Say = print, run: Run | None = None
) -> Distances:
    """(N,) L2 distance of each image (N, height, width, channels) in pixels of [0, 1]; NaN where the attack failed.

    The folder of the chunks is named after the weights, the images and the settings: other ones start anew.
    """
    folder = cache_folder() / f"{name}-attack-{_fingerprint(model, images, search)}"
    folder.mkdir(exist_ok=True)
    chunks = np.array_split(images, max(1, len(images) // CHUNK))
    paths = [folder / f"{number:03d}.npy" for number in range(len(chunks))]
    missing = [number for number, path in enumerate(paths) if not path.exists()]
    if missing:
        say(f"{name}: attack on {len(images)} images, {len(missing)} of {len(chunks)} chunks to do")
        _attack([chunks[number] for number in missing], [paths[number] for number in missing], model, search, run)
    found = np.concatenate([np.load(path) for path in paths])
    say(f"{name}: median distance {np.nanmedian(found):.4f}, {int(np.isnan(found).sum())} of {len(found)} failed")
    return found


def _attack(chunks: Sequence[Bytes], paths: Sequence[Path], model: Classifier, search: Search, run: Run | None) -> None:
    run = run or Run()
    run.tick(0.0, "attack")
    workers = min(os.cpu_count() or 1, len(chunks))
    # a fresh interpreter each: a fork would inherit the locks of this one's threads
    fresh = get_context("spawn")
    stop = fresh.Event()
    pool = ProcessPoolExecutor(workers, fresh, _set_up, (fused(model), search, stop))
    try:
        with _interrupt_ignored():  # workers start here and inherit it
            jobs = {pool.submit(_chunk, chunk): path for chunk, path in zip(chunks, paths, strict=True)}
        for done, job in enumerate(as_completed(jobs), start=1):
            _keep(jobs[job], job.result())
            run.tick(done / len(chunks), f"attack: chunk {done} of {len(chunks)}")
    finally:
        # chunks under way, or handed to a worker already, would keep a stopped run waiting for minutes
        stop.set()
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupt_ignored() -> Iterator[None]:
    """The interrupt key reaches every process of a terminal: only the first is to hear it, and tells the others."""
    if current_thread() is not main_thread():  # only there can signals be handled
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_worker: tuple[torch.nn.Module, Search, CancelToken]
"""What every chunk of a worker process is attacked with, and the word to stop."""


def _set_up(model: torch.nn.Module, search: Search, stop: CancelToken) -> None:
    global _worker
    torch.set_num_threads(1)
    _worker = model.to(memory_format=torch.channels_last), search, stop  # type: ignore[call-overload]


def _chunk(images: Bytes) -> Distances:
    model, search, stop = _worker
    pixels = to_pixels(torch.from_numpy(images))
    return carlini_wagner_l2(model, pixels, search, batch_size=CHUNK, run=Run(cancel=stop)).l2.astype(np.float32)


def _keep(path: Path, found: Distances) -> None:
    """Written beside and moved into place: a chunk is whole or not there."""
    part = path.with_suffix(".part.npy")
    np.save(part, found)
    os.replace(part, path)


def _fingerprint(model: Classifier, images: Bytes, search: Search) -> str:
    """Twelve hexadecimal digits that change with the weights, the images or the settings."""
    weights = io.BytesIO()
    for value in model.state_dict().values():
        weights.write(value.contiguous().numpy().tobytes())
    content = weights.getvalue() + np.ascontiguousarray(images).tobytes() + repr(asdict(search)).encode()
    return hashlib.sha256(content).hexdigest()[:12]
