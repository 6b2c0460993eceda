"""The engine never imports Streamlit, and stays quick to import."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.conftest import ROOT


def test_no_module_of_the_engine_names_streamlit():
    for path in sorted((ROOT / "smart_core").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not any(name.split(".")[0] == "streamlit" for name in names), path


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    ).stdout.strip()


def test_importing_the_package_loads_none_of_the_heavy_ones():
    heavy = "('torch', 'pandas', 'sklearn', 'scipy', 'pyarrow', 'plotly', 'streamlit')"
    assert run(f"import sys, smart_core; print([n for n in {heavy} if n in sys.modules])") == "[]"


def test_every_public_name_resolves():
    assert run("import smart_core as sc; print(all(getattr(sc, n) is not None for n in dir(sc)))") == "True"
