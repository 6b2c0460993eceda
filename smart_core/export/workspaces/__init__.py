"""Workspaces on the server: what a user has loaded and computed, saved as soon as it exists.

`store.py` keeps them below one folder: an SQLite index, and files named after their content. `codec.py` turns values
into what the store keeps, with the trees and parts of the workspace file (`smart_core.export.workspace`). `items.py`
has the dictionaries that read an item from the store when it is first used and save it when it is set.
"""

from smart_core.export.workspaces.items import BoundedDict, ReadOnlyDict, StoredDict
from smart_core.export.workspaces.store import Entry, Limits, Store

__all__ = ["BoundedDict", "Entry", "Limits", "ReadOnlyDict", "Store", "StoredDict"]
