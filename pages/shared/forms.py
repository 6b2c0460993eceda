"""Forms to choose methods and their settings, drawn from what each method declares."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import streamlit as st

from pages.shared import session
from pages.shared.session import LeaderboardRow
from smart_core import LogitSet
from smart_core.calibrators import families, method_named, methods
from smart_core.calibrators.settings import Setting
from smart_core.experiments.running import unavailable
from smart_core.formatting import plural

DEVICES = ("auto", "cpu", "cuda", "mps")
"""Devices to choose from; others, such as cuda:1, can be typed."""


def method_checklist(data: LogitSet, rows: Mapping[str, LeaderboardRow], default: Collection[str]) -> list[str]:
    """Draw a checkbox per method, and return the checked methods that can run, in the order of tables."""
    checked = set()
    columns = st.columns(2)
    for number, (family, ids) in enumerate(families().items()):
        with columns[number % 2]:
            st.markdown(f"**{family}**")
            for id in ids:
                reason = unavailable(id, data)
                chosen = st.checkbox(
                    _method_label(id, reason, rows.get(id)),
                    value=id in default,
                    key=f"compare-{id}",
                    persist_state="session",
                    disabled=reason is not None,
                    wrap=True,
                )
                if chosen and reason is None:
                    checked.add(id)
    return [id for id in methods() if id in checked]


def _method_label(id: str, reason: str | None, row: LeaderboardRow | None) -> str:
    method = method_named(id)
    size = ""
    if row is not None and row.result.available:
        size = f" {plural(row.result.parameters, 'parameter')}."
    return f"**{method.label}**: {method.summary}{size}" + (f" *{reason}*" if reason else "")


def settings_expander(ids: Collection[str]) -> None:
    """Draw the choice of a method of these, and its settings."""
    labels = {id: method_named(id).label for id in ids}
    changed = [labels[id] for id in labels if session.current().settings.get(id)]
    with st.expander("Settings" + (f" (changed: {', '.join(changed)})" if changed else "")):
        method = st.selectbox(
            "Settings of",
            list(labels),
            index=list(labels).index("smart"),
            format_func=labels.__getitem__,
            key="settings-of",
            persist_state="session",
            width=260,
        )
        st.caption(method_named(method).summary)
        settings_form(method)


def settings_form(method: str) -> None:
    """Draw a widget per setting of a method, and a button to reset them. The session keeps the values."""
    described = [item for item in method_named(method).settings() if item.name != "seed"]
    if not described:
        st.caption("This method has no settings.")
        return
    chosen = session.current().settings.get(method, {})
    if method_named(method).presets:
        _preset_widget(method, chosen)
    columns = st.columns(3)
    for number, item in enumerate(described):
        with columns[number % 3]:
            _setting_widget(method, item, chosen.get(item.name, item.default))
    if chosen:
        st.button("Reset to defaults", key=f"set-{method}-reset", on_click=_reset, args=(method,))


DEFAULT, OTHER = "default", "other"
"""Names of settings that are no preset's."""


def preset_of(method: str, chosen: Mapping[str, Any]) -> str:
    """Return the name of the preset whose settings are the chosen ones: `default`, a preset, or `other`."""
    known = {DEFAULT: {}, **{name: _changed(method, values) for name, values in method_named(method).presets.items()}}
    return next((name for name, values in known.items() if values == chosen), OTHER)


def _changed(method: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from the defaults."""
    defaults = {item.name: item.default for item in method_named(method).settings()}
    return {name: value for name, value in values.items() if value != defaults[name]}


def _preset_widget(method: str, chosen: Mapping[str, Any]) -> None:
    """Draw the choice of a preset, which shows the one that the settings are."""
    key, now = f"preset-{method}", preset_of(method, chosen)
    st.session_state[key] = now
    st.segmented_control(
        "Preset",
        [DEFAULT, *method_named(method).presets, *([OTHER] if now == OTHER else [])],
        key=key,
        required=True,
        help="paper: settings from the paper. release: settings from the authors' code. The default differs from both.",
        on_change=_take_preset,
        args=(method,),
    )


def _take_preset(method: str) -> None:
    name = st.session_state[f"preset-{method}"]
    if name != OTHER:
        session.current().settings[method] = _changed(
            method, method_named(method).preset(None if name == DEFAULT else name)
        )


def change_setting(method: str, name: str, value: Any) -> None:
    """Set a setting of a method; a default value is not stored."""
    default = next(item.default for item in method_named(method).settings() if item.name == name)
    settings = session.current().settings
    chosen = {key: other for key, other in settings.get(method, {}).items() if key != name}
    if value != default:
        chosen[name] = value
    settings[method] = chosen


def _setting_widget(method: str, item: Setting, value: Any) -> None:
    key = f"set-{method}-{item.name}"
    # other pages change settings too, so the widget always shows the session's value
    st.session_state[key] = float(value) if item.kind is float and value is not None else value
    text = f"{item.help} Default: {item.default if item.default is not None else 'none'}."
    common: dict[str, Any] = {"key": key, "help": text, "on_change": _on_change, "args": (method, item.name)}
    if item.kind is bool:
        st.toggle(item.name, **common)
    elif item.choices is not None:
        st.selectbox(item.name, item.choices, **common)
    elif item.name == "device":
        st.selectbox(item.name, list(dict.fromkeys([*DEVICES, value])), accept_new_options=True, **common)
    elif item.kind is str:
        st.text_input(item.name, **common)
    elif item.kind is int:
        least, most = (None if end is None else int(end) for end in (item.low, item.high))
        st.number_input(item.name, least, most, value=None, step=1, placeholder="none", **common)
    else:
        low, high = (None if end is None else float(end) for end in (item.low, item.high))
        step = _step(item, value)
        st.number_input(item.name, low, high, value=None, step=step, format="%g", placeholder="none", **common)


def _on_change(method: str, name: str) -> None:
    value = st.session_state[f"set-{method}-{name}"]
    item = next(item for item in method_named(method).settings() if item.name == name)
    if value is None and not item.optional:
        value = item.default
    change_setting(method, name, value)


def _reset(method: str) -> None:
    session.current().settings.pop(method, None)


def _step(item: Setting, value: Any) -> float:
    """Return a step of a tenth of the value, or of half of it on a logarithmic scale."""
    size = abs(value or item.default or 1.0)
    return float(f"{size / (2 if item.logarithmic else 10):.1g}") or 0.1
