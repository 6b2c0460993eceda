"""The compiled table and the compiled sums of Newton's method against PyTorch's way and against float64."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("numba")

from smart_core import kernels
from smart_core.calibrators.ts import minimise_nll, nll_slope
from smart_core.fitting.profile import TableProfile, build_profile
from tests.calibrators.problems import over_confident


def tensors(count: int, classes: int, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    problem = over_confident(count, classes, seed=classes)
    return torch.from_numpy(problem.logits) * scale, torch.from_numpy(problem.labels)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e30])
@pytest.mark.parametrize("classes", [65, 1024, 2500])
def test_the_table_is_pytorchs(classes: int, scale: float, monkeypatch: pytest.MonkeyPatch):
    logits, labels = tensors(40, classes, scale)
    compiled = build_profile(logits, labels)
    monkeypatch.setattr(kernels, "enabled", False)
    plain = build_profile(logits, labels)
    assert isinstance(compiled, TableProfile)
    assert isinstance(plain, TableProfile)
    torch.testing.assert_close(compiled.table, plain.table, rtol=1e-4, atol=3e-5)
    for name in ("label_gap", "mean_gap", "correct"):
        assert torch.equal(getattr(compiled, name), getattr(plain, name))


@pytest.mark.parametrize("classes", [2, 10, 300])
def test_derivatives_of_the_nll_are_those_of_float64(classes: int):
    logits, labels = tensors(300, classes)
    for beta in (0.06, 0.5, 1.0, 7.0):
        exact = nll_slope(logits.double(), labels, beta)  # float64 goes PyTorch's way
        assert nll_slope(logits, labels, beta) == pytest.approx(exact, rel=2e-4, abs=1e-6)


def test_a_large_set_starts_from_a_subsample_and_reaches_the_same_minimum(monkeypatch: pytest.MonkeyPatch):
    logits, labels = tensors(9000, 6)
    logits[::9] *= 3.0  # the rows that are asked first are unlike the others
    slope, curvature = nll_slope(logits.double(), labels, minimise_nll(logits, labels))
    assert abs(slope / curvature) < 1e-5
    compiled = minimise_nll(logits, labels)
    monkeypatch.setattr(kernels, "enabled", False)
    assert minimise_nll(logits, labels) == pytest.approx(compiled, rel=2e-6)


def test_the_bits_do_not_depend_on_the_threads():
    logits, labels = tensors(3000, 1500)
    results = []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            results.append((build_profile(logits, labels).table, nll_slope(logits, labels, 0.7)))
    finally:
        torch.set_num_threads(threads)
    for table, slope in results[1:]:
        assert torch.equal(table, results[0][0])
        assert slope == results[0][1]


def test_columns_first_and_strided_logits_are_taken():
    logits, labels = tensors(50, 70)
    expected = nll_slope(logits, labels, 1.0)
    assert nll_slope(logits.T.contiguous().T, labels, 1.0) == expected
    assert torch.equal(build_profile(logits.T.contiguous().T, labels).table, build_profile(logits, labels).table)
