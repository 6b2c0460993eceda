"""The seconds of a fit are its own: everything that it imports on demand is imported before the clock starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.calibrators.fits import ALL
from tests.conftest import ROOT

CODE = """
import os, sys
import torch
from smart_core.calibrators import get, methods
from tests.calibrators.fits import ALL
from tests.calibrators.problems import over_confident

torch.set_num_threads(1)
problem = over_confident(80, 3, seed=1)
quick = {"smart": {"epochs": 2}, "gc": {"partitions": 1, "steps": 2}, "iop": {"epochs": 2}}

def fit(id):
    get(id, **quick.get(id, {})).fit(problem.logits, problem.labels, **problem.fit_arguments())

for id in sys.argv[1:]:
    if os.fork() == 0:  # in a process of its own no method finds what another one has imported
        methods()[id].prepare()
        before = set(sys.modules)
        fit(id)
        new = {name.split(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
        print(id, *sorted(new), flush=True)
        os._exit(0)
    os.wait()
for id in ALL:
    fit(id)
print("compiler" if "torch._dynamo" in sys.modules else "no compiler")
"""

WITH_LIBRARIES = ["ets", "spline", "isotonic", "bbq", "beta", "platt", "scalingbinning", "irm", "dac"]
"""Methods that load a library of their own; `make soak` shows that the others load none."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("ids", [WITH_LIBRARIES, pytest.param(ALL, marks=pytest.mark.long)], ids=["some", "all"])
def test_a_prepared_fit_imports_nothing_and_no_fit_loads_pytorchs_compiler(ids: list[str]):
    """`torch._dynamo` takes seconds to import, and `torch.optim` imports it at the first step."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", CODE, *ids], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
    )
    assert done.stdout.splitlines() == [*ids, "no compiler"], done.stdout + done.stderr
