"""Shared by the pages: the session and its results, and the parts that pages are built from."""
