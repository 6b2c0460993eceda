"""A server with a token answers nobody without it: every kind of request is tried on a real server."""

from __future__ import annotations

import asyncio
import runpy
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from streamlit.runtime import memory_uploaded_file_manager
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from pages.shared.guard import HEALTH, Guard, UploadLimit
from pages.shared.uploads import LimitedUploads
from smart_core.cli.serving import Access
from tests.browser.test_workspaces import TOKEN, Server, dashboard
from tests.conftest import ROOT

ROUTES = [
    "/", "/start", "/compare?workspace=x", "/static/index.html", "/index.html", "/favicon.png", "/media/abc.png",
    "/_stcore/host-config", "/_stcore/metrics", "/_stcore/stream", "/_stcore/upload_file/session/file",
    "/_stcore/script-health-check", "/component/x/index.html", "/_stcore/bidi-components/x", "/app/static/x",
    "/auth/login", "/oauth2callback", "/_stcore/health/../host-config", "//_stcore/host-config", "/_stcore/healthx",
    "/_stcore/health/x", "/_stcore/agent/interact", "/_stcore/agent/mcp",
    "/%2e%2e/_stcore/host-config", "/?token=", "/?token=wrong", f"/?token={TOKEN[:-1]}",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("guard") / "workspaces"
    with dashboard(folder, f"--token={TOKEN}") as running:
        yield running


def cookie() -> str:
    return "=".join(Access(TOKEN).cookie)


def status(server: Server, path: str, method: str = "GET", cookie: str = "", body: bytes | None = None) -> int:
    request = urllib.request.Request(server.address + path, data=body, method=method)
    request.add_header("Cookie", cookie)
    try:
        answer: Any = urllib.request.urlopen(request, timeout=20)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        return int(answer.status)


@pytest.mark.counts("access: requests without the token")
@pytest.mark.parametrize("path", ROUTES)
def test_no_route_answers_without_the_token(path: str, server: Server) -> None:
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"):
        for wrong in ("", "smart_0=1", cookie()[:-1], cookie().replace("=", "=0", 1)):
            assert status(server, path, method, wrong, b"x" if method in ("PUT", "POST") else None) in (401, 403), (
                method
            )


@pytest.mark.counts("access: requests without the token")
def test_no_websocket_opens_without_the_token(server: Server) -> None:
    url = server.address.replace("http", "ws") + "/_stcore/stream"
    for wrong in ({}, {"Cookie": cookie()[:-1]}, {"Cookie": f"{Access(TOKEN).cookie[0]}="}):
        with pytest.raises(InvalidStatus) as refused:
            connect(url, additional_headers=wrong, subprotocols=["streamlit"]).close()  # type: ignore[list-item]
        assert refused.value.response.status_code == 403
    with connect(url, additional_headers={"Cookie": cookie()}, subprotocols=["streamlit"]) as opened:  # type: ignore[list-item]
        assert opened.subprotocol == "streamlit"


def test_with_the_cookie_everything_answers(server: Server) -> None:
    assert status(server, HEALTH) == 200  # for proxies and containers; it says only that the server runs
    for path in ("/", "/compare", "/_stcore/host-config"):
        assert status(server, path, cookie=cookie()) == 200
    assert status(server, "/media/none.png", cookie=cookie()) == 404


def test_the_cookie_does_not_tell_the_token() -> None:
    name, value = Access(TOKEN).cookie
    assert TOKEN not in name + value
    assert Access(TOKEN).cookie != Access(TOKEN + "x").cookie
    assert len(value) == 64


def test_the_log_has_no_cookie_and_no_id(server: Server) -> None:
    status(server, "/start?workspace=" + "i" * 32, cookie=cookie())
    said = server.log.read_text()
    assert said.count(TOKEN) == 1  # the link printed at the start
    assert Access(TOKEN).cookie[1] not in said
    assert "i" * 32 not in said


def answered(guard: Guard, path: str, method: str = "GET", query: str = "", body: bytes = b"", **headers: str) -> Any:
    """Give one request to the guard, and return what it sends."""
    sent: list[Any] = []
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "method": method, "query_string": query.encode(), "headers": named}
    pieces = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return pieces.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    # in a thread of its own: Playwright runs an event loop in that of the browser tests
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, guard(scope, receive, send)).result()  # type: ignore[arg-type]
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


async def inner(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"Referrer-Policy", b"unsafe-url")]})


