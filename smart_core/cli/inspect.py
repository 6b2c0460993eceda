"""The command `inspect`: what files hold."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from smart_core.cli.arguments import add_command, add_files
from smart_core.cli.output import check_targets, notes, show
from smart_core.cli.terminal import table
from smart_core.formatting import plural

if TYPE_CHECKING:
    from smart_core.data.logitset import LogitSet


def add(commands: Any) -> None:
    """The arguments of the command."""
    parser = add_command(commands, "inspect", "what a file holds: arrays, classes, accuracy, notices")
    add_files(parser)


def run(options: Namespace) -> None:
    """Print what the files hold."""
    from smart_core.cli.inputs import load_data

    check_targets(options)
    card = data_card(load_data(options))
    show(options, card, card_text(card))


def data_card(data: LogitSet) -> dict[str, Any]:
    """Return the parts, arrays, classes, accuracy and notices of a set."""
    parts = {"validation": data.validation, "test": data.test}
    held = {name: dict(part.arrays()) for name, part in parts.items()}
    if data.head is not None:
        held["head"] = {"weight": data.head.weight, "bias": data.head.bias}
    return {
        "name": data.name,
        "classes": data.classes,
        "class_names": data.class_names,
        **{name: {"samples": len(part), "accuracy": part.accuracy} for name, part in parts.items()},
        "arrays": {
            name: {key: (list(array.shape), str(array.dtype)) for key, array in arrays.items()}
            for name, arrays in held.items()
        },
        "notices": [str(notice) for notice in data.notices],
    }


def card_text(card: dict[str, Any]) -> str:
    """Return the data card as text."""
    rows = [
        (part, name, " x ".join(map(str, shape)), kind)
        for part, arrays in card["arrays"].items()
        for name, (shape, kind) in arrays.items()
    ]
    sizes = [
        f"{part}: {plural(card[part]['samples'], 'sample')}, top-1 accuracy {card[part]['accuracy']:.4f}"
        for part in ("validation", "test")
    ]
    return "\n".join(
        [
            f"{card['name']}: {card['classes']} classes",
            table(("part", "array", "shape", "type"), rows),
            *sizes,
            *notes(card["notices"]),
        ]
    )
