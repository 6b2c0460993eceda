"""The door: page settings, the menu, and the frame around every page."""

from __future__ import annotations

import streamlit as st

from pages.shared import cached, routing, state

st.set_page_config(page_title="Calibration", page_icon="🎯", layout="wide")
page = routing.menu()

data = cached.sample("digits")
with st.sidebar:
    st.markdown(f"**{data.name}**  \n{data.classes} classes")
    st.markdown(f"fitted on **{len(data.validation):,}**, judged on **{len(data.test):,}**")
    st.slider("Bins", 5, 50, 15, key=state.BINS, bind="query-params", help="Equal-width bins of confidence.")

routing.run(page)
