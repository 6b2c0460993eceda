"""The command `inspect`: what files hold."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from smart_core.cli.arguments import add_files
from smart_core.cli.output import check_targets, notes, show
from smart_core.cli.terminal import table
from smart_core.formatting import plural

if TYPE_CHECKING:
    from smart_core.data.logitset import LogitSet


def add(parser: ArgumentParser) -> None:
    add_files(parser)
    parser.add_argument("--by", metavar="COLUMN", help="also evaluate each slice of the test part by this column")


def run(options: Namespace) -> None:
    from smart_core.cli.inputs import load_data

    check_targets(options)
    data = load_data(options)
    card = data_card(data)
    if options.by is not None:
        card["slices"] = slice_card(data, options.by)
    show(options, card, card_text(card))


def data_card(data: LogitSet) -> dict[str, Any]:
    """Return the parts, arrays, classes, accuracy and notices of a set."""
    parts = {"validation": data.validation, "test": data.test}
    held: dict[str, dict[str, Any]] = {
        name: dict(part.arrays()) if part.in_memory else {"logits": part.logits, "labels": part.labels}
        for name, part in parts.items()
    }
    if data.head is not None:
        held["head"] = {"weight": data.head.weight, "bias": data.head.bias}
    return {
        "name": data.name,
        "kind": data.kind,
        "classes": data.classes or None,
        "class_names": data.class_names,
        **{name: {"samples": len(part), "accuracy": part.accuracy} for name, part in parts.items()},
        "arrays": {
            name: {key: (list(array.shape), str(array.dtype)) for key, array in arrays.items()}
            for name, arrays in held.items()
        },
        "notices": [str(notice) for notice in data.notices],
    }


def slice_card(data: LogitSet, column: str) -> dict[str, Any]:
    """Return what the uncalibrated model claims and how often it is right, for each slice of a column."""
    from smart_core.analysis.slices import columns_of, slices
    from smart_core.calibrators.vanilla import Vanilla
    from smart_core.errors import CalibrationError
    from smart_core.evaluation import evaluate

    columns = columns_of(data.test, data.class_names)
    if column not in columns:
        problem = f"there is no column '{column}' in the test part"
        raise CalibrationError(problem, f"the columns are: {', '.join(columns) or 'none'}", file=data.name)
    evaluation = evaluate(Vanilla().fit_part(data.validation), data.test, classwise=False)
    return {
        each.name: {
            "samples": each.n,
            "confidence": each.confidence,
            "accuracy": each.accuracy,
            "ece": each.ece,
            "floor_q95": each.floor_q95,
            "low": each.interval.low,
            "high": each.interval.high,
        }
        for each in slices(evaluation, columns[column])
    }


def card_text(card: dict[str, Any]) -> str:
    rows = [
        (part, name, " x ".join(map(str, shape)), kind)
        for part, arrays in card["arrays"].items()
        for name, (shape, kind) in arrays.items()
    ]
    sizes = [
        f"{part}: {plural(card[part]['samples'], 'sample')}, top-1 accuracy {card[part]['accuracy']:.4f}"
        for part in ("validation", "test")
    ]
    what = "confidences without logits" if card["classes"] is None else f"{card['classes']} classes"
    return "\n".join(
        [
            f"{card['name']}: {what}",
            table(("part", "array", "shape", "type"), rows),
            *sizes,
            *_slice_lines(card.get("slices", {})),
            *notes(card["notices"]),
        ]
    )


def _slice_lines(slices: dict[str, Any]) -> list[str]:
    if not slices:
        return []
    header = ("slice", "samples", "confidence", "accuracy", "ECE", "noise floor", "ECE true, 95%")
    rows = [
        (
            name,
            str(each["samples"]),
            *(f"{100 * each[key]:.2f}" for key in ("confidence", "accuracy", "ece", "floor_q95")),
            f"{100 * each['low']:.2f} to {100 * each['high']:.2f}",
        )
        for name, each in slices.items()
    ]
    return [table(header, rows), "confidence, accuracy and ECE of the uncalibrated model on test, in %"]
