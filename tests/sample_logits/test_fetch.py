"""Packages come through the ordinary clients, are checked, and are kept; no test reaches a registry."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest

from sample_logits import fetch

NOTHING = "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="
"""The published checksum of an empty file."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMART_SAMPLES_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def client(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
    """A stand-in for a registry's client; nothing but stand-ins is on the path."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_package_is_asked_for_by_name_and_version_and_only_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client(tmp_path / "bin", monkeypatch, "npm", 'echo "$@" >> asked\n: > cats-1.2.3.tgz')
    for _ in range(2):
        assert fetch.npm_package("cats", "1.2.3", NOTHING) == cache / "cats-1.2.3.tgz"
    (asked,) = (cache / "asked").read_text().splitlines()
    assert asked.startswith("pack --json ")
    assert asked.endswith(" cats@1.2.3")


def test_package_with_another_checksum_is_refused(cache: Path) -> None:
    cache.mkdir()
    (cache / "cats-1.2.3.tgz").write_bytes(b"something else")
    with pytest.raises(fetch.FetchError, match=r"cats-1\.2\.3\.tgz has checksum .* delete it"):
        fetch.npm_package("cats", "1.2.3", NOTHING)


def test_what_the_client_says_last_is_passed_on(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client(tmp_path / "bin", monkeypatch, "npm", "echo trying >&2\necho no such package >&2\nexit 1")
    with pytest.raises(fetch.FetchError, match=r"cats 1\.2\.3 could not be fetched: no such package"):
        fetch.npm_package("cats", "1.2.3", NOTHING)


def test_summary_that_npm_gives_of_its_error_is_passed_on(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = '{"error": {"code": "ECONNREFUSED", "summary": "connect ECONNREFUSED", "detail": "a proxy?"}}'
    client(tmp_path / "bin", monkeypatch, "npm", f"echo '{said}'\necho npm error a log is here >&2\nexit 1")
    with pytest.raises(fetch.FetchError, match=r"cats 1\.2\.3 could not be fetched: connect ECONNREFUSED$"):
        fetch.npm_package("cats", "1.2.3", NOTHING)


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_npm_itself_tells_soon_that_there_is_no_network(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At an address where nothing listens, with nothing in npm's own cache."""
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with pytest.raises(fetch.FetchError, match=r"cats 1\.2\.3 could not be fetched: .*ECONNREFUSED"):
        fetch.npm_package("cats", "1.2.3", NOTHING)


def test_debian_package_is_unpacked_in_the_cache_and_only_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client(tmp_path / "bin", monkeypatch, "apt-get", 'echo "$@" >> ../asked\n: > dogs_1_all.deb')
    client(tmp_path / "bin", monkeypatch, "dpkg-deb", '/bin/mkdir "$3"\necho "$2" > "$3/content"')
    for _ in range(2):
        assert (fetch.debian_package("dogs") / "content").read_text() == "dogs_1_all.deb\n"
    assert (cache / "asked").read_text() == "download dogs\n"


def test_missing_client_is_named(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(fetch.FetchError, match="the program apt-get is not installed"):
        fetch.debian_package("dogs")


def test_member_of_an_archive(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        entry = tarfile.TarInfo("package/one")
        entry.size = 3
        archive.addfile(entry, io.BytesIO(b"abc"))
    assert fetch.member(tmp_path / "a.tgz", "package/one") == b"abc"
    with pytest.raises(fetch.FetchError, match="holds no file package/two"):
        fetch.member(tmp_path / "a.tgz", "package/two")


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    published = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert fetch.require_sha256(tmp_path / "abc", published) == tmp_path / "abc"
    with pytest.raises(fetch.FetchError, match="expected 00"):
        fetch.require_sha256(tmp_path / "abc", "00")
