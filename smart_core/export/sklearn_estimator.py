"""Every calibrator as a scikit-learn classifier of logits, for pipelines, searches and cross-validation."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from smart_core.calibrators import Calibrator, get
from smart_core.export import check_exportable, feature_width

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before scikit-learn 1.6 it is a method
    validate_data = BaseEstimator._validate_data


class CalibratedLogits(ClassifierMixin, BaseEstimator):
    """A calibrator by its id: X are logits (N, K), one column per class; y are labels.

    Labels are column numbers 0..K-1, of which some may be missing; or K different labels of any kind, whose sorted
    order is that of the columns.

    Parameters
    ----------
    method : str
        Id of the calibrator, such as "smart", "ts" or "isotonic".
    settings : dict or None
        Its settings by name; None for the defaults.
    seed : int
        Seed of every random choice.
    device : str
        Where to compute: auto, cuda, mps or cpu.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The label of each column.
    calibrator_ : Calibrator
        The fitted calibrator.
    n_features_in_ : int
        K.
    """

    def __init__(
        self, method: str = "smart", *, settings: dict[str, Any] | None = None, seed: int = 0, device: str = "auto"
    ) -> None:
        self.method = method
        self.settings = settings
        self.seed = seed
        self.device = device

    @classmethod
    def of(cls, calibrator: Calibrator) -> Self:
        """A fitted estimator from a calibrator that was fitted on logits alone."""
        check_exportable(calibrator)
        if feature_width(calibrator) is not None:
            raise ValueError(f"{calibrator.label} was fitted with features; an estimator has logits alone.")
        if calibrator.classes_ == 0:
            raise ValueError(f"{calibrator.label} was fitted on confidences; an estimator reads logits.")
        settings = calibrator.settings_dict()
        seed, device = settings.pop("seed"), settings.pop("device")
        found = cls(calibrator.id, settings=settings, seed=seed, device=device)
        found.calibrator_ = calibrator
        found.n_features_in_ = calibrator.classes_
        found.classes_ = np.arange(calibrator.classes_)
        return found

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from validation logits and labels."""
        logits, labels = validate_data(self, X, y, dtype=np.float32, ensure_min_features=2)
        check_classification_targets(labels)
        self.classes_ = _labels_of_columns(labels, logits.shape[1])
        columns = np.searchsorted(self.classes_, labels)
        calibrator = get(self.method, **{"seed": self.seed, "device": self.device, **(self.settings or {})})
        self.calibrator_ = calibrator.fit(logits, columns)
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """Calibrated probabilities (N, K)."""
        check_is_fitted(self)
        logits = validate_data(self, X, dtype=np.float32, reset=False)
        return np.asarray(self.calibrator_.predict_proba(logits))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of the largest probability."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])


def _labels_of_columns(labels: NDArray[Any], columns: int) -> NDArray[Any]:
    """The label that each column of logits stands for."""
    known = np.unique(labels)
    if len(known) < 2:
        raise ValueError(f"The labels hold one class only, {known.tolist()[0]!r}; a calibrator needs at least two.")
    if known.dtype.kind in "iuf" and np.isin(known, np.arange(columns)).all():
        return np.arange(columns, dtype=known.dtype)
    if len(known) == columns:
        return known
    raise ValueError(
        f"X has {columns} columns of logits, one per class, and the labels hold {len(known)} classes that are not "
        f"column numbers below {columns}; give one column for each class."
    )
