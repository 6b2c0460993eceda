"""The command `attack`: a user's model and images in, distances out; what can be wrong is said before the attack."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from smart_core.attack_files import load_images, merged, part_of, save_distances
from smart_core.attacks import AttackError, Search, carlini_wagner_l2
from smart_core.command_inputs import roles_given
from smart_core.data.bundle import save_bundle
from smart_core.data.load import load
from smart_core.device import resolve_device
from smart_core.own_model import build_model, load_weights
from smart_core.run import Run

BUNDLES = (".npz", ".safetensors")


def run_attack(options: Namespace, run: Run) -> dict[str, Any]:
    """Attack, write, and sum up: counts, the median distance (None where every attack failed), seconds, notices."""
    _check_outputs(options)
    search = Search(options.lr, options.iterations, options.search_steps, options.initial_c, options.kappa)
    search.check()
    place = resolve_device(options.device)
    given = load_images(options.images)
    notices = list(given.notices)
    data, rows = None, given.rows
    if options.bundle:
        data = load(options.bundle, roles=roles_given(options))
        rows = part_of(data, options.part, len(given.images), given.rows)
    model = build_model(options.model)
    load_weights(model, options.weights)
    # convolutions on a CPU are faster in this order; the stub of `to` does not know it
    model = model.to(place, memory_format=torch.channels_last)  # type: ignore[call-overload]
    start = time.monotonic()
    result = carlini_wagner_l2(model, given.images, search, batch_size=options.batch_size, device=place, run=run)
    seconds = time.monotonic() - start
    notices += result.notices
    if options.out:
        save_distances(options.out, result.l2, given.rows)
    if data is not None and rows is not None:
        together, warning = merged(data, options.part, rows, result.l2, result.predictions)
        save_bundle(together, options.out_bundle)
        notices += [warning] if warning else []
    return {
        "images": len(result.l2),
        "failures": result.failures,
        "median": float(np.median(result.l2[result.success])) if result.success.any() else None,
        "queries": int(result.queries.sum()),
        "seconds": seconds,
        "out": [str(path) for path in (options.out, options.out_bundle) if path],
        "notices": notices,
    }


def _check_outputs(options: Namespace) -> None:
    if not (options.out or options.out_bundle):
        raise AttackError("Give --out for a file of distances, or --bundle and --out-bundle for a bundle with them.")
    if bool(options.bundle) != bool(options.out_bundle):
        raise AttackError("--bundle and --out-bundle belong together: the bundle to read and the one to write.")
    for path in (options.out, options.out_bundle):
        if path and not Path(path).parent.is_dir():
            raise AttackError(f"{path}: there is no such folder.")
    _check_apart(options)
    if options.out_bundle and Path(options.out_bundle).suffix.lower() not in BUNDLES:
        raise AttackError(f"{options.out_bundle}: a bundle is written as {' or '.join(BUNDLES)}.")


def _check_apart(options: Namespace) -> None:
    """Nothing read is written over, but for a bundle that gets its distances in place."""
    taken = {
        Path(path).resolve(): flag
        for flag, path in (("images", options.images), ("weights", options.weights), ("bundle", options.bundle))
        if path
    }
    for flag, path in (("out", options.out), ("out-bundle", options.out_bundle), ("json", options.json)):
        if not path or (flag, path) == ("json", "-"):
            continue
        other = taken.get(Path(path).resolve())
        if other and (other, flag) != ("bundle", "out-bundle"):
            raise AttackError(f"--{flag} {path} is the file of --{other}; give another name.")
        taken[Path(path).resolve()] = flag
