"""What is compiled ahead is what the fits and the evaluation call."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytest.importorskip("numba")

CODE = """
import numpy as np
import smart_core as sc
from smart_core.kernels import adam, logit_rows, nearest, partition, probability_rows, smart_objective
from smart_core.kernels.compiling import make_all_ready
from tests.calibrators.problems import over_confident

LOOPS = {
    name: loop
    for module in (adam, logit_rows, nearest, partition, probability_rows, smart_objective)
    for name, loop in vars(module).items()
    if hasattr(loop, "signatures")
}
make_all_ready()
before = {name: list(loop.signatures) for name, loop in LOOPS.items()}
for classes in (4, 100):
    problem = over_confident(300, classes, seed=1)
    part = sc.Part(problem.logits, problem.labels)
    smart = sc.SMART(epochs=3).fit(problem.logits, problem.labels)
    smart.predict(problem.logits)
    sc.evaluate(smart, part)
    sc.sensitivity(sc.LogitSet("made up", part, part), sigmas=[0.05], deltas=[0.001], seeds=2)
large = np.full((1 << 10, 1 << 10), 2.0**-10, np.float32)
sc.metrics.classwise_ece(large, np.zeros(len(large), np.int64))
print([name for name, loop in LOOPS.items() if list(loop.signatures) != before[name]])
"""


def test_a_prepared_process_compiles_nothing_more():
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.stdout.split("\n")[0] == "[]", done.stdout + done.stderr