def test_a_link_with_the_token_leads_to_the_same_place_without_it() -> None:
    guard = Guard(inner, Access(TOKEN))
    code, headers = answered(guard, "/compare", query=f"bins=20&token={TOKEN}&data=a%26b")
    assert (code, headers["location"]) == (303, "/compare?bins=20&data=a%26b")
    assert headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000")
    assert "Secure" in answered(guard, "/", query=f"token={TOKEN}", x_forwarded_proto="https")[1]["set-cookie"]
    several = answered(guard, "/compare", query=f"fit=ts&fit=smart&token={TOKEN}")
    assert several[1]["location"] == "/compare?fit=ts&fit=smart"
    form = {"content_type": "application/x-www-form-urlencoded"}
    typed = answered(guard, "/start", "POST", "token=of_last_year&bins=20", f"token={TOKEN}".encode(), **form)
    assert (typed[0], typed[1]["location"]) == (303, "/start?bins=20")
    assert answered(guard, "/start", "POST", body=f"token={TOKEN}".encode(), **form)[0] == 303
    assert answered(guard, "/start", "POST", body=b"token=x", **form)[0] == 403
    assert answered(guard, "/start", "POST", body=b"token=" + b"x" * 10_000, **form)[0] == 403
    assert answered(guard, "/start", "POST", body=b"\xff\x00%", **form)[0] == 403
    assert answered(guard, "/", query="token=%ff%00%ed%a0%80")[0] == 403


def test_no_redirect_leaves_the_server() -> None:
    guard = Guard(inner, Access(TOKEN))
    for path in ("//evil.example", "///evil.example/x", "/\\evil.example", "/\t/evil.example", "/\r\nevil: 1", "/中"):
        location = answered(guard, path, query=f"token={TOKEN}")[1]["location"]
        seen = location.translate({9: None, 10: None, 13: None})  # browsers drop these
        assert seen == location
        assert seen.startswith("/")
        assert not seen.startswith(("//", "/\\"))


@pytest.mark.parametrize("other", ['x={"a": 1}', "a[1]=b", "ä=1", "alone", "a@b=c d"])
def test_an_odd_cookie_of_another_program_on_the_same_host_shuts_nobody_out(other: str) -> None:
    for both in (f"{other}; {cookie()}", f"{cookie()}; {other}"):
        assert answered(Guard(inner, Access(TOKEN)), "/start", cookie=both)[0] == 200


def test_without_a_token_everything_passes_and_no_referrer_is_sent() -> None:
    code, headers = answered(Guard(inner, Access()), "/")
    assert code == 200
    assert headers["referrer-policy"] == "no-referrer"
    assert "Referrer-Policy" not in headers


@pytest.mark.parametrize(
    ("host", "code"),
    [
        *((name, 200) for name in ("localhost", "LOCALHOST:8501", "a.localhost:1", "127.0.0.1:8501", "[::1]:8501")),
        *(
            (name, 403)
            for name in ("evil.example:8501", "localhost.evil.example", "127.0.0.1.evil.example", "evil", "[")
        ),
    ],
)
def test_without_a_token_no_other_name_leads_to_this_machine(host: str, code: int) -> None:
    """A site whose name is made to lead to 127.0.0.1 would be the same origin for the browser."""
    assert answered(Guard(inner, Access()), "/", host=host)[0] == code
    assert answered(Guard(inner, Access()), HEALTH, host=host)[0] == 200
    assert answered(Guard(inner, Access(TOKEN)), "/", host=host, cookie=cookie())[0] == 200


def test_a_login_is_needed_where_one_is_set_up() -> None:
    guard = Guard(inner, Access(login=True), lambda cookies: cookies.get("who") == "me")
    assert answered(guard, "/start")[0] == 401
    assert answered(guard, "/media/x", cookie="who=you")[0] == 401
    assert answered(guard, "/start", cookie="who=me")[0] == 200
    assert answered(guard, "/oauth2callback")[0] == 200


def test_uploads_at_once_are_limited() -> None:
    """In their sum, before any of them is kept; the room of one that has ended is free again."""
    inside: list[int] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        inside.append(limit.under_way)
        if len(inside) == 1:
            for size, code in ((b"60", 503), (b"40", 200), (b"x", 411), (b"", 411), (b"9" * 30, 411)):
                answers.append((await put(size), code))
        await inner(scope, receive, send)

    async def put(size: bytes) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"content-length", size)] if size else []
        await limit({"type": "http", "method": "PUT", "path": "/", "headers": headers}, None, send)  # type: ignore[arg-type]
        return int(sent[0]["status"])

    limit, answers = UploadLimit(slow, 100), []
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, put(b"60")).result() == 200
    assert [given for given, _ in answers] == [expected for _, expected in answers]
    assert inside == [60, 100]
    assert limit.under_way == 0


def test_uploads_are_limited_before_the_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = memory_uploaded_file_manager.MemoryUploadedFileManager
    monkeypatch.setattr(memory_uploaded_file_manager, "MemoryUploadedFileManager", kept)  # and put back at the end
    runpy.run_path(str(ROOT / "dashboard_server.py"))
    assert memory_uploaded_file_manager.MemoryUploadedFileManager is LimitedUploads
