"""The door: page settings, the menu, and the frame around every page."""

from __future__ import annotations

import streamlit as st

from pages.shared import frame, routing

st.set_page_config(page_title="Calibration", page_icon="🎯", layout="wide")
page = routing.menu()
place_of_link = frame.draw(page)
routing.run(page)
frame.link(place_of_link)
