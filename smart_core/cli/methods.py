"""The command `methods`: the calibrators and their settings."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from smart_core.cli.arguments import add_json
from smart_core.cli.output import check_targets, show
from smart_core.cli.terminal import table

DESCRIBED = ("name", "default", "help", "low", "high", "choices")
"""The attributes of a setting that are listed."""


def add(parser: ArgumentParser) -> None:
    parser.add_argument("method", nargs="?", metavar="ID", help="show the settings of this method")
    add_json(parser)


def run(options: Namespace) -> None:
    from smart_core.calibrators import method_named, select
    from smart_core.calibrators import methods as all_methods
    from smart_core.calibrators.registry import HEADINGS, method_rows

    chosen = select([options.method]) if options.method else list(all_methods())
    check_targets(options)
    cards = {id: method_card(method_named(id)) for id in chosen}
    text = settings_text(cards[chosen[0]]) if options.method else table(HEADINGS, method_rows())
    show(options, cards, text)


def settings_text(card: dict[str, Any]) -> str:
    rows = [(item["name"], item["default"], _allowed(item), item["help"]) for item in card["settings"]]
    return "\n".join([f"{card['label']}: {card['summary']}", table(("setting", "default", "values", "meaning"), rows)])


def _allowed(item: dict[str, Any]) -> str:
    if item["choices"]:
        return "|".join(str(choice) for choice in item["choices"])
    low, high = ("" if item[end] is None else f"{item[end]:.10g}" for end in ("low", "high"))
    return f"{low}..{high}" if low or high else ""


def method_card(method: Any) -> dict[str, Any]:
    """Return what the registry knows about a method."""
    return {
        "label": method.label,
        "summary": method.summary,
        "keeps_top1": method().keeps_top1,
        "needs": list(method.needs),
        "uses": list(method.uses),
        "stochastic": method.stochastic,
        "settings": [{name: getattr(item, name) for name in DESCRIBED} for item in method.settings()],
    }
