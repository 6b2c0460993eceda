"""The engine is quick to import and changes nothing for the whole process."""

from __future__ import annotations

import ast
import subprocess
import sys

import smart_core as sc
from tests.conftest import ROOT


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    ).stdout.strip()


def test_importing_the_package_loads_none_of_the_heavy_ones():
    heavy = "('torch', 'pandas', 'sklearn', 'scipy', 'pyarrow', 'plotly', 'streamlit')"
    assert run(f"import sys, smart_core; print([n for n in {heavy} if n in sys.modules])") == "[]"


def test_help_imports_no_command_and_a_command_imports_no_other():
    code = """
import sys
from contextlib import suppress
from smart_core.cli import COMMANDS, main
with suppress(SystemExit):
    main({arguments})
print([name for name in COMMANDS if f"smart_core.cli.{name}" in sys.modules])
"""
    for arguments, imported in ((["--help"], []), (["fit", "--help"], ["fit"]), (["methods", "--nope"], ["methods"])):
        assert run(code.replace("{arguments}", repr(arguments))).splitlines()[-1] == repr(imported)


def test_a_fit_and_its_files_load_no_compiler_of_pytorch():
    """It takes 70 MB for the lifetime of the process; PyTorch loads it for tensors without values."""
    code = """
import sys
import numpy as np
import smart_core as sc
from smart_core.calibrators.store import calibrator_bytes
from smart_core.export import numpy_source, onnx_bytes
z = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
fitted = sc.SMART(epochs=2).fit(z, z.argmax(axis=1))
calibrator_bytes(fitted), numpy_source(fitted), onnx_bytes(fitted)
print([name for name in ("torch._dynamo", "torch.onnx", "sympy") if name in sys.modules])
"""
    assert run(code) == "[]"


def test_threads_that_wait_sleep_unless_the_user_decided_otherwise():
    """The libraries read the variables when they are loaded, so the package sets them before it imports any."""
    shown = "print([os.environ[name] for name in ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT', 'KMP_BLOCKTIME')])"
    unset = "import os; [os.environ.pop(name) for name in list(os.environ) if name[:3] in ('OMP', 'GOM', 'KMP')]"
    assert run(f"{unset}; import smart_core; {shown}") == "['passive', '0', '0']"
    chosen = f"{unset}; os.environ['OMP_WAIT_POLICY'] = 'active'"
    assert run(f"{chosen}; import smart_core; {shown}") == "['active', '0', '0']"


def test_every_public_name_resolves():
    assert all(getattr(sc, name) is not None for name in dir(sc))


def test_a_public_name_is_the_same_whichever_module_was_imported_first():
    first = "import smart_core.analysis.hardness, smart_core as sc"
    code = f"{first}; print(sc.correlate([1, 2, 3, 5], [1, 2, 3, 4]).spearman)"
    assert run(code) == "1.0"


PROCESS_WIDE = {"catch_warnings", "simplefilter", "filterwarnings", "fork_rng", "set_default_dtype", "seterr"}
"""Calls that change state of the whole process; a server reads and fits in parallel threads."""


def test_the_engine_changes_nothing_for_the_whole_process():
    for path in sorted((ROOT / "smart_core").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        named |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not named & PROCESS_WIDE, path
