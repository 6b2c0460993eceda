"""The parts of a report, each a function from the findings to markup."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.metadata import version

import numpy as np

import smart_core
from smart_core.analysis.margin_groups import margin_edges, margin_groups, worst_group
from smart_core.analysis.temperature_curve import temperature_curve
from smart_core.calibrators import methods
from smart_core.data.logitset import LogitSet, Part
from smart_core.evaluation import HEADLINE, METRICS
from smart_core.experiments.method_result import MethodResult
from smart_core.figures.chart import Chart
from smart_core.figures.intervals_plot import leaderboard_plot
from smart_core.figures.margin_groups import margin_group_grid
from smart_core.figures.reliability import Curve, reliability_diagram
from smart_core.figures.sensitivity import sensitivity_heatmap
from smart_core.figures.temperature import temperature_chart
from smart_core.formatting import MISSING, metric_range, metric_value, percent, shorten
from smart_core.indicators import INDICATORS
from smart_core.metrics import ece, noise_floor, reliability
from smart_core.metrics.bootstrap import bootstrap_reliability_band
from smart_core.report.findings import Findings
from smart_core.report.markup import bullets, clean, code, facts, figure, paragraph, section, table
from smart_core.report.verdict import model_verdict, repair_verdict

NAMES_SHOWN = 12
"""Names of classes or groups that a line lists."""
LIBRARIES = ("numpy", "torch", "scipy", "plotly")

AS_IT_IS = "model as it is"


def verdict(found: Findings) -> str:
    """The two sentences that matter."""
    judged = found.before
    floor = noise_floor("ece", judged.confidence, bins=found.bins).q95
    confidence, accuracy = float(np.mean(judged.confidence)), float(np.mean(judged.correct))
    error = ece(judged.confidence, judged.correct, found.bins)
    return (
        '<section class="verdict">\n'
        + paragraph(model_verdict(error, floor, confidence, accuracy, len(judged)))
        + paragraph(repair_verdict(found.comparison))
        + "</section>\n"
    )


def data_card(found: Findings) -> str:
    """What was judged."""
    data = found.data
    extras = [name for name, _ in data.test.arrays() if name not in ("logits", "labels")]
    pairs: list[tuple[str, object]] = [
        ("Name", found.title),
        *([("File", data.name)] if data.name != found.title else []),
        ("Classes", f"{data.classes:,}{_names(data.class_names)}"),
        ("Validation, for fitting", _part(data.validation)),
        ("Test, for judging", _part(data.test)),
        ("Split", _split(data)),
    ]
    if extras:
        pairs.append(("Beside logits and labels", ", ".join(extras)))
    if data.test.group is not None:
        pairs.append(("Groups in test", _names(tuple(map(str, np.unique(data.test.group)))).strip(" ()")))
    pairs.append(("Fingerprint", f"{data.content_hash[:16]} (SHA-256 of the arrays, shortened)"))
    notices = [notice.text for notice in data.notices if notice.code != "split"]
    return section(
        "Data", facts(pairs), *([paragraph("What was understood from the files:")] if notices else []), bullets(notices)
    )


def _part(part: Part) -> str:
    return f"{len(part):,} samples, top-1 accuracy {percent(part.accuracy)}"


def _split(data: LogitSet) -> str:
    drawn = [notice.text for notice in data.notices if notice.code == "split"]
    return drawn[0] if drawn else "that of the files"


def _names(names: tuple[str, ...] | None) -> str:
    if not names:
        return ""
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return f" ({', '.join(shorten(name) for name in names[:NAMES_SHOWN])}{more})"


def leaderboard(found: Findings) -> str:
    """Every method by the primary metric with its interval, floor and standing, then by the other metrics."""
    ranked, metric = found.comparison, found.metric
    label = METRICS[metric].label
    rows = sorted(found.fitted.values(), key=lambda row: _rank(row, metric))
    failed = {id: row.reason for id, row in ranked.results.items() if not row.available}
    header = ["Method", label, "± seeds", "95 % interval", "Noise floor", "Standing", "Top-1", "Parameters", "Fit, s"]
    body = [
        [
            methods()[row.id].label,
            metric_value(metric, row.mean(metric)),
            metric_value(metric, row.std(metric)) if len(row.values[metric]) > 1 else MISSING,
            _interval(row, metric),
            metric_value(metric, row.floor[metric].q95) if metric in row.floor else MISSING,
            _standing(found, row.id),
            "kept" if row.keeps_top1 else "may change",
            f"{row.parameters:,}",
            f"{row.fit_seconds:.2f}",
        ]
        for row in rows
    ]
    others = [name for name in HEADLINE if name != metric]
    more = [
        [methods()[row.id].label, *(f"{metric_value(name, row.mean(name))}\n{_interval(row, name)}" for name in others)]
        for row in rows
    ]
    notes = [
        f"{label}: {METRICS[metric].help}",
        "Interval: of the population value, 95 %, over test samples; a plug-in calibration error is biased "
        "upwards, so near the floor the value may lie above its interval.",
        "Noise floor: a perfectly calibrated model with the row's confidences stays below it in 95 % of test sets.",
        "Tied with best: the paired test, corrected for the number of methods, cannot tell the two apart.",
        *ranked.notices,
        *(f"{methods()[row.id].label}: {notice}" for row in rows for notice in row.notices),
        *(f"{methods()[id].label} is missing: {reason or 'it failed'}" for id, reason in failed.items()),
    ]
    return section(
        "Leaderboard",
        paragraph(f"Fitted on validation, judged on test, ranked by {label} with {found.bins} bins."),
        table(header, body, "board"),
        _chart("leaderboard", lambda dark: leaderboard_plot(ranked, metric, dark=dark)),
        table(
            ["Method", *(METRICS[name].label for name in others)],
            more,
            "board small",
            "The other metrics, with 95 % intervals",
        ),
        bullets(notes, "notes"),
    )


def _rank(row: MethodResult, metric: str) -> float:
    value = row.mean(metric)
    return float("inf") if not np.isfinite(value) else -value if METRICS[metric].higher_is_better else value


def _interval(row: MethodResult, metric: str) -> str:
    ends = row.intervals.get(metric)
    return MISSING if ends is None else metric_range(metric, ends.low, ends.high)


def _standing(found: Findings, id: str) -> str:
    ranked = found.comparison
    if id == ranked.best:
        return "best"
    return {True: "tied with best", False: "worse", None: MISSING}[ranked.tied.get(id)]


def reliability_diagrams(found: Findings) -> str:
    """Accuracy against confidence, of all samples and of each margin group, before and after."""
    before, after, bins = found.before, found.after, found.bins
    band = bootstrap_reliability_band(before.confidence, before.correct, bins=bins)
    curves = [Curve(reliability(before.confidence, before.correct, bins), "vanilla", AS_IT_IS, band.low, band.high)]
    if after is not None and found.repair is not None:
        curves.append(Curve(reliability(after.confidence, after.correct, bins), found.repair))
    edges = margin_edges(before.margin)
    judged = [margin_groups(each, edges, bins) for each in (before, after) if each is not None]
    repair = found.repair or "vanilla"
    worst = worst_group(judged[-1])
    left = "With the repair, no margin group is" if after is not None else "No margin group is"
    words = f"Farthest from what it claims: {worst.sentence}." if worst else f"{left} further off than chance explains."
    return section(
        "Reliability",
        paragraph(
            "Below the diagonal the model is too confident. Shaded: 95 % band of the accuracy of each bin.", "lead"
        ),
        _chart("reliability", lambda dark: reliability_diagram(curves, dark=dark, height=460)),
        "<h3>By margin group</h3>\n",
        paragraph(
            "The margin, largest minus second largest logit of the uncalibrated model, parts the test samples into "
            f"{len(judged[0])} groups of equal size. {words}",
            "lead",
        ),
        _chart(
            "margin-groups",
            lambda dark: margin_group_grid(
                before,
                after,
                edges,
                bins,
                methods=("vanilla", repair),
                labels=(AS_IT_IS, methods()[repair].label),
                groups=judged,
                dark=dark,
            ),
        ),
    )


def temperature(found: Findings) -> str:
    """Which temperature each margin was given."""
    if found.curved is None:
        return ""
    row = found.fitted[found.curved]
    indicator = row.calibrators[0].settings_dict().get("indicator", "margin")
    indicator = "margin" if indicator == "all_logits" else indicator
    curve = temperature_curve(row.calibrators, found.data.test, indicator, validation=found.data.validation)
    scaling = found.fitted.get("ts")
    one = None if scaling is None else float(scaling.calibrators[0].state()["temperature_"][0])
    label, name = methods()[found.curved].label, shorten(clean(found.title))
    return section(
        "Temperature curve",
        paragraph(
            f"The temperature that {label} divides by, against the {INDICATORS[indicator].label.lower()}, as learned "
            "on validation. Where validation had no sample it is a guess.",
            "lead",
        ),
        _chart("temperature", lambda dark: temperature_chart({name: curve}, one, dark=dark, height=440)),
    )


def sensitivity(found: Findings) -> str:
    """How much SMART's settings matter, where that was computed."""
    grid = found.sensitivity
    if grid is None or not np.isfinite(grid.mean(found.metric)).any():
        return ""
    return section(
        "Sensitivity",
        paragraph(
            f"SMART refitted over its bandwidth σ and its smoothing δ, {grid.seeds} "
            f"{'seed' if grid.seeds == 1 else 'seeds'} a cell. To take the best cell would be to select on test.",
            "lead",
        ),
        _chart("sensitivity", lambda dark: sensitivity_heatmap(grid, found.metric, dark=dark)),
    )


