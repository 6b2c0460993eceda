"""Theory: the paper's statements, computed on the selected data set and on a simulator with known truth."""

from __future__ import annotations

import streamlit as st

from pages.shared import charts, datasets, navigation
from pages.shared.components import python_code
from pages.shared.glossary import say
from pages.shared.theory import certificate, margin_bounds, nll, playground

navigation.enter()

VIEWS = {
    "Margin bounds": margin_bounds.view,
    "smCE certificate": certificate.view,
    "NLL against calibration": nll.view,
    "Playground": playground.view,
}
"""Tab -> the function that draws it and returns its Python code. Only the open tab is drawn."""

data = datasets.current()
st.title("Theory")
say("The paper's statements, computed on your data and on a simulator whose truth is known.")
code = ""
playground.resume_simulation("view", "Playground")
for tab, view in zip(st.tabs(list(VIEWS), key="view", bind="query-params"), VIEWS.values(), strict=True):
    if tab.open:
        with tab:
            code = view(data, charts.look(data))
python_code(code)
