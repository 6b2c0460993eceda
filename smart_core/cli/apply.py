"""The command `apply`: calibrated probabilities from a saved calibrator."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from smart_core.cli.arguments import add_json, add_reading, add_scheduler, part_of
from smart_core.cli.output import check_extension, check_targets, notes, show
from smart_core.cli.terminal import running
from smart_core.formatting import plural


def add(parser: ArgumentParser) -> None:
    parser.add_argument("calibrator", metavar="CAL", help="file written by fit")
    parser.add_argument("files", nargs="+", metavar="FILE", help="logits, with or without labels")
    add_reading(parser)
    parser.add_argument(
        "--out", required=True, metavar="PROBS.npz", help="file to write (npz), or FOLDER/ for one file per shard"
    )
    parser.add_argument(
        "--top-label", action="store_true", help="for shards: confidence and prediction of each row only"
    )
    parser.add_argument(
        "--shard", type=part_of, metavar="I/N", help="process only part I of N of the shards (job arrays)"
    )
    add_scheduler(parser)
    parser.add_argument("--device", default="auto", help="auto, cuda, mps or cpu")
    add_json(parser)


def run(options: Namespace) -> None:
    import numpy as np

    from smart_core.calibrators import load_calibrator
    from smart_core.cli.inputs import check_fits, reading
    from smart_core.data.document import Document
    from smart_core.data.saving import atomic_write

    if options.out.endswith(("/", "\\")) or Path(options.out).is_dir():
        apply_to_folder(options)
        return
    check_extension("--out", options.out, ".npz")
    check_targets(options)
    calibrator = load_calibrator(options.calibrator, device=options.device)
    how = {name: value for name, value in reading(options).items() if name != "labels_start_at"}
    parts = Document.open(options.files).logits(classes=calibrator.classes_, **how)
    check_fits(calibrator, parts, options)
    written = {}
    for name, part in parts.items():
        if part.confidence is not None:
            written[f"{name}confidence"] = calibrator.predict_confidence(part.confidence)
        else:
            written[f"{name}probs"] = calibrator.predict_proba(part.logits, features=part.features)
    with atomic_write(options.out) as handle:
        np.savez_compressed(handle, **written)
    shapes = {name: list(array.shape) for name, array in written.items()}
    listed = ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())
    notices = list(dict.fromkeys(str(notice) for part in parts.values() for notice in part.notices))
    done = f"{calibrator.label} applied: {listed}, written to {options.out}"
    summary = {"out": str(options.out), "arrays": shapes, "notices": notices}
    show(options, summary, "\n".join([done, *notes(notices)]))


def apply_to_folder(options: Namespace) -> None:
    """Write one calibrated file per shard; what a stopped run has finished is kept."""
    from smart_core.calibrators import load_calibrator
    from smart_core.cli.inputs import on_scheduler
    from smart_core.data.lazy.opening import open_logits
    from smart_core.export.shards import apply_to_shards

    calibrator = load_calibrator(options.calibrator, device=options.device)
    logits = open_logits(options.files, options.values, options.shard)
    with on_scheduler(options), running() as run:
        found = apply_to_shards(calibrator, logits, Path(options.out), top_label=options.top_label, run=run)
    kept = f", {plural(len(found.kept), 'file')} found there" if found.kept else ""
    summary = {"out": options.out, "written": list(map(str, found.written)), "kept": list(map(str, found.kept))}
    written = plural(len(found.written), "file")
    show(options, summary, f"{calibrator.label} applied: {written} written to {options.out}{kept}")
