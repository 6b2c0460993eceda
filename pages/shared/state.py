"""Every key of `st.session_state` that more than one file touches, in one place."""

from __future__ import annotations

ROUTED = "routed"
"""Set by dashboard.py right before it runs a page."""

DESK = "desk"
"""The session's `Desk`: what it loaded and computed."""

DATA = "data"
"""Key of the data set in view, in the sidebar and in the address."""

METRIC = "metric"
"""The primary metric, in the sidebar and in the address."""

BINS = "bins"
"""The number of confidence bins, in the sidebar and in the address."""

WRITTEN = "written"
"""The view last written into the address, by name, to tell a reader's own change of it."""

REPLACED = "replaced"
"""Views that stood in the address before, each with the moment it was overwritten."""

SEEDS = "seeds"
"""The number of seeds asked for on Compare: with another one, rows of methods that draw are stale."""

DOCUMENT = "document"
"""The parsed files that lie in the drop zones of Start, to be read with other options; gone on every other page."""

LINK = "link"
"""The view that a link asked for and whose file is not here yet."""

WISHED = "wished view"
"""A view to open at the next run: a widget's value cannot be changed once it is drawn."""
