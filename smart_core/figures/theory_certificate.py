"""The terms of the smCE bounds, side by side for several calibrators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import numpy as np
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
    dark, ids = look.get("dark", False), list(certificates)
    found = [certificates[id] for id in ids]
    theorem, bin_means = ([f"{plain(style(id).label)}, {form}" for id in ids] for form in ("theorem", "bin means"))
    both = [name for pair in zip(theorem, bin_means, strict=True) for name in pair]
    figure = go.Figure()
    for label, color, names, values in (
        ("H", SERIES[1].color, theorem, [one.h for one in found]),
        ("H<sub>bin</sub>", SERIES[0].color, bin_means, [one.bin_mean for one in found]),
        ("ε<sub>agg</sub>", SERIES[3].color, bin_means, [one.eps_agg for one in found]),
        ("2 or 3 B<sub>λ</sub>", ink(dark).quiet, both, [factor * one.b for one in found for factor in (2, 3)]),
    ):
        hover = f"{label} %{{x:.4f}}<extra>%{{y}}</extra>"
        bar = {"color": color, "line": {"width": 0}}
        figure.add_bar(y=names, x=values, orientation="h", name=label, marker=bar, hovertemplate=hover)
    text, rim = ink(dark).text, {"width": 1, "color": ink(dark).background}
    for label, values, mark in (
        ("smCE", [one.smce for one in found], {"symbol": "diamond", "size": 11, "color": text, "line": rim}),
        ("label noise", [one.label_noise for one in found], {"symbol": "line-ns-open", "size": 16, "color": text}),
    ):
        hover = f"{label} %{{x:.4f}}<extra>%{{y}}</extra>"
        figure.add_scatter(y=both, x=np.repeat(values, 2), mode="markers", name=label, marker=mark, hovertemplate=hover)
    lay_out(figure, look, 170 + ROW * len(both), "certificate", barmode="stack", bargap=0.28)
    figure.update_layout(legend={"traceorder": "normal", "font": {"size": 13}})
    figure.update_yaxes(autorange="reversed", tickmode="linear", dtick=1, categoryorder="array", categoryarray=both)
    figure.update_xaxes(title_text="terms of the bound on smCE", rangemode="tozero", nticks=6)
    return Chart(figure, _alt(certificates), _table(certificates), "certificate")


def _table(certificates: Mapping[str, Certificate]) -> pd.DataFrame:
    """One inequality per row: both sides, the slack, and whether it holds."""
    steps = [(id, step) for id, found in certificates.items() for step in found.steps()]
    rows = [(id, one.source, one.statement, one.left, one.right, one.slack, one.holds) for id, one in steps]
    return pd.DataFrame(rows, columns=["method", "source", "inequality", "left", "right", "slack", "holds"])


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
