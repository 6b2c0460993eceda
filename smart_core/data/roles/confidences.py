"""Tables of confidences: which vectors are the confidence of each prediction, and whether it is correct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smart_core.data.formats.raw import RawArray
from smart_core.data.roles.candidates import Candidate, could_be_labels, could_be_scores, is_vector
from smart_core.data.roles.names import CONFIDENCE_ROLES, words


def as_confidences(own: Sequence[Candidate]) -> list[Candidate] | None:
    """Return the candidates of one split with the roles of a set of confidences, or None if they are none.

    Such a set has no logits, but a vector named confidence (or one of scores), and either one that says whether the
    prediction is correct, or the true and the predicted labels.
    """
    if any(not is_vector(c.array) and c.role in (None, "logits") and could_be_scores(c.array) for c in own):
        return None
    vectors = [c for c in own if is_vector(c.array) and c.array.array is not None]
    correct, label = _first(vectors, "correct"), _first(vectors, "labels")
    named = [c for c in vectors if c.role == "logits"]
    scores = [c for c in named if could_be_scores(c.array) or (c.array.kind in "biuf" and not _names_classes(c))]
    confidence = _first(vectors, "confidence") or (scores[0] if scores else None)
    classes = [c for c in named if could_be_labels(c.array) and _names_classes(c) and c is not confidence]
    predicted = _first(vectors, "prediction") or (classes[0] if classes else None)
    if confidence is None or (correct is None and (label is None or predicted is None)):
        return None
    if correct is None and label is not None and predicted is not None and _of_class_1(confidence, label, predicted):
        return None
    known = {id(confidence): "confidence", id(correct): "correct", id(label): "labels", id(predicted): "prediction"}
    free = {None, "logits", "labels", *CONFIDENCE_ROLES}
    return [replace(c, role=known.get(id(c), None if c.role in free else c.role)) for c in own]


def without_confidences(own: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of one split for which these roles mean nothing: a lone confidence is a score."""
    scores = any(c.role == "logits" or (c.role is None and could_be_scores(c.array)) for c in own)
    roles = {"confidence": None if scores else "logits", "correct": None, "prediction": None}
    return [replace(c, role=roles[c.role]) if c.role in roles else c for c in own]


def _first(vectors: Sequence[Candidate], role: str) -> Candidate | None:
    return next((c for c in vectors if c.role == role), None)


def _names_classes(candidate: Candidate) -> bool:
    """Return whether integers under this name are more likely predicted classes than scores from 0 to 100."""
    path = candidate.array.path
    return bool({"pred", "preds", "prediction", "predictions", "output", "outputs"} & {*words(str(path[-1:]))})


def _of_class_1(confidence: Candidate, label: Candidate, predicted: Candidate) -> bool:
    """Return whether the scores are a binary classifier's probabilities of class 1: below 0.5 it predicts class 0."""
    p, classes = confidence.array.values.reshape(-1), predicted.array.values.reshape(-1)
    if confidence.array.kind not in "f" or not (_binary(predicted.array) and _binary(label.array)):
        return False
    return len(p) == len(classes) and bool(np.any(p < 0.5) and np.array_equal(p >= 0.5, classes == 1))


def _binary(item: RawArray) -> bool:
    return item.kind in "biuf" and bool(np.isin(item.values, (0, 1)).all())
