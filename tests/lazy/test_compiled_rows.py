"""Evaluations by compiled loops against those of rows of probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import smart_core as sc
from smart_core.calibrators import Calibrator, select
from smart_core.calibrators.toplabel import TopLabelCalibrator, complement
from smart_core.data.lazy.rows import LazyPart
from smart_core.evaluation import Evaluation, evaluate
from smart_core.experiments.compiled_rows import CompiledRows, supports
from smart_core.experiments.streaming import evaluate_all
from smart_core.types import Logits
from tests.calibrators.problems import over_confident
from tests.tolerance import assert_within, binned_bound, float32_bound

pytest.importorskip("numba")


def assert_same_evaluation(fit: Calibrator, found: Evaluation, expected: Evaluation, logits: np.ndarray) -> None:
    """The same predictions; confidences and losses within rounding, of which a map that is steep makes more."""
    for name in ("prediction", "correct", "margin"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=fit.label)
    off = float32_bound(8 + np.log(logits.shape[1]))
    if isinstance(fit, TopLabelCalibrator):
        u = complement(Logits(torch.from_numpy(np.array(logits))))[0]
        ends = [fit._map((u * factor).clamp(max=1.0)).numpy() for factor in (1.0 - off, 1.0 + off)]
        off = off + np.abs(ends[1] - ends[0])
    assert_within(found.confidence, expected.confidence, off, fit.label)
    assert_within(found.brier, expected.brier, 4 * off, fit.label)
    label = np.exp(-expected.nll)
    gap = np.abs(expected.nll) + logits.max(axis=1)
    rest = 1.0 - np.minimum(expected.confidence, 1.0 - 1e-7)
    least = np.minimum(np.where(expected.correct, expected.confidence, rest), 1.0)
    share_off = np.minimum(4 * off / np.maximum(least, 1e-30), 1.0)
    with np.errstate(divide="ignore"):
        bound = -np.log1p(-share_off) + float32_bound(8, np.abs(gap) + 1.0)
    assert_within(found.nll, expected.nll, np.where(label > 0.0, bound, np.inf), fit.label)
    assert abs(found.metric("ece") - expected.metric("ece")) <= binned_bound(
        expected.confidence, expected.correct, 15, off
    )
    if found.cells is not None and expected.cells is not None:
        assert found.cells.samples == expected.cells.samples
        for name in ("count", "sum_p", "sum_p2", "sum_y"):
            own, other = getattr(found.cells, name).sum(axis=1), getattr(expected.cells, name).sum(axis=1)
            assert_within(own, other, 4 * np.sum(np.broadcast_to(off, len(logits))), f"{fit.label} {name}")


def compiled(fit: Calibrator, part: sc.Part) -> Evaluation:
    """The evaluation by two chunks of compiled rows."""
    from smart_core.evaluation import Collector
    from smart_core.metrics.classwise import ClasswiseHistogram

    collector = Collector(fit, ClasswiseHistogram(part.classes, 15))
    for rows in (slice(0, 130), slice(130, None)):
        chunk = CompiledRows.of(part.logits[rows], part.labels[rows])
        assert chunk is not None
        collector.add_vectors(chunk.vectors(fit, collector.cells))
    return collector.evaluation()


@pytest.mark.parametrize("classes", [2, 7, 300])
@pytest.mark.parametrize("id", [id for id in select("all") if supports(sc.calibrators.get(id))])
def test_every_method_that_is_taken(id: str, classes: int):
    # fitted to others: a map with steps has them at the rows that it was fitted to
    other = over_confident(400, classes, seed=classes + 1)
    fit = sc.calibrators.get(id).fit(np.asarray(other.logits, dtype=np.float32), other.labels)
    problem = over_confident(400, classes, seed=classes)
    logits = np.ascontiguousarray(problem.logits, dtype=np.float32)
    logits[:20] = np.round(logits[:20])  # ties
    logits[20:25] *= 40.0
    logits[25] = 0.0
    part = sc.Part(logits, problem.labels)
    found, expected = compiled(fit, part), evaluate(fit, part)
    assert_same_evaluation(fit, found, expected, logits)
    assert found.metric("cece") == pytest.approx(expected.metric("cece"), abs=0.02 / classes)


def test_the_classwise_sums_are_those_of_the_probabilities():
    """Away from edges of bins, every sum of every bin."""
    from smart_core.metrics.classwise import ClasswiseHistogram

    problem = over_confident(300, 40, seed=1)
    logits, labels = np.ascontiguousarray(problem.logits, dtype=np.float32), problem.labels
    for fit in (sc.TS().fit(logits, labels), sc.Isotonic().fit(logits, labels)):
        found = compiled(fit, sc.Part(logits, labels)).cells
        expected = ClasswiseHistogram(40, 15).update(fit.predict_proba(logits), labels)
        for name in ("count", "sum_p", "sum_p2", "sum_y"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=2e-5, err_msg=name)


def test_rows_that_lack_classes_go_the_other_way(tmp_path):
    problem = over_confident(600, 5, seed=2)
    logits = np.array(problem.logits, dtype=np.float32)
    labels = np.asarray(problem.labels)
    logits[np.arange(0, 600, 7), (labels[::7] + 1) % 5] = -np.inf
    np.save(tmp_path / "logits.npy", logits)
    data = sc.open(tmp_path / "logits.npy", labels=labels)
    assert isinstance(data.test, LazyPart)
    fit = sc.TS().fit_part(data.validation)
    (found,) = evaluate_all([fit], data.test)
    expected = evaluate(fit, sc.Part(data.test.logits[:], data.test.labels))
    assert_within(found.nll, expected.nll, float32_bound(16, 1.0 + np.abs(expected.nll)))
