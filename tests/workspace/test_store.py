"""The store of workspaces: what is saved comes back bit for bit, is read when needed, and is really deleted."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smart_core as sc
from smart_core.errors import WorkspaceError
from smart_core.experiments import SeedTable
from smart_core.export.workspaces import Limits, Store, StoredDict
from smart_core.export.workspaces import store as store_module
from smart_core.export.workspaces.items import ItemStore
from smart_core.export.workspaces.store import INDEX, MIGRATIONS, is_id, new_id
from tests.conftest import ROOT


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "workspaces")


def files_of(store: Store) -> list[Path]:
    return sorted(path for path in store.folder.rglob("*") if path.is_file() and not path.name.startswith(INDEX))


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    return sc.simulate_set(400, 300, classes=4, seed=3)


@pytest.fixture(scope="module")
def cache(data: sc.LogitSet) -> tuple[Any, dict[str, Any]]:
    fits: dict[str, Any] = {}
    return sc.compare(data, "vanilla,ts,smart", 2, settings={"smart": {"epochs": 5}}, cache=fits), fits


def reopened(store: Store) -> Store:
    """The same folder as another server sees it: nothing is in memory."""
    store.close()
    return Store(store.folder, store.limits)


def test_a_data_set_comes_back_bit_for_bit_without_being_read(store: Store, data: sc.LogitSet) -> None:
    id = store.create("one")
    store.put(id, "set", "key", data)
    back = reopened(store).get(id, "set", "key")
    assert (back.name, back.notices, back.content_hash) == (data.name, data.notices, data.content_hash)
    for (name, one), (other_name, other) in zip(data.arrays(), back.arrays(), strict=True):
        assert (name, one.dtype, one.tobytes()) == (other_name, other.dtype, other.tobytes())
        assert not other.flags.writeable
    base = back.test.logits
    while not isinstance(base, np.memmap):
        base = base.base
    assert Path(base.filename).parent.parent == store.folder
    del vars(back)["content_hash"]
    assert back.content_hash == data.content_hash


def test_fits_rows_and_tables_come_back_and_share_their_files(store: Store, cache: Any) -> None:
    comparison, fits = cache
    id = store.create("one")
    for key, fit in fits.items():
        store.put(id, "fit", key, fit)
    before = list(store.folder.rglob("*.safetensors"))
    for method, row in comparison.results.items():
        store.put(id, "row", method, row)
    # a row has the calibrators and evaluations of its fits
    assert sorted(store.folder.rglob("*.safetensors")) == sorted(before)
    table = SeedTable.empty("method", "size", ("ts",), (10, 20), 2)
    store.put(id, "study", "efficiency", {"result": table, "settings": {"sizes": (10, 20)}})
    store = reopened(store)
    assert store.keys(id, "fit") == list(fits)
    for key, (calibrator, seconds, evaluation) in fits.items():
        again, same_seconds, same_evaluation = store.get(id, "fit", key)
        assert (again.id, again.settings_dict(), same_seconds) == (calibrator.id, calibrator.settings_dict(), seconds)
        assert again.state().keys() == calibrator.state().keys()
        assert all(tensor.equal(calibrator.state()[name]) for name, tensor in again.state().items())
        for name in ("confidence", "prediction", "correct", "nll", "brier", "margin"):
            assert getattr(evaluation, name).tobytes() == getattr(same_evaluation, name).tobytes()
        assert (evaluation.cells is None) == (same_evaluation.cells is None)
    row = store.get(id, "row", "smart")
    assert row.values == comparison.results["smart"].values
    assert row.calibrators[0] is store.get(id, "row", "smart").calibrators[0]  # one object while it is used
    back = store.get(id, "study", "efficiency")
    assert back["settings"] == {"sizes": (10, 20)}
    assert np.isnan(back["result"].metrics["ece"]).all()


def test_what_cannot_be_kept_is_refused_in_one_sentence(store: Store) -> None:
    id = store.create("one")
    with pytest.raises(WorkspaceError, match="holds a object, which cannot be kept"):
        store.put(id, "study", "x", {"result": object()})
    assert store.keys(id, "study") == []
    assert files_of(store) == []


def test_items_keep_their_order_and_the_last_write_wins(store: Store) -> None:
    id, other = store.create("one"), store.create("other")
    for key in "bca":
        store.put(id, "row", key, 1)
    store.put(id, "row", "b", 2)
    store.put(other, "row", "z", 3)
    assert store.keys(id, "row") == ["b", "c", "a"]
    assert [store.get(id, "row", key) for key in "bca"] == [2, 1, 1]
    store.remove(id, "row", "c")
    assert store.keys(id, "row") == ["b", "a"]
    with pytest.raises(KeyError):
        store.get(id, "row", "c")


def test_files_that_nothing_needs_are_removed(store: Store) -> None:
    id = store.create("one")
    first, second = np.arange(9000), np.arange(9001)
    store.put(id, "row", "a", {"x": first, "y": second})
    store.put(id, "row", "b", first)
    assert len(files_of(store)) == 2
    store.put(id, "row", "a", 1)
    assert len(files_of(store)) == 1
    assert (store.get(id, "row", "b") == first).all()
    store.remove(id, "row", "b")
    assert files_of(store) == []


def test_a_deleted_workspace_leaves_no_trace(store: Store) -> None:
    kept, gone = store.create("kept"), store.create("gone")
    store.put(kept, "row", "a", np.arange(9000))
    store.put(gone, "row", "a", {"secret": "the deleted words " * 500, "array": np.arange(90_000)})
    content = b"".join(path.read_bytes() for path in store.folder.rglob("*") if path.is_file())
    assert b"the deleted words" in content
    assert gone.encode() in content
    store.delete(gone)
    content = b"".join(path.read_bytes() for path in store.folder.rglob("*") if path.is_file())
    assert b"the deleted words" not in content
    assert gone.encode() not in content
    assert [entry.name for entry in store.entries()] == ["kept"]
    assert len(files_of(store)) == 1
    assert store.get(kept, "row", "a").sum() == np.arange(9000).sum()
    with pytest.raises(WorkspaceError, match="deleted meanwhile"):
        store.put(gone, "row", "a", 1)


def test_workspaces_are_listed_renamed_and_expire(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = store.create("old"), store.create("new")
    store.rename(old, "  older  ")
    store.put(old, "row", "a", np.zeros(10_000))
    assert {entry.name: entry.bytes > 80_000 for entry in store.entries()} == {"older": True, "new": False}
    assert store.expired(1) == []
    later = time.time() + 2 * 86_400
    monkeypatch.setattr(store_module.time, "time", lambda: later)
    store.touch(new)
    assert store.expired(1) == [old]
    assert store.entries()[0].id == new


def test_limits_are_told_in_one_sentence_and_nothing_is_changed(tmp_path: Path) -> None:
    store = Store(tmp_path, Limits(workspace=200_000, server=300_000))
    first, second = store.create("first"), store.create("second")
    store.put(first, "row", "a", np.zeros(20_000))
    with pytest.raises(WorkspaceError, match=r"This workspace has reached its limit of 200\.0 kB"):
        store.put(first, "row", "a", np.ones(20_000))
    assert store.get(first, "row", "a").sum() == 0
    store.put(second, "row", "a", np.zeros(13_000))
    with pytest.raises(WorkspaceError, match="The server has reached its limit"):
        store.put(second, "row", "b", np.ones(10_000))
    assert len(files_of(store)) == 2


def test_ids_cannot_be_guessed_and_name_no_file(store: Store) -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(is_id(id) for id in ids)
    id = store.create("one")
    store.put(id, "row", "a", np.zeros(9000))
    assert not [path for path in store.folder.rglob("*") if id in str(path)]
    for wrong in ("", "x", "../" * 11, "w" * 31, "w" * 33, "w" * 31 + "\n"):
        assert not is_id(wrong)


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_every_earlier_version_opens(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder as each version of the schema has left it, with a workspace in it."""
    db = sqlite3.connect(tmp_path / INDEX)
    for script in MIGRATIONS[:version]:
        db.executescript(script)
    db.execute(f"PRAGMA user_version = {version}")
    db.execute("INSERT INTO workspaces (id, name, created, used) VALUES ('w', 'earlier', 1, 2)")
    db.execute("INSERT INTO items VALUES ('w', 'row', 'a', 1, '{\"$tuple\":[1,2]}')")
    db.commit()
    db.close()
    store = Store(tmp_path)
    assert store.entries()[0].name == "earlier"
    assert store.get("w", "row", "a") == (1, 2)
    store.put("w", "row", "a", np.zeros(9000))
    store.close()
    db = sqlite3.connect(tmp_path / INDEX)
    assert db.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.execute("PRAGMA user_version = 1000")
    db.close()
    with pytest.raises(WorkspaceError, match="saved by a newer version"):
        Store(tmp_path)


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkspaceError, match="the folder of the workspaces cannot be used"):
        Store(tmp_path / "file")
    (tmp_path / INDEX).write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(WorkspaceError, match="choose another with --workspace-dir"):
        Store(tmp_path)


