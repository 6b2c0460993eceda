"""A report that can be handed on: one HTML file with the verdict, the leaderboard and every figure, nothing outside it.

`report` fits and writes; `report_html` makes the page from results that are there already.
"""

from __future__ import annotations

from smart_core.report.findings import Findings as Findings
from smart_core.report.make import report as report
from smart_core.report.page import report_html as report_html

__all__ = ["Findings", "report", "report_html"]