def settings(found: Findings) -> str:
    """What the figures were made with."""
    rows = []
    for id, row in found.fitted.items():
        calibrator = row.calibrators[0]
        defaults = {item.name: item.default for item in calibrator.settings()}
        own = {
            name: value
            for name, value in calibrator.settings_dict().items()
            if name not in ("seed", "device") and value != defaults[name]
        }
        seeds = ", ".join(str(each.seed) for each in row.calibrators) if methods()[id].stochastic else "does not matter"
        rows.append([methods()[id].label, seeds, ", ".join(f"{k} = {v}" for k, v in own.items()) or "defaults"])
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return section(
        "Settings and versions",
        table(["Method", "Seeds", "Settings"], rows),
        facts(
            [
                ("Primary metric", METRICS[found.metric].label),
                ("Bins", found.bins),
                ("Made with", f"smart_core {smart_core.__version__}; {versions}; Python {platform.python_version()}"),
                ("Made on", f"{found.made:%Y-%m-%d %H:%M} UTC"),
            ]
        ),
    )


def reproduce(found: Findings) -> str:
    """The commands that give the same figures."""
    if not (found.command or found.code):
        return ""
    blocks = [paragraph("In the folder that holds the files, the same figures come from:", "lead")]
    blocks += [code(text) for text in (found.command, found.code) if text]
    return section("How to reproduce this", *blocks)


def _chart(name: str, draw: Callable[[bool], Chart]) -> str:
    return figure(f"chart-{name}", draw(False), draw(True))
