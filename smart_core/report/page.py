"""The report's HTML file: the content of each part; the layout is in the template `page.html`."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Unpack

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import smart_core
from smart_core.analysis.margin_groups import worst_group
from smart_core.analysis.temperature_curve import temperature_curve
from smart_core.calibrators import method_named
from smart_core.data.logitset import MAIN_ARRAYS, LogitSet
from smart_core.evaluation import (
    HEADLINE,
    MEASURED_AND_TRUE,
    METRICS,
    TRUE_RANGE,
    measured_label,
    metric_range,
    metric_value,
)
from smart_core.experiments.method_result import changed_settings
from smart_core.experiments.verdict import repair_verdict
from smart_core.figures.benchmark import benchmark_matrix, critical_difference_diagram, win_matrix
from smart_core.figures.chart import Chart
from smart_core.figures.leaderboard import leaderboard_plot
from smart_core.figures.margin_groups import margin_group_grid
from smart_core.figures.reliability import Curve, reliability_diagram
from smart_core.figures.seed_tables import sensitivity_heatmap
from smart_core.figures.temperature import temperature_chart
from smart_core.fitting.indicators import INDICATORS
from smart_core.formatting import MISSING, percent, plural, shorten
from smart_core.metrics.bands import bootstrap_reliability_band
from smart_core.metrics.binning import reliability as reliability_table
from smart_core.progress import CancelToken, Progress, Run
from smart_core.report.findings import Findings, Options, findings

LIBRARIES = ("numpy", "torch", "scipy", "plotly")
UNCALIBRATED = "uncalibrated model"
MAX_CURVES = 5
"""Curves beside the uncalibrated model in one diagram."""

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
    made.filters |= {"script_json": script_json, "percent": percent, "shorten": shorten}
    made.globals |= {"METRICS": METRICS, "HEADLINE": HEADLINE, "NAMES_SHOWN": 12, "MISSING": MISSING, "plural": plural}
    made.globals |= {"metric_value": metric_value, "metric_range": metric_range, "measured_label": measured_label}
    made.globals |= {"MEASURED_AND_TRUE": MEASURED_AND_TRUE, "TRUE_RANGE": TRUE_RANGE}
    made.globals |= {"changed_settings": changed_settings, "label_of": label_of}
    return made


def report(
    data: LogitSet,
    methods: str | Sequence[str] = "all",
    seeds: int = 5,
    *,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    **options: Unpack[Options],
) -> str:
    """The report's HTML: the methods fitted on validation, evaluated on test, and drawn."""
    run = Run(progress, cancel)
    return report_html(findings(data, methods, seeds, run=run.part(0.0, 0.9), **options), run.part(0.9, 1.0))


def report_html(found: Findings, run: Run | None = None) -> str:
    """The whole page from results that are computed already: nothing is fitted."""
    run = run or Run()
    charts = drawn_charts(found, run)
    metric, chosen = METRICS[found.metric], found.comparison.recommended
    advice = [f"{chosen.title}. {chosen.reason}"] if chosen and len(found.fitted) > 1 else []
    html = (
        environment()
        .get_template("page.html")
        .render(
            found=found,
            verdict=[found.diagnosis.words, *advice, repair_verdict(found.comparison)],
            ranked=sorted(found.fitted.values(), key=lambda row: metric.sort_key(row.mean(found.metric))),
            groups=[] if found.data.test.group is None else np.unique(found.data.test.group),
            split=[notice.text for notice in found.data.notices if notice.code == "split"],
            notices=[notice.text for notice in found.data.notices if notice.code != "split"],
            extras=[name for name, _ in found.data.test.arrays() if name not in MAIN_ARRAYS],
            worst=_worst_group(found),
            indicator=INDICATORS[_indicator(found)].label.lower(),
            charts=charts,
            versions=[
                f"smart_core {smart_core.__version__}",
                ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
            ],
            python=platform.python_version(),
            **assets(),
        )
    )
    run.tick(1.0, "report written")
    return html


def figures_html(found: Findings, name: str = "figures") -> str:
    """A page that draws the report's charts and offers them as one zip archive, `name`.zip: SVG, PNG, CSV and JSON.

    The pictures are made by the browser, so that neither a network nor a further program is needed.
    """
    template = environment().get_template("figures.html")
    return template.render(title=found.title, name=name, charts=drawn_charts(found, Run()), **assets())


def drawn_charts(found: Findings, run: Run) -> dict[str, ReportChart]:
    """Every chart of the report by its name."""
    charts: dict[str, ReportChart] = {}
    for number, (name, draw) in enumerate(CHARTS.items()):
        run.tick(number / len(CHARTS), f"drawing the {name}")
        charts |= draw(found)
    return charts


