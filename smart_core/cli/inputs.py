"""From the options of a command to its settings and data."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smart_core.calibrators.base import Calibrator
from smart_core.calibrators.inputs import EVERY_CLASS, TWO_CLASSES
from smart_core.data.document import Document
from smart_core.data.lazy.opening import are_large, open_part
from smart_core.data.lazy.opening import open as open_shards
from smart_core.data.logitset import Head, LogitSet, Part
from smart_core.data.normalize.parts import Unlabelled
from smart_core.data.samples import is_sample
from smart_core.errors import CalibrationError, LogitFileError
from smart_core.experiments.executors import Workers, scheduler
from smart_core.experiments.running import available


def parse_settings(method: Any, assignments: list[str]) -> dict[str, Any]:
    """Return `NAME=VALUE` pairs as values of the setting's type."""
    known = {described.name: described for described in method.settings()}
    chosen: dict[str, Any] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if name == "preset" and method.presets:
            chosen = {**method.preset(text), **chosen}
            continue
        if not separator or name not in known:
            problem = f"{method.label} takes NAME=VALUE with a name of {', '.join(known)}."
            raise CalibrationError(problem, file=f"--set {assignment}")
        chosen[name] = known[name].parse(text)
    return chosen


def assignments_and_files(options: Namespace) -> tuple[list[str], list[str]]:
    """Separate files from assignments: in `--set a=1 b=2 FILE` the parser takes FILE for an assignment."""
    files = [item for item in options.set if "=" not in item and (is_sample(item) or Path(item).exists())]
    return [item for item in options.set if item not in files], [*options.files, *files]


def check_arrays(method: type[Calibrator], part: Part, head: Head | None, files: list[str]) -> None:
    """Raise if the files lack an array that the method needs."""
    lacking = method.missing({**available([part], head), EVERY_CLASS: True})
    if lacking is None:
        return
    problem, fixes = f"{method.label} {lacking}", ["choose another method"]
    if part.kind == "reduced":
        problem, fixes = f"{method.label} needs logits, and the rows are reduced", ["give the shards", *fixes]
    elif part.kind == "confidence":
        problem = f"{problem}, and there are confidences alone"
        fixes = ["save the logits of the model", "choose a method of the top-1 confidence, such as isotonic"]
    elif TWO_CLASSES not in lacking:
        fixes = ["add features (N, D), head_weight (K, D) and head_bias (K,) of the last layer", *fixes]
    raise CalibrationError(problem, *fixes, file=_named(files))


def check_fits(calibrator: Calibrator, parts: dict[str, Unlabelled], options: Namespace) -> None:
    """Raise if the number of classes is not the calibrator's, or the features that it needs are missing."""
    fitted = f"{calibrator.label} in {options.calibrator} was fitted"
    for part in parts.values():
        if part.confidence is not None:
            continue
        classes = part.logits.shape[1]
        if classes != calibrator.classes_:
            problem = f"the logits have {classes} classes but {fitted} on {calibrator.classes_}"
            raise LogitFileError(problem, "give logits of the same model", file=_named(options.files))
        if calibrator.features_used_ and part.features is None:
            problem = f"{fitted} with features"
            raise LogitFileError(problem, "add the array features (N, D)", file=_named(options.files))


def _named(files: list[str]) -> str:
    return " and ".join(Path(file).name for file in files)


def reading(options: Namespace) -> dict[str, Any]:
    """Return the options that say how files are read as arguments of `load`; those that were not given are left out."""
    roles = {role: array or None for role, array in options.role} or None  # an empty array leaves the role out
    names = ("values", "labels_start_at", "transposed", "group")
    given = {"roles": roles, **{name: getattr(options, name) for name in names}}
    return {name: value for name, value in given.items() if value is not None}


def _open(options: Namespace) -> Document:
    if (options.val is not None or options.test is not None) == bool(options.files):
        raise LogitFileError("Give one bundle, a logit file with its label file, or --val and --test.")
    return Document.open(options.files or None, val=options.val, test=options.test)


def is_lazy(options: Namespace) -> bool:
    """Whether the logits stay in their files: a scheduler or labels of shards are given, or they are large."""
    if options.scheduler is not None or options.labels:
        return True
    read_whole = options.role or options.transposed is not None or options.group is not None
    return not read_whole and are_large([*(options.files or []), *(options.val or []), *(options.test or [])])


def open_data(options: Namespace) -> LogitSet:
    """Open the files as shards."""
    if options.role or options.transposed is not None or options.group is not None:
        problem = "--role, --transposed and --group are for files that are read whole, not for shards"
        raise LogitFileError(problem, "leave them out", "leave --scheduler and --labels out")
    return open_shards(
        options.files or None,
        labels=options.labels,
        val=options.val,
        test=options.test,
        val_fraction=options.val_fraction,
        split_seed=options.split_seed,
        values=options.values,
        labels_start_at=options.labels_start_at,
    )


@contextmanager
def on_scheduler(options: Namespace) -> Iterator[Workers | None]:
    """Read shards in this block where the options say; Dask's own dashboard is named on standard error."""
    if options.scheduler is None and options.scheduler_workers is None:
        yield None
        return
    with scheduler(options.scheduler or "threads", options.scheduler_workers) as workers:
        if workers.link:
            print(f"note: Dask's dashboard is at {workers.link}", file=sys.stderr)
        yield workers


def load_data(options: Namespace, document: Document | None = None) -> LogitSet:
    """Load the files as validation and test; `document` is what they hold, if they are open already."""
    if document is None and is_lazy(options):
        return open_data(options)
    document = document or _open(options)
    return document.load(val_fraction=options.val_fraction, split_seed=options.split_seed, **reading(options))


def load_validation(options: Namespace) -> tuple[Part, Head | None, list[str]]:
    """Return the part to fit on, the head, and notices.

    A fit needs no test part: a file that says it is validation is not split.
    """
    if is_lazy(options):
        if options.test is None and options.val is not None:
            lazy, notices = open_part(options.val, options.labels, options.values, options.labels_start_at)
            return lazy.for_fit, None, list(map(str, notices))
        data = open_data(options)
        return data.validation.for_fit, None, list(map(str, data.notices))
    document, given = _open(options), reading(options)
    roles, group = given.get("roles"), given.get("group")
    split_wanted = (options.val_fraction, options.split_seed) != (0.5, 0)
    if options.test is None and (not options.files or (not split_wanted and document.is_validation_only(roles, group))):
        labelled = document.validation(**given)
        return labelled.part, labelled.head, list(map(str, labelled.notices))
    data = load_data(options, document)
    return data.validation, data.head, list(map(str, data.notices))
