"""Modules give the engine's own bits, stand behind a model, and can be exported, moved and trained through."""

from __future__ import annotations

import copy
import io
import warnings

import numpy as np
import pytest
import torch

from smart_core.calibrators import Calibrator, get
from smart_core.errors import ExportError
from smart_core.export import as_module
from tests.calibrators.fits import ALL, fitted
from tests.calibrators.problems import over_confident
from tests.export.fits import arguments, ordinary_and_extreme, probabilities_off
from tests.tolerance import assert_within

TRACED = ["ts", "ets", "matrix", "dirichlet", "pts", "cts", "spline", "gc", "fc", "histogram", "beta", "smart"]
"""One of each way to the probabilities; ProCal has none that a trace can record."""


def tensors(calibrator: Calibrator, classes: int) -> list[torch.Tensor]:
    return [torch.from_numpy(array) for array in arguments(calibrator, *ordinary_and_extreme(classes)).values()]


def expected(calibrator: Calibrator, given: list[torch.Tensor]) -> torch.Tensor:
    return calibrator.predict_proba(given[0], features=given[1] if len(given) > 1 else None)


def assert_same(calibrator: Calibrator, found: torch.Tensor, given: list[torch.Tensor]) -> None:
    """A recorded program may multiply matrices in an order of its own; its predictions are the engine's."""
    rows = expected(calibrator, given)
    assert_within(found, rows, probabilities_off(calibrator, given[0].numpy()))
    if calibrator.keeps_top1:
        assert torch.equal(found.argmax(dim=1), rows.argmax(dim=1))


@pytest.mark.parametrize("classes", [2, 6])
@pytest.mark.parametrize("id", ALL)
def test_the_same_bits_on_ordinary_and_extreme_rows(id: str, classes: int) -> None:
    calibrator = fitted(id, over_confident(600, classes, seed=1))
    given = tensors(calibrator, classes)
    assert torch.equal(as_module(calibrator)(*given), expected(calibrator, given))


@pytest.mark.parametrize("id", TRACED)
def test_exported_with_any_number_of_rows(id: str) -> None:
    """From seven rows without a tie; the branch for ties must still be in it."""
    calibrator = fitted(id, over_confident(300, 4, seed=1))
    given = tensors(calibrator, 4)
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(
        as_module(calibrator),
        tuple(part[:7] for part in given),
        dynamic_shapes=tuple({0: rows} for _ in given),
        strict=False,  # the default since PyTorch 2.7
    )
    assert_same(calibrator, program.module()(*given), given)


@pytest.mark.parametrize("id", ["smart", "ets", "gc", "isotonic"])
def test_traced_on_seven_rows_it_holds_for_others(id: str) -> None:
    calibrator = fitted(id, over_confident(300, 4, seed=1))
    given = tensors(calibrator, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the deprecation, and of the sizes of what was learned, which are constant
        traced = torch.jit.trace(as_module(calibrator), tuple(part[:7] for part in given), check_trace=False)
    assert_same(calibrator, traced(*given), given)


def test_stacked_on_a_model_it_is_saved_and_loaded_with_it() -> None:
    fit_on = over_confident(300, 4, seed=1)
    layer = torch.nn.Linear(8, 4)
    layer.load_state_dict({"weight": torch.from_numpy(fit_on.head[0]), "bias": torch.from_numpy(fit_on.head[1])})
    calibrator = fitted("smart", fit_on)
    stacked = torch.nn.Sequential(layer, as_module(calibrator))
    features = torch.from_numpy(fit_on.features)
    with torch.no_grad():
        np.testing.assert_allclose(stacked(features), calibrator.predict_proba(fit_on.logits), atol=1e-5)
    stream = io.BytesIO()
    torch.save(stacked.state_dict(), stream)
    stream.seek(0)
    other = torch.nn.Sequential(torch.nn.Linear(8, 4), as_module(fitted("smart", fit_on, seed=5)))
    other.load_state_dict(torch.load(stream, weights_only=True))
    assert torch.equal(other(features), stacked(features))
    assert not list(stacked[1].parameters())  # an optimiser of the model leaves the calibrator alone
    assert "smart, classes=4" in repr(stacked)


def test_gradients_reach_the_model_through_tied_rows_too() -> None:
    calibrator = fitted("smart", over_confident(300, 4, seed=1))
    module = as_module(calibrator)
    logits = torch.randn(6, 4, dtype=torch.float32, generator=torch.Generator().manual_seed(0)) * 3
    weights = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def value(z: torch.Tensor) -> torch.Tensor:
        return (module(z).double() * weights).sum()

    given = logits.clone().requires_grad_()
    value(given).backward()
    step = 1e-2
    for row, column in ((0, 0), (3, 2), (5, 1)):
        up, down = logits.clone(), logits.clone()
        up[row, column] += step
        down[row, column] -= step
        slope = (value(up) - value(down)) / (2 * step)
        assert float(given.grad[row, column]) == pytest.approx(float(slope), abs=2e-3)
    tied = torch.full((2, 4), 1e-30).requires_grad_()
    value(torch.cat([tied, tied, tied])).backward()
    assert torch.isfinite(tied.grad).all()


def test_moved_with_the_model_it_computes_there() -> None:
    calibrator = fitted("smart", over_confident(300, 4, seed=1))
    module = as_module(calibrator).to("meta")
    assert module(torch.empty(3, 4, device="meta")).device.type == "meta"
    assert calibrator.theta_.device.type == "cpu"


def test_half_precision_logits_are_taken_as_float32() -> None:
    calibrator = fitted("ts", over_confident(300, 4, seed=1))
    half = torch.randn(5, 4).bfloat16()
    assert torch.equal(as_module(calibrator)(half), calibrator.predict_proba(half.float()))


def test_later_changes_of_the_calibrator_do_not_reach_it() -> None:
    fit_on = over_confident(300, 4, seed=1)
    calibrator = fitted("smart", fit_on)
    module = as_module(calibrator)
    z = torch.from_numpy(fit_on.logits)
    before = module(z)
    calibrator.theta_ += 1.0
    calibrator.indicator = "entropy"
    assert torch.equal(module(z), before)
    assert torch.equal(copy.deepcopy(module)(z), before)


def test_wrong_use_is_one_sentence() -> None:
    fit_on = over_confident(300, 4, seed=1)
    with pytest.raises(ExportError, match="not fitted"):
        as_module(get("ts"))
    gc = as_module(fitted("gc", fit_on))
    z, x = torch.from_numpy(fit_on.logits), torch.from_numpy(fit_on.features)
    with pytest.raises(ExportError, match=r"fitted on 4 classes; got shape \(300, 3\)"):
        gc(z[:, :3], x)
    with pytest.raises(ExportError, match="reads 8 features per row besides the logits; got none"):
        gc(z)
    with pytest.raises(ExportError, match=r"reads features \(300, 8\); got \(300, 7\)"):
        gc(z, x[:, :7])
    with pytest.raises(ExportError, match="a trace cannot record"):
        torch.export.export(as_module(fitted("procal", fit_on)), (z, x), strict=False)
