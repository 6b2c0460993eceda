"""Parts of LaTeX tables in the layout of calibration papers (booktabs)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smart_core.evaluation import METRICS, metric_number

NOTHING = "--"
"""The cell of a missing value."""

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def escaped(text: str) -> str:
    """Text with LaTeX's special characters escaped, on one line.

    Text that begins with `[` or `*` gets `{}` before it: the end of the row above would read it as an argument.
    """
    words = " ".join(text.split())
    safe = "".join(_SPECIAL.get(character, character) for character in words if character.isprintable())
    return f"{{}}{safe}" if safe.startswith(("[", "*")) else safe


def row(cells: Sequence[str]) -> str:
    """A row of a table."""
    return " & ".join(cells) + r" \\"


def heading(metric: str) -> str:
    """A metric's name with its unit and the direction in which it is better."""
    described = METRICS[metric]
    unit = r" (\%)" if described.percent else ""
    return rf"{escaped(described.label)}{unit} ${chr(92)}{'uparrow' if described.higher_is_better else 'downarrow'}$"


def figure(metric: str, mean: float, std: float = math.nan) -> str:
    """`mean \\pm std` in the metric's own unit, for math mode; the spread only where there is one."""
    spread = rf" \pm {metric_number(metric, std)}" if std == std else ""
    return metric_number(metric, mean) + spread


def table(
    caption: str, label: str, columns: str, header: Sequence[str], body: Sequence[str], *, wide: bool = False
) -> str:
    """A whole table environment; a wide one spans both columns of a page, in small type."""
    kind = "table*" if wide else "table"
    lines = [
        rf"\begin{{{kind}}}[t]",
        r"\centering",
        *([r"\tiny", r"\setlength{\tabcolsep}{2pt}"] if wide else []),
        rf"\caption{{{caption}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        row(header),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        rf"\end{{{kind}}}",
    ]
    return "\n".join(lines) + "\n"
