"""What every test of a calibrator runs with."""

from __future__ import annotations

import pytest

from smart_core import progress


@pytest.fixture(autouse=True)
def _every_step_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast machine passes a stage before its progress would be reported, and tests cancel at a stage."""
    monkeypatch.setattr(progress, "REPORT_EVERY", 0.0)
