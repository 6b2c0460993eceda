"""Every fit and apply on a strict second device: nothing is left on the wrong one, and the numbers agree."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from smart_core import kernels
from smart_core.calibrators import get, pts, refined
from smart_core.calibrators.smart import SMART
from smart_core.data.logitset import Part
from smart_core.evaluation import METRICS, evaluate
from tests.calibrators.fits import ALL, QUICK
from tests.calibrators.problems import over_confident
from tests.other_device import WrongDevice, pretend_device

TABULATED = ("ts", "gc", "smart")
"""Methods that read the profile, which has tables for many classes; `pts` does too and is slow."""

SHORTER = {"fc": {"search": "coarse"}, "refined": {"refinement": "svs"}}
"""Where every operation is watched, a full search takes long; the refinements are tried one by one as methods."""


def test_the_device_is_strict():
    with pretend_device() as device:
        there = torch.ones(3).to(device)
        with pytest.raises(WrongDevice):
            there + torch.ones(3)
        with pytest.raises(RuntimeError):
            there.numpy()
        with pytest.raises(TypeError, match="float64"):
            there.double()
        with pytest.raises(WrongDevice):
            torch.rand(3, device=device, generator=torch.Generator())
        np.testing.assert_array_equal((there * 2.0).cpu().numpy(), [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("id", "classes"),  # the direct and the tabulated profile
    [(id, 5) for id in ALL] + [pytest.param(id, 80, marks=() if id in TABULATED else pytest.mark.long) for id in ALL],
)
def test_fit_and_apply_stay_on_their_device(id: str, classes: int, monkeypatch: pytest.MonkeyPatch):
    """Both sides go PyTorch's way; that the compiled loops agree with it is shown in `tests/kernels`."""
    monkeypatch.setattr(kernels, "enabled", False)
    # every operation is watched, which is slow
    monkeypatch.setitem(pts.FAST, "epochs", 25)
    monkeypatch.setattr(refined, "SMART", partial(SMART, epochs=25))
    problem = over_confident(160, classes, seed=8)
    settings = {**QUICK.get(id, {}), **SHORTER.get(id, {}), "seed": 1}
    here = get(id, device="cpu", **settings).fit(problem.logits, problem.labels, **problem.fit_arguments())
    expected = here.predict_proba(problem.logits, features=problem.features)
    part = Part(problem.logits, problem.labels, problem.features)
    with pretend_device() as device:
        there = get(id, device=device, **settings).fit(problem.logits, problem.labels, **problem.fit_arguments())
        assert all(tensor.device.type == device for tensor in there.state().values())
        rows = there.predict_proba(torch.from_numpy(problem.logits).to(device), features=problem.features)
        assert rows.device.type == device
        rows = rows.cpu().numpy()
        judged = evaluate(there, part)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    plain = evaluate(here, part)
    for name in ("ece", "nll", "cece"):
        assert METRICS[name].value(judged, 15) == pytest.approx(METRICS[name].value(plain, 15), abs=1e-5)
