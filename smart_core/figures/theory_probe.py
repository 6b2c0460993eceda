"""NLL against a calibration witness: the effect of sharpening at each margin, and both along the path."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import pandas as pd

from smart_core.figures.chart import Array, Chart, Look, lay_out, line, marker, panels, shade
from smart_core.figures.theme import SERIES, ink, translucent
from smart_core.formatting import decimal
from smart_core.theory.nll_probe import (
    LocalTerms,
    Plateau,
    ScalingPath,
    growth,
    nll_derivative,
    probe_contributions,
    witness,
)
from smart_core.types import BoolArray

NLL, WITNESS, SMCE = SERIES[1], SERIES[0], SERIES[2]
BINS = 40


def slice_chart(terms: LocalTerms, low: float, high: float, probe: Plateau, **look: Unpack[Look]) -> Chart:
    """The contribution of each margin to d/ds NLL and to d/ds |witness| if it is sharpened; the chosen slice is shaded.

    The bars of the slice add up to its derivatives. The last bar holds all margins beyond.
    """
    dark = look.get("dark", False)
    sign = 1.0 if witness(terms, probe).value >= 0 else -1.0
    edges = np.linspace(0.0, max(float(np.quantile(terms.margin, 0.995)), 1e-9), BINS + 1)
    place = np.minimum(np.searchsorted(edges, terms.margin, side="right") - 1, BINS - 1)

    def by_bin(values: Array) -> Array:
        return np.asarray(np.bincount(place, weights=values, minlength=BINS) / len(terms))

    loss = by_bin(terms.pull)
    rate = by_bin(sign * probe_contributions(terms, probe))
    middle, width = (edges[:-1] + edges[1:]) / 2, float(edges[1] - edges[0])
    figure = panels(spacing=0.06, heights=None)
    for row, (name, kind, values) in enumerate((("NLL", NLL, loss), ("|witness|", WITNESS, rate)), start=1):
        figure.add_bar(
            x=middle,
            y=values,
            width=width * 0.9,
            name=f"adds to d{name}/ds",
            marker={"color": kind.color, "line": {"width": 0}},
            unselected={"marker": {"opacity": 1}},
            hovertemplate=f"margin %{{x:.2f}}<br>d{name}/ds %{{y}}<extra></extra>",
            row=row,
            col=1,
        )
        figure.update_yaxes(title_text=name, nticks=5, **_zero(dark), row=row, col=1)
    shade(figure, low, min(high, float(edges[-1])), translucent(ink(dark).quiet, 0.2))
    lay_out(figure, look, 420, "slice", bargap=0)
    # a box drawn across chooses the slice: the shade then shows it, and the box itself need not stay
    figure.update_layout(
        dragmode="select",
        selectdirection="h",
        newselection={"line": {"color": "rgba(0,0,0,0)"}},
        activeselection={"fillcolor": "rgba(0,0,0,0)", "opacity": 0},
    )
    figure.update_xaxes(range=[0, float(edges[-1])], nticks=7)
    figure.update_xaxes(title_text="margin", row=2, col=1)
    chosen = terms.within(low, high)
    table = pd.DataFrame(
        {"margin from": edges[:-1], "margin to": edges[1:], "adds to dNLL/ds": loss, "adds to d|witness|/ds": rate}
    ).assign(**{"slice from": low, "slice to": high})
    return Chart(figure, _slice_alt(terms, chosen, low, high, probe), table, "slice")


def _zero(dark: bool) -> dict[str, object]:
    return {"zeroline": True, "zerolinecolor": ink(dark).quiet, "exponentformat": "e", "hoverformat": ".2e"}


def _slice_alt(terms: LocalTerms, chosen: BoolArray, low: float, high: float, probe: Plateau) -> str:
    loss, rise = nll_derivative(terms, chosen), growth(terms, chosen, probe)
    return (
        f"What sharpening adds at each margin. On margins {low:.2f} to {high:.2f}, {int(chosen.sum()):,} of "
        f"{len(terms):,} samples: NLL changes at {loss}, the witness that looks at confidences "
        f"{probe.low:.2f} to {probe.high:.2f} at {rise} for each unit of s."
    )


def path_chart(path: ScalingPath, nll_slope: float, witness_slope: float, **look: Unpack[Look]) -> Chart:
    """Changes of NLL, of |witness| and of exact smCE with s, from s = 1; dashed, the tangents by the derivatives."""
    dark = look.get("dark", False)
    s, home = path.s, int(np.abs(path.s - 1.0).argmin())
    changes = {
        "NLL": path.nll - path.nll[home],
        "|witness|": np.abs(path.witness) - abs(path.witness[home]),
        "smCE": path.smce - path.smce[home],
    }
    figure = panels(rows=3, spacing=0.05, heights=None)
    colors = zip(changes.items(), (NLL, WITNESS, SMCE), strict=True)
    for row, ((name, change), kind) in enumerate(colors, start=1):
        figure.add_scatter(
            x=s,
            y=change,
            mode="lines+markers",
            name=name,
            line={"color": kind.color, "width": 2.5},
            marker=marker(kind, 7),
            hovertemplate=f"s = %{{x:.2f}}<br>change of {name} %{{y}}<extra></extra>",
            row=row,
            col=1,
        )
        figure.update_yaxes(nticks=4, **_zero(dark), row=row, col=1)
    for row, slope in ((1, nll_slope), (2, witness_slope)):
        tangent = line(s, slope * (s - 1.0), "tangent", ink(dark).quiet, 1.5, "5px,4px", showlegend=row == 1)
        figure.add_trace(tangent, row=row, col=1)
    lay_out(figure, look, 420, "path")
    figure.update_xaxes(title_text="s (to the right: sharper)", row=3, col=1)
    table = pd.DataFrame(
        {"s": path.s, "NLL": path.nll, "witness": path.witness, "smCE": path.smce}
        | {f"change of {name}": change for name, change in changes.items()}
    )
    return Chart(figure, _path_alt(path, changes), table, "path")


def _path_alt(path: ScalingPath, changes: dict[str, Array]) -> str:
    ends = ", ".join(f"{name} by {decimal(change[-1], '+.2e')}" for name, change in changes.items())
    back = ", ".join(f"{name} by {decimal(change[0], '+.2e')}" for name, change in changes.items())
    return (
        f"The slice's logits scaled by s from {path.s[0]:g} to {path.s[-1]:g}. At s = {path.s[-1]:g} (sharper) the set "
        f"changes: {ends}. At s = {path.s[0]:g}: {back}."
    )
