"""A report to share: one HTML file with the verdict, the leaderboard and every figure, which loads nothing else.

`report` fits and writes; `report_html` writes the page from results that are computed already, and `figures_html` one
that only offers its figures.
"""

from __future__ import annotations

from smart_core.report.findings import Findings as Findings
from smart_core.report.page import figures_html as figures_html
from smart_core.report.page import report as report
from smart_core.report.page import report_html as report_html
