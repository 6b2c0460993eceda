"""Who may enter, checked before any request reaches Streamlit: pages, the websocket, uploads, media and static files.

An ASGI middleware. With a token, a request needs the cookie that a link with the token, or the form, has set; with a
login, the cookie that Streamlit sets after the provider has said who the user is. With neither, it must be for this
machine by address or as localhost: a page of another site, whose name is made to lead here, sends that name. Only the
health check is open.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode, urlsplit

from starlette.requests import cookie_parser

from smart_core.cli.serving import Access

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH = "/_stcore/health"
LOGIN_ROUTES = ("/auth/login", "/auth/logout", "/oauth2callback")
TOKEN = "token"
RETURN = "smart_return"
"""The cookie with the page that was asked for before the login."""
MONTH = 30 * 24 * 3600
LONGEST_FORM = 4096
URL_CHARACTERS = "/?#[]@!$&'()*+,;=:%"
"""Characters with a meaning in a URL; others are quoted in a redirect."""

HEADERS = (
    (b"referrer-policy", b"no-referrer"),  # the URL has the workspace's id
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
)

FORM = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Calibration</title>
<meta name="viewport" content="width=device-width">
<style>body { font: 1rem system-ui; max-width: 26rem; margin: 20vh auto; padding: 0 1rem; color-scheme: light dark }
input, button { font: inherit; padding: .5rem; margin: .5rem 0; width: 100%; box-sizing: border-box }</style>
<h1>Calibration</h1><p>{said}</p>
<form method="post"><label>Token <input name="token" type="password" autofocus required></label>
<button>Sign in</button></form></html>"""
ASK = "Enter the access token. It is in the link printed when the server started."
WRONG = "Wrong token."
LOCAL_ONLY = "403: this server answers to localhost only; to reach it by another name, start it with --token"


class Guard:
    """Passes a request on if its sender may enter."""

    def __init__(self, app: App, access: Access, signed_in: Callable[[dict[str, str]], bool] = lambda cookies: False):
        self.app, self.access, self.signed_in = app, access, signed_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse, or pass on one request."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        send = with_headers(send)
        path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/")
        if self.access.token is not None and scope["type"] == "http" and await self._entered(scope, receive, send):
            return
        place = cookies(scope).get(RETURN) if self.access.login and path == "" and wants_page(scope) else None
        if place and self._may_enter(scope, path):  # back from the login, which always leads to the first page
            await redirect(send, unquote(place), f"{RETURN}=; Path=/; Max-Age=0")
        elif path == HEALTH or self._may_enter(scope, path):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4401})  # before it is accepted: HTTP 403
        elif self.access.login and wants_page(scope):
            query = scope["query_string"].decode("latin-1")
            place = quote(scope["path"] + (f"?{query}" if query else ""), safe="")
            await redirect(
                send, "/auth/login" + login_query(), f"{RETURN}={place}; Path=/; HttpOnly; SameSite=Lax; Max-Age=600"
            )
        elif self.access.token is None and not self.access.login:
            await respond(send, 403, LOCAL_ONLY)
        else:
            await respond(send, 401, FORM.replace("{said}", ASK) if wants_page(scope) else "401: not signed in")

    def _may_enter(self, scope: Scope, path: str) -> bool:
        if self.access.token is not None:
            name, value = self.access.cookie
            return same(cookies(scope).get(name, ""), value)
        if self.access.login:
            return path in LOGIN_ROUTES or self.signed_in(cookies(scope))
        return is_local(header(scope, b"host"))

    async def _entered(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a link with a token, or the form: set the cookie and lead to the same page without the token."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get(TOKEN) if scope["method"] == "GET" else None
        if given is None and scope["method"] == "POST" and is_form(scope):
            given = await form_token(receive)
        if given is None:
            return False
        if not same(given, self.access.token or ""):
            await respond(send, 403, FORM.replace("{said}", WRONG))
            return True
        name, value = self.access.cookie
        secure = "; Secure" if scope.get("scheme") == "https" or header(scope, b"x-forwarded-proto") == "https" else ""
        cookie = f"{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={MONTH}{secure}"
        kept = urlencode([pair for pair in query if pair[0] != TOKEN])  # a name may have several values
        await redirect(send, scope["path"] + (f"?{kept}" if kept else ""), cookie)
        return True


class UploadLimit:
    """Refuses an upload if it and the others under way would hold more than `most` bytes together.

    Streamlit writes an upload to a temporary file while it arrives; `uploads.py` limits what it keeps afterwards.
    """

    def __init__(self, app: App, most: int):
        self.app, self.most, self.under_way = app, most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or refuse it."""
        if scope["type"] != "http" or scope["method"] != "PUT":
            await self.app(scope, receive, send)
            return
        length = header(scope, b"content-length")
        if not (length.isdecimal() and len(length) < 20):
            await respond(send, 411, "411: an upload needs its length")
        elif self.under_way + int(length) > self.most:
            await respond(send, 503, "503: too many uploads at once; try again in a moment")
        else:
            self.under_way += int(length)
            try:
                await self.app(scope, receive, send)
            finally:
                self.under_way -= int(length)


def is_allowed(user: dict[str, Any], allowed: Sequence[str] | None) -> bool:
    """Return whether a user's verified e-mail is one of `allowed`, or ends with one that begins with @.

    Without a list, everyone whom the provider lets in is allowed.

    >>> is_allowed({"email": "ann@lab.example"}, ["@lab.example"])
    True
    """
    if allowed is None:
        return True
    email = str(user.get("email", "")).lower()
    fits = any(email == each.lower() or (each.startswith("@") and email.endswith(each.lower())) for each in allowed)
    return fits and user.get("email_verified", True) is not False


def same(given: str, right: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), right.encode())


def is_local(host: str) -> bool:
    """Return whether a request's `Host` is this machine by address, or localhost; browsers always send one.

    >>> is_local("localhost:8501"), is_local("[::1]:8501"), is_local("evil.example:8501")
    (True, True, False)
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "localhost").rstrip(".")
        return f".{name}".endswith(".localhost") or bool(ip_address(name))
    except ValueError:
        return False


