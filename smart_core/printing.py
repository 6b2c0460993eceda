"""What the command line prints: results as plain text, a table and a few sentences each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from smart_core.console import table
from smart_core.data.found import plural
from smart_core.data.logitset import LogitSet

if TYPE_CHECKING:
    from smart_core.experiments.compare import Comparison, MethodResult
    from smart_core.experiments.sensitivity import Sensitivity


def data_card(data: LogitSet) -> dict[str, Any]:
    """What was found in the files: parts, arrays, classes, accuracy, notices."""
    parts = {"validation": data.validation, "test": data.test}
    arrays = {
        name: {key: (list(array.shape), str(array.dtype)) for key, array in part.arrays()}
        for name, part in parts.items()
    }
    if data.head is not None:
        arrays["head"] = {
            "weight": (list(data.head.weight.shape), str(data.head.weight.dtype)),
            "bias": (list(data.head.bias.shape), str(data.head.bias.dtype)),
        }
    return {
        "name": data.name,
        "classes": data.classes,
        "class_names": data.class_names,
        **{name: {"samples": len(part), "accuracy": part.accuracy} for name, part in parts.items()},
        "arrays": arrays,
        "notices": [str(notice) for notice in data.notices],
    }


def card_text(card: dict[str, Any]) -> str:
    """The data card, for people."""
    rows = [
        (part, name, " x ".join(map(str, shape)), kind)
        for part, arrays in card["arrays"].items()
        for name, (shape, kind) in arrays.items()
    ]
    sizes = [
        f"{part}: {plural(card[part]['samples'], 'sample')}, top-1 accuracy {card[part]['accuracy']:.4f}"
        for part in ("validation", "test")
    ]
    return _lines(
        f"{card['name']}: {card['classes']} classes",
        table(("part", "array", "shape", "type"), rows),
        *sizes,
        *notes(card["notices"]),
    )


def leaderboard_text(result: Comparison) -> str:
    """The leaderboard, with what is needed to read it."""
    from smart_core.evaluation import HEADLINE, METRICS

    data = result.data
    labels = [METRICS[name].label for name in HEADLINE]
    by = f"by {METRICS[result.metric].label}"
    header = ["method", *labels, "ECE 95 % interval", "ECE floor", "parameters", "fit s", "top-1", by]
    rows = [_leaderboard_row(row, result, len(header)) for row in result.results.values()]
    return _lines(
        f"{data.name}: fitted on {len(data.validation)}, judged on {len(data.test)}, {data.classes} classes",
        *notes(map(str, data.notices)),
        table(header, rows),
        "ECE, AdaECE, cwECE, smCE, SmoothECE and accuracy in per cent; +- is the spread over seeds.",
        "ECE 95 % interval: of the value on endless data. Noise adds to a measured error, which may then lie above it.",
        "ECE floor: a perfectly calibrated model with the method's confidences stays below it in 95 of 100 test sets.",
        "tied: the paired test cannot tell the method from the best; worse: it can.",
        *notes(result.notices),
        *notes(f"{_label(row)}: {notice}" for row in result.results.values() for notice in row.notices),
    )


def _leaderboard_row(row: MethodResult, result: Comparison, width: int) -> list[str]:
    from smart_core.evaluation import HEADLINE

    if not row.available:
        return [_label(row), *[""] * (width - 2), row.reason or ""]
    ends, floor = row.intervals.get("ece"), row.floor.get("ece")
    return [
        _label(row),
        *(metric_cell(name, row.mean(name), row.std(name)) for name in HEADLINE),
        "" if ends is None else f"{100 * ends.low:.2f}-{100 * ends.high:.2f}",
        "" if floor is None else f"{100 * floor.q95:.2f}",
        str(row.parameters),
        f"{row.fit_seconds:.1f}",
        "kept" if row.keeps_top1 else "may change",
        "best" if row.id == result.best else {True: "tied", False: "worse", None: ""}[result.tied.get(row.id)],
    ]


def _label(row: MethodResult) -> str:
    from smart_core.calibrators import methods

    return methods()[row.id].label


def metric_cell(name: str, mean: float, std: float) -> str:
    """A mean with its spread, in per cent where the metric is read so; nothing where there is no value."""
    from smart_core.evaluation import METRICS

    if mean != mean:
        return ""
    scale, digits = (100.0, 2) if METRICS[name].percent else (1.0, 4)
    spread = f"+-{scale * std:.{digits}f}" if std > 0.0 else ""
    return f"{scale * mean:.{digits}f}{spread}"


def grid_text(result: Sensitivity, samples: int) -> str:
    """The sensitivity grid, with its unit and what it must not be used for."""
    from smart_core.evaluation import METRICS

    header = ["sigma \\ delta", *(f"{delta:g}" for delta in result.deltas)]
    rows = [
        [f"{sigma:g}", *(metric_cell(result.metric, m, s) for m, s in zip(means, stds, strict=True))]
        for sigma, means, stds in zip(result.sigmas, result.mean(), result.std(), strict=True)
    ]
    metric = METRICS[result.metric]
    unit = " in per cent" if metric.percent else ""
    seeds = "1 seed" if result.seeds == 1 else f"{result.seeds} seeds"
    return _lines(
        table(header, rows),
        f"{metric.label}{unit} on {plural(samples, 'test sample')}, {seeds} a cell; +- is the spread over seeds.",
        "The grid shows how much the settings matter. To take its best cell would be to select on test, and its value "
        "would flatter.",
        *notes(
            f"sigma {item['sigma']:g}, delta {item['delta']:g}, seed {item['seed']}: {item['reason']}"
            for item in result.reasons_list()
        ),
    )


def methods_text(cards: dict[str, dict[str, Any]]) -> str:
    """The registry."""
    rows = [
        (id, card["label"], "yes" if card["keeps_top1"] else "no", needs_text(card), card["summary"])
        for id, card in cards.items()
    ]
    return table(("id", "method", "keeps top-1", "needs", "what it does"), rows)


def needs_text(card: dict[str, Any]) -> str:
    """Which arrays beyond logits and labels a method takes."""
    optional = f"{', '.join(card['uses'])}, if there are any" if card["uses"] else ""
    return ", ".join(card["needs"]) or optional


def settings_text(card: dict[str, Any]) -> str:
    """One method and its settings."""
    rows = [(item["name"], item["default"], _allowed(item), item["help"]) for item in card["settings"]]
    return _lines(f"{card['label']}: {card['summary']}", table(("setting", "default", "values", "meaning"), rows))


def _allowed(item: dict[str, Any]) -> str:
    if item["choices"]:
        return "|".join(str(choice) for choice in item["choices"])
    low, high = ("" if item[end] is None else f"{item[end]:.10g}" for end in ("low", "high"))
    return f"{low}..{high}" if low or high else ""


def method_card(method: Any) -> dict[str, Any]:
    """What the registry knows of a method."""
    return {
        "label": method.label,
        "summary": method.summary,
        "keeps_top1": method().keeps_top1,
        "needs": list(method.needs),
        "uses": list(method.uses),
        "stochastic": method.stochastic,
        "settings": [
            {
                "name": item.name,
                "default": item.default,
                "help": item.help,
                "low": item.low,
                "high": item.high,
                "choices": None if item.choices is None else list(item.choices),
            }
            for item in method.settings()
        ],
    }


def notes(notices: Iterable[str]) -> list[str]:
    """Notices, one a line."""
    return [f"note: {notice}" for notice in dict.fromkeys(notices)]


def _lines(*parts: str) -> str:
    return "\n".join(parts)
