"""The form on Compare that chooses two methods in a row."""

from __future__ import annotations

import streamlit as st

from smart_core import LogitSet
from smart_core.calibrators import method_named, methods
from smart_core.calibrators.registry import CHAINED
from smart_core.experiments.running import unavailable


def chain_form(data: LogitSet) -> str | None:
    """Draw the choice of two methods in a row; return the id of their chain when its button is clicked."""
    st.markdown("**Chain**: the second method is fitted on the log-probabilities that the first one gives.")
    usable = [id for id in methods() if id != "vanilla" and unavailable(id, data) is None]
    last = [id for id in usable if "head" not in methods()[id].needs]
    reason = unavailable(f"ts{CHAINED}smart", data)
    if reason is not None:
        st.caption(f"A chain {reason}.")
        return None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first, second = (
            st.selectbox(
                words,
                ids,
                index=ids.index(default) if default in ids else 0,
                format_func=lambda id: methods()[id].label,
                key=key,
                persist_state="session",
                width=220,
            )
            for words, ids, default, key in (
                ("First", usable, "svs", "chain-first"),
                ("then", last, "smart", "chain-second"),
            )
        )
        chain = f"{first}{CHAINED}{second}"
        clicked = st.button("Fit the chain", key="fit-chain", help=method_named(chain).summary)
    return chain if clicked else None