def login_query() -> str:
    """Return the query with which Streamlit's login route knows the provider of secrets.toml."""
    from streamlit.auth_util import encode_provider_token

    return f"?provider={encode_provider_token('default')}"


def cookies(scope: Scope) -> dict[str, str]:
    """Return the cookies of a request."""
    return cookie_parser(header(scope, b"cookie"))  # as browsers do; `SimpleCookie` drops all for an odd one


def header(scope: Scope, name: bytes) -> str:
    """Return a header of a request; empty if it has none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name), "")


def wants_page(scope: Scope) -> bool:
    """Return whether a browser asks for a page to show."""
    return scope["type"] == "http" and scope["method"] == "GET" and "text/html" in header(scope, b"accept")


def is_form(scope: Scope) -> bool:
    """Return whether a request is a form that a browser has sent."""
    return header(scope, b"content-type").startswith("application/x-www-form-urlencoded")


async def form_token(receive: Receive) -> str:
    """Return the token in a form; empty if there is none or the form is too long."""
    body, more = b"", True
    while more and len(body) <= LONGEST_FORM:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    fields = parse_qs(body.decode("latin-1")) if len(body) <= LONGEST_FORM else {}
    return fields.get(TOKEN, [""])[0]


def with_headers(send: Send) -> Send:
    """Return a `send` that adds the headers of every answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in HEADERS}
            kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in own]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return sending


async def redirect(send: Send, location: str, cookie: str = "") -> None:
    """Lead to another place on this server."""
    # never to another host, as `//host` would be, and `/<tab>/host`, of which browsers drop the tab
    safe = "/" + quote(location.lstrip("/\\"), safe=URL_CHARACTERS)
    extra = [(b"location", safe.encode()), *([(b"set-cookie", cookie.encode())] if cookie else [])]
    await respond(send, 303, "", extra)


async def respond(send: Send, status: int, text: str, extra: list[tuple[bytes, bytes]] | None = None) -> None:
    """Answer with a short text."""
    kind = b"text/html; charset=utf-8" if text.startswith("<") else b"text/plain; charset=utf-8"
    headers = [(b"content-type", kind), (b"cache-control", b"no-store"), *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
