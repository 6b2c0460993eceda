"""Numbers in words."""

from __future__ import annotations

import pytest

from smart_core.figures.words import counted, listed, percent


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0435, "4.3 %"), (0.0061, "0.61 %"), (0, "0.0 %"), (1, "100.0 %"), (-0.2, "-20.0 %"), (float("nan"), "unknown")],
)
def test_percent(value: float, words: str) -> None:
    assert percent(value).replace("\u00a0", " ") == words


def test_lists_and_counts() -> None:
    assert [listed(items) for items in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert [counted(n, "sample") for n in (0, 1, 2000)] == ["0 samples", "1 sample", "2,000 samples"]
