"""Every key of `st.session_state`, in one place."""

from __future__ import annotations

ROUTED = "routed"
"""Set by dashboard.py right before it runs a page."""

BINS = "bins"
"""The number of confidence bins, in the sidebar and in the address."""
