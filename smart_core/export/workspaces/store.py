"""The workspaces of a server below one folder: an SQLite index, and a folder of files for each workspace.

    workspaces.sqlite          which workspaces there are, their items as trees of JSON, and the files these refer to
    <hash of the id>/<sha256>  the files: arrays, calibrators, evaluations (`codec.py`)

An item is saved in this order: its files are written, synced and renamed; then one transaction refers to them. A
process that is killed at any point leaves either the old item or the new one, and at most files that nothing refers to.
These are removed while the database is locked, so that no other process can refer to them meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smart_core.errors import WorkspaceError
from smart_core.export.workspaces.codec import Codec, Encoded
from smart_core.formatting import bytes_text

MIGRATIONS = (
    """
    CREATE TABLE workspaces (id TEXT PRIMARY KEY, name TEXT NOT NULL, created REAL NOT NULL, used REAL NOT NULL);
    CREATE TABLE items (
        workspace TEXT NOT NULL REFERENCES workspaces ON DELETE CASCADE,
        kind TEXT NOT NULL, key TEXT NOT NULL, position INTEGER NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (workspace, kind, key)
    );
    CREATE TABLE files (
        workspace TEXT NOT NULL REFERENCES workspaces ON DELETE CASCADE,
        name TEXT NOT NULL, bytes INTEGER NOT NULL,
        PRIMARY KEY (workspace, name)
    ) WITHOUT ROWID;
    CREATE TABLE uses (
        workspace TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
        PRIMARY KEY (workspace, kind, key, name),
        FOREIGN KEY (workspace, kind, key) REFERENCES items ON DELETE CASCADE,
        FOREIGN KEY (workspace, name) REFERENCES files
    ) WITHOUT ROWID;
    CREATE INDEX uses_of_a_file ON uses (workspace, name);
    """,
    """
    ALTER TABLE workspaces ADD COLUMN owner TEXT;
    ALTER TABLE workspaces ADD COLUMN shared TEXT;
    CREATE UNIQUE INDEX shared_workspaces ON workspaces (shared);
    """,
)
"""The statements that lead from each version of the schema to the next; `PRAGMA user_version` counts those applied."""

INDEX = "workspaces.sqlite"
BUSY_SECONDS = 20.0
"""Time to wait for another process that writes."""

ID_BYTES = 24
ID = re.compile(r"[A-Za-z0-9_-]{32}")
"""An id is 192 random bits in base64."""

STRAY_SECONDS = 3600.0
"""Age from which a file that nothing refers to was left by a process that is gone."""

TOUCH_SECONDS = 60.0
"""Time between two updates of when a workspace was last used."""

FULL = tuple(getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name))
LONGEST_NAME = 100
DAY = 86_400.0


class DiskFull(WorkspaceError):
    """There is no room on the disk."""


@dataclass(frozen=True)
class Limits:
    """How many bytes the store may hold: for one workspace, and in all. None is no limit."""

    workspace: int | None = None
    server: int | None = None


@dataclass(frozen=True)
class Entry:
    """A workspace in a list."""

    id: str
    name: str
    created: float
    """Unix time."""
    used: float
    """Unix time at which it was last opened or changed."""
    bytes: int
    """Size of its files; what the index itself takes is small beside them."""
    owner: str | None = None
    """The user that it belongs to, where users sign in."""
    shared: str | None = None
    """The id of its read-only link, if there is one."""


def new_id() -> str:
    """Return an id that cannot be guessed."""
    return secrets.token_urlsafe(ID_BYTES)


def is_id(text: str) -> bool:
    """Return whether a text has the form of an id."""
    return ID.fullmatch(text) is not None


class Store:
    """The workspaces below a folder. Threads may share one, and processes may use the same folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     id = store.create("Faces")
    ...     store.put(id, "row", "ts", {"seeds": 5})
    ...     store.keys(id, "row"), store.get(id, "row", "ts"), store.entries()[0].name
    ...     store.close()
    (['ts'], {'seeds': 5}, 'Faces')
    """

    def __init__(self, folder: Path, limits: Limits = Limits()) -> None:  # noqa: B008 (it is frozen)
        self.folder, self.limits = folder, limits
        self._lock = threading.RLock()
        self._codecs: dict[str, Codec] = {}
        self._touched: dict[str, float] = {}
        self._known: set[str] = set()
        self._deleted: set[str] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(
                folder / INDEX, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
                self._db.execute(f"PRAGMA {setting}")
            self._migrate()
            with suppress(OSError):
                (folder / INDEX).chmod(0o600)
        except (OSError, sqlite3.Error) as error:
            problem = f"the folder of the workspaces cannot be used ({error})"
            raise WorkspaceError(problem, "choose another with --workspace-dir", file=str(folder)) from error
        self._remove_strays()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # -- workspaces -----------------------------------------------------------------------------------------

    def create(self, name: str, id: str | None = None, owner: str | None = None) -> str:
        """Add an empty workspace and return its id; nothing changes if there is one with this id."""
        id, now = id or new_id(), time.time()
        if id in self._deleted:
            raise WorkspaceError("The workspace was deleted; open a new one.")
        if id not in self._known:
            with self._changing() as db:
                row = (id, name[:LONGEST_NAME], now, now, owner)
                columns = "(id, name, created, used, owner) VALUES (?, ?, ?, ?, ?)"
                db.execute(f"INSERT OR IGNORE INTO workspaces {columns}", row)
            self._known.add(id)
        return id

    def find(self, id: str) -> Entry | None:
        return next(iter(self.entries(id)), None)

    def entries(self, id: str | None = None) -> list[Entry]:
        """Return every workspace, or the one with this id, the last used first."""
        size = "(SELECT COALESCE(SUM(bytes), 0) FROM files WHERE workspace = id)"
        columns = f"id, name, created, used, {size}, owner, shared"
        query = f"SELECT {columns} FROM workspaces WHERE ? IN (id, '') ORDER BY used DESC"
        return [Entry(*row) for row in self._read(query, id or "")]

    def share(self, id: str) -> str:
        """Return the id of a workspace's read-only link, which is made at the first call."""
        with self._changing() as db:
            db.execute("UPDATE workspaces SET shared = COALESCE(shared, ?) WHERE id = ?", (new_id(), id))
            found = db.execute("SELECT shared FROM workspaces WHERE id = ?", (id,)).fetchone()
        if found is None:
            raise WorkspaceError("There is nothing to share yet; load or compute something first.")
        return str(found[0])

    def unshare(self, id: str) -> None:
        """Make the read-only link of a workspace invalid for good; the next one has another id."""
        with self._changing() as db:
            db.execute("UPDATE workspaces SET shared = NULL WHERE id = ?", (id,))

    def shared(self, link: str) -> str | None:
        """Return the workspace that a read-only link opens."""
        rows = self._read("SELECT id FROM workspaces WHERE shared = ?", link)
        return rows[0][0] if rows else None

    def rename(self, id: str, name: str) -> None:
        with self._changing() as db:
            db.execute("UPDATE workspaces SET name = ? WHERE id = ?", (name.strip()[:LONGEST_NAME], id))

    def touch(self, id: str) -> None:
        """Note that a workspace is used."""
        now = time.time()
        if now - self._touched.get(id, 0.0) < TOUCH_SECONDS:
            return
        self._touched[id] = now
        with self._changing() as db:
            db.execute("UPDATE workspaces SET used = ? WHERE id = ?", (now, id))

    def delete(self, id: str) -> None:
        """Delete a workspace: its items, its files, and their traces in the database.

        On a full disk, the database cannot even note what it deletes: there the files go first and make room.
        """
        self._deleted.add(id)  # a job that still runs must not bring it back
        self._known.discard(id)
        try:
            try:
                self._delete_rows(id)
            except DiskFull:
                shutil.rmtree(self._folder(id), ignore_errors=True)
                self._delete_rows(id)
        except WorkspaceError:
            self._deleted.discard(id)
            raise
        self._codecs.pop(id, None)
        shutil.rmtree(self._folder(id), ignore_errors=True)
        for command in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            with self._lock, suppress(sqlite3.Error):  # it is deleted, and overwritten (`secure_delete`), without these
                self._db.execute(command)

    def expired(self, days: float) -> list[str]:
        """Return the workspaces that were not used for so many days."""
        return [id for (id,) in self._read("SELECT id FROM workspaces WHERE used < ?", time.time() - days * DAY)]

    # -- items ----------------------------------------------------------------------------------------------

    def keys(self, id: str, kind: str) -> list[str]:
        """Return the keys of the items of a kind, in the order in which they were added."""
        query = "SELECT key FROM items WHERE workspace = ? AND kind = ? ORDER BY position"
        return [key for (key,) in self._read(query, id, kind)]

    def tree(self, id: str, kind: str, key: str) -> Any:
        """Return the tree of an item; KeyError if there is none."""
        rows = self._read("SELECT body FROM items WHERE workspace = ? AND kind = ? AND key = ?", id, kind, key)
        if not rows:
            raise KeyError(key)
        return json.loads(rows[0][0])

    def get(self, id: str, kind: str, key: str) -> Any:
        """Return an item; KeyError if there is none, `WorkspaceError` if it is damaged."""
        return self.codec(id).decode(self.tree(id, kind, key))

    def put(self, id: str, kind: str, key: str, value: Any) -> None:
        """Save an item in place of the one with its key. When this returns, it is on the disk.

        `WorkspaceError` if a limit is reached, the disk is full or the database is locked for long; the old item stays.
        """
        codec = self.codec(id)
        encoded = codec.encode(value)
        body = json.dumps(encoded.tree, separators=(",", ":"), allow_nan=False)
        missing = codec.missing(encoded.files)
        self._check_limits(id, sum(map(encoded.size, missing)) + len(body))
        saved = False
        try:
            while not saved:
                with _workspace_errors():
                    codec.write(encoded, missing)
                with self._changing() as db:
                    # another process may have removed what nothing referred to yet
                    missing = codec.missing(encoded.files)
                    saved = not missing
                    if saved:
                        _replace(db, (id, kind, key), body, encoded)
        except WorkspaceError:
            self._remove_unsaved(id, encoded)
            raise
        self._remove_unused(id)

    def remove(self, id: str, kind: str, key: str) -> None:
        """Delete an item, and the files that no other item refers to."""
        with self._changing() as db:
            db.execute("DELETE FROM items WHERE workspace = ? AND kind = ? AND key = ?", (id, kind, key))
        self._remove_unused(id)

    def codec(self, id: str) -> Codec:
        """Return the codec of a workspace, which shares the objects that are open."""
        with self._lock:
            return self._codecs.setdefault(id, Codec(self._folder(id)))

    # -- inside ---------------------------------------------------------------------------------------------

    def _delete_rows(self, id: str) -> None:
        with self._changing() as db:
            db.execute("DELETE FROM workspaces WHERE id = ?", (id,))

    def _folder(self, id: str) -> Path:
        """The folder of a workspace. Its name does not tell the id, because names of files appear in logs."""
        return self.folder / hashlib.sha256(id.encode()).hexdigest()[:32]

    def _migrate(self) -> None:
        with self._changing() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version > len(MIGRATIONS):
                problem = "the workspaces were saved by a newer version"
                raise WorkspaceError(problem, "update this package", file=str(self.folder))
            for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
                for statement in filter(str.strip, script.split(";")):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {number}")

    def _check_limits(self, id: str, more: int) -> None:
        own, whole = self.limits.workspace, self.limits.server
        if own is None and whole is None:
            return
        sizes = {entry.id: entry.bytes for entry in self.entries()}
        if own is not None and sizes.get(id, 0) + more > own:
            problem = f"This workspace has reached its limit of {bytes_text(own)}, so this was not saved"
            raise WorkspaceError(problem, "remove a data set")
        if whole is not None and sum(sizes.values()) + more > whole:
            problem = (
                f"The server has reached its limit of {bytes_text(whole)} for all workspaces, so this was not saved"
            )
            raise WorkspaceError(problem, "delete a workspace that is no longer needed")

    def _remove_unused(self, id: str) -> None:
        """Remove the files that no item refers to any more."""
        query = "SELECT name FROM files WHERE workspace = ? AND name NOT IN (SELECT name FROM uses WHERE workspace = ?)"
        if not self._read(query, id, id):
            return
        with self._changing() as db:
            for (name,) in db.execute(query, (id, id)).fetchall():
                with suppress(OSError):  # Windows cannot remove a file that is open; it goes as a stray later
                    (self._folder(id) / name).unlink(missing_ok=True)
                db.execute("DELETE FROM files WHERE workspace = ? AND name = ?", (id, name))

    def _remove_unsaved(self, id: str, encoded: Encoded) -> None:
        """Remove what was written for an item that could not be saved: it would fill the disk further."""
        with suppress(WorkspaceError), self._changing() as db:
            if db.execute("SELECT 1 FROM workspaces WHERE id = ?", (id,)).fetchone() is None:  # deleted meanwhile
                shutil.rmtree(self._folder(id), ignore_errors=True)
                return
            listed = {name for (name,) in db.execute("SELECT name FROM files WHERE workspace = ?", (id,))}
            for name in encoded.files.keys() - listed:
                with suppress(OSError):
                    (self._folder(id) / name).unlink(missing_ok=True)

    def _remove_strays(self) -> None:
        """Remove what processes that were killed have left: folders without a workspace, files without an item."""
        with self._changing() as db:
            used = {str(self._folder(id)): id for (id,) in db.execute("SELECT id FROM workspaces").fetchall()}
            for folder in filter(Path.is_dir, self.folder.iterdir()):
                if re.fullmatch("[0-9a-f]{32}", folder.name) is None:
                    continue
                if str(folder) not in used:
                    shutil.rmtree(folder, ignore_errors=True)
                    continue
                listed = {
                    name for (name,) in db.execute("SELECT name FROM files WHERE workspace = ?", (used[str(folder)],))
                }
                for file in folder.iterdir():
                    with suppress(OSError):
                        if file.name not in listed and time.time() - file.stat().st_mtime > STRAY_SECONDS:
                            file.unlink()

    def _read(self, query: str, *values: Any) -> list[Any]:
        with self._lock, _workspace_errors():
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which no other thread or process can interrupt: all of it is saved, or nothing."""
        with self._lock, _workspace_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")


def _replace(db: sqlite3.Connection, item: tuple[str, str, str], body: str, encoded: Encoded) -> None:
    """Refer to the files of an item, and no longer to those that only its old version needs."""
    id, kind, key = item
    files = [(id, name, encoded.size(name)) for name in encoded.files]
    db.executemany("INSERT OR IGNORE INTO files VALUES (?, ?, ?)", files)
    db.execute(
        "INSERT INTO items SELECT ?, ?, ?, COALESCE(MAX(position), 0) + 1, ? FROM items WHERE workspace = ? "
        "ON CONFLICT DO UPDATE SET body = excluded.body",
        (id, kind, key, body, id),
    )
    db.execute("UPDATE workspaces SET used = ? WHERE id = ?", (time.time(), id))
    db.execute("DELETE FROM uses WHERE workspace = ? AND kind = ? AND key = ?", item)
    db.executemany("INSERT INTO uses VALUES (?, ?, ?, ?)", [(*item, name) for name in encoded.files])


@contextmanager
def _workspace_errors() -> Iterator[None]:
    """Turn what the disk or the database refuses into one sentence."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "errno", None) in FULL or "disk is full" in str(error):
            problem = "The workspace could not be saved: the server's disk is full"
            raise DiskFull(problem, "make room, then try again") from error
        raise WorkspaceError(f"The workspace could not be saved: {_reason(error)}") from error


def _reason(error: OSError | sqlite3.Error) -> str:
    if "locked" in str(error) or "busy" in str(error):
        return "another process is writing to the same folder; try again in a moment."
    if isinstance(error, sqlite3.IntegrityError):
        return "it was deleted meanwhile; open a new one."
    return f"{getattr(error, 'strerror', None) or error}."
