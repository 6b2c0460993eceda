"""Exported files run where only NumPy and the standard library can be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

RUNNER = """
import importlib.util, sys, warnings
from pathlib import Path

class OnlyNumpy:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in {"numpy", *sys.stdlib_module_names} - {"torch", "smart_core"}:
            raise ImportError(f"{name} is not to be imported here")

sys.meta_path.insert(0, OnlyNumpy())
for blocked in ("torch", "smart_core", "scipy"):
    try:
        importlib.import_module(blocked)
    except ImportError:
        continue
    raise SystemExit(f"{blocked} could be imported")

import numpy as np

warnings.simplefilter("error")
folder = Path(sys.argv[1])
for path in sorted(folder.glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with np.load(folder / f"{path.stem}_in.npz") as given:
        inputs = {name: given[name] for name in given.files}
    arguments = [inputs["logits"], *([inputs["features"]] if "features" in inputs else [])]
    results = {"probabilities": module.predict_proba(*arguments)}
    if hasattr(module, "temperatures"):
        results["temperatures"] = module.temperatures(inputs["logits"])
    np.savez(folder / f"{path.stem}_out.npz", **results)
"""


def run_alone(folder: Path, files: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, dict[str, np.ndarray]]:
    """Name -> what the file's functions return; `files` gives each file's source and its input arrays."""
    for name, (source, inputs) in files.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
        np.savez(folder / f"{name}_in.npz", **inputs)
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUNNER, str(folder)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    results = {}
    for name in files:
        with np.load(folder / f"{name}_out.npz") as found:
            results[name] = {key: found[key] for key in found.files}
    return results
