"""Theory: the paper's statements, computed on the loaded data and on a simulator whose truth is known."""

from __future__ import annotations

import streamlit as st

from pages.shared import (
    library,
    routing,
    show,
    theory_certificate,
    theory_margin,
    theory_playground,
    theory_probe,
)

routing.enter()

VIEWS = {
    "Margin bounds": theory_margin.view,
    "smCE certificate": theory_certificate.view,
    "NLL against calibration": theory_probe.view,
    "Playground": theory_playground.view,
}
"""Tab -> what draws it and gives its Python; only the open one is drawn."""

data = library.current()
look = {"dark": show.dark(), "uirevision": data.content_hash}
st.title("Theory")
st.markdown("The paper's statements, computed: on the loaded data, and on a simulator whose truth is known.")
code = ""
for tab, view in zip(st.tabs(list(VIEWS), key="view", bind="query-params"), VIEWS.values(), strict=True):
    if tab.open:
        with tab:
            code = view(data, look)
show.python(library.load_code() + code)
