"""The seconds of a fit are its own: all that it would import on demand is imported before the clock starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.calibrators.test_battery import ALL
from tests.conftest import ROOT

CODE = """
import os, sys
import torch
from smart_core.calibrators import get, methods
from tests.calibrators.problems import over_confident

torch.set_num_threads(1)
problem = over_confident(80, 3, seed=1)
quick = {"smart": {"epochs": 2}, "gc": {"partitions": 1, "steps": 2}}
for id in sys.argv[1:]:
    method = methods()[id]
    if os.fork() == 0:  # a process of its own: no method finds what another one has imported
        method.prepare()
        before = set(sys.modules)
        get(id, **quick.get(id, {})).fit(problem.logits, problem.labels, **problem.fit_arguments())
        new = {name.split(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
        print(id, *sorted(new), flush=True)
        os._exit(0)
    os.wait()
"""


WITH_LIBRARIES = ["ets", "spline", "isotonic", "bbq", "beta"]
"""Methods that load a library of their own; that the others load none is shown by `make soak`."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("ids", [WITH_LIBRARIES, pytest.param(ALL, marks=pytest.mark.long)], ids=["some", "all"])
def test_a_prepared_fit_imports_nothing(ids: list[str]):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", CODE, *ids], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
    )
    assert done.stdout.split("\n")[:-1] == ids, done.stdout + done.stderr
