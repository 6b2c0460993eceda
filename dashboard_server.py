"""What `smart dashboard` serves: dashboard.py behind the guard that decides who may enter."""

from __future__ import annotations

import gc
import importlib
import json
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from streamlit.runtime import memory_uploaded_file_manager
from streamlit.starlette import App
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME
from streamlit.web.server.starlette.starlette_websocket import _get_signed_cookie_with_chunks

from pages.shared.guard import Guard, UploadLimit, is_allowed
from pages.shared.uploads import MAX_UPLOADED_IN_ALL, LimitedUploads
from smart_core.cli.dashboard import startup

LIBRARIES = ("numba", "pandas", "plotly.graph_objects", "pyarrow", "scipy.stats", "torch")

# `limit_uploads` does the same when a page is run; an upload may come before
memory_uploaded_file_manager.MemoryUploadedFileManager = LimitedUploads  # type: ignore[misc]


def signed_in(cookies: dict[str, str]) -> bool:
    """Return whether a request has the cookie that Streamlit signs after a login, of a user who is allowed here."""
    content = _get_signed_cookie_with_chunks(cookies, USER_COOKIE_NAME)
    if content is None:
        return False
    return is_allowed(json.loads(content), st.secrets.get("smart", {}).get("allowed"))


app = App(
    Path(__file__).with_name("dashboard.py"),
    middleware=[
        Middleware(Guard, access=startup.access, signed_in=signed_in),
        Middleware(UploadLimit, most=MAX_UPLOADED_IN_ALL),
    ],
)

# Streamlit collects garbage after every run of a page, which takes 0.2 s less without these libraries
for library in LIBRARIES:
    importlib.import_module(library)
gc.freeze()
