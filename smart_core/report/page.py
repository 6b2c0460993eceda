"""The report's HTML file: what each part shows, and the template that shows it."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import smart_core
from smart_core.analysis.margin_groups import margin_edges, margin_groups, worst_group
from smart_core.analysis.temperature_curve import temperature_curve
from smart_core.data.logitset import LogitSet, Part
from smart_core.evaluation import HEADLINE, METRICS, metric_range, metric_value
from smart_core.experiments.running import Settings
from smart_core.experiments.verdict import repair_verdict
from smart_core.figures.chart import Chart
from smart_core.figures.leaderboard import leaderboard_plot
from smart_core.figures.margin_groups import margin_group_grid
from smart_core.figures.reliability import Curve, reliability_diagram
from smart_core.figures.seed_tables import sensitivity_heatmap
from smart_core.figures.temperature import temperature_chart
from smart_core.fitting.indicators import INDICATORS
from smart_core.formatting import MISSING, percent, plural, shorten
from smart_core.metrics import reliability as reliability_table
from smart_core.metrics.bootstrap import bootstrap_reliability_band
from smart_core.progress import CancelToken, Progress, Run
from smart_core.report.findings import Findings, findings

NAMES_SHOWN = 12
"""Names of classes or groups that are listed."""
LIBRARIES = ("numpy", "torch", "scipy", "plotly")
UNCALIBRATED = "uncalibrated model"

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that change the direction of text, and lone surrogates, which no file can hold."""
_IN_SCRIPTS = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
"""Characters that could end a script or open a comment in it -> their escape in JSON."""


def clean(text: object) -> str:
    """Text from a file without control characters."""
    return _CONTROL.sub("", str(text))


def script_json(value: Any) -> Markup:
    """JSON, given as text or as a value to write, that cannot end the script element it stands in."""
    text = value if isinstance(value, str) else json.dumps(value)
    return Markup(text.translate(_IN_SCRIPTS))


