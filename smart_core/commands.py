"""The commands behind the command line: each takes the parsed options and prints or writes its result."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from smart_core.console import ProgressBar, table
from smart_core.data.load import load
from smart_core.data.logitset import LogitSet
from smart_core.errors import CalibrationError, LogitFileError
from smart_core.experiments.result import plain


def inspect(options: Namespace) -> None:
    """What was found."""
    data = _load(options)
    card = data_card(data)
    if options.json:
        _write_json(card, options.json)
    if options.json != "-":
        print(f"{data.name}: {data.classes} classes")
        rows = [
            (part, name, " x ".join(map(str, shape)), kind)
            for part, arrays in card["arrays"].items()
            for name, (shape, kind) in arrays.items()
        ]
        print(table(("part", "array", "shape", "type"), rows))
        for part in ("validation", "test"):
            print(f"{part}: {card[part]['samples']} samples, top-1 accuracy {card[part]['accuracy']:.4f}")
        for notice in data.notices:
            print(f"note: {notice}")


def data_card(data: LogitSet) -> dict[str, Any]:
    """The same facts as JSON."""
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


def compare(options: Namespace) -> None:
    """The leaderboard."""
    from smart_core.calibrators import methods, select
    from smart_core.evaluation import HEADLINE, METRICS
    from smart_core.experiments.compare import compare as run_compare

    select(options.methods)
    data = _load(options)
    bar = ProgressBar()
    try:
        result = run_compare(
            data, options.methods, options.seeds, bins=options.bins, device=options.device, progress=bar
        )
    finally:
        bar.close()
    if options.json:
        _write_json(result.to_dict(), options.json)
    if options.json == "-":
        return
    print(f"{data.name}: fitted on {len(data.validation)}, judged on {len(data.test)}, {data.classes} classes")
    for notice in data.notices:
        print(f"note: {notice}")
    labels = [METRICS[name].label for name in HEADLINE]
    header = ["method", *labels, "ECE 95 % interval", "ECE floor", "parameters", "fit s", "top-1", "by ECE"]
    rows = []
    for id, row in result.results.items():
        if not row.available:
            rows.append([methods()[id].label, *[""] * (len(header) - 2), row.reason or ""])
            continue
        ends = row.intervals["ece"]
        rows.append(
            [
                methods()[id].label,
                *(_cell(name, row.mean(name), row.std(name)) for name in HEADLINE),
                f"{100 * ends.low:.2f}-{100 * ends.high:.2f}",
                f"{100 * row.floor['ece'].q95:.2f}",
                str(row.parameters),
                f"{row.fit_seconds:.1f}",
                "kept" if row.keeps_top1 else "may change",
                "best" if id == result.best else "tied" if result.tied.get(id) else "",
            ]
        )
    print(table(header, rows))
    print(
        "ECE, AdaECE, cwECE, smCE, SmoothECE and accuracy in per cent; +- is the spread over seeds.\n"
        "ECE floor: a perfectly calibrated model with the method's confidences stays below it in 95 of 100 test sets.\n"
        "tied: the paired test cannot tell the method from the best."
    )


def _cell(name: str, mean: float, std: float) -> str:
    from smart_core.evaluation import METRICS

    scale, digits = (100.0, 2) if METRICS[name].percent else (1.0, 4)
    spread = f"+-{scale * std:.{digits}f}" if std > 0.0 else ""
    return f"{scale * mean:.{digits}f}{spread}"


def fit(options: Namespace) -> None:
    """Fit and save."""
    from smart_core.calibrators import methods, select
    from smart_core.experiments.fitting import fit_method

    (id,) = select([options.method])
    settings = {"seed": options.seed, **parse_settings(methods()[id], options.set)}
    data = _load(options)
    bar = ProgressBar()
    try:
        fitted = fit_method(id, data, settings=settings, device=options.device, run=_run(bar))
    finally:
        bar.close()
    fitted.calibrator.save(options.out)
    notices = [*map(str, data.notices), *fitted.calibrator.notices_]
    summary = {
        "method": id,
        "settings": fitted.calibrator.settings_dict(),
        "parameters": fitted.calibrator.parameters,
        "samples": len(data.validation),
        "fit_seconds": fitted.seconds,
        "notices": notices,
        "out": str(options.out),
    }
    if options.json:
        _write_json(summary, options.json)
    if options.json != "-":
        print(
            f"{methods()[id].label} fitted on {len(data.validation)} samples in {fitted.seconds:.2f} s, "
            f"written to {options.out}"
        )
        for notice in notices:
            print(f"note: {notice}")


def apply(options: Namespace) -> None:
    """Load, apply, write probabilities."""
    import numpy as np

    from smart_core.calibrators import load_calibrator
    from smart_core.data.unlabelled import load_logits

    if Path(options.out).suffix != ".npz":
        raise CalibrationError(f"--out {options.out}: probabilities are written as npz; give a name that ends in .npz.")
    calibrator = load_calibrator(options.calibrator, device=options.device)
    parts = load_logits(options.files if len(options.files) > 1 else options.files[0])
    written = {
        f"{name}probs": calibrator.predict_proba(part.logits, features=part.features) for name, part in parts.items()
    }
    with Path(options.out).open("wb") as handle:
        np.savez_compressed(handle, **written)
    summary = {name: list(array.shape) for name, array in written.items()}
    if options.json:
        _write_json({"out": str(options.out), "arrays": summary}, options.json)
    if options.json != "-":
        shapes = ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in summary.items())
        print(f"{calibrator.label} applied: {shapes}, written to {options.out}")
        for notice in dict.fromkeys(str(notice) for part in parts.values() for notice in part.notices):
            print(f"note: {notice}")


def sensitivity(options: Namespace) -> None:
    """The heatmap as a table."""
    from smart_core.evaluation import metric_named
    from smart_core.experiments.sensitivity import PAPER_DELTAS, PAPER_SIGMAS
    from smart_core.experiments.sensitivity import sensitivity as run_sensitivity

    metric = metric_named(options.metric)
    data = _load(options)
    bar = ProgressBar()
    try:
        result = run_sensitivity(
            data,
            options.sigma or PAPER_SIGMAS,
            options.delta or PAPER_DELTAS,
            options.seeds,
            metric=options.metric,
            bins=options.bins,
            device=options.device,
            progress=bar,
        )
    finally:
        bar.close()
    if options.json:
        _write_json(result.to_dict(), options.json)
    if options.json != "-":
        header = ["sigma \\ delta", *(f"{delta:g}" for delta in result.deltas)]
        rows = [
            [f"{sigma:g}", *(_cell(options.metric, m, s) for m, s in zip(means, stds, strict=True))]
            for sigma, means, stds in zip(result.sigmas, result.mean(), result.std(), strict=True)
        ]
        print(table(header, rows))
        print(f"{metric.label} on {len(data.test)} test samples, {options.seeds} seeds a cell")


def attack(options: Namespace) -> None:
    """Distances of a model on images, as a file, inside a bundle, or both."""
    from smart_core.attack_command import run_attack

    bar = ProgressBar()
    try:
        summary = run_attack(options, _run(bar))
    finally:
        bar.close()
    if options.json:
        _write_json(summary, options.json)
    if options.json != "-":
        median = "" if summary["median"] is None else f", median distance {summary['median']:.4f}"
        print(
            f"{summary['images']} images attacked in {summary['seconds']:.1f} s: "
            f"{summary['failures']} failed{median}, written to {' and '.join(summary['out'])}"
        )
        for notice in summary["notices"]:
            print(f"note: {notice}")


def methods(options: Namespace) -> None:
    """The registry, or one method's settings."""
    from smart_core.calibrators import methods as all_methods
    from smart_core.calibrators import select

    chosen = select([options.method]) if options.method else list(all_methods())
    cards = {id: method_card(all_methods()[id]) for id in chosen}
    if options.json:
        _write_json(cards, options.json)
    if options.json == "-":
        return
    if not options.method:
        rows = [
            (id, card["label"], "yes" if card["keeps_top1"] else "no", card["summary"]) for id, card in cards.items()
        ]
        print(table(("id", "method", "keeps top-1", "what it does"), rows))
        return
    card = cards[options.method]
    print(f"{card['label']}: {card['summary']}")
    rows = [(item["name"], item["default"], _allowed(item), item["help"]) for item in card["settings"]]
    print(table(("setting", "default", "values", "meaning"), rows))


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


def _allowed(item: dict[str, Any]) -> str:
    if item["choices"]:
        return "|".join(str(choice) for choice in item["choices"])
    low, high = ("" if item[end] is None else f"{item[end]:g}" for end in ("low", "high"))
    return f"{low}..{high}" if low or high else ""


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


def _load(options: Namespace) -> LogitSet:
    named = options.val is not None or options.test is not None
    if named == bool(options.files):
        raise LogitFileError("Give one bundle or a logit and a label file, or --val and --test, not both and not none.")
    split = {"val_fraction": options.val_fraction, "split_seed": options.split_seed}
    if named:
        return load(val=options.val, test=options.test, **split)
    return load(options.files if len(options.files) > 1 else options.files[0], **split)


def _run(bar: ProgressBar) -> Any:
    from smart_core.run import Run

    return Run(bar)


def _write_json(value: Any, path: str) -> None:
    text = json.dumps(plain(value), indent=2, allow_nan=False)
    if path == "-":
        sys.stdout.write(text + "\n")
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")
