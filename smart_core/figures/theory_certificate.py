"""The terms of the smCE bounds, side by side for several calibrators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Unpack

import pandas as pd
import plotly.graph_objects as go

from smart_core.errors import CalibrationError
from smart_core.figures.chart import Chart, Look, lay_out
from smart_core.figures.theme import SERIES, ink, plain, style
from smart_core.formatting import join_words
from smart_core.theory.certificate import Certificate

ROW = 34
"""Pixels of a bar."""


def certificate_chart(certificates: Mapping[str, Certificate], **look: Unpack[Look]) -> Chart:
    """Two bars per method (by id): the terms of H + 2 B, and those of H_bin + eps_agg + 3 B; exact smCE on both."""
    if not certificates:
        raise CalibrationError("No calibrator was given; a certificate needs at least one.")
    rows = [(id, form) for id in certificates for form in ("H", "bins")]
    names = {row: f"{plain(style(row[0]).label)}, {'theorem' if row[1] == 'H' else 'bin means'}" for row in rows}
    figure, dark = go.Figure(), look.get("dark", False)
    for label, form, color, part in _parts(dark):
        chosen = [row for row in rows if form in (row[1], "both")]
        figure.add_bar(
            y=[names[row] for row in chosen],
            x=[part(certificates[row[0]], row[1]) for row in chosen],
            orientation="h",
            name=label,
            marker={"color": color, "line": {"width": 0}},
            hovertemplate=f"{label} %{{x:.4f}}<extra>%{{y}}</extra>",
        )
    rim = {"width": 1, "color": ink(dark).background}
    smce = [certificates[row[0]].smce for row in rows]
    noise = [certificates[row[0]].label_noise for row in rows]
    for label, values, mark in (
        ("smCE", smce, {"symbol": "diamond", "size": 11, "color": ink(dark).text, "line": rim}),
        ("label noise", noise, {"symbol": "line-ns-open", "size": 16, "color": ink(dark).text}),
    ):
        figure.add_scatter(
            y=[names[row] for row in rows],
            x=values,
            mode="markers",
            name=label,
            marker=mark,
            hovertemplate=f"{label} %{{x:.4f}}<extra>%{{y}}</extra>",
        )
    lay_out(figure, look, 170 + ROW * len(rows), "certificate", barmode="stack", bargap=0.28)
    figure.update_layout(legend={"traceorder": "normal", "font": {"size": 13}})
    order = [names[row] for row in rows]
    figure.update_yaxes(autorange="reversed", tickmode="linear", dtick=1, categoryorder="array", categoryarray=order)
    figure.update_xaxes(title_text="terms of the bound on smCE", rangemode="tozero", nticks=6)
    return Chart(figure, _alt(certificates), certificate_table(certificates), "certificate")


def _parts(dark: bool) -> list[tuple[str, str, str, Callable[[Certificate, str], float]]]:
    """Name, bar, colour and value of each term."""
    return [
        ("H", "H", SERIES[1].color, lambda found, form: found.h),
        ("H_bin", "bins", SERIES[0].color, lambda found, form: found.bin_mean),
        ("ε_agg", "bins", SERIES[3].color, lambda found, form: found.eps_agg),
        ("2 or 3 B_λ", "both", ink(dark).quiet, lambda found, form: (2 if form == "H" else 3) * found.b),
    ]


def certificate_table(certificates: Mapping[str, Certificate]) -> pd.DataFrame:
    """One inequality per row: both sides, the slack, and whether it holds."""
    return pd.DataFrame(
        [
            {
                "method": id,
                "source": step.source,
                "inequality": step.statement,
                "left": step.left,
                "right": step.right,
                "slack": step.slack,
                "holds": step.holds,
            }
            for id, found in certificates.items()
            for step in found.steps()
        ]
    )


def _alt(certificates: Mapping[str, Certificate]) -> str:
    words = [
        f"{style(id).label}: smCE {found.smce:.4f}, H + 2 B {found.h + 2 * found.b:.4f} (H {found.h:.4f}), "
        f"bin means {found.bin_mean + found.eps_agg + 3 * found.b:.4f} (H_bin {found.bin_mean:.4f}, eps_agg "
        f"{found.eps_agg:.4f}), label noise {found.label_noise:.4f}"
        for id, found in certificates.items()
    ]
    first = next(iter(certificates.values()))
    broken = [
        f"{style(id).label}: {step.statement}"
        for id, found in certificates.items()
        for step in found.steps()
        if not step.holds
    ]
    end = f"Violated: {join_words(broken)}." if broken else "Every inequality holds."
    return f"Terms of the smCE bounds, B = {first.b:.4f}. {'; '.join(words)}. {end}"
