"""Processes killed while they save, and disks that are full: every workspace opens, and what was saved is there."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smart_core.errors import WorkspaceError
from smart_core.export.workspaces import Store
from smart_core.export.workspaces.codec import Codec
from smart_core.export.workspaces.items import ItemStore, StoredDict
from tests.conftest import COUNTED, ROOT
from tests.robustness.test_faults import Disk
from tests.workspace.writer import KEYS, WORKSPACE, value

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a fork is needed")


@pytest.fixture(scope="module")
def writer() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.workspace.writer"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=60)


def lines_until_the_end(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return list(iter(lambda: process.stdout.readline().strip(), "ended"))  # type: ignore[union-attr]


def killed_while_writing(writer: subprocess.Popen[str], folder: Path, seed: int) -> list[tuple[str, int]]:
    """Let a process save some items, kill it while it saves the next, and return what it said was saved."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(f"{folder} {seed}\n")
    writer.stdin.flush()
    word, child = writer.stdout.readline().split()
    assert word == "child"
    chosen = random.Random(seed)
    said = [writer.stdout.readline().strip() for _ in range(chosen.randrange(6))]
    time.sleep(chosen.uniform(0.0, 0.03))
    os.kill(int(child), signal.SIGKILL)
    said += lines_until_the_end(writer)
    return [(key, int(number)) for key, number in map(str.split, said)]


