"""Files on the server: no path leaves the folder. Uploads: a session keeps a limited number of bytes."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import DeletedFile, UploadedFileRec

import smart_core as sc
from pages.shared import loading, uploads, workspace
from pages.shared.session import Session
from smart_core.errors import LogitFileError, WorkspaceError
from smart_core.export.workspace import Workspace, save_workspace
from tests.data.files import npz


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "deep" / "deeper").mkdir(parents=True)
    (inside / ".hidden").mkdir()
    (tmp_path / "outside").mkdir()
    for place in (
        "inside/a.npz",
        "inside/deep/deeper/b.csv",
        "inside/notes.txt",
        "inside/.hidden/c.npz",
        "outside/secret.npz",
    ):
        (tmp_path / place).write_bytes(b"x")
    (inside / "link.npz").symlink_to(tmp_path / "outside" / "secret.npz")
    (inside / "own.npz").symlink_to(inside / "a.npz")
    (inside / "linked").symlink_to(tmp_path / "outside")
    return inside


def test_only_logit_files_below_the_folder_are_listed(folder: Path) -> None:
    assert uploads.server_files(folder) == ["a.npz", "deep/deeper/b.csv"]


@pytest.mark.parametrize("name", ["a.npz", "deep/deeper/b.csv", "notes.txt"])
def test_a_file_of_the_folder_is_found(folder: Path, name: str) -> None:
    assert uploads.server_file(folder, name) == folder / name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../outside/secret.npz",
        "deep/../a.npz",
        "deep/../../outside/secret.npz",
        "..\\outside\\secret.npz",
        "C:\\secret.npz",
        "\\\\host\\share\\secret.npz",
        "/etc/hostname",
        "~/secret.npz",
        "a.npz\0.txt",
        "link.npz",
        "own.npz",
        "linked/secret.npz",
        "deep",
        "missing.npz",
        "a.npz/b",
    ],
)
def test_a_path_that_leaves_the_folder_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(LogitFileError, match="server's folder"):
        uploads.server_file(folder, name)


def test_an_absolute_path_into_the_folder_is_refused(folder: Path) -> None:
    with pytest.raises(LogitFileError):
        uploads.server_file(folder, str(folder / "a.npz"))


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(folder)
    assert uploads.server_file(alias, "a.npz") == folder / "a.npz"


def test_the_folder_is_set_by_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(uploads.FOLDER_VARIABLE, raising=False)
    assert uploads.server_folder() is None
    monkeypatch.setenv(uploads.FOLDER_VARIABLE, str(folder))
    assert uploads.server_folder() == folder
    monkeypatch.setenv(uploads.FOLDER_VARIABLE, str(folder / "a.npz"))
    assert uploads.server_folder() is None


def test_a_changed_file_has_another_id(folder: Path) -> None:
    before = uploads.from_server(folder, ["a.npz"])
    assert uploads.from_server(folder, ["a.npz"]).ids == before.ids
    (folder / "a.npz").write_bytes(b"longer")
    assert uploads.from_server(folder, ["a.npz"]).ids != before.ids


def test_the_list_of_files_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_LISTED", 5)
    for number in range(9):
        (folder / f"{number}.npy").write_bytes(b"x")
    assert len(uploads.server_files(folder)) == 5


def test_a_name_that_is_not_unicode_is_not_listed(folder: Path) -> None:
    """A disk takes any bytes as a name; a page that lists them cannot be sent."""
    for name in (b"\xff\xfe.npz", b"deep/\xff.npz"):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(b"x")
    assert uploads.server_files(folder) == ["a.npz", "deep/deeper/b.csv"]


def test_a_folder_without_permission_is_skipped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed and not entered: whoever asks after a file in it is denied. Root never is, so the denial is put in."""

    def denied(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **named: Any) -> Any:
            if os.fspath(path).startswith(str(folder / "deep") + os.sep):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
            return function(path, *arguments, **named)

        return call

    monkeypatch.setattr(os, "stat", denied(os.stat))
    monkeypatch.setattr(os, "lstat", denied(os.lstat))
    assert uploads.server_files(folder) == ["a.npz"]


def test_a_fix_names_a_control_of_the_page() -> None:
    scores = np.random.default_rng(0).normal(size=(40, 3))
    unclear = io.BytesIO()
    np.savez(unclear, foo=scores, baz=np.hstack([scores, scores]), bar=np.arange(40) % 3)
    with pytest.raises(LogitFileError, match="roles=") as caught:
        sc.load(("unclear.npz", unclear.getvalue()))
    assert caught.value.sentence(loading.fix_text).endswith("; choose the logits below.")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryUploadedFileManager:
    """The server's store of uploads, with a limit of 250 bytes, as a run of session "a" sees it."""
    store = MemoryUploadedFileManager("/upload")
    context = SimpleNamespace(uploaded_file_mgr=store, session_id="a")
    monkeypatch.setattr(uploads, "get_script_run_ctx", lambda: context)
    monkeypatch.setattr(uploads, "MAX_UPLOADED", 250)
    return store


def upload(store: MemoryUploadedFileManager, session: str, *files: str) -> None:
    for file in files:
        store.add_file(session, UploadedFileRec(file, f"{file}.npz", "", bytes(100)))


def test_the_oldest_uploads_of_a_session_are_dropped(store: MemoryUploadedFileManager) -> None:
    uploads.limit_uploads(keep=True)
    upload(store, "a", *(str(i) for i in range(30)))
    upload(store, "b", "other")
    assert list(store.file_storage["a"]) == ["28", "29"]
    assert list(store.file_storage["b"]) == ["other"]


def test_a_page_without_an_upload_field_drops_the_uploads_of_its_session(store: MemoryUploadedFileManager) -> None:
    upload(store, "a", "1")
    upload(store, "b", "2")
    uploads.limit_uploads(keep=False)
    assert list(store.file_storage) == ["b"]


def test_a_dropped_upload_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads.st, "session_state", {"start-files": [DeletedFile("1")], "start-val": None})
    assert uploads.dropped("start-files")
    assert not uploads.dropped("start-val", "start-test")


def test_a_set_of_very_many_classes_is_refused_before_a_page_computes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 117 kB can hold twenty rows of 1.5 million classes, for which each evaluation takes gigabytes."""
    content = npz(logits=np.eye(20, 30), labels=np.arange(20))
    file = uploads.UploadedFiles(whole=(("wide.npz", content),), ids=("wide",))
    assert loading.read(file, {}).data is not None
    monkeypatch.setattr(loading, "MAX_CLASSES", 29)
    read = loading.read(file, {})
    assert read.data is None
    assert str(read.error) == (
        "wide: has 30 classes, and the dashboard shows sets of at most 29; use the command line, or make a reduced set "
        "with smart reduce."
    )


def test_neither_is_it_restored_from_a_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Session()
    data = sc.load(npz(logits=np.eye(20, 30), labels=np.arange(20)), name="wide.npz")
    stream = io.BytesIO()
    save_workspace(stream, Workspace(sets=[data]))
    monkeypatch.setattr(loading, "MAX_CLASSES", 29)
    with pytest.raises(WorkspaceError, match="wide: has 30 classes"):
        workspace.restore(stream.getvalue(), here)
    assert len(here.datasets) == 0
