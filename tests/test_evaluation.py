"""The waist: an evaluation against the whole probability matrix, its memory, and the figures known for real logits."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import smart_core as sc
from smart_core import metrics
from smart_core.data.logitset import Part
from smart_core.errors import CalibrationError
from smart_core.evaluation import METRICS, evaluate
from tests.calibrators.checks import cifar10
from tests.calibrators.made_up import plain_ece, softmax
from tests.calibrators.problems import over_confident
from tests.calibrators.test_ts import scipy_temperature
from tests.conftest import ROOT
from tests.tolerance import PROBABILITY, binned_bound, moved_by_temperature


@pytest.mark.parametrize("id", ["ts", "matrix", "isotonic", "smart"])
def test_an_evaluation_equals_that_of_the_whole_matrix(id: str):
    problem = over_confident(3000, 7, seed=1)
    calibrator = sc.calibrators.get(id).fit(problem.logits[:500], problem.labels[:500])
    part = Part(problem.logits[500:], problem.labels[500:])
    judged = evaluate(calibrator, part)
    rows = calibrator.predict_proba(part.logits)
    confidence, correct = metrics.top_label(rows, part.labels)
    np.testing.assert_array_equal(judged.confidence, confidence)
    np.testing.assert_array_equal(judged.correct, correct)
    assert judged.metric("ece") == pytest.approx(metrics.ece(confidence, correct), abs=1e-12)
    assert judged.metric("cece") == pytest.approx(metrics.classwise_ece(rows, part.labels), abs=1e-9)
    assert judged.metric("brier") == pytest.approx(metrics.brier(rows, part.labels), abs=1e-6)
    assert judged.metric("nll") == pytest.approx(metrics.nll(rows, part.labels), abs=1e-5)
    assert (judged.temperature is not None) == (id in ("ts", "smart"))
    half = judged.subset(np.arange(len(part)) % 2 == 0)
    assert half.metric("ece") == pytest.approx(metrics.ece(confidence[::2], correct[::2]), abs=1e-12)
    assert np.isnan(half.metric("cece"))
    assert judged.metric("ece", bins=20) == pytest.approx(metrics.ece(confidence, correct, 20), abs=1e-12)
    with pytest.raises(CalibrationError, match="have 15 bins, not 20"):
        judged.metric("cece", bins=20)


def test_the_chunk_size_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    problem = over_confident(1000, 7, seed=2)
    calibrator = sc.TS().fit(problem.logits, problem.labels)
    part = Part(problem.logits, problem.labels)
    whole = evaluate(calibrator, part)
    monkeypatch.setattr("smart_core.device.CHUNK_ELEMENTS", 7 * 33)
    small = evaluate(calibrator, part)
    for name in METRICS:
        assert small.metric(name) == pytest.approx(whole.metric(name), abs=1e-7)


def test_a_label_far_below_the_top_has_a_finite_exact_nll():
    logits = np.array([[200.0, 0.0], [3.0, 1.0]], dtype=np.float32)
    judged = evaluate(sc.Vanilla().fit(logits, [0, 0]), Part(logits, np.array([1, 0])))
    np.testing.assert_allclose(judged.nll, [200.0, np.log1p(np.exp(-2.0))], rtol=1e-6)


def test_known_metrics_of_the_cifar10_model():
    """Uncalibrated and temperature-scaled, to four significant digits."""
    data = cifar10("published")
    known = {
        "vanilla": {"ece": 0.04354, "adaece": 0.043376, "cece": 0.009080, "nll": 0.41212, "smce": 0.043385},
        "ts": {"ece": 0.01373, "adaece": 0.021445, "cece": 0.004540, "nll": 0.20381, "smce": 0.013369},
    }
    for id, figures in known.items():
        calibrator = sc.calibrators.get(id).fit(data.validation.logits, data.validation.labels)
        judged = evaluate(calibrator, data.test)
        for name, value in figures.items():
            edges = binned_bound(judged.confidence, judged.correct, 15) if name == "ece" else 0.0
            assert judged.metric(name) == pytest.approx(value, rel=2e-4, abs=edges), (id, name)
        surrogate = metrics.charbonnier_soft_ece(judged.confidence, judged.correct)
        assert surrogate == pytest.approx({"vanilla": 0.042388, "ts": 0.012454}[id], rel=2e-4)


@pytest.mark.parametrize("id", ["vanilla", "ts"])
def test_metrics_of_the_bundled_cifar10_model_computed_independently(id: str):
    """SciPy's temperature, the softmax and a loop over the bins, all in float64."""
    data = cifar10("bundled")
    temperature = 1.0 if id == "vanilla" else scipy_temperature(data.validation.logits, data.validation.labels)
    judged = evaluate(sc.calibrators.get(id).fit(data.validation.logits, data.validation.labels), data.test)
    rows = softmax(data.test.logits.astype(np.float64) / temperature)
    confidence, correct = rows.max(axis=1), rows.argmax(axis=1) == data.test.labels
    off = PROBABILITY + float(moved_by_temperature(1e-5, 10))  # of two ways to the temperature
    ece = judged.metric("ece")
    assert ece == pytest.approx(plain_ece(confidence, correct), abs=binned_bound(confidence, correct, 15, off))
    assert judged.metric("brier") == pytest.approx(metrics.brier(rows, data.test.labels), abs=4 * off)
    assert judged.metric("nll") == pytest.approx(metrics.nll(rows, data.test.labels), rel=1e-5)
    assert judged.metric("accuracy") == correct.mean()


def test_the_plain_bootstrap_of_the_cifar10_model():
    """The percentile bootstrap of the temperature-scaled ECE is known: 1.08 to 1.77%."""
    data = cifar10("published")
    judged = evaluate(sc.TS().fit(data.validation.logits, data.validation.labels), data.test)
    generator = np.random.default_rng(0)
    chosen = (generator.integers(len(judged), size=len(judged)) for _ in range(1000))
    draws = [judged.subset(index).metric("ece") for index in chosen]
    low, high = np.quantile(draws, [0.025, 0.975])
    assert low == pytest.approx(0.0108, abs=0.0006)
    assert high == pytest.approx(0.0177, abs=0.0006)


MEMORY_SCRIPT = """
import resource, numpy as np, smart_core as sc
from smart_core.data.logitset import LogitSet, Part

def data(rows, classes):
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((rows, classes), dtype=np.float32)
    logits *= 2
    labels = rng.integers(0, classes, rows)
    logits[np.arange(rows), labels] += 6
    cut = rows // 10
    return LogitSet("made", Part(logits[:cut], labels[:cut]), Part(logits[cut:], labels[cut:]))

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def run(data):
    sc.compare(data, methods="vanilla,ts,vector,isotonic,smart", seeds=4, settings={"smart": {"epochs": 20}})

run(data(300, 5))  # what importing costs is not the comparison's
large = data(16_000, 1000)
before = peak()
run(large)
print(peak() - before)
"""


def test_comparing_keeps_no_matrix_per_method():
    """Eight evaluations of 14,400 x 1000: their matrices alone would be 440 MB beyond the logits."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT], capture_output=True, text=True, cwd=ROOT, timeout=240, check=True
    )
    assert float(done.stdout) < 300, done.stdout
