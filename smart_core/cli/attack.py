"""The command `attack`: distances of the user's own model on their own images."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from smart_core.cli.arguments import add_json, add_model, add_reading, positive
from smart_core.cli.output import check_extension, check_targets, notes, show
from smart_core.cli.terminal import running
from smart_core.errors import AttackError

if TYPE_CHECKING:
    from smart_core.progress import Run


def add(parser: ArgumentParser) -> None:
    parser.description = (
        "Measure the distance from each image to the nearest one that the model classifies differently, by the "
        "Carlini-Wagner L2 attack on the model's own predictions."
    )
    parser.epilog = "The module named by --model is imported and its code is run: use this only for models of your own."
    add_model(parser, "a torch.nn.Module, images -> logits", weights_required=True)
    parser.add_argument(
        "--images",
        required=True,
        metavar="X.npz",
        help="images (N, C, H, W), floats in [0, 1] or uint8; with --bundle also rows (N,), the images' row "
        "numbers, where they are not the whole part",
    )
    parser.add_argument("--out", metavar="D.npz", help="file to write: cw_l2 (N,), NaN where the attack failed")
    parser.add_argument("--bundle", metavar="B.npz", help="logits of the same model on the same images")
    add_reading(parser)
    parser.add_argument("--part", choices=("val", "test"), default="test", help="the bundle's part (default: test)")
    parser.add_argument("--out-bundle", metavar="B2.npz", help="file to write: the bundle with the distances added")
    parser.add_argument("--batch-size", type=positive, default=256, help="images at a time (default: 256)")
    parser.add_argument("--iterations", type=positive, default=1000, help="maximum iterations per c (default: 1000)")
    parser.add_argument("--search-steps", type=positive, default=5, help="values of c per image (default: 5)")
    parser.add_argument("--lr", type=float, default=5e-3, help="Adam's learning rate (default: 0.005)")
    parser.add_argument("--initial-c", type=float, default=0.01, help="the first c (default: 0.01)")
    parser.add_argument("--kappa", type=float, default=0.0, help="confidence margin of the attack, kappa (default: 0)")
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    add_json(parser)


def run(options: Namespace) -> None:
    """Attack the images and write the distances to a file, into a bundle, or both."""
    _check_outputs(options)
    check_targets(options)
    with running() as run:
        summary = run_attack(options, run)
    median = "" if summary["median"] is None else f", median distance {summary['median']:.4f}"
    done = (
        f"{summary['images']} images attacked in {summary['seconds']:.1f} s: "
        f"{summary['failures']} failed{median}, written to {' and '.join(summary['out'])}"
    )
    show(options, summary, "\n".join([done, *notes(summary["notices"])]))


def run_attack(options: Namespace, run: Run) -> dict[str, Any]:
    """Attack and write; return counts, the median distance (None if every attack failed), seconds and notices."""
    import numpy as np
    import torch

    from smart_core.attacks import Search, carlini_wagner_l2
    from smart_core.attacks.inputs import build_model, load_images, load_weights, merged, part_of, save_distances
    from smart_core.cli.inputs import reading
    from smart_core.data.document import load
    from smart_core.data.saving import save_bundle
    from smart_core.device import resolve_device

    search = Search(options.lr, options.iterations, options.search_steps, options.initial_c, options.kappa)
    search.check()
    place = resolve_device(options.device)
    given = load_images(options.images)
    notices = list(given.notices)
    data, rows = None, given.rows
    if options.bundle:
        data = load(options.bundle, **reading(options))
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
    if options.out_bundle:
        check_extension("--out-bundle", options.out_bundle, ".npz", ".safetensors")
