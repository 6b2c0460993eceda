"""The estimator keeps scikit-learn's contract; what its checks cannot ask of logits is asked here on logits."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import calibration_curve
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from smart_core.calibrators import get
from smart_core.errors import CalibrationError
from smart_core.export import CalibratedLogits
from tests.calibrators.fits import ALL
from tests.calibrators.problems import over_confident

COLUMNS = "it fits two columns of X to three classes, and logits have a column for each class"
CANNOT_APPLY = {
    "check_estimators_overwrite_params": COLUMNS,
    "check_estimators_fit_returns_self": COLUMNS,
    "check_readonly_memmap_input": COLUMNS,
    "check_classifiers_classes": COLUMNS,
    "check_classifiers_train": f"{COLUMNS}; it also asks for accuracy on positions, which are not scores of classes",
}
"""scikit-learn's checks that cannot be made on logits, each with its reason."""

SMALL = {"smart": {"epochs": 30}, "pts": {}, "gc": {"partitions": 2, "steps": 20}}
LOGITS_ALONE = [id for id in ALL if id != "fc"]


@parametrize_with_checks(
    [CalibratedLogits("ts"), CalibratedLogits("isotonic"), CalibratedLogits("smart", settings=SMALL["smart"])]
)
def test_scikit_learns_own_checks(estimator: BaseEstimator, check: partial[None]) -> None:
    if check.func.__name__ in CANNOT_APPLY:
        pytest.xfail(CANNOT_APPLY[check.func.__name__])
    check(estimator)


@pytest.mark.parametrize("id", LOGITS_ALONE)
def test_every_method_as_the_engine_gives_it(id: str) -> None:
    """What the checks that cannot apply ask: fit returns self, takes read-only arrays, and leaves parameters alone."""
    fit_on, other = over_confident(300, 4, seed=1), over_confident(50, 4, seed=2)
    fit_on.logits.setflags(write=False)
    settings = SMALL.get(id, {})
    estimator = CalibratedLogits(id, settings=settings, seed=3)
    before = estimator.get_params()
    assert estimator.fit(fit_on.logits, fit_on.labels) is estimator
    assert estimator.get_params() == before
    expected = get(id, seed=3, **settings).fit(fit_on.logits, fit_on.labels).predict_proba(other.logits)
    np.testing.assert_array_equal(estimator.predict_proba(other.logits), expected)
    np.testing.assert_array_equal(estimator.predict(other.logits), expected.argmax(axis=1))
    np.testing.assert_array_equal(
        clone(estimator).fit(fit_on.logits, fit_on.labels).predict_proba(other.logits), expected
    )
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).predict_proba(other.logits), expected)


def test_labels_are_columns_or_one_kind_a_column() -> None:
    fit_on = over_confident(300, 3, seed=1)
    plain = CalibratedLogits("ts").fit(fit_on.logits, fit_on.labels)
    animals = np.array(["cat", "dog", "eel"])
    named = CalibratedLogits("ts").fit(fit_on.logits, animals[fit_on.labels])
    assert list(named.classes_) == ["cat", "dog", "eel"]
    np.testing.assert_array_equal(named.predict(fit_on.logits), animals[plain.predict(fit_on.logits)])
    np.testing.assert_array_equal(named.predict_proba(fit_on.logits), plain.predict_proba(fit_on.logits))
    spread_out = CalibratedLogits("ts").fit(fit_on.logits, np.array([-5, 7, 100])[fit_on.labels])
    assert list(spread_out.classes_) == [-5, 7, 100]
    absent = fit_on.labels % 2  # the third column's class was never seen
    assert list(CalibratedLogits("ts").fit(fit_on.logits, absent).classes_) == [0, 1, 2]


def test_wrong_input_is_one_sentence() -> None:
    fit_on = over_confident(300, 3, seed=1)
    with pytest.raises(ValueError, match="3 columns of logits, one per class, and the labels hold 4 classes"):
        CalibratedLogits("ts").fit(fit_on.logits, np.arange(300) % 4)
    with pytest.raises(ValueError, match="one class only, 2"):
        CalibratedLogits("ts").fit(fit_on.logits, np.full(300, 2))
    with pytest.raises(ValueError, match="NaN"):
        CalibratedLogits("ts").fit(np.where(fit_on.logits > 2, np.nan, fit_on.logits), fit_on.labels)
    with pytest.raises(NotFittedError):
        CalibratedLogits("ts").predict(fit_on.logits)
    with pytest.raises(CalibrationError, match="no method 'nothing'"):
        CalibratedLogits("nothing").fit(fit_on.logits, fit_on.labels)


def test_a_search_over_methods_and_settings_lowers_the_loss() -> None:
    fit_on = over_confident(600, 4, seed=1)
    grid = {"method": ["vanilla", "ts"]}
    search = GridSearchCV(CalibratedLogits(), grid, scoring="neg_log_loss", cv=3).fit(fit_on.logits, fit_on.labels)
    assert search.best_params_ == {"method": "ts"}  # the labels were drawn at T = 2.5
    halved = make_pipeline(FunctionTransformer(lambda z: z / 2), CalibratedLogits("ts"))
    halved.fit(fit_on.logits, fit_on.labels)  # half the logits at half the temperature
    np.testing.assert_allclose(halved.predict_proba(fit_on.logits), search.predict_proba(fit_on.logits), atol=1e-5)
    confidence = search.predict_proba(fit_on.logits).max(axis=1)
    truth, claimed = calibration_curve(search.predict(fit_on.logits) == fit_on.labels, confidence, n_bins=4)
    assert np.abs(truth - claimed).max() < 0.15


def test_from_a_fitted_calibrator() -> None:
    fit_on = over_confident(300, 4, seed=1)
    calibrator = get("smart", epochs=20, seed=4).fit(fit_on.logits, fit_on.labels)
    estimator = CalibratedLogits.of(calibrator)
    expected = calibrator.predict_proba(fit_on.logits)
    np.testing.assert_array_equal(estimator.predict_proba(fit_on.logits), expected)
    again = clone(estimator).fit(fit_on.logits, fit_on.labels)
    np.testing.assert_array_equal(again.predict_proba(fit_on.logits), expected)
    with pytest.raises(ValueError, match="fitted with features"):
        CalibratedLogits.of(
            get("gc", partitions=2, steps=5).fit(fit_on.logits, fit_on.labels, features=fit_on.features)
        )