def test_two_processes_write_to_one_workspace(store: Store) -> None:
    """Each saves items, some under the same keys and with arrays of the same content: nothing is torn or lost."""
    id = store.create("shared")
    code = f"""
import sys
from pathlib import Path
import numpy as np
from smart_core.export.workspaces import Store
store, own = Store(Path({str(store.folder)!r})), int(sys.argv[1])
for number in range(60):
    store.put({id!r}, "row", f"both {{number % 7}}", {{"by": own, "array": np.full(5000, number % 5)}})
    store.put({id!r}, "row", f"{{own}} {{number}}", np.full(5000, number % 5))
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(own)], cwd=ROOT) for own in range(2)]
    assert [writer.wait(timeout=300) for writer in writers] == [0, 0]
    keys = store.keys(id, "row")
    assert len(keys) == 127
    for key in keys:
        item = store.get(id, "row", key)
        array = item if isinstance(item, np.ndarray) else item["array"]
        assert len(set(array.tolist())) == 1
    assert len(files_of(store)) == 5


def test_threads_share_a_store_and_its_dictionaries(store: Store) -> None:
    id = store.create("shared")
    rows: StoredDict[Any] = StoredDict(500, ItemStore(store, id, "row"))

    def work(own: int) -> None:
        for number in range(30):
            rows["shared"] = {"by": own, "number": number}
            rows[f"{own} {number}"] = np.full(3000, own)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again: StoredDict[Any] = StoredDict(500, ItemStore(reopened(store), id, "row"))
    assert len(again) == 121
    assert again["shared"] == rows["shared"]  # the last writer is the same in memory and on the disk
    assert rows.faults == {}


def test_a_stored_dictionary_reads_an_item_when_it_is_used(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    id = store.create("one")
    rows: StoredDict[Any] = StoredDict(3, ItemStore(store, id, "row"))
    for number, key in enumerate("abcd"):
        rows[key] = np.full(9000, number)
    assert list(rows) == store.keys(id, "row") == ["b", "c", "d"]
    item_store: ItemStore[Any] = ItemStore(store, id, "row")
    seen: list[str] = []

    def read(key: str) -> Any:
        seen.append(key)
        return ItemStore.read(item_store, key)

    monkeypatch.setattr(item_store, "read", read)
    lazy: StoredDict[Any] = StoredDict(3, item_store)
    assert ("c" in lazy, "a" in lazy, len(lazy), seen) == (True, False, 3, [])
    assert lazy["c"][0] == 2
    assert lazy["c"] is lazy.get("c")
    assert seen == ["c"]
    del lazy["c"]
    assert store.keys(id, "row") == ["b", "d"]


def test_a_damaged_item_is_told_and_the_others_are_kept(store: Store) -> None:
    id = store.create("one")
    rows: StoredDict[Any] = StoredDict(9, ItemStore(store, id, "row"))
    rows["good"], rows["bad"] = np.zeros(9000), np.ones(9000)
    for path in files_of(store):
        if np.load(path)[0] == 1:
            path.unlink()
    again: StoredDict[Any] = StoredDict(9, ItemStore(reopened(store), id, "row"))
    assert again.get("bad") is None
    assert again.faults == {"bad": "A file of the workspace is missing; load the data or compute the result again."}
    assert again["good"].sum() == 0
    again["bad"] = np.ones(3)
    assert again.faults == {}


def test_a_new_store_removes_what_a_killed_process_left(store: Store) -> None:
    id = store.create("one")
    store.put(id, "row", "a", np.zeros(9000))
    (mine,) = files_of(store)
    old, young, other = mine.with_name("." + "0" * 64), mine.with_name("1" * 64), store.folder / ("0" * 32)
    for path in (old, young):
        path.write_bytes(b"half")
    other.mkdir()
    (store.folder / "notes").mkdir()
    long_ago = time.time() - 2 * store_module.STRAY_SECONDS
    os.utime(old, (long_ago, long_ago))
    os.utime(mine, (long_ago, long_ago))
    store = reopened(store)
    assert (mine.exists(), old.exists(), young.exists(), other.exists()) == (True, False, True, False)
    assert (store.folder / "notes").exists()  # not ours
