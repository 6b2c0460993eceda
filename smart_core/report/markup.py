"""HTML in small pieces. Every text goes through `escape`; numbers of figures through `script_json`."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from smart_core.figures.chart import Chart

if TYPE_CHECKING:
    import pandas as pd

_IN_SCRIPTS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
"""Letters that end a script, or begin something else inside it, as JSON writes them otherwise."""


_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control letters, those that turn the direction of writing, and halves of letters, which no file can hold."""


def clean(text: object) -> str:
    """Foreign text without the letters that steer."""
    return _STEERING.sub("", str(text))


def escape(text: object) -> str:
    """Foreign text as a page shows it, letter by letter."""
    return html.escape(clean(text))


def script_json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return value.translate(_IN_SCRIPTS) if isinstance(value, str) else json.dumps(value).translate(_IN_SCRIPTS)


def section(title: str, *blocks: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{''.join(blocks)}</section>\n"


def paragraph(text: object, kind: str = "") -> str:
    return f"<p{_class(kind)}>{escape(text)}</p>\n"


def bullets(items: Iterable[object], kind: str = "") -> str:
    lines = "".join(f"<li>{escape(item)}</li>\n" for item in items)
    return f"<ul{_class(kind)}>\n{lines}</ul>\n" if lines else ""


def code(text: str) -> str:
    return f"<pre><code>{escape(text.strip())}</code></pre>\n"


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and values, side by side."""
    rows = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>\n' for name, value in pairs)
    return f'<div class="wide"><table class="facts"><tbody>\n{rows}</tbody></table></div>\n'


def table(header: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "", caption: str = "") -> str:
    """The first cell of a row names it."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>\n'
        for first, *rest in rows
    )
    words = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table{_class(kind)}>{words}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def figure(name: str, light: Chart, dark: Chart) -> str:
    """A chart in both themes, its words below it, and its numbers as a table that opens."""
    themes = f'{{"light": {script_json(light.figure.to_json())}, "dark": {script_json(dark.figure.to_json())}}}'
    saves = "".join(
        f'<button type="button" data-save="{kind}">{kind.upper()}</button>' for kind in ("svg", "png", "csv", "json")
    )
    height = int(light.figure.layout.height or 450)
    return (
        f'<figure class="chart" data-name="{escape(light.name)}">\n'
        f'<div class="plot" id="{name}" role="img" aria-labelledby="{name}-words" '
        f'style="min-height:{height}px"></div>\n'
        f'<figcaption id="{name}-words">{escape(light.alt)}</figcaption>\n'
        f'<p class="save">Save as {saves}</p>\n'
        f"<details><summary>The numbers of this chart</summary>\n{frame_table(light.table)}</details>\n"
        f'<script type="application/json" data-chart="{name}">{themes}</script>\n'
        "</figure>\n"
    )


def frame_table(frame: pd.DataFrame) -> str:
    """A table of plain numbers."""
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return table([str(column) for column in frame.columns], rows, "numbers")


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
