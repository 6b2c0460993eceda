"""The sentence above each chart: what it shows, in numbers."""

from __future__ import annotations

import numpy as np

from pages.shared.components import plain_text
from smart_core.analysis.hardness import Hardness
from smart_core.analysis.margin_groups import MarginGroup, worst_group
from smart_core.analysis.temperature_curve import TemperatureCurve
from smart_core.calibrators import method_named
from smart_core.evaluation import METRICS, metric_value
from smart_core.experiments import Comparison, paper
from smart_core.experiments.results import SeedTable
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.experiments.shift import Shift
from smart_core.experiments.traces import Traces
from smart_core.experiments.verdict import repair_verdict
from smart_core.figures.seed_tables import label_of
from smart_core.fitting.indicators import INDICATORS
from smart_core.formatting import decimal, join_words, percent, plural
from smart_core.theory.playground import Playground
from smart_core.types import BoolArray

MAX_SHIFTS = 3
"""Shifts that a sentence names."""


def comparison_verdict(ranking: Comparison) -> str:
    """Name the best method, and say whether it is better than the others beyond noise."""
    single = len(ranking.results) == 1 and ranking.best is not None
    return repair_verdict(ranking) + (" Fit more methods to compare." if single else "")


def margin_group_verdict(groups: list[MarginGroup], label: str) -> str:
    """Name the group that is worst beyond noise."""
    worst = worst_group(groups)
    if worst is None:
        return f"{label}: in every margin group, the error is within noise."
    text = (
        f"{label} is worst at {worst.span}: {worst.means} ({worst.n:,} samples; ECE {percent(worst.ece)}, noise floor "
        f"{percent(worst.floor_q95)})."
    )
    largest = max((group for group in groups if group.n), key=lambda group: group.ece)
    if largest is worst:
        return text
    # another group has the largest ECE in the chart: say why it is not the worst
    floor = percent(largest.floor_q95)
    return (
        f"{text} The ECE at {largest.span} is larger, {percent(largest.ece)}, but those are {largest.n:,} samples "
        f"with a noise floor of {floor}."
    )


def one_temperature_verdict(groups: list[MarginGroup]) -> str:
    """Say whether temperature scaling leaves an error in a margin group."""
    worst = worst_group(groups)
    left = (
        "no margin group is miscalibrated beyond noise"
        if worst is None
        else f"{worst.span} are still miscalibrated: {worst.means}"
    )
    return f"After temperature scaling (one temperature for all samples), {left}."


def temperature_verdict(curve: TemperatureCurve, ts: float | None) -> str:
    """Compare the range of SMART's temperatures with that of temperature scaling, and correlate it."""
    low, high = curve.test_range
    text = f"SMART gives the test samples temperatures from {low:.2f} to {high:.2f}"
    text += f"; temperature scaling uses {ts:.2f} for every sample." if ts is not None else "."
    if not np.isfinite(curve.r):
        return text
    label = INDICATORS[curve.indicator].label.lower()
    low, high = np.nanmin(curve.pearson), np.nanmax(curve.pearson)
    seeds = f" ({decimal(low)} to {decimal(high)} over {len(curve.pearson)} seeds)" if len(curve.pearson) > 1 else ""
    return f"{text} Pearson's r between {label} and temperature is {decimal(curve.r)}{seeds}."


def hardness_verdict(found: Hardness) -> str:
    """Say how strongly the indicator and the distance are correlated."""
    r, label = found.correlation, INDICATORS[found.indicator].label.lower()
    if not np.isfinite(r.pearson):
        return "There are too few distances for a correlation."
    numbers = (
        f"Pearson's r is {decimal(r.pearson)} ({decimal(r.pearson_low)} to {decimal(r.pearson_high)}), Spearman's "
        f"{decimal(r.spearman)} ({decimal(r.spearman_low)} to {decimal(r.spearman_high)}), over {r.used:,} samples."
    )
    if not r.pearson_low * r.pearson_high > 0:
        return f"The {label} and the distance to another prediction are not clearly related: {numbers}"
    how = "increases" if r.pearson > 0 else "decreases"
    return f"The distance to another prediction {how} with the {label}: {numbers}"


def sensitivity_verdict(result: Sensitivity, metric: str) -> str:
    """Give the range of the metric over the grid, and the value at the paper's settings."""
    cells = result.mean(metric)
    done = np.isfinite(cells)
    if not done.any():
        return "No cell is finished yet."
    low, high = (metric_value(metric, float(end(cells))) for end in (np.nanmin, np.nanmax))
    text = f"{METRICS[metric].label} ranges from {low} to {high} over {_finished(done)}"
    here = [(i, j) for i, s in enumerate(result.sigmas) for j, d in enumerate(result.deltas) if (s, d) == paper.DEFAULT]
    if here and done[here[0]]:
        text += f"; the paper's settings give {metric_value(metric, float(cells[here[0]]))}"
        if result.seeds > 1:
            text += f" ± {metric_value(metric, float(result.std(metric)[here[0]]))} over seeds"
    return f"{text}."