def assets() -> dict[str, Markup]:
    """The style and the scripts that a page carries."""
    from plotly.offline import get_plotlyjs

    folder = files("smart_core.report")
    style, script = (Markup(folder.joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "page.js"))
    return {"style": style, "script": script, "plotly": Markup(get_plotlyjs())}


def label_of(method: str) -> str:
    return method_named(method).label


def _worst_group(found: Findings) -> str:
    worst = worst_group(found.margin_groups[-1]) if found.margin_groups else None
    if worst is not None:
        return f"Worst group, {worst.sentence}."
    where = "In" if found.after is None else "After calibration, in"
    return f"{where} every margin group, the error is within noise."


def _indicator(found: Findings) -> str:
    """The x-axis of the temperature curve: the indicator of SMART if it is one number, else the margin."""
    settings = {} if found.curved is None else found.fitted[found.curved].calibrators[0].settings_dict()
    indicator = str(settings.get("indicator", "margin"))
    return "margin" if indicator == "all_logits" else indicator


@dataclass(frozen=True, eq=False)
class ReportChart:
    """A chart in both themes."""

    id: str
    light: Chart
    dark: Chart

    @property
    def numbers(self) -> list[list[str]]:
        """The cells of the chart's table; empty where there is no value."""
        rows = self.light.table.itertuples(index=False, name=None)
        return [["" if pd.isna(v) else f"{v:.6g}" if isinstance(v, float) else str(v) for v in row] for row in rows]


def _both(name: str, draw: Callable[..., Chart], *arguments: Any, **options: Any) -> dict[str, ReportChart]:
    light, dark = (draw(*arguments, **options, dark=dark) for dark in (False, True))
    return {name: ReportChart(f"chart-{name}", light, dark)}


def leaderboard(found: Findings) -> dict[str, ReportChart]:
    """Every method by the primary metric."""
    return _both("leaderboard", leaderboard_plot, found.comparison, found.metric)


def reliability(found: Findings) -> dict[str, ReportChart]:
    """Accuracy against confidence, before and after calibration."""
    before, bins = found.before, found.bins
    band = bootstrap_reliability_band(before.confidence, before.correct, bins=bins)
    table = reliability_table(before.confidence, before.correct, bins)
    curves = [Curve(table, "vanilla", UNCALIBRATED, band.low, band.high)]
    for id in found.drawn[:MAX_CURVES]:
        evaluated = found.typical(id)
        curves.append(Curve(reliability_table(evaluated.confidence, evaluated.correct, bins), id))
    return _both("reliability", reliability_diagram, curves, height=460)


def by_margin(found: Findings) -> dict[str, ReportChart]:
    """The same for each margin group, if there are margins."""
    if not found.margin_groups:
        return {}
    repair = found.repair or "vanilla"
    names = {"methods": ("vanilla", repair), "labels": (UNCALIBRATED, method_named(repair).label)}
    sides = found.before, found.after, found.margin_edges, found.bins
    return _both("margin-groups", margin_group_grid, *sides, groups=found.margin_groups, **names)


def temperature(found: Findings) -> dict[str, ReportChart]:
    """The learned temperature along the indicator, if a method has one per sample."""
    if found.curved is None:
        return {}
    row, scaling = found.fitted[found.curved], found.fitted.get("ts")
    curve = temperature_curve(row.calibrators, found.data.test, _indicator(found), validation=found.data.validation)
    ts = None if scaling is None else float(scaling.calibrators[0].state()["temperature_"][0])
    return _both("temperature", temperature_chart, {row.label: curve}, ts, height=440)


def sensitivity(found: Findings) -> dict[str, ReportChart]:
    """The metric over SMART's settings, if that was computed."""
    grid = found.sensitivity
    if grid is None or not np.isfinite(grid.mean(found.metric)).any():
        return {}
    known = found.fitted.get("smart")
    floor = known.floor_q95(found.metric) if known is not None else None
    return _both("sensitivity", sensitivity_heatmap, grid, found.metric, floor=floor)


def many_sets(found: Findings) -> dict[str, ReportChart]:
    """The methods on every set of a benchmark, and ranked over the sets."""
    result, metric = found.benchmark, found.metric
    if result is None or not result.sets:
        return {}
    charts = _both("benchmark", benchmark_matrix, result, metric)
    ranking = result.ranking(metric)
    if ranking is not None:
        charts |= _both("ranks", critical_difference_diagram, ranking) | _both("wins", win_matrix, ranking)
    return charts


CHARTS: dict[str, Callable[[Findings], dict[str, ReportChart]]] = {
    "leaderboard": leaderboard,
    "reliability diagram": reliability,
    "margin groups": by_margin,
    "temperature curve": temperature,
    "sensitivity": sensitivity,
    "benchmark": many_sets,
}
"""The charts in the order of the page, by the words of the progress."""
