"""One pass over shards gives the evaluations of the same rows in memory, the same bits however the work is shared."""

from __future__ import annotations

import json

import numpy as np
import pytest

import smart_core as sc
from smart_core.data.lazy.rows import LazyPart
from smart_core.evaluation import evaluate
from smart_core.experiments import method_result, streaming
from smart_core.experiments.executors import scheduler
from smart_core.experiments.streaming import evaluate_all, passes
from smart_core.metrics.summed import SummedEvaluation
from tests.lazy.shards import LABELS, LOGITS, write
from tests.lazy.test_compiled_rows import assert_same_evaluation

VECTORS = ("confidence", "prediction", "correct", "nll", "brier", "margin")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> sc.LogitSet:
    return sc.open(write(tmp_path_factory.mktemp("shards") / "resnet"))


@pytest.fixture(scope="module")
def whole() -> sc.LogitSet:
    return sc.data.from_arrays(logits=LOGITS, labels=LABELS)


@pytest.fixture(autouse=True)
def _many_ranges(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("smart_core.data.lazy.rows.RANGE_LOGITS", 7 * 64)
    monkeypatch.setattr("smart_core.device.CHUNK_ELEMENTS", 7 * 32)


def ready(part: sc.Part) -> list[sc.calibrators.Calibrator]:
    return [sc.calibrators.get(id).fit_part(part) for id in ("vanilla", "ts", "smart", "isotonic", "vector")]


def count_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with every pass over the shards."""
    read, run = [], streaming.in_order
    monkeypatch.setattr(streaming, "in_order", lambda *args: read.append(1) or run(*args))
    return read


def count_fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows by the method of every fit."""
    fitted, fit = [], method_result.fit_method
    monkeypatch.setattr(method_result, "fit_method", lambda id, *args, **kw: fitted.append(id) or fit(id, *args, **kw))
    return fitted


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_pass_is_exact_for_any_number_of_workers(data: sc.LogitSet, whole: sc.LogitSet, workers: int):
    fits = ready(whole.validation)
    with scheduler("threads", workers):
        found = evaluate_all(fits, data.test)
        alone = streaming._range(fits, 15, False, data.test)
    for fit, evaluation, one_range in zip(fits, found, alone, strict=True):
        for name in VECTORS:
            np.testing.assert_array_equal(getattr(evaluation, name), getattr(one_range, name), err_msg=fit.label)
        assert_same_evaluation(fit, evaluation, evaluate(fit, whole.test), whole.test.logits)


def test_a_method_that_fails_costs_no_other(data: sc.LogitSet):
    broken = sc.TS().fit_part(data.validation)
    broken.classes_ = 9
    good, bad = evaluate_all([sc.Vanilla().fit_part(data.validation), broken], data.test)
    assert isinstance(good, sc.Evaluation)
    assert isinstance(bad, sc.CalibrationError)


def test_a_worker_gets_paths_and_its_own_rows_only(data: sc.LogitSet):
    part = data.test.span(300, 320)
    assert isinstance(part, LazyPart)
    assert len(part.rows.shards) == 1
    assert part.rows.shards[0].rows < 100
    np.testing.assert_array_equal(part.logits[:], data.test.logits[300:320])
    np.testing.assert_array_equal(part.labels, data.test.labels[300:320])


def test_compare_equals_compare_in_memory(data: sc.LogitSet, whole: sc.LogitSet):
    methods = "vanilla,ts,smart,isotonic,fc"
    lazy, memory = (sc.compare(each, methods, seeds=1) for each in (data, whole))
    assert lazy.best == memory.best
    assert lazy.recommended == memory.recommended
    assert not lazy.results["fc"].available
    for id, row in memory.available.items():
        other = lazy.results[id]
        for metric in ("ece", "adaece", "cece", "nll", "brier", "smce", "smece", "accuracy", "aurc"):
            # a last bit can swap two samples in the order of their confidences
            most = 1e-4 if metric == "aurc" else 1e-6
            assert other.values[metric] == pytest.approx(row.values[metric], abs=most), (id, metric)
            if metric not in ("aurc", "cece"):  # ends are quantiles of 1000 simulated sets, which rounding may change
                width = np.ptp(row.ends(metric))
                assert other.ends(metric) == pytest.approx(row.ends(metric), abs=1e-6 + 0.1 * width), (id, metric)
        assert "No interval of cwECE" in " ".join(other.notices)


def test_very_many_rows_are_compared_by_sums(data: sc.LogitSet, whole: sc.LogitSet, monkeypatch: pytest.MonkeyPatch):
    memory = sc.compare(whole, "vanilla,ts,vector", seeds=1)
    monkeypatch.setattr(streaming, "SUMMED_ABOVE", len(data.test))  # one method alone would have vectors
    read, fitted, cache = count_passes(monkeypatch), count_fits(monkeypatch), {}
    found = sc.compare(data, "vanilla,ts,vector", seeds=1, cache=cache)
    assert (len(read), sorted(fitted)) == (1, ["ts", "vanilla", "vector"])
    assert sc.compare(data, "vanilla,ts,vector", seeds=1, cache=cache).best == found.best
    assert (len(read), len(fitted)) == (1, 3)
    assert found.best == memory.best
    for id, row in memory.available.items():
        other = found.results[id]
        (evaluation,) = other.evaluations
        assert isinstance(evaluation, SummedEvaluation)
        for metric in ("ece", "adaece", "cece", "nll", "brier", "accuracy", "smce", "smece"):
            bound = evaluation.smooth_error_bound(metric) if metric in ("smce", "smece") else 0.0
            assert other.values[metric] == pytest.approx(row.values[metric], abs=1e-6 + bound), (id, metric)
            if metric != "cece":
                width = np.ptp(row.ends(metric))
                assert other.ends(metric) == pytest.approx(row.ends(metric), abs=1e-6 + 0.1 * width), (id, metric)
        assert np.isnan(other.mean("aurc"))
    assert "keeps sums" in " ".join(found.notices)
    assert json.dumps(found.to_dict())
    made = sc.benchmark({"lazy": data, "memory": whole}, "vanilla,ts", seeds=1)
    one, other = (made.cells[name]["ts"].values["adaece"] for name in ("lazy", "memory"))
    assert one == pytest.approx(other, abs=1e-6)
    grid = sc.sensitivity(data, sigmas=[0.05, 0.5], deltas=[0.001], seeds=1, settings={"epochs": 5})
    assert np.isfinite(grid.mean("nll")).all()


def test_sums_over_other_bins_are_evaluated_again(data: sc.LogitSet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streaming, "SUMMED_ABOVE", 0)
    for module in (streaming, method_result):  # no classwise sums, which have their own number of bins
        monkeypatch.setattr(module, "CLASSWISE_UP_TO", 0)
    cache = {}
    sc.compare(data, "vanilla,ts", seeds=1, cache=cache)
    found = sc.compare(data, "vanilla,ts", seeds=1, bins=10, cache=cache).results["ts"]
    assert found.mean("ece") == sc.compare(data, "vanilla,ts", seeds=1, bins=10).results["ts"].mean("ece")


def test_compare_reads_the_shards_once_for_all_methods(data: sc.LogitSet, monkeypatch: pytest.MonkeyPatch):
    read = count_passes(monkeypatch)
    sc.compare(data, "ts,isotonic", seeds=1)
    assert len(read) == 1


def test_sensitivity_and_benchmark_take_lazy_sets(data: sc.LogitSet, whole: sc.LogitSet):
    grid = {"sigmas": [0.05, 0.5], "deltas": [0.001], "seeds": 2, "settings": {"epochs": 20}}
    lazy, memory = sc.sensitivity(data, **grid), sc.sensitivity(whole, **grid)
    # the study in memory evaluates by compiled loops, whose sums are ordered otherwise
    np.testing.assert_allclose(lazy.mean("nll"), memory.mean("nll"), rtol=1e-5)
    np.testing.assert_allclose(lazy.mean("ece"), memory.mean("ece"), atol=1e-5)
    made = sc.benchmark({"lazy": data, "memory": whole}, "vanilla,ts", seeds=1, splits=2)
    for id in ("vanilla", "ts"):
        assert made.cells["lazy"][id].values["nll"] == pytest.approx(made.cells["memory"][id].values["nll"], rel=1e-6)


def test_few_evaluations_share_a_pass_where_rows_are_many(data: sc.LogitSet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streaming, "VECTORS_BYTES", 2 * streaming.BYTES_PER_SAMPLE * len(data.test))
    fits = ready(data.validation)
    assert [len(fits[rows]) for rows in passes(fits, data.test)] == [2, 2, 1]


def test_a_pass_can_be_cancelled(data: sc.LogitSet):
    class Soon:
        left = 3

        def is_set(self) -> bool:
            self.left -= 1
            return self.left < 0

    from smart_core.progress import Run

    with pytest.raises(sc.Cancelled):
        evaluate_all(ready(data.validation), data.test, run=Run(cancel=Soon()))


def test_an_unknown_scheduler_is_one_sentence():
    with pytest.raises(sc.SmartError, match="there is no scheduler 'slurm'"), scheduler("slurm"):
        pass
