"""Signing in with a real OpenID Connect provider on loopback: who may enter, and whose workspaces they are."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from pages.shared.guard import is_allowed
from smart_core.export.workspaces import Store
from tests.browser.conftest import PATIENCE, Visit
from tests.browser.test_workspaces import Server, dashboard, id_of, own_file, upload
from tests.conftest import ROOT
from tests.robustness.openid_provider import CLIENT, SECRET
from tests.robustness.sessions_server import free_port
from tests.robustness.test_guard import ROUTES

__all__ = ["own_file"]  # a fixture


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A dashboard whose secrets.toml names the provider."""
    folder, port, provider_port = tmp_path_factory.mktemp("login"), free_port(), free_port()
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "secrets.toml").write_text(
        f"""
[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "a long secret that only this test knows"
client_id = "{CLIENT}"
client_secret = "{SECRET}"
server_metadata_url = "http://127.0.0.1:{provider_port}/.well-known/openid-configuration"

[smart]
allowed = ["@lab.example"]
"""
    )
    provider = subprocess.Popen(
        [sys.executable, "-m", "tests.robustness.openid_provider", str(provider_port)], cwd=ROOT
    )
    try:
        with dashboard(folder / "workspaces", port=port, cwd=folder) as running:
            yield running
    finally:
        provider.terminate()
        provider.wait(timeout=20)


def sign_in(browser: Browser, address: str, user: str) -> Page:
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.get_by_label("User").fill(user)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1").first).to_be_visible()
    return page


def test_each_user_has_workspaces_of_their_own(server: Server, chromium: Browser, own_file: Path) -> None:
    ann = sign_in(chromium, f"{server.address}/start?bins=20", "ann")
    assert "/start?" in ann.url  # the page that was asked for before the login
    assert "bins=20" in ann.url
    expect(ann.get_by_test_id("stSidebar").get_by_text("Signed in as ann@lab.example")).to_be_visible()
    seen = Visit(ann)
    upload(seen, own_file)
    id = id_of(seen)
    (entry,) = Store(Path(str(server.log).removesuffix(".log"))).entries()
    assert (entry.id, entry.owner) == (id, "id of ann")
    bob = sign_in(chromium, f"{server.address}/start?workspace={id}", "bob")
    expect(bob.get_by_text("is not on this server")).to_be_visible()
    assert id not in bob.url
    assert bob.get_by_text("Continue where you left off").count() == 0
    again = sign_in(chromium, f"{server.address}/start", "ann")
    expect(again.get_by_text("Continue where you left off")).to_be_visible()
    again.goto(f"{server.address}/start?workspace={id}")
    expect(again.get_by_test_id("stSidebar").get_by_text("tested on 500")).to_be_visible()
    again.get_by_role("button", name="Sign out").click()
    expect(again.get_by_label("User")).to_be_visible()
    said = server.log.read_text()
    assert id not in said
    for page in (ann, bob, again):
        page.context.close()


@pytest.mark.parametrize("path", [path for path in ROUTES if "auth" not in path])
def test_no_route_answers_without_a_login(path: str, server: Server) -> None:
    for cookie in ("", "_streamlit_user=x", "_streamlit_user=eyJpc19sb2dnZWRfaW4iOnRydWV9.x.y", "smart_return=/"):
        request = urllib.request.Request(server.address + path, headers={"Cookie": cookie})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        assert refused.value.code == 401


def test_no_websocket_opens_without_a_login(server: Server) -> None:
    for headers in ({}, {"Cookie": "_streamlit_user=forged"}):
        with pytest.raises(InvalidStatus) as refused:
            connect(f"{server.address.replace('http', 'ws')}/_stcore/stream", additional_headers=headers).close()
        assert refused.value.response.status_code == 403


def test_only_listed_users_are_allowed() -> None:
    assert is_allowed({"email": "Ann@Lab.example"}, ["@lab.example"])
    assert is_allowed({"email": "bob@other.example"}, ["@lab.example", "bob@other.example"])
    assert not is_allowed({"email": "ann@lab.example.evil"}, ["@lab.example"])
    assert not is_allowed({"email": "ann@lab.example", "email_verified": False}, ["@lab.example"])
    assert not is_allowed({"sub": "1"}, ["@lab.example"])
    assert is_allowed({"sub": "1"}, None)