def _finished(done: BoolArray) -> str:
    """Write how many cells of a table are there: `20 cells`, `7 of 20 cells`."""
    return f"{done.size} cells" if done.all() else f"{done.sum()} of {done.size} cells"


def ablation_verdict(table: SeedTable, metric: str) -> str:
    """Name the best cell of a table, and its spread over seeds."""
    cells = table.mean(metric)
    done = np.isfinite(cells)
    if not done.any():
        return "No cell is finished yet."
    sign = -1.0 if METRICS[metric].higher_is_better else 1.0
    i, j = np.unravel_index(np.nanargmin(sign * cells), cells.shape)
    value = metric_value(metric, float(cells[i, j]))
    if np.isfinite(table.metrics[metric][i, j]).sum() > 1:
        value += f" ± {metric_value(metric, float(table.std(metric)[i, j]))} over seeds"
    extreme = "Highest" if METRICS[metric].higher_is_better else "Lowest"
    so_far = "" if done.all() else f" in {_finished(done)}"
    row, column = label_of(table.row_name, table.rows[i]), label_of(table.column_name, table.columns[j])
    how = f"fitted on {table.columns[j]:,} samples" if table.column_name == "size" else f"with {column}"
    return f"{extreme} {METRICS[metric].label}{so_far}: {row} {how}, {value}."


def training_verdict(result: Traces) -> str:
    """Say how training changed the ECE on validation."""
    changes = []
    for name, trace in result.runs.items():
        ece = np.asarray(trace["ece"])
        changes.append(f"{name} from {metric_value('ece', ece[0])} to {metric_value('ece', ece[-1])}")
    return f"ECE on validation, first to last epoch: {'; '.join(changes)}."


def shift_verdict(result: Shift, metric: str) -> str:
    """Name the method with the lowest error over all shifts, and the shifts that it makes worse.

    The errors are averaged and not their reductions: if there is little error to begin with, a reduction has no lower
    bound.
    """
    label, cells = METRICS[metric].label, result.mean(metric)
    if METRICS[metric].higher_is_better:
        return f"{label} is not an error, so there is nothing to reduce. Choose another primary metric."
    rows = [i for i in range(1, len(result.rows)) if np.isfinite(cells[i]).all()]
    if not rows or not np.isfinite(cells[0]).all():
        return "No method is finished yet."
    before = metric_value(metric, float(cells[0].mean()))
    best = min(rows, key=lambda i: float(cells[i].mean()))
    name, after = method_named(result.rows[best]).label, metric_value(metric, float(cells[best].mean()))
    columns = [plain_text(str(column)) for column in result.columns]
    over = f"over {len(columns)} shifts" if len(columns) > 1 else f"on {columns[0]}"
    if cells[best].mean() >= cells[0].mean():
        return f"No method lowers the mean {label} {over}: it is {before} uncalibrated, and {after} with {name}."
    text = f"{name} is best: it lowers the mean {label} {over} from {before} to {after}"
    worse = [columns[j] for j in np.flatnonzero(cells[best] > cells[0])]
    if not worse:
        return f"{text}, and makes no shift worse."
    more = [f"{len(worse) - MAX_SHIFTS} more"] if len(worse) > MAX_SHIFTS else []
    return f"{text}, but makes {join_words(worse[:MAX_SHIFTS] + more)} worse."


def playground_verdict(result: Playground, conditional: bool) -> str:
    """Name the method that is closest to the truth at the largest size."""
    last = result.mean(conditional)[:, -1]
    known = [i for i in range(len(result.methods)) if np.isfinite(last[i])]
    if not known:
        return "No fit is finished yet."
    best = min(known, key=lambda i: last[i])
    size = result.sizes[-1]
    text = (
        f"Fitted on {size:,} samples, {method_named(result.methods[best]).label} is closest to the truth: its mean "
        f"error is {percent(last[best], 2)}"
    )
    off = result.recovery(size)
    if np.isfinite(off):
        text += f"; SMART's temperature is off by {percent(off)} on average"
    return f"{text}."


def outside_note(samples: int) -> str:
    """Say how many test samples have an extrapolated temperature."""
    return f"{plural(samples, 'test sample')} {'lies' if samples == 1 else 'lie'} outside the range of validation."
