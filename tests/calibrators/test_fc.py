"""FC against a plain loop over all thresholds, and on networks whose head is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import sample_logits
import smart_core as sc
from smart_core.calibrators.fc import FC, ClipSearch
from smart_core.errors import CalibrationError
from smart_core.metrics import ece
from smart_core.progress import Run
from tests.calibrators.checks import CIFAR10, assert_proper_rows, assert_same_bits_after_saving
from tests.calibrators.made_up import Sample, degenerate, network, plain_ece, softmax
from tests.conftest import real_data
from tests.tolerance import PROBABILITY, binned_bound, float32_bound

DEGENERATE = degenerate()
GRID = 0.01 * np.arange(1, 2001)


def fit(sample: Sample, search: str = "auto") -> FC:
    calibrator = FC(search=search, device="cpu")
    return calibrator.fit(sample.logits, sample.labels, features=sample.features, head=sample.head)


def clipped(sample: Sample, c: float) -> NDArray[np.float64]:
    """softmax(W clip(x) + b), in float64."""
    wide = np.clip(sample.features.astype(np.float64), -c, c)
    return softmax(wide @ sample.weight.T.astype(np.float64) + sample.bias)


def judge(sample: Sample, c: float) -> tuple[float, float]:
    q = clipped(sample, c)
    hit = q.argmax(axis=1) == sample.labels
    return plain_ece(q.max(axis=1), hit), float(hit.mean())


def rounding(sample: Sample, c: float) -> float:
    """How far the error may be off in float32: a clipped logit is a sum over the features."""
    q = clipped(sample, c)
    largest = (np.abs(np.clip(sample.features, -c, c)) @ np.abs(sample.weight.T)).max()
    off = PROBABILITY + float32_bound(np.sqrt(sample.features.shape[1]), largest)
    return binned_bound(q.max(axis=1), q.argmax(axis=1) == sample.labels, 15, off)


@pytest.mark.parametrize(("count", "classes", "seed"), [(120, 3, 0), (200, 5, 1), (150, 2, 2)])
def test_full_search_is_the_plain_loop(count: int, classes: int, seed: int) -> None:
    sample = network(count, classes, seed=seed)
    accuracy = float((sample.logits.argmax(axis=1) == sample.labels).mean())
    judged = [(*judge(sample, c), c) for c in GRID]
    (least, _, best), (next_best, _, other), *_ = sorted(one for one in judged if one[1] > 0.99 * accuracy)
    assert next_best - least > rounding(sample, best) + rounding(sample, other), "a tie; take another seed"
    found = float(fit(sample, "full").clip_)
    assert best < np.abs(sample.features).max()  # some clipping helps
    assert found == pytest.approx(best, rel=1e-6)


def test_probabilities_go_through_the_clipped_head() -> None:
    whole = network(240, 5, seed=1)
    seen, new = (
        Sample(whole.logits[rows], whole.labels[rows], whole.features[rows], whole.weight, whole.bias)
        for rows in (slice(0, 200), slice(200, 240))
    )
    fitted = fit(seen)
    assert float(fitted.clip_) < new.features.max()
    expected = clipped(new, float(fitted.clip_))
    np.testing.assert_allclose(fitted.predict_proba(new.logits, features=new.features), expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_coarse_search_comes_close_on_random_networks(seed: int) -> None:
    sample = network(1000, 6, seed=seed + 10)
    full, coarse = (judge(sample, float(fit(sample, search).clip_))[0] for search in ("full", "coarse"))
    assert full <= coarse + 1e-6
    assert coarse < full + 0.004


def real_network(which: str) -> tuple[Sample, sc.Part]:
    """3000 rows to fit on, with features and head, and the others to judge."""
    if which == "published":
        data = sc.load(real_data("cifar10_resnet20_test.npz"), val_fraction=0.3)
    else:
        data = sc.load(sample_logits.path("cifar10"))
    part, head = data.validation.subset(np.arange(3000)), data.head
    return Sample(part.logits, part.labels, part.features, head.weight, head.bias), data.test


@pytest.mark.parametrize("which", CIFAR10)
def test_coarse_search_comes_close_on_a_real_network(which: str) -> None:
    sample, test = real_network(which)
    full, coarse = fit(sample, "full"), fit(sample, "coarse")
    assert judge(sample, float(coarse.clip_))[0] < judge(sample, float(full.clip_))[0] + 0.001
    q = full.predict_proba(test.logits, features=test.features)
    hit = q.argmax(axis=1) == test.labels
    plain = softmax(test.logits)
    assert ece(q.max(axis=1), hit) < 0.5 * ece(plain.max(axis=1), plain.argmax(axis=1) == test.labels)
    assert hit.mean() > 0.98 * (plain.argmax(axis=1) == test.labels).mean()


def test_coarse_search_on_many_classes() -> None:
    file = np.load(real_data("imagenet5k_efficientnet_lite0.npz"))
    rows = np.random.default_rng(0).permutation(5000)[:200]
    x = file["features"][rows].astype(np.float32)
    head = file["head_weight"], file["head_bias"]
    sample = Sample(file["logits"][rows], file["labels"][rows], x, *head)
    coarse = fit(sample, "coarse")
    original = float((sample.logits.argmax(axis=1) == sample.labels).mean())
    judged = [judge(sample, c) for c in np.arange(0.5, 6.0, 0.5)]
    allowed = [error for error, kept in judged if kept > 0.99 * original]
    assert judge(sample, float(coarse.clip_))[0] < min(allowed) + 0.003


def test_untouched_rows_are_not_computed_again_and_nothing_changes() -> None:
    sample = network(200, 4, seed=3)
    arrays = (sample.features, sample.labels, sample.weight, sample.bias)
    search = ClipSearch(*(torch.from_numpy(array) for array in arrays), 15, Run())
    for number in (1, 57, 150, 400, 1999, 2000):
        error, hits = search._at(number)
        expected, accuracy = judge(sample, 0.01 * number)
        assert error == pytest.approx(expected, abs=rounding(sample, 0.01 * number))
        assert hits == round(accuracy * 200)


def test_where_every_threshold_costs_too_much_nothing_is_clipped() -> None:
    # rows that are all alike once clipped at 20
    features = np.array([[100.0, 200.0], [200.0, 100.0]] * 20, dtype=np.float32)
    labels = np.array([1, 0] * 20)
    sample = Sample(features, labels, features, np.eye(2, dtype=np.float32), np.zeros(2, dtype=np.float32))
    fitted = fit(sample, "coarse")
    assert float(fitted.clip_) == np.inf
    assert any("not clipped" in notice for notice in fitted.notices_)
    without_features = fitted.predict_proba(features)
    np.testing.assert_allclose(without_features, softmax(features), atol=1e-6)


@pytest.mark.parametrize("sample", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_degenerate_sets_give_proper_rows(sample: Sample) -> None:
    q = fit(sample, "coarse").predict_proba(sample.logits, features=sample.features)
    assert_proper_rows(q)


def test_what_does_not_fit_together_is_refused_in_a_sentence() -> None:
    sample = network(50, 3)
    given = {"features": sample.features, "head": sample.head}
    wrong: list[tuple[str, dict[str, object]]] = [
        ("needs features and head", {"features": None, "head": None}),
        ("the head must be", {**given, "head": (sample.weight[:, :5], sample.bias)}),
        ("features hold NaN", {**given, "features": np.full_like(sample.features, np.nan)}),
        ("head holds NaN", {**given, "head": (sample.weight, np.full_like(sample.bias, np.inf))}),
    ]
    for words, arrays in wrong:
        with pytest.raises(CalibrationError, match=words):
            FC(device="cpu").fit(sample.logits, sample.labels, **arrays)


def test_a_saved_calibrator_gives_the_same_bits() -> None:
    sample = network(100, 3)
    assert_same_bits_after_saving(fit(sample), sample)
