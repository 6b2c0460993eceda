"""The Python code that reproduces a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smart_core.data.document import load_call


def load_code(whole: Sequence[str] = (), val: Sequence[str] = (), test: Sequence[str] = (), **options: Any) -> str:
    """`data = sc.load("logits.npy", ...)` for the files of a data set, or of its two sides."""
    call = load_call({"whole": whole, "val": val, "test": test}, options)
    return f"import smart_core as sc\n\ndata = {call}\n"


def compare_code(
    load: str,
    methods: Sequence[str],
    seeds: int,
    bins: int = 15,
    metric: str = "ece",
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """The leaderboard and the report of the data set that the lines `load` give."""
    chosen: dict[str, Any] = {"methods": ",".join(methods), "seeds": seeds}
    own = {id: dict(each) for id, each in (settings or {}).items() if each}
    chosen |= ({"bins": bins} if bins != 15 else {}) | ({"metric": metric} if metric != "ece" else {})
    chosen |= {"settings": own} if own else {}
    return f"""{load}
chosen = {chosen!r}
print(sc.compare(data, **chosen).to_frame())
with open("report.html", "w", encoding="utf-8") as file:
    file.write(sc.report.report(data, **chosen))
"""
