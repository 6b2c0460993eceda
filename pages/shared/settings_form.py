"""A method's settings as widgets, drawn from what the method says of itself. The desk holds the values."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.shared.desk import desk
from smart_core.calibrators import methods
from smart_core.calibrators.settings import Setting

ELSEWHERE = {"seed"}
"""Settings that another control decides."""

DEVICES = ("auto", "cpu", "cuda", "mps")
"""Where a fit may run; others, such as cuda:1, can be typed."""


def draw(method: str) -> None:
    """One widget a setting, and the way back to the defaults."""
    described = [item for item in methods()[method].settings() if item.name not in ELSEWHERE]
    if not described:
        st.caption("This method has nothing to set.")
        return
    chosen = desk().settings.get(method, {})
    columns = st.columns(3)
    for number, item in enumerate(described):
        with columns[number % 3]:
            _widget(method, item, chosen.get(item.name, item.default))
    if chosen:
        st.button("Back to the defaults", key=f"set-{method}-reset", on_click=_reset, args=(method,))


def put(method: str, name: str, value: Any) -> None:
    """Ask for a value; a default is not kept, so that naming it changes nothing."""
    default = next(item.default for item in methods()[method].settings() if item.name == name)
    chosen = {key: kept for key, kept in desk().settings.get(method, {}).items() if key != name}
    if value != default:
        chosen[name] = value
    desk().settings[method] = chosen


def _widget(method: str, item: Setting, value: Any) -> None:
    key = f"set-{method}-{item.name}"
    # the desk is the only truth: other pages change settings too
    st.session_state[key] = float(value) if item.kind is float and value is not None else value
    words = f"{item.help} Default: {item.default if item.default is not None else 'none'}."
    common: dict[str, Any] = {"key": key, "help": words, "on_change": _changed, "args": (method, item.name)}
    if item.kind is bool:
        st.toggle(item.name, **common)
    elif item.choices is not None:
        st.selectbox(item.name, item.choices, **common)
    elif item.name == "device":
        places = list(dict.fromkeys([*DEVICES, value]))
        st.selectbox(item.name, places, accept_new_options=True, **common)
    elif item.kind is str:
        st.text_input(item.name, **common)
    elif item.kind is int:
        low, high = (None if end is None else int(end) for end in (item.low, item.high))
        st.number_input(item.name, low, high, value=None, step=1, placeholder="none", **common)
    else:
        low, high = (None if end is None else float(end) for end in (item.low, item.high))
        step = _step(item, value)
        st.number_input(item.name, low, high, value=None, step=step, format="%g", placeholder="none", **common)


def _changed(method: str, name: str) -> None:
    value = st.session_state[f"set-{method}-{name}"]
    item = next(item for item in methods()[method].settings() if item.name == name)
    if value is None and not item.optional:
        value = item.default
    put(method, name, value)


def _reset(method: str) -> None:
    desk().settings.pop(method, None)


def _step(item: Setting, value: Any) -> float:
    """A tenth of the value's size, so that small settings can be changed a little."""
    size = abs(value or item.default or 1.0)
    return float(f"{size / (2 if item.logarithmic else 10):.1g}") or 0.1
