"""Temperature curves equal the temperatures that the calibrators give to samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr

import smart_core as sc
from smart_core.analysis.temperature_curve import temperature_curve
from smart_core.errors import CalibrationError
from smart_core.fitting.indicators import INDICATORS
from tests.calibrators.problems import over_confident

SCALARS = [name for name in INDICATORS if name != "all_logits"]


def labelled(n: int, seed: int) -> sc.Part:
    problem = over_confident(n, 5, seed=seed)
    return sc.Part(problem.logits, problem.labels)


@pytest.fixture(scope="module")
def validation() -> sc.Part:
    return labelled(600, 1)


@pytest.fixture(scope="module")
def test_part() -> sc.Part:
    return labelled(1000, 2)


def smart(validation: sc.Part, seed: int = 0, **settings) -> sc.SMART:
    return sc.SMART(seed=seed, epochs=30, **settings).fit(validation.logits, validation.labels)


@pytest.fixture(scope="module")
def seeds(validation: sc.Part) -> list[sc.SMART]:
    return [smart(validation, seed) for seed in (0, 1, 2)]


def logits_with_margin(values: np.ndarray, classes: int = 5) -> np.ndarray:
    """Rows whose margin is given and whose other logits lie far below."""
    rows = np.full((len(values), classes), -50.0, dtype=np.float32)
    rows[:, 2], rows[:, 4] = 0.0, -values
    return rows


def test_smarts_curve_equals_its_temperatures_at_that_margin(seeds, validation, test_part):
    curve = temperature_curve(seeds, test_part, points=40, validation=validation)
    assert curve.exact
    assert curve.temperature.shape == (3, 40)
    for calibrator, line in zip(seeds, curve.temperature, strict=True):
        np.testing.assert_allclose(line, calibrator.temperatures(logits_with_margin(curve.x)), rtol=1e-5)
    np.testing.assert_allclose(curve.mean, curve.temperature.mean(axis=0))
    np.testing.assert_allclose(curve.std, np.std(curve.temperature, axis=0, ddof=1))
    assert curve.std.max() > 0.0


def test_grid_density_and_support_come_from_the_margins(seeds, validation, test_part):
    def margins(part: sc.Part) -> np.ndarray:
        top = np.sort(part.logits.astype(np.float64), axis=1)
        return top[:, -1] - top[:, -2]

    curve = temperature_curve(seeds, test_part, validation=validation)
    ours, theirs = margins(test_part), margins(validation)
    both = np.concatenate([ours, theirs])
    assert (curve.x[0], curve.x[-1]) == (pytest.approx(both.min()), pytest.approx(both.max()))
    assert curve.count.sum() == 1000
    assert curve.count[0] == np.sum(ours < curve.edges[1])
    expected = [theirs.min(), *np.percentile(theirs, [1, 99]), theirs.max()]
    assert curve.support is not None
    np.testing.assert_allclose(list(vars(curve.support).values()), expected, rtol=1e-6)
    assert curve.outside == np.sum((ours < theirs.min()) | (ours > theirs.max()))
    np.testing.assert_array_equal(curve.supported, (curve.x >= curve.support.low) & (curve.x <= curve.support.high))


def test_r_is_pearsons_over_test_samples_for_each_seed(seeds, test_part):
    curve = temperature_curve(seeds, test_part)
    top = np.sort(test_part.logits.astype(np.float64), axis=1)
    margin = top[:, -1] - top[:, -2]
    expected = [pearsonr(margin, each.temperatures(test_part.logits))[0] for each in seeds]
    np.testing.assert_allclose(curve.pearson, expected, atol=1e-4)
    assert curve.r == pytest.approx(np.mean(expected), abs=1e-4)


@pytest.mark.parametrize("indicator", SCALARS)
def test_every_scalar_indicator_is_exact_for_its_own_map(indicator: str, validation: sc.Part, test_part: sc.Part):
    calibrator = smart(validation, indicator=indicator)
    curve = temperature_curve([calibrator], test_part, indicator, points=400)
    assert curve.exact
    from_the_curve = np.interp(
        INDICATORS[indicator].function(__import__("torch").from_numpy(test_part.logits)).numpy(), curve.x, curve.mean
    )
    np.testing.assert_allclose(from_the_curve, calibrator.temperatures(test_part.logits), rtol=0.02, atol=0.02)


def test_other_methods_are_averaged_in_bins_of_equal_size(validation, test_part):
    calibrator = sc.PTS(seed=0).fit(validation.logits, validation.labels)
    curve = temperature_curve([calibrator], test_part)
    assert not curve.exact
    assert len(curve.x) == 10  # a hundred samples a bin
    top = np.sort(test_part.logits.astype(np.float64), axis=1)
    margin = top[:, -1] - top[:, -2]
    given = calibrator.temperatures(test_part.logits).astype(np.float64)
    groups = np.split(np.argsort(margin), 10)
    np.testing.assert_allclose(curve.x, [margin[rows].mean() for rows in groups], rtol=1e-5)
    np.testing.assert_allclose(curve.mean, [given[rows].mean() for rows in groups], rtol=1e-5)
    np.testing.assert_allclose(curve.low, [np.percentile(given[rows], 10) for rows in groups], rtol=1e-5)
    np.testing.assert_allclose(curve.high, [np.percentile(given[rows], 90) for rows in groups], rtol=1e-5)


def test_smart_is_averaged_in_bins_of_another_indicator(seeds, test_part):
    curve = temperature_curve(seeds, test_part, "entropy")
    assert not curve.exact
    assert curve.low is not None


def test_one_temperature_for_all_has_no_correlation(validation, test_part):
    calibrator = sc.TS().fit(validation.logits, validation.labels)
    curve = temperature_curve([calibrator], test_part, validation=validation)
    assert np.isnan(curve.r)
    np.testing.assert_allclose(curve.mean, float(calibrator.temperatures(test_part.logits[:1])[0]), rtol=1e-6)


@pytest.mark.parametrize("rows", [[0], [0, 0, 0]])
def test_one_sample_and_equal_samples(seeds, test_part, rows: list[int]):
    few = test_part.subset(np.array(rows))
    curve = temperature_curve(seeds, few)
    assert np.isfinite(curve.mean).all()
    assert curve.count.sum() == len(rows)
    assert np.isnan(curve.r)


def test_calibrators_without_a_curve_are_an_error(seeds, validation, test_part):
    for calibrators, indicator, words in (
        (seeds, "all_logits", "not one number per sample"),
        (seeds, "hardness", "is not an indicator"),
        ([], "margin", "No calibrator"),
        ([sc.Histogram().fit(validation.logits, validation.labels)], "margin", "does not divide by a temperature"),
        ([*seeds, sc.TS().fit(validation.logits, validation.labels)], "margin", "one method; SMART and TS"),
        ([sc.SMART()], "margin", "not fitted"),
    ):
        with pytest.raises(CalibrationError, match=words):
            temperature_curve(calibrators, test_part, indicator)
    four = over_confident(20, 4, seed=3)
    with pytest.raises(CalibrationError, match="5 classes"):
        temperature_curve(seeds, sc.Part(four.logits, four.labels))
