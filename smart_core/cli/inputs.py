"""What the options of a command mean: its settings, and the files to read."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from smart_core.bundled import is_sample
from smart_core.calibrators.base import Calibrator
from smart_core.data.document import Document
from smart_core.data.logitset import Head, LogitSet, Part
from smart_core.data.normalize.parts import Unlabelled
from smart_core.errors import CalibrationError, LogitFileError


def parse_settings(method: Any, assignments: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` pairs as the method's own types."""
    known = {described.name: described for described in method.settings()}
    chosen = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator or name not in known:
            raise CalibrationError(
                f"--set {assignment}: {method.label} takes NAME=VALUE with a name of {', '.join(known)}."
            )
        chosen[name] = known[name].parse(text)
    return chosen


def assignments_and_files(options: Namespace) -> tuple[list[str], list[str]]:
    """`--set a=1 b=2 FILE`: a file that follows the assignments is read as one of them, and told apart here."""
    files = [item for item in options.set if "=" not in item and (is_sample(item) or Path(item).exists())]
    return [item for item in options.set if item not in files], [*options.files, *files]


def check_arrays(method: type[Calibrator], part: Part, head: Head | None, files: list[str]) -> None:
    """Refuses a fit whose files lack an array that the method cannot do without."""
    lacking = method.missing({"features": part.features is not None, "head": head is not None})
    if lacking is not None:
        fixes = "add features (N, D), head_weight (K, D) and head_bias (K,) of the last layer", "choose another method"
        raise CalibrationError(f"{method.label} {lacking}", *fixes, file=_named(files))


def check_fits(calibrator: Calibrator, parts: dict[str, Unlabelled], options: Namespace) -> None:
    """Refuses logits of other classes than the calibrator's, and files without the features that it reads."""
    fitted = f"{calibrator.label} in {options.calibrator} was fitted"
    for part in parts.values():
        classes = part.logits.shape[1]
        if classes != calibrator.classes_:
            problem = f"the logits have {classes} classes but {fitted} on {calibrator.classes_}"
            raise LogitFileError(problem, "give logits of the same model", file=_named(options.files))
        if calibrator.features_used_ and part.features is None:
            problem = f"{fitted} with features"
            raise LogitFileError(problem, "add the array features (N, D)", file=_named(options.files))


def _named(files: list[str]) -> str:
    return " and ".join(Path(file).name for file in files)


def roles_given(options: Namespace) -> dict[str, str | None] | None:
    """`--role ROLE=ARRAY`, as `load` takes it; an empty array leaves the role out."""
    return {role: array or None for role, array in options.role} or None


def check_files(options: Namespace) -> None:
    """Raise unless either files or --val and --test were given."""
    if (options.val is not None or options.test is not None) == bool(options.files):
        raise LogitFileError("Give one bundle, a logit file with its label file, or --val and --test.")


def load_data(options: Namespace) -> LogitSet:
    """The two parts of the files given."""
    check_files(options)
    return _loaded(Document.open(options.files or None, val=options.val, test=options.test), options)


def _loaded(document: Document, options: Namespace) -> LogitSet:
    return document.load(val_fraction=options.val_fraction, split_seed=options.split_seed, roles=roles_given(options))


def load_validation(options: Namespace, files: list[str]) -> tuple[Part, Head | None, list[str]]:
    """The part to fit on, the head, and notices; a fit needs no test part, and splits none off a validation file."""
    options.files = files
    check_files(options)
    roles = roles_given(options)
    document = Document.open(files or None, val=options.val, test=options.test)
    split_wanted = (options.val_fraction, options.split_seed) != (0.5, 0)
    alone = options.test is None and (not files or (not split_wanted and document.is_validation_only(roles)))
    if alone:
        labelled = document.validation(roles)
        return labelled.part, labelled.head, list(map(str, labelled.notices))
    data = _loaded(document, options)
    return data.validation, data.head, list(map(str, data.notices))
