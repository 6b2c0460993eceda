"""The entry point of the app: page settings, the menu, the sidebar, and the selected page."""

from __future__ import annotations

if __name__ != "__mp_main__":  # a process that Dask starts runs the main file under this name
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