@pytest.mark.parametrize("kills", [25, pytest.param(200, marks=pytest.mark.long)])
def test_nothing_that_was_saved_is_lost_when_its_process_is_killed(
    kills: int, writer: subprocess.Popen[str], tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    saved: dict[str, int] = {}
    acknowledged = 0
    for seed in range(1, kills + 1):
        said = killed_while_writing(writer, tmp_path, seed)
        acknowledged += len(said)
        saved.update(said)
        store = Store(tmp_path)
        here = {key: store.get(WORKSPACE, "row", key) for key in store.keys(WORKSPACE, "row")}
        for key, item in here.items():
            expected = value(item["number"])
            assert all(np.array_equal(item[name], expected[name]) for name in expected), (seed, key)
        # what was being saved when the process was killed may be there or not: at most one item
        now = {key: here[key]["number"] if key in here else -1 for key in KEYS}
        assert sum(now[key] != saved.get(key, -1) for key in KEYS) <= 1, (seed, now, saved)
        saved = now
        listed = {path.name for path in tmp_path.rglob("*.npy") if not path.name.startswith(".")}
        assert len(listed) >= len([item for item in here.values() if item["array"].nbytes > 8192])
        store.close()
    record_property(COUNTED, ["workspaces: processes killed while they saved", kills])
    assert acknowledged > kills


def state(store: Store, id: str) -> dict[str, Any]:
    return {key: store.get(id, "row", key).tolist() for key in store.keys(id, "row")}


@pytest.mark.parametrize("change", ["replace", "add", "create"])
def test_a_disk_that_is_full_at_any_point_leaves_what_was_there(
    change: str, tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    store = Store(tmp_path)
    id = store.create("full")
    store.put(id, "row", "a", np.zeros(5000))
    before, points = state(store, id), 0
    for room in range(1000):
        target = id if change != "create" else "n" * 32
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, room)
            try:
                store.create("other", target)
                store.put(target, "row", "b" if change == "add" else "a", np.arange(5000))
                break
            except WorkspaceError as error:
                said = str(error)
        points += 1
        assert said == "The workspace could not be saved: the server's disk is full; make room, then try again."
        assert state(store, id) == before
        assert state(Store(tmp_path), id) == before
        assert len([path for path in tmp_path.glob("*/*") if path.is_file()]) == 1  # nothing fills the disk further
    record_property(COUNTED, ["workspaces: points of a save at which the disk was full", points])
    assert points >= 4
    store = Store(tmp_path)
    assert store.get(target, "row", "b" if change == "add" else "a")[7] == 7


def test_a_database_that_cannot_grow_leaves_what_was_there(
    tmp_path: Path, record_property: Callable[[str, Any], None]
) -> None:
    """The system's own limit on the size of files, from below the size of the database's files to above."""
    store = Store(tmp_path)
    id = store.create("full")
    store.put(id, "row", "a", np.zeros(3))
    store.close()
    code = f"""
import resource, signal, sys
from pathlib import Path
import numpy as np
from smart_core.errors import WorkspaceError
from smart_core.export.workspaces import Store
from smart_core.export.workspaces.codec import Codec
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store(Path({str(tmp_path)!r}))
for limit in range(0, 200_000, 3_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        store.put({id!r}, "row", "b", {{"words": "x" * 20_000, "limit": limit}})
        told = "saved"
    except WorkspaceError as error:
        told = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert store.get({id!r}, "row", "a").tolist() == [0, 0, 0]
    found = [key for key in store.keys({id!r}, "row") if key == "b"]
    print(limit, len(found), told)
    if told == "saved":
        assert store.get({id!r}, "row", "b")["limit"] == limit
        store.remove({id!r}, "row", "b")
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    lines = [line.split(" ", 2) for line in run.stdout.splitlines()]
    refused = [told for _, found, told in lines if told != "saved"]
    assert all(found == ("1" if told == "saved" else "0") for _, found, told in lines)
    assert len(refused) >= 2
    assert any(told == "saved" for _, _, told in lines)
    assert all(told.startswith("The workspace could not be saved: ") for told in refused)
    record_property(COUNTED, ["workspaces: sizes at which the database could not grow", len(refused)])


def test_a_locked_database_is_waited_for_and_then_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smart_core.export.workspaces.store.BUSY_SECONDS", 0.2)
    store, other = Store(tmp_path), Store(tmp_path)
    id = store.create("locked")
    rows: StoredDict[Any] = StoredDict(5, ItemStore(store, id, "row"))
    rows["a"] = 1
    other._db.execute("BEGIN IMMEDIATE")
    rows["a"] = 2
    assert rows.faults["a"].startswith("The workspace could not be saved: another process is writing")
    assert rows["a"] == 2  # what was computed stays in use
    assert other.get(id, "row", "a") == 1
    other._db.execute("ROLLBACK")
    rows["a"] = 3
    assert rows.faults == {}
    assert other.get(id, "row", "a") == 3


def test_errors_of_the_disk_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    id = store.create("broken")

    def fail(*arguments: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), "a path that tells the user nothing")

    monkeypatch.setattr("smart_core.export.workspaces.codec.sync", fail)
    with pytest.raises(WorkspaceError) as told:
        store.put(id, "row", "a", np.zeros(9000))
    assert str(told.value) == f"The workspace could not be saved: {os.strerror(errno.EIO)}."


def test_a_workspace_that_could_not_be_deleted_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smart_core.export.workspaces.store.BUSY_SECONDS", 0.1)
    store, other = Store(tmp_path), Store(tmp_path)
    id = store.create("kept")
    store.put(id, "row", "a", np.arange(5000))
    other._db.execute("BEGIN IMMEDIATE")
    with pytest.raises(WorkspaceError, match="another process is writing"):
        store.delete(id)
    other._db.execute("ROLLBACK")
    store.put(id, "row", "b", 1)
    assert store.keys(id, "row") == ["a", "b"]
    assert store.get(id, "row", "a").sum() == np.arange(5000).sum()


def test_a_workspace_deleted_while_an_item_is_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    id = store.create("deleted")
    write = Codec.write

    def written_too_late(codec: Codec, *arguments: Any) -> None:
        Store(tmp_path).delete(id)  # as another process does
        write(codec, *arguments)

    monkeypatch.setattr(Codec, "write", written_too_late)
    with pytest.raises(WorkspaceError, match="it was deleted meanwhile"):
        store.put(id, "row", "a", np.zeros(9000))
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []


def test_deleting_makes_room_on_a_disk_without_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the database cannot grow by a page before the files of the workspace are gone."""
    store = Store(tmp_path)
    id = store.create("deleted")
    store.put(id, "row", "a", np.zeros(9000))
    changing = Store._changing

    @contextmanager
    def full(store: Store) -> Iterator[Any]:
        with changing(store) as db:
            yield db
            if list(tmp_path.glob("*/*.npy")):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Store, "_changing", full)
    with pytest.raises(WorkspaceError, match="disk is full; make room"):
        store.rename(id, "other")
    store.delete(id)
    assert store.entries() == []


def test_a_workspace_is_deleted_on_a_full_disk(tmp_path: Path) -> None:
    """`VACUUM` needs room for a copy of the database; what was deleted is overwritten without it."""
    code = f"""
import resource, signal
from pathlib import Path
from smart_core.export.workspaces import Store
from smart_core.export.workspaces.codec import Codec
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store(Path({str(tmp_path)!r}))
gone, kept = store.create("gone"), store.create("kept")
store.put(gone, "row", "a", "the deleted words " * 5000)
store.put(kept, "row", "a", "other words " * 50_000)
store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
store.delete(gone)
assert [entry.name for entry in store.entries()] == ["kept"]
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert b"the deleted words" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