@cache
def environment() -> Environment:
    """The Jinja environment: every value is cleaned and escaped unless it is `Markup`."""
    made = Environment(
        loader=PackageLoader("smart_core.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else clean(value),
    )
    made.filters["script_json"] = script_json
    return made


def report(
    data: LogitSet,
    methods: str | Sequence[str] = "all",
    seeds: int = 5,
    *,
    bins: int = 15,
    metric: str = "ece",
    settings: dict[str, Settings] | None = None,
    sensitivity: bool = False,
    device: str = "auto",
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> str:
    """The report's HTML: the methods fitted on validation, evaluated on test, and drawn.

    With `sensitivity`, SMART is also refitted over the paper's grid of settings, which takes twenty fits per seed.
    """
    run = Run(progress, cancel)
    found = findings(
        data,
        methods,
        seeds,
        bins=bins,
        metric=metric,
        settings=settings,
        sensitivity=sensitivity,
        device=device,
        run=run.part(0.0, 0.9),
    )
    return report_html(found, run.part(0.9, 1.0))


def report_html(found: Findings, run: Run | None = None) -> str:
    """The whole page from results that are computed already: nothing is fitted."""
    from plotly.offline import get_plotlyjs

    run = run or Run()
    parts = {}
    for number, (name, part) in enumerate(PARTS.items()):
        run.tick(number / len(PARTS), f"writing the report: {name}")
        parts[name] = part(found)
    folder = files("smart_core.report")
    style, script = (Markup(folder.joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    page = environment().get_template("page.html")
    html = page.render(parts, title=found.title, style=style, script=script, plotly=Markup(get_plotlyjs()))
    run.tick(1.0, "report written")
    return html


@dataclass(frozen=True, eq=False)
class ReportChart:
    """A chart in both themes."""

    id: str
    light: Chart
    dark: Chart

    @classmethod
    def of(cls, name: str, draw: Callable[..., Chart], *arguments: Any, **options: Any) -> ReportChart:
        """Draw a chart twice."""
        light, dark = (draw(*arguments, **options, dark=dark) for dark in (False, True))
        return cls(f"chart-{name}", light, dark)

    @property
    def numbers(self) -> list[list[str]]:
        """The cells of the chart's table; empty where there is no value."""
        rows = self.light.table.itertuples(index=False, name=None)
        return [["" if pd.isna(v) else f"{v:.6g}" if isinstance(v, float) else str(v) for v in row] for row in rows]


def verdict(found: Findings) -> list[str]:
    """The sentence on the model and the one on its repair."""
    return [found.diagnosis.words, repair_verdict(found.comparison)]


def data_card(found: Findings) -> dict[str, Any]:
    """Name, sizes, split and arrays of the data, and its notices."""
    data = found.data
    split = [notice.text for notice in data.notices if notice.code == "split"]
    extras = [name for name, _ in data.test.arrays() if name not in ("logits", "labels")]
    facts: list[tuple[str, object]] = [
        ("Name", found.title),
        *([("File", data.name)] if data.name != found.title else []),
        ("Classes", f"{data.classes:,}" + (f" ({_listed(data.class_names)})" if data.class_names else "")),
        ("Validation, for fitting", _part(data.validation)),
        ("Test, for evaluation", _part(data.test)),
        ("Split", split[0] if split else "that of the files"),
        *([("Besides logits and labels", ", ".join(extras))] if extras else []),
    ]
    if data.test.group is not None:
        facts.append(("Groups in test", _listed(tuple(map(str, np.unique(data.test.group))))))
    facts.append(("Fingerprint", f"{data.content_hash[:16]} (SHA-256 of the arrays, shortened)"))
    return {"facts": facts, "notices": [notice.text for notice in data.notices if notice.code != "split"]}


def _part(part: Part) -> str:
    return f"{plural(len(part), 'sample')}, top-1 accuracy {percent(part.accuracy)}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN:,} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(shorten(name) for name in names[:NAMES_SHOWN]) + more


def leaderboard(found: Findings) -> dict[str, Any]:
    """Every method by the primary metric with its interval, floor and standing, then by the other metrics."""
    ranked, metric = found.comparison, found.metric
    label = METRICS[metric].label
    rows = sorted(found.fitted.values(), key=lambda row: METRICS[metric].sort_key(row.mean(metric)))
    standings = {"best": "best", "tied": "tied with best", "worse": "worse", "": MISSING}
    others = [name for name in HEADLINE if name != metric]
    return {
        "label": label,
        "bins": found.bins,
        "header": [
            *("Method", label, "± seeds", "95 % interval", "Noise floor", "Standing", "Top-1", "Parameters", "Fit, s")
        ],
        "rows": [
            [
                row.label,
                metric_value(metric, row.mean(metric)),
                metric_value(metric, row.std(metric)),
                metric_range(metric, *row.ends(metric)),
                metric_value(metric, row.floor_q95(metric)),
                standings[ranked.standing(row.id)],
                "kept" if row.keeps_top1 else "may change",
                f"{row.parameters:,}",
                f"{row.fit_seconds:.2f}",
            ]
            for row in rows
        ],
        "chart": ReportChart.of("leaderboard", leaderboard_plot, ranked, metric),
        "other_header": ["Method", *(METRICS[name].label for name in others)],
        "other_rows": [
            [
                row.label,
                *(f"{metric_value(name, row.mean(name))}\n{metric_range(name, *row.ends(name))}" for name in others),
            ]
            for row in rows
        ],
        "notes": [
            f"{label}: {METRICS[metric].help}",
            "Interval: of the population value, 95 %, over test samples; a plug-in calibration error is biased "
            "upwards, so near the floor the value may lie above its interval.",
            "Noise floor: a perfectly calibrated model with the row's confidences stays below it in 95 % of test sets.",
            "Tied with best: the paired test, corrected for the number of methods, cannot tell the two apart.",
            *ranked.notices,
            *(f"{row.label}: {notice}" for row in rows for notice in row.notices),
            *(
                f"{row.label} is missing: {row.reason or 'it failed'}"
                for row in ranked.results.values()
                if not row.available
            ),
        ],
    }


def reliability(found: Findings) -> dict[str, Any]:
    """Accuracy against confidence, of all samples and of each margin group, before and after calibration."""
    before, after, bins = found.before, found.after, found.bins
    band = bootstrap_reliability_band(before.confidence, before.correct, bins=bins)
    table = reliability_table(before.confidence, before.correct, bins)
    curves = [Curve(table, "vanilla", UNCALIBRATED, band.low, band.high)]
    repair = found.repair or "vanilla"
    if after is not None:
        curves.append(Curve(reliability_table(after.confidence, after.correct, bins), repair))
    edges = margin_edges(before.margin)
    groups = [margin_groups(each, edges, bins) for each in (before, after) if each is not None]
    worst = worst_group(groups[-1])
    within = "With the repair, no margin group is" if after is not None else "No margin group is"
    return {
        "chart": ReportChart.of("reliability", reliability_diagram, curves, height=460),
        "groups": len(groups[0]),
        "worst": f"Worst group: {worst.sentence}." if worst else f"{within} further off than chance explains.",
        "by_margin": ReportChart.of(
            "margin-groups",
            margin_group_grid,
            before,
            after,
            edges,
            bins,
            methods=("vanilla", repair),
            labels=(UNCALIBRATED, smart_core.calibrators.methods()[repair].label),
            groups=groups,
        ),
    }


def temperature(found: Findings) -> dict[str, Any] | None:
    """The learned temperature along the margin, if a method has one per sample."""
    if found.curved is None:
        return None
    row, scaling = found.fitted[found.curved], found.fitted.get("ts")
    indicator = row.calibrators[0].settings_dict().get("indicator", "margin")
    indicator = "margin" if indicator == "all_logits" else indicator
    curve = temperature_curve(row.calibrators, found.data.test, indicator, validation=found.data.validation)
    ts = None if scaling is None else float(scaling.calibrators[0].state()["temperature_"][0])
    name = shorten(clean(found.title))
    return {
        "method": row.label,
        "indicator": INDICATORS[indicator].label.lower(),
        "chart": ReportChart.of("temperature", temperature_chart, {name: curve}, ts, height=440),
    }


def sensitivity(found: Findings) -> dict[str, Any] | None:
    """The metric over SMART's settings, if that was computed."""
    grid = found.sensitivity
    if grid is None or not np.isfinite(grid.mean(found.metric)).any():
        return None
    chart = ReportChart.of("sensitivity", sensitivity_heatmap, grid, found.metric)
    return {"seeds": plural(grid.seeds, "seed"), "chart": chart}


def settings(found: Findings) -> dict[str, Any]:
    """Seeds and settings of each method, and the versions of the libraries."""
    rows = []
    for row in found.fitted.values():
        calibrator = row.calibrators[0]
        defaults = {item.name: item.default for item in calibrator.settings()}
        changed = [
            f"{name} = {value}"
            for name, value in calibrator.settings_dict().items()
            if name not in ("seed", "device") and value != defaults[name]
        ]
        seeds = ", ".join(str(each.seed) for each in row.calibrators) if calibrator.stochastic else "does not matter"
        rows.append([row.label, seeds, ", ".join(changed) or "defaults"])
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    facts = [
        ("Primary metric", METRICS[found.metric].label),
        ("Bins", found.bins),
        ("Made with", f"smart_core {smart_core.__version__}; {versions}; Python {platform.python_version()}"),
        ("Made on", f"{found.made:%Y-%m-%d %H:%M} UTC"),
    ]
    return {"rows": rows, "facts": facts}


def commands(found: Findings) -> list[str]:
    """The command line and the Python that give the same numbers, as far as they are known."""
    return [text for text in (found.command, found.code) if text]


PARTS: dict[str, Callable[[Findings], Any]] = {
    "verdict": verdict,
    "data": data_card,
    "leaderboard": leaderboard,
    "reliability": reliability,
    "temperature": temperature,
    "sensitivity": sensitivity,
    "settings": settings,
    "commands": commands,
}
"""What the template is given, by name, in the order of the page."""
