"""All methods as a list to tick, by family, each with what it does and, where it cannot run, why."""

from __future__ import annotations

from collections.abc import Collection

import streamlit as st

from pages.shared.desk import Row
from smart_core import LogitSet
from smart_core.calibrators import methods
from smart_core.experiments.running import unavailable
from smart_core.formatting import plural

FAMILIES = {
    "The whole set alike": ("vanilla", "ts", "ets"),
    "Each sample or class on its own": ("smart", "pts", "cts"),
    "Linear maps of the logits": ("vector", "matrix", "dirichlet"),
    "Maps of the top-1 confidence": ("spline", "histogram", "isotonic", "bbq", "beta"),
    "With the network's features": ("gc", "procal", "fc"),
}


def families() -> dict[str, list[str]]:
    """Family -> its methods; a method that no family names stands under the last heading."""
    placed = {id for ids in FAMILIES.values() for id in ids}
    found = {family: [id for id in ids if id in methods()] for family, ids in FAMILIES.items()}
    others = [id for id in methods() if id not in placed]
    return found | ({"Others": others} if others else {})


def draw(data: LogitSet, rows: dict[str, Row], usual: Collection[str]) -> list[str]:
    """The list; gives the ticked methods that can run, in the order of tables. `usual` are ticked at first."""
    ticked = set()
    columns = st.columns(2)
    for number, (family, ids) in enumerate(families().items()):
        with columns[number % 2]:
            st.markdown(f"**{family}**")
            for id in ids:
                reason = unavailable(id, data)
                chosen = st.checkbox(
                    _words(id, reason, rows.get(id)),
                    value=id in usual,
                    key=f"compare-{id}",
                    persist_state="session",
                    disabled=reason is not None,
                    wrap=True,
                )
                if chosen and reason is None:
                    ticked.add(id)
    return [id for id in methods() if id in ticked]


def _words(id: str, reason: str | None, row: Row | None) -> str:
    method = methods()[id]
    size = ""
    if row is not None and row.result.available:
        size = f" {plural(row.result.parameters, 'parameter')}."
    return f"**{method.label}**: {method.summary}{size}" + (f" *{reason}*" if reason else "")
