"""What a session is given: a workspace saved before, from whichever page it is dropped on."""

from __future__ import annotations

import streamlit as st

from pages.shared import address, restore
from pages.shared.desk import desk
from pages.shared.wording import plain_text
from smart_core.errors import SmartError


def workspace(key: str) -> None:
    """A drop zone for a workspace; what is in it comes back, and its view opens."""
    here = desk()
    file = st.file_uploader("**Restore** a workspace that was saved on Export", key=key)
    if file is None:
        return
    if here.restored == file.file_id:
        st.caption("Restored: its data sets, fits and studies are back.")
        return
    try:
        with st.spinner("Restoring"):
            view = restore.take_in(file.getvalue(), here)
    except SmartError as error:
        st.error(f"{plain_text(str(error))} Nothing was changed.")
        return
    here.restored = file.file_id
    address.show(view)
    st.rerun()
