"""The wheel carries the app inside the package, as smart_core/app; an editable install leaves it where it is."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

APP = ("dashboard.py", "dashboard_server.py", "pages", "sample_logits", ".streamlit")


class AppInPackage(BuildHookInterface[Any]):
    """Adds the app's files to a standard wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"].update({name: f"smart_core/app/{name}" for name in APP})
