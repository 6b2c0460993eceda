"""What `smart dashboard` serves: dashboard.py behind the guard that decides who may enter."""

from __future__ import annotations

from pathlib import Path

from starlette.middleware import Middleware
from streamlit.starlette import App
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME
from streamlit.web.server.starlette.starlette_websocket import _get_signed_cookie_with_chunks

from pages.shared.guard import Guard
from smart_core.cli.dashboard import opened


def signed_in(cookies: dict[str, str]) -> bool:
    """Return whether a request has the cookie that Streamlit signs after a login."""
    return _get_signed_cookie_with_chunks(cookies, USER_COOKIE_NAME) is not None


app = App(
    Path(__file__).with_name("dashboard.py"),
    middleware=[Middleware(Guard, access=opened.access, signed_in=signed_in)],
)
