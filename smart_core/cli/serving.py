"""How `smart dashboard` serves: where workspaces are saved, how long and how large they may be, and who may enter."""

from __future__ import annotations

import argparse
import hashlib
import hmac
import os
import secrets
import sys
import threading
import time
import tomllib
from argparse import Namespace
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from smart_core.errors import SmartError, WorkspaceError

if TYPE_CHECKING:
    from smart_core.export.workspaces import Store

FOLDER_VARIABLE, TOKEN_VARIABLE = "SMART_WORKSPACE_DIR", "SMART_TOKEN"
"""Environment variables with the meaning of `--workspace-dir` and `--token`."""

GENERATED = "generated"
"""The value of `--token` without a token."""

TOKEN_FILE = "token"
SHORTEST_TOKEN = 16
SHARED_EXPIRE_DAYS, SHARED_QUOTA, SHARED_SERVER_QUOTA = 30.0, 5.0, 50.0
"""On a server that others can reach: days without use after which a workspace is deleted, and gigabytes."""

EXPIRE_EVERY = 3600.0
"""Seconds between two looks for workspaces that have expired."""

GIGABYTE = 10**9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this module."""
    group = parser.add_argument_group("workspaces")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--workspace-dir",
        type=Path,
        metavar="DIR",
        help=f"folder to save workspaces in (default: ${FOLDER_VARIABLE}, or in your data folder)",
    )
    where.add_argument("--ephemeral", action="store_true", help="keep workspaces in memory only")
    group.add_argument(
        "--expire-days",
        type=_positive,
        metavar="N",
        help="delete workspaces unused for N days (default: 30; never if only this machine can connect)",
    )
    group.add_argument(
        "--quota",
        type=_positive,
        metavar="GB",
        help="largest size of one workspace (default: 5; no limit if only this machine can connect)",
    )
    group.add_argument(
        "--server-quota",
        type=_positive,
        metavar="GB",
        help="largest size of all workspaces together (default: 50; no limit if only this machine can connect)",
    )
    parser.add_argument(
        "--token",
        nargs="?",
        const=GENERATED,
        help="let in only those who have this token, of at least 16 characters; without a value, one is made and "
        f"printed as a link (default: ${TOKEN_VARIABLE}); this or a login in secrets.toml is needed if --host is not "
        "this machine",
    )


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


@dataclass(frozen=True)
class Access:
    """Who may enter."""

    token: str | None = None
    """Only those who have it, if given."""
    login: bool = False
    """Only those who sign in with the provider of secrets.toml."""

    @property
    def cookie(self) -> tuple[str, str]:
        """Name and value of the cookie of those who had the token. Neither reveals the token."""
        key = (self.token or "").encode()
        value = hmac.new(key, b"smart dashboard: cookie", hashlib.sha256).hexdigest()
        return f"smart_{hashlib.sha256(value.encode()).hexdigest()[:8]}", value


def access(options: Namespace, shared: bool, folder: Path | None) -> Access:
    """Return who may enter; `SmartError` if others could reach the server and nothing would keep them out."""
    token: str | None = options.token or os.environ.get(TOKEN_VARIABLE) or None
    if token == GENERATED:
        token = kept_token(folder)
    if token is not None and len(token) < SHORTEST_TOKEN:
        problem = f"the token has fewer than {SHORTEST_TOKEN} characters"
        raise SmartError(problem, "give a longer one", "give none to have one made", file="--token")
    login = token is None and has_login()
    if login and find_spec("authlib") is None:
        problem = "secrets.toml has a login, which needs the package Authlib"
        raise SmartError(problem, 'install "smart-calibration[login]"', "add --token")
    if shared and token is None and not login:
        problem = "others can reach this address, and nothing keeps them out"
        raise SmartError(problem, "add --token", "set up a login in secrets.toml", file=f"--host {options.host}")
    return Access(token, login)


def kept_token(folder: Path | None) -> str:
    """Return the token made at the first start with this folder, so that links and cookies outlive a restart."""
    made = secrets.token_urlsafe(24)
    if folder is None:
        return made
    file = folder / TOKEN_FILE
    try:
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
                handle.write(made)
        return file.read_text().strip() or made
    except OSError as error:
        raise WorkspaceError(f"{file} cannot be used: {error.strerror}.") from error


def has_login() -> bool:
    """Return whether a secrets.toml that Streamlit reads has an OpenID Connect provider."""
    from smart_core.data.samples import APP

    for folder in (Path.home(), Path.cwd(), APP):
        try:
            found = tomllib.loads((folder / ".streamlit" / "secrets.toml").read_text())
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
            continue
        if {"redirect_uri", "cookie_secret"} <= found.get("auth", {}).keys():
            return True
    return False


def folder_of(options: Namespace) -> Path | None:
    """Return the folder of the workspaces; None if they are in memory."""
    if options.ephemeral:
        return None
    given = options.workspace_dir or os.environ.get(FOLDER_VARIABLE)
    return Path(given).expanduser().resolve() if given else data_folder() / "workspaces"


def data_folder() -> Path:
    """Return the folder for this user's data of this program, as the system has it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "smart-calibration"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "smart-calibration"
    given = os.environ.get("XDG_DATA_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share") / "smart-calibration"


def open_store(options: Namespace, shared: bool) -> Store | None:
    """Open the store of the workspaces, and begin to delete those that expire."""
    folder = folder_of(options)
    if folder is None:
        return None
    from smart_core.export.workspaces import Limits, Store

    def limit(given: float | None, default: float) -> int | None:
        chosen = given or (default if shared else None)
        return None if chosen is None else int(chosen * GIGABYTE)

    limits = Limits(limit(options.quota, SHARED_QUOTA), limit(options.server_quota, SHARED_SERVER_QUOTA))
    store = Store(folder, limits)
    days = options.expire_days or (SHARED_EXPIRE_DAYS if shared else None)
    if days is not None:
        threading.Thread(target=_expire, args=(store, days), name="expiry", daemon=True).start()
    return store


def _expire(store: Store, days: float) -> None:
    while True:
        delete_expired(store, days)
        time.sleep(EXPIRE_EVERY)


def delete_expired(store: Store, days: float) -> None:
    """Delete the workspaces that were not used for so many days."""
    try:
        for id in store.expired(days):
            store.delete(id)
    except WorkspaceError as error:
        print(f"smart dashboard: {error}", file=sys.stderr)
