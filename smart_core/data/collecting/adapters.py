"""Sets from what other libraries return: scikit-learn and boosted trees, and the predictions of a Trainer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from smart_core.data.document import from_arrays
from smart_core.data.logitset import LogitSet
from smart_core.errors import CollectError
from smart_core.formatting import plural, printable, shape_text

Scores = NDArray[Any]

SAME_SOFTMAX = 1e-4
"""How far the softmax of raw margins may be from `predict_proba` for the margins to be its logits."""


def from_sklearn(
    estimator: Any, X_val: Any, y_val: Any, X_test: Any, y_test: Any, *, name: str | None = None
) -> LogitSet:
    """Return the set of a fitted classifier on validation and test rows that it was not trained on.

    Boosters of XGBoost, LightGBM and CatBoost give their raw margins; a scikit-learn classifier its decision function
    if the softmax of that is `predict_proba`, else the logarithm of `predict_proba`.

    >>> import smart_core as sc
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression().fit(X[::3], y[::3])
    >>> sc.from_sklearn(model, X[1::3], y[1::3], X[2::3], y[2::3])
    LogitSet('LogisticRegression', 3 classes, 50 + 50 samples)
    """
    classes = getattr(estimator, "classes_", None)
    scores = {split: _two_columns(_scores(estimator, X)) for split, X in (("val", X_val), ("test", X_test))}
    width = scores["val"].shape[1]
    known = np.arange(width) if classes is None else np.asarray(classes)
    if len(known) != width:
        raise CollectError(f"The estimator has {len(known)} classes and gives {width} scores per row")
    labels = {split: _codes(y, known) for split, y in (("val", y_val), ("test", y_test))}
    named = None if known.dtype.kind in "iufb" else [str(each) for each in known]
    return from_arrays(
        name or type(estimator).__name__,
        val_logits=scores["val"],
        val_labels=labels["val"],
        test_logits=scores["test"],
        test_labels=labels["test"],
        class_names=named,
        values="logits",
        labels_start_at=0,
    )


def from_predictions(
    validation: Any, test: Any, *, class_names: Iterable[str] | None = None, name: str = "predictions"
) -> LogitSet:
    """Return the set of two predictions, as `Trainer.predict` of transformers returns them.

    Each has `predictions` (logits, or a tuple that begins with them) and `label_ids`, or is a pair (logits, labels).

    >>> import numpy as np, smart_core as sc
    >>> logits, labels = np.eye(3)[[0, 1, 2, 1]] * 4, [0, 1, 2, 2]
    >>> sc.from_predictions((logits, labels), (logits, labels))
    LogitSet('predictions', 3 classes, 4 + 4 samples)
    """
    (val_logits, val_labels), (test_logits, test_labels) = (_prediction(each) for each in (validation, test))
    return from_arrays(
        name,
        val_logits=val_logits,
        val_labels=val_labels,
        test_logits=test_logits,
        test_labels=test_labels,
        class_names=None if class_names is None else [str(each) for each in class_names],
    )


def _scores(estimator: Any, X: Any) -> Scores:
    library = type(estimator).__module__.split(".")[0]
    if library == "xgboost":
        if type(estimator).__name__ == "Booster":
            import xgboost

            X = X if isinstance(X, xgboost.DMatrix) else xgboost.DMatrix(X)
        return np.asarray(estimator.predict(X, output_margin=True))
    if library == "lightgbm":
        return np.asarray(estimator.predict(X, raw_score=True))
    if library == "catboost":
        return np.asarray(estimator.predict(X, prediction_type="RawFormulaVal"))
    margins = np.asarray(estimator.decision_function(X)) if hasattr(estimator, "decision_function") else None
    if not hasattr(estimator, "predict_proba"):
        if margins is None:
            kind = type(estimator).__name__
            raise CollectError(f"{kind} has neither predict_proba nor decision_function", "give a fitted classifier")
        return margins
    probabilities = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    if margins is not None and _softmax_is(_two_columns(margins), probabilities):
        return margins
    tiny = np.finfo(np.float32).tiny
    return np.log(np.maximum(probabilities, tiny))


def _softmax_is(margins: Scores, probabilities: Scores) -> bool:
    if margins.shape != probabilities.shape:
        return False
    return bool(np.abs(softmax(margins, axis=1) - probabilities).max(initial=0.0) <= SAME_SOFTMAX)


def _two_columns(scores: Scores) -> Scores:
    """Return (n, K) scores; one score per row is the logit of class 1 of 2."""
    if scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] == 1):
        column = scores.reshape(-1)
        return np.stack([np.zeros_like(column), column], axis=1)
    if scores.ndim != 2:
        raise CollectError(f"The estimator gives scores of shape {shape_text(scores.shape)}, not one row per sample")
    return scores


def _codes(labels: Any, classes: Scores) -> NDArray[np.int64]:
    """Return labels as positions among the estimator's classes."""
    values = np.asarray(labels).reshape(-1)
    order = np.argsort(classes, kind="stable")
    place = np.clip(np.searchsorted(classes[order], values), 0, len(classes) - 1)
    odd = classes[order][place] != values
    if odd.any():
        first, count = printable(str(values[odd][0])), plural(int(odd.sum()), "row")
        raise CollectError(f"{count} have labels that the estimator does not know, such as {first}", "drop these rows")
    return order[place].astype(np.int64)


def _prediction(output: Any) -> tuple[Any, Any]:
    if hasattr(output, "predictions") and hasattr(output, "label_ids"):
        logits, labels = output.predictions, output.label_ids
    elif isinstance(output, tuple | list) and len(output) >= 2:
        logits, labels = output[0], output[1]
    else:
        kind = type(output).__name__
        raise CollectError(f"A prediction is a {kind}", "give what Trainer.predict returns, or a pair (logits, labels)")
    if isinstance(logits, tuple | list) and logits and getattr(logits[0], "ndim", 1) == 2:
        logits = logits[0]
    if labels is None:
        raise CollectError("The predictions have no labels", "predict on a data set with a column of labels")
    return logits, labels
