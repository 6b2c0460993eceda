"""What the options of a command mean: its settings, and the files to read."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from smart_core.calibrators.base import Calibrator
from smart_core.data.load import load
from smart_core.data.logitset import Head, LogitSet, Part
from smart_core.data.one_part import is_validation_only
from smart_core.data.one_part import load_validation as load_one_part
from smart_core.data.unlabelled import Unlabelled
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
    files = [item for item in options.set if "=" not in item and Path(item).exists()]
    return [item for item in options.set if item not in files], [*options.files, *files]


def check_arrays(method: type[Calibrator], part: Part, head: Head | None, files: list[str]) -> None:
    """Refuses a fit whose files lack an array that the method cannot do without."""
    lacking = method.missing({"features": part.features is not None, "head": head is not None})
    if lacking is not None:
        cure = "add features (N, D), head_weight (K, D) and head_bias (K,) of the last layer, or choose another method"
        raise CalibrationError(f"{_named(files)}: {method.label} {lacking}; {cure}.")


def check_fits(calibrator: Calibrator, parts: dict[str, Unlabelled], options: Namespace) -> None:
    """Refuses logits of other classes than the calibrator's, and files without the features that it reads."""
    fitted = f"{calibrator.label} in {options.calibrator} was fitted"
    for part in parts.values():
        classes = part.logits.shape[1]
        if classes != calibrator.classes_:
            raise LogitFileError(
                f"{_named(options.files)}: the logits have {classes} classes but {fitted} on {calibrator.classes_}; "
                "give logits of the same model."
            )
        if calibrator.features_used_ and part.features is None:
            raise LogitFileError(f"{_named(options.files)}: {fitted} with features; add the array features (N, D).")


def _named(files: list[str]) -> str:
    return " and ".join(Path(file).name for file in files)


def roles_given(options: Namespace) -> dict[str, str | None] | None:
    """`--role ROLE=ARRAY`, as `load` takes it; an empty array leaves the role out."""
    return {role: array or None for role, array in options.role} or None


def load_data(options: Namespace) -> LogitSet:
    """The two parts of the files given."""
    named = options.val is not None or options.test is not None
    if named == bool(options.files):
        raise LogitFileError("Give one bundle or a logit and a label file, or --val and --test, not both and not none.")
    split = {"val_fraction": options.val_fraction, "split_seed": options.split_seed}
    roles = roles_given(options)
    if named:
        return load(val=options.val, test=options.test, roles=roles, **split)
    return load(options.files if len(options.files) > 1 else options.files[0], roles=roles, **split)


def _is_validation(options: Namespace, files: list[str]) -> bool:
    """Whether files given without a side are a validation part that nobody asked to have split."""
    asked = (options.val_fraction, options.split_seed) != (0.5, 0)
    return (
        options.val is None and options.test is None and not asked and is_validation_only(files, roles_given(options))
    )


def load_validation(options: Namespace, files: list[str]) -> tuple[Part, Head | None, list[str]]:
    """The part to fit on, the head, and notices; a fit needs no test part, and splits none off a validation file."""
    given = options.val if not files else files if _is_validation(options, files) else None
    if given is not None and options.test is None:
        found = load_one_part(given, roles_given(options))
        return found.part, found.head, list(map(str, found.notices))
    options.files = files
    data = load_data(options)
    return data.validation, data.head, list(map(str, data.notices))
