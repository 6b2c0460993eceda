"""`smart dashboard FILE...`, and `sample:NAME` wherever a file is named."""

from __future__ import annotations

import json
import os
import runpy
import socket
import sqlite3
import sys
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import smart_core as sc
from pages.shared.session import MAX_DATASETS
from smart_core.cli import main, serving
from smart_core.cli.dashboard import MALLOC, MAX_SETS, StartupDataset, address, is_loopback, read, startup
from smart_core.cli.serving import Access
from smart_core.data.document import load_call
from smart_core.data.samples import sample_names
from smart_core.export.workspaces import Limits, Store
from tests.calibrators.problems import over_confident
from tests.conftest import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bundles, and one data set in two files."""
    for number in range(MAX_SETS + 1):
        problem = over_confident(60, 5, seed=number)
        np.savez(tmp_path / f"bundle{number}.npz", logits=problem.logits, labels=problem.labels)
    np.save(tmp_path / "logits.npy", problem.logits)
    np.save(tmp_path / "labels.npy", problem.labels)
    np.save(tmp_path / "short.npy", problem.labels[:-1])
    (tmp_path / "junk.npz").write_bytes(b"\0" * 50)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], list[str]]:
    """Instead of a server: the command line that Streamlit would get."""
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(runpy, "run_module", lambda *arguments, **named: None)
    monkeypatch.setattr(startup, "sets", [])
    monkeypatch.setattr(startup, "samples", [])
    monkeypatch.setattr(startup, "store", None)
    monkeypatch.setattr(startup, "access", Access())
    for variable in (serving.FOLDER_VARIABLE, serving.TOKEN_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda link: None)
    return lambda: sys.argv


def names(files: list[str]) -> list[str]:
    return [load_call({"whole": given.files}, given.options) for given in read(files)]


def test_files_that_make_one_data_set_are_one(folder: Path):
    assert names(["logits.npy", "labels.npy"]) == ['sc.load(["logits.npy", "labels.npy"])']
    assert names(["bundle0.npz", "bundle1.npz"]) == ['sc.load("bundle0.npz")', 'sc.load("bundle1.npz")']
    assert names([]) == []
    # complete by themselves: none is left out because another holds what is needed
    answers = "".join(f"0.{number + 10},{number % 2}\n" for number in range(60))
    (folder / "answers.csv").write_text(f"confidence,correct\n{answers}")
    assert len(names(["bundle0.npz", "answers.csv", "bundle1.npz"])) == 3
    np.savez(folder / "a_val.npz", **np.load("bundle0.npz"))
    np.savez(folder / "a_test.npz", **np.load("bundle1.npz"))
    assert names(["a_val.npz", "a_test.npz"]) == ['sc.load(["a_val.npz", "a_test.npz"])']
    (given,) = read(["bundle0.npz"], roles={"labels": "labels"})
    assert load_call({"whole": given.files}, given.options) == """sc.load("bundle0.npz", roles={'labels': 'labels'})"""
    assert given.options == {"roles": {"labels": "labels"}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.npz"], "missing.npz: there is no such file"),
        (["bundle0.npz", "junk.npz"], "junk.npz: "),
        (["logits.npy", "short.npy"], "logits.npy and short.npy: array 'logits' has 60 rows"),
        (["sample:nothing"], "There is no sample named 'nothing'; the samples are cifar10, "),
        ([f"bundle{number}.npz" for number in range(MAX_SETS + 1)], "9 data sets were given"),
        (["--host", "nowhere.invalid"], "--host nowhere.invalid: the server cannot listen there"),
        (["--port", "70000"], "argument --port: '70000' is not a port"),
    ],
)
def test_bad_arguments_are_reported_before_the_server_starts(
    arguments: list[str],
    said: str,
    folder: Path,
    served: Callable[[], list[str]],
    capsys: pytest.CaptureFixture[str],
):
    try:
        code: Any = main(["dashboard", *arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"smart dashboard: {said}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert served() == []


def test_a_port_in_use_is_reported_and_the_default_tries_the_next(
    served: Callable[[], list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["dashboard", "--port", str(port)]) == 2
        assert f"--port {port}: the server cannot listen there" in capsys.readouterr().err
        monkeypatch.setattr("smart_core.cli.dashboard.FIRST_PORT", port)
        assert main(["dashboard", "--no-browser"]) == 0
    (chosen,) = [word for word in served() if word.startswith("--server.port=")]
    assert int(chosen.partition("=")[2]) > port
    assert "--server.headless=true" in served()


@pytest.mark.skipif(sys.platform != "linux", reason="the settings are glibc's")
def test_the_server_starts_with_malloc_settings(
    served: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    started: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda path, arguments, environment: started.append(environment))
    for name in MALLOC:
        monkeypatch.delenv(name, raising=False)
    assert main(["dashboard"]) == 0
    assert started == []  # called from Python: its process is not ours to replace
    monkeypatch.setattr(sys, "argv", ["smart", "dashboard"])
    assert main(["dashboard"]) == 0
    (environment,) = started
    assert environment == {**os.environ, **MALLOC}
    monkeypatch.setattr(sys, "argv", ["smart", "dashboard"])
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert main(["dashboard"]) == 0
    assert len(started) == 1  # restarted before, or set by the user


def test_other_machines_are_admitted_only_with_a_token_or_a_login(
    served: Callable[[], list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["dashboard"]) == 0
    assert "--server.address=127.0.0.1" in served()
    assert (capsys.readouterr().err, startup.access) == ("", Access())
    assert main(["dashboard", "--host", "0.0.0.0"]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence == (
        "smart dashboard: --host 0.0.0.0: others can reach this address, and nothing keeps them out; add --token, or "
        "set up a login in secrets.toml."
    )
    assert main(["dashboard", "--host", "0.0.0.0", "--token", "short"]) == 2
    assert "fewer than 16 characters" in capsys.readouterr().err
    assert main(["dashboard", "--host", "0.0.0.0", "--token"]) == 0
    assert "--server.address=0.0.0.0" in served()
    token = startup.access.token
    assert token is not None
    assert f"/?token={token}" in capsys.readouterr().out
    assert main(["dashboard", "--host", "0.0.0.0", "--token"]) == 0
    assert startup.access.token == token  # kept with the workspaces
    monkeypatch.setenv(serving.TOKEN_VARIABLE, "the token of the environment")
    assert main(["dashboard", "--host", "0.0.0.0"]) == 0
    assert startup.access.token == "the token of the environment"
    monkeypatch.delenv(serving.TOKEN_VARIABLE)
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "secrets.toml").write_text('[auth]\nredirect_uri = "u"\ncookie_secret = "s"\n')
    assert main(["dashboard", "--host", "0.0.0.0"]) == 0
    assert startup.access == Access(login=True)
    assert [is_loopback(host) for host in ("::1", "127.0.0.2", "localhost", "::", "lab.example")] == [
        *(True, True, True, False, False)
    ]
    assert [address(host, 1) for host in ("0.0.0.0", "::1")] == ["http://localhost:1", "http://[::1]:1"]


def test_where_workspaces_are_saved_and_their_limits(served: Callable[[], list[str]], tmp_path: Path):
    assert main(["dashboard", "--ephemeral"]) == 0
    assert startup.store is None
    assert list(tmp_path.iterdir()) == []
    assert main(["dashboard"]) == 0
    assert startup.store is not None
    assert startup.store.folder.is_relative_to(tmp_path)  # the home folder of this test
    assert startup.store.limits == Limits()
    shared = ["--host", "0.0.0.0", "--token", "a token that is long"]
    assert main(["dashboard", *shared, "--workspace-dir", str(tmp_path / "here"), "--quota", "0.5"]) == 0
    assert startup.store.folder == tmp_path / "here"
    assert startup.store.limits == Limits(500_000_000, 50_000_000_000)


def test_unused_workspaces_expire_on_a_shared_server_only(
    served: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, began = tmp_path / "here", []
    monkeypatch.setattr(threading.Thread, "start", lambda self: began.append(self.name))
    assert main(["dashboard", "--no-browser", "--workspace-dir", str(folder)]) == 0
    assert began == []
    assert main(["dashboard", "--no-browser", "--workspace-dir", str(folder), "--expire-days", "3"]) == 0
    assert main(["dashboard", "--no-browser", "--host", "0.0.0.0", "--token", "--workspace-dir", str(folder)]) == 0
    assert began == ["expiry", "expiry"]
    store = Store(folder)
    old, new = store.create("old"), store.create("new")
    with sqlite3.connect(folder / "workspaces.sqlite") as db:
        db.execute("UPDATE workspaces SET used = used - 4 * 86400 WHERE id = ?", (old,))
    serving.delete_expired(store, 3)
    assert [entry.id for entry in store.entries()] == [new]


def opens_with(query: dict[str, str] | None = None) -> AppTest:
    app = AppTest.from_file(str(ROOT / "dashboard.py"), default_timeout=120)
    for name, value in (query or {}).items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def test_every_new_session_starts_with_the_given_files(
    folder: Path, served: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
):
    assert MAX_SETS == MAX_DATASETS
    assert main(["dashboard", "bundle1.npz", "bundle0.npz", "sample:digits"]) == 0
    first, second = startup.sets
    for _ in range(2):
        app = opens_with()
        assert app.session_state["data"] == first.data.content_hash[:12]
        titles = [held.title for held in app.session_state["session"].datasets.values()]
        assert sorted(titles) == ["bundle0", "bundle1"]
    assert app.session_state["session"].datasets[second.data.content_hash[:12]].data is second.data
    assert opens_with({"data": "digits"}).session_state["data"] == "digits"
    monkeypatch.setattr(startup, "sets", [])
    assert opens_with().session_state["data"] == "digits"


def test_two_files_of_the_same_name_get_different_titles(folder: Path, monkeypatch: pytest.MonkeyPatch):
    contents = [(folder / f"bundle{number}.npz").read_bytes() for number in range(2)]
    monkeypatch.setattr(startup, "sets", [StartupDataset(sc.load(content, name="same.npz")) for content in contents])
    app = opens_with()
    assert {held.title for held in app.session_state["session"].datasets.values()} == {"same", "same (2)"}


def test_a_sample_is_named_wherever_a_file_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data = sc.load("sample:digits")
    assert data.content_hash == sc.load(ROOT / "sample_logits" / "digits.npz").content_hash
    assert {path.stem for path in (ROOT / "sample_logits").glob("*.npz")} == set(sample_names())
    saved = tmp_path / "ts.safetensors"
    assert main(["fit", "--method", "ts", "--out", str(saved), "--set", "objective=nll", "sample:digits"]) == 0
    assert main(["apply", str(saved), "sample:digits", "--out", str(tmp_path / "probs.npz")]) == 0
    capsys.readouterr()
    assert main(["inspect", "--val", "sample:digits", "--test", "sample:digits", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "digits"
    with pytest.raises(sc.LogitFileError, match="There is no sample named"):
        sc.load("sample:../digits")
    kept = ROOT / "sample_logits" / "digits.npz"
    assert main(["apply", str(saved), "sample:digits", "--out", str(kept)]) == 2
    assert "is also an input file" in capsys.readouterr().err
