"""Dictionaries of limited size: in memory only, or saved in a store item by item."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Generic, TypeVar

from smart_core.errors import WorkspaceError
from smart_core.export.workspaces.codec import NotKept
from smart_core.export.workspaces.store import Store

Value = TypeVar("Value")

ON_DISK: Any = object()
"""Stands for an item that has not been read from the store yet."""


class BoundedDict(MutableMapping[str, Value]):
    """A dictionary of limited size that drops its oldest entry when full; `version` counts assignments.

    >>> last = BoundedDict(2)
    >>> last.update(a=1, b=2, c=3)
    >>> dict(last), last.version
    ({'b': 2, 'c': 3}, 3)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.version = 0
        self._items: OrderedDict[str, Value] = OrderedDict()

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __setitem__(self, key: str, value: Value) -> None:
        self._assign(key, value)

    def __delitem__(self, key: str) -> None:
        del self._items[key]
        self.version += 1

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._items))

    def __contains__(self, key: object) -> bool:
        return key in self._items  # without reading the item

    def __len__(self) -> int:
        return len(self._items)

    def set_unsaved(self, key: str, value: Value) -> None:
        """Set an item that is not saved until `save` is called."""
        self[key] = value

    def save(self) -> None:
        """Save the items that `set_unsaved` has set."""

    def _assign(self, key: str, value: Value) -> list[str]:
        """Set an item, and return the keys of those that were dropped for it."""
        self._items[key] = value
        self.version += 1
        return [self._items.popitem(last=False)[0] for _ in range(len(self._items) - self._size)]


class ReadOnlyDict(BoundedDict[Value]):
    """Another dictionary without the right to change it: an attempt only calls `refused`."""

    def __init__(self, of: BoundedDict[Value], refused: Callable[[], None]) -> None:
        super().__init__(of._size)
        self.of, self.refused = of, refused

    @property
    def version(self) -> int:
        """How often the other dictionary has changed."""
        return self.of.version

    @version.setter
    def version(self, number: int) -> None:
        """Ignore the number that `BoundedDict` begins with."""

    def __getitem__(self, key: str) -> Value:
        return self._items[key] if key in self._items else self.of[key]

    def __setitem__(self, key: str, value: Value) -> None:
        self.refused()

    def __delitem__(self, key: str) -> None:
        self.refused()

    def __iter__(self) -> Iterator[str]:
        return iter([*self.of, *self._items.keys() - self.of.keys()])

    def __contains__(self, key: object) -> bool:
        return key in self.of or key in self._items

    def __len__(self) -> int:
        return len(list(iter(self)))

    def set_unsaved(self, key: str, value: Value) -> None:
        self._items[key] = value

    def pop(self, key: str, default: Any = None) -> Any:
        """Refuse, and return the item as if it had been removed."""
        self.refused()
        return self.get(key, default)


class ItemStore(Generic[Value]):
    """The items of one kind in one workspace of a store, for a `StoredDict`."""

    def __init__(
        self,
        store: Store,
        id: str,
        kind: str,
        pack: Callable[[Value], Any] = lambda value: value,
        unpack: Callable[[Any, Callable[[Any], Any]], Value] = lambda tree, decode: decode(tree),
        owner: str | None = None,
    ) -> None:
        self.store, self.id, self.kind = store, id, kind
        self.pack, self.unpack, self.owner = pack, unpack, owner
        self.faults: dict[str, str] = {}
        """Key -> why the item is not saved, or could not be read; in one sentence."""

    def keys(self) -> list[str]:
        """Return the keys of the saved items, oldest first."""
        return self.store.keys(self.id, self.kind)

    def read(self, key: str) -> Value:
        """Return a saved item; KeyError if it is not there or damaged."""
        try:
            return self.unpack(self.store.tree(self.id, self.kind, key), self.store.codec(self.id).decode)
        except (WorkspaceError, TypeError, ValueError, AttributeError) as error:
            self.faults[key] = (
                str(error) if isinstance(error, WorkspaceError) else "An item of the workspace is damaged."
            )
            raise KeyError(key) from error

    def write(self, key: str, value: Value) -> None:
        """Save an item; one that cannot be saved is noted in `faults`, unless no workspace keeps such items."""
        try:
            self.store.create("", self.id, self.owner)
            self.store.put(self.id, self.kind, key, self.pack(value))
            self.faults.pop(key, None)
        except NotKept:
            self.remove(key)  # an earlier one of its key is no longer true
        except WorkspaceError as error:
            self.faults[key] = str(error)

    def remove(self, key: str) -> None:
        self.faults.pop(key, None)
        try:
            self.store.remove(self.id, self.kind, key)
        except WorkspaceError as error:
            self.faults[key] = str(error)


class StoredDict(BoundedDict[Value]):
    """A dictionary whose items are on the disk when their assignment returns, and are read when they are first used.

    An item that cannot be saved stays in memory, and `faults` says why. Threads may share a dictionary: the item
    assigned last is kept, in memory and on the disk.
    """

    def __init__(self, size: int, item_store: ItemStore[Value]) -> None:
        super().__init__(size)
        self.item_store = item_store
        self._changes = threading.RLock()
        self._unsaved: set[str] = set()
        self._items.update(dict.fromkeys(item_store.keys(), ON_DISK))

    @property
    def faults(self) -> dict[str, str]:
        """Key -> why the item is not saved, or could not be read."""
        return self.item_store.faults

    def __getitem__(self, key: str) -> Value:
        found = self._items[key]
        if found is not ON_DISK:
            return found
        with self._changes:
            if self._items[key] is ON_DISK:
                try:
                    self._items[key] = self.item_store.read(key)
                except KeyError:
                    self._items.pop(key, None)
                    raise
            return self._items[key]

    def __setitem__(self, key: str, value: Value) -> None:
        with self._changes:
            dropped = self._assign(key, value)
            self.item_store.write(key, value)
            for each in dropped:
                self.item_store.remove(each)

    def __delitem__(self, key: str) -> None:
        with self._changes:
            super().__delitem__(key)
            self._unsaved.discard(key)
            self.item_store.remove(key)

    def set_unsaved(self, key: str, value: Value) -> None:
        with self._changes:
            self._assign(key, value)
            self._unsaved.add(key)

    def save(self) -> None:
        with self._changes:
            for key in self._unsaved & self._items.keys():
                self.item_store.write(key, self._items[key])
            self._unsaved.clear()
