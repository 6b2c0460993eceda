"""The documentation site: the API pages show every public name, and nothing is fetched."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest

import smart_core as sc
from tests.conftest import ROOT

pytest.importorskip("pdoc", reason="the docs extra is not installed")


@pytest.fixture(scope="module")
def build() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "build.py"))


@pytest.fixture(scope="module")
def site(build: dict[str, Any]) -> dict[str, Any]:
    return build["pages"]()


def test_the_api_page_shows_every_public_name(build: dict[str, Any], site: dict[str, Any]):
    shown = set(re.findall(r'<section id="([^".]+)">', build["html"]("smart_core", site)))
    modules = {name for name in sc.__all__ if getattr(getattr(sc, name), "__file__", None)}
    assert all(getattr(sc, name).__name__ in site for name in modules)
    assert set(sc.__all__) - shown - modules == set()


def test_every_module_and_guide_has_a_page(build: dict[str, Any], site: dict[str, Any]):
    for guide in build["GUIDES"]:
        assert f"{guide}.html" in site["index"].docstring
        assert len(site[guide].docstring) > 1000
    for path in (ROOT / "smart_core").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        assert name in site or name.endswith("__main__"), name


def test_a_page_loads_nothing_from_elsewhere(build: dict[str, Any], site: dict[str, Any]):
    for name in ("index", "smart_core.metrics"):
        html = build["html"](name, site)
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="https?:', html)
        assert not re.findall(r'<link[^>]+href="https?:', html)
