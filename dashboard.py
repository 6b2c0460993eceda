"""The entry point of the app: page settings, the menu, the sidebar, and the selected page."""

from __future__ import annotations

import streamlit as st

from pages.shared import header, navigation, sidebar

st.set_page_config(page_title=header.PRODUCT, page_icon="🎯", layout="wide")
header.draw_brand()
page = navigation.menu()
with navigation.guarded(page):
    place_of_link = sidebar.draw(page)
    if header.draw():
        navigation.go(navigation.HOME)
    navigation.run(page)
    sidebar.draw_link(place_of_link)
