"""Classwise ECE: every column is a binary problem, and streaming changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import binary_calibration_error

from smart_core.errors import CalibrationError
from smart_core.metrics.classwise import ClasswiseCells, ClasswiseHistogram, classwise_ece
from tests.metrics.samples import classwise_cells, probabilities


@pytest.mark.parametrize("bins", [2, 15, 40])
@pytest.mark.parametrize(("n", "classes"), [(1, 3), (500, 2), (700, 12), (300, 400)])
def test_columns_agree_with_torchmetrics(n: int, classes: int, bins: int) -> None:
    probs, labels = probabilities(n, classes)
    theirs = [
        float(
            binary_calibration_error(
                torch.from_numpy(probs[:, k].copy()),
                torch.from_numpy(labels == k).int(),
                n_bins=bins,
                norm="l1",
            )
        )
        for k in range(classes)
    ]
    ours = ClasswiseHistogram(classes, bins).update(probs, labels)
    np.testing.assert_allclose(ours.per_class(), theirs, atol=1e-6)
    assert classwise_ece(probs, labels, bins) == pytest.approx(float(np.mean(theirs)), abs=1e-6)


def test_a_class_without_labels_still_counts_in_the_mean() -> None:
    # columns: |0.5 - 1| , |0.25 - 0| , |0.25 - 0|
    assert classwise_ece([[0.5, 0.25, 0.25]], [0]) == pytest.approx(1 / 3)


def test_cells_hold_the_sums_of_their_samples() -> None:
    probs, labels = probabilities(400, 6, seed=2)
    histogram = ClasswiseHistogram(6, 10).update(probs, labels)
    for k in range(6):
        for b in range(10):
            inside = (probs[:, k] > b / 10) & (probs[:, k] <= (b + 1) / 10)
            assert histogram.count[k, b] == inside.sum()
            assert histogram.sum_p[k, b] == pytest.approx(probs[inside, k].sum(), abs=1e-12)
            assert histogram.sum_p2[k, b] == pytest.approx((probs[inside, k] ** 2).sum(), abs=1e-12)
            assert histogram.sum_y[k, b] == (labels[inside] == k).sum()


def test_edges_follow_the_bin_convention_in_single_precision() -> None:
    probs = np.array([[1 / 5, 4 / 5], [2 / 5, 3 / 5], [0, 1]], dtype=np.float32)
    histogram = ClasswiseHistogram(2, 5).update(probs, [0, 1, 1])
    assert histogram.count.tolist() == [[2, 1, 0, 0, 0], [0, 0, 1, 1, 1]]
    assert histogram.sum_y.tolist() == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 1]]


def test_no_entry_above_the_first_bin() -> None:
    probs = np.full((10, 100), 0.01)
    histogram = ClasswiseHistogram(100).update(probs, np.zeros(10, dtype=int))
    expected = np.full(100, 0.01)
    expected[0] = 0.99
    np.testing.assert_allclose(histogram.per_class(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_streaming_and_torch_equal_all_at_once(dtype: torch.dtype) -> None:
    probs, labels = probabilities(1000, 20, seed=5)
    matrix = torch.from_numpy(probs).to(dtype)
    whole = ClasswiseHistogram(20).update(matrix.double().numpy() if dtype == torch.float64 else matrix, labels)
    streamed = ClasswiseHistogram(20)
    for start in range(0, 600, 130):
        streamed.update(matrix[start : min(start + 130, 600)], torch.from_numpy(labels[start : min(start + 130, 600)]))
    streamed.update(matrix[600:], labels[600:].tolist())
    assert streamed.samples == whole.samples == 1000
    for name in ("count", "sum_p", "sum_p2", "sum_y"):
        np.testing.assert_allclose(getattr(streamed, name), getattr(whole, name), rtol=1e-12, atol=1e-10)


def test_internal_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, labels = probabilities(300, 9)
    expected = classwise_ece(probs, labels)
    monkeypatch.setattr("smart_core.metrics.classwise.HISTOGRAM_CHUNK", 100)
    assert classwise_ece(probs, labels) == pytest.approx(expected, rel=1e-12)


def test_read_only_and_strided_arrays_are_accepted() -> None:
    probs, labels = probabilities(50, 4)
    expected = classwise_ece(probs, labels)
    probs.setflags(write=False)
    assert classwise_ece(probs, labels) == expected
    assert classwise_ece(probs[::-1], labels[::-1]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        (np.zeros((2, 3)), [0, 3], "in 0..2"),
        (np.zeros((2, 3)), [0, -1], "in 0..2"),
        (np.full((2, 3), 1 / 3), [0], "2 rows of probabilities but 1 labels"),
        (np.zeros(3), [0], r"\(N, K\)"),
        (np.zeros((0, 3)), np.zeros(0, dtype=int), "no samples"),
    ],
)
def test_bad_arguments_are_named(probs: np.ndarray, labels: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classwise_ece(probs, labels)


def test_logits_and_missing_numbers_are_named() -> None:
    probs, labels = probabilities(20, 4)
    with pytest.raises(CalibrationError, match=r"Row 0 .* sums to .* softmax"):
        classwise_ece(np.log(probs), labels)
    probs[7, 2] = np.nan
    with pytest.raises(CalibrationError, match=r"Row 7 .* \(NaN\)"):
        classwise_ece(probs, labels)


def test_too_many_bins_are_refused_before_any_memory_is_taken() -> None:
    with pytest.raises(CalibrationError, match="from 2 to 1000"):
        ClasswiseCells(1000, 100_000)


def test_memory_of_the_groups_is_bounded() -> None:
    largest = ClasswiseCells(1000, 1000)
    assert largest.group_residual.nbytes + largest.null_residual.nbytes <= 130e6


@pytest.mark.parametrize("cut", [1, 333, 999])
def test_cells_of_two_chunks_are_those_of_the_whole(cut: int) -> None:
    probs, labels = probabilities(1000, 12, seed=3)
    whole = classwise_cells(probs, labels, seed=5)
    chunked = ClasswiseCells(12, seed=5)
    chunked.update(probs[:cut], labels[:cut]).update(probs[cut:], labels[cut:])
    for name, value in vars(whole).items():
        np.testing.assert_allclose(getattr(chunked, name), value, rtol=1e-5, atol=1e-5, err_msg=name)


def test_groups_added_up_one_by_one_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, labels = probabilities(1000, 12, seed=3)
    whole = classwise_cells(probs, labels, seed=5)
    monkeypatch.setattr("smart_core.metrics.classwise.CELLS_AT_ONCE", 1)
    for name, value in vars(classwise_cells(probs, labels, seed=5)).items():
        np.testing.assert_array_equal(value, getattr(whole, name), err_msg=name)
