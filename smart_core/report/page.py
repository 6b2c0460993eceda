"""The report's one file: markup, style, plotly once, and the script that draws."""

from __future__ import annotations

from importlib.resources import files

from smart_core.progress import Run
from smart_core.report import sections
from smart_core.report.findings import Findings
from smart_core.report.markup import escape

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What a browser may do on behalf of the page: nothing that asks another host."""

PARTS = (
    ("the verdict", sections.verdict),
    ("the data", sections.data_card),
    ("the leaderboard", sections.leaderboard),
    ("reliability diagrams", sections.reliability_diagrams),
    ("the temperature curve", sections.temperature),
    ("sensitivity", sections.sensitivity),
    ("settings", sections.settings),
    ("commands", sections.reproduce),
)


def report_html(found: Findings, run: Run | None = None) -> str:
    """The whole page, from results that are there: nothing is fitted."""
    from plotly.offline import get_plotlyjs

    line = run or Run()
    blocks = []
    for number, (words, part) in enumerate(PARTS):
        line.tick(number / len(PARTS), f"writing {words}")
        blocks.append(part(found))
    title = f"Calibration report: {escape(found.title)}"
    folder = files("smart_core.report")
    style, script = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    line.tick(1.0, "report written")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n<noscript><p>Figures are drawn by JavaScript; their numbers stand in the tables below "
        f"them.</p></noscript>\n{''.join(blocks)}</main>\n"
        f"<script>{get_plotlyjs()}</script>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )
