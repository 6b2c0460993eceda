"""Tables of confidences: which vectors are the confidence of each prediction, and whether it is correct."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smart_core.data.formats.raw import RawArray
from smart_core.data.roles.candidates import Candidate, could_be_labels, could_be_scores, is_vector
from smart_core.data.roles.names import CONFIDENCE_ROLES, preference, words

TRUE_WORDS = (
    *("1", "1.0", "true", "t", "yes", "y", "tp"),
    *("correct", "right", "hit", "pass", "passed", "match", "success"),
)
FALSE_WORDS = (
    *("0", "0.0", "false", "f", "no", "n", "fp"),
    *("incorrect", "wrong", "miss", "fail", "failed", "failure"),
)
_OUTCOMES = {"result", "outcome", "verdict", "status", "grade", "judgement", "judgment", "match", "success", "passed"}
_ANSWERS = {"answer", "answers", "response", "guess"}
_EITHER = {"label", "labels", *_ANSWERS}
_TRUE = {"true", "truth", "gt", "groundtruth", "ytrue", "gold", "actual", "expected", "reference", "correct"}


def as_confidences(own: Sequence[Candidate]) -> list[Candidate] | None:
    """Return the candidates of one split with the roles of a set of confidences, or None if they are none.

    Such a set has no logits, but a vector named confidence (or one of scores), and either one that says whether the
    prediction is correct, or the true and the predicted labels. A matrix without a name that says logits may be beside
    them, such as the boxes of a detector, if no array is named as labels.
    """
    matrices = {c.role for c in own if not is_vector(c.array) and could_be_scores(c.array)}
    if "logits" in matrices:
        return None
    vectors = [c for c in own if is_vector(c.array) and c.array.array is not None]
    correct, label = _best(vectors, "correct"), _best(vectors, "labels")
    if None in matrices and (label or not correct):
        return None
    if correct and label and _name(label[0]) in _ANSWERS:
        label = []  # whose answer it is, the name does not say
    named = [c for c in vectors if c.role == "logits"]
    scores = [c for c in named if could_be_scores(c.array) or (c.array.kind in "biuf" and not _names_classes(c))]
    confidence = _best(vectors, "confidence") or scores[:1] or (_shares(vectors) if correct else [])
    classes = [c for c in named if could_be_labels(c.array) and _names_classes(c) and c not in confidence]
    predicted = _best(vectors, "prediction") or classes[:1]
    if not correct and not (label and predicted):
        correct, label, predicted = _loosely(vectors, label, predicted)
    if not confidence or not (correct or (label and predicted)):
        return None
    if not correct and _of_class_1(confidence[0], label[0], predicted[0]):
        return None
    roles = {"confidence": confidence, "correct": correct, "labels": label, "prediction": predicted}
    known = {id(c): role for role, found in roles.items() for c in found}
    free = {None, "logits", "labels", *CONFIDENCE_ROLES}
    return [replace(c, role=known.get(id(c), None if c.role in free else c.role)) for c in own]


def without_confidences(own: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of one split for which these roles mean nothing: a lone confidence is a score."""
    scores = any(c.role == "logits" or (c.role is None and could_be_scores(c.array)) for c in own)
    roles = {"confidence": None if scores else "logits", "correct": None, "prediction": None}
    return [replace(c, role=roles[c.role]) if c.role in roles else c for c in own]


def _best(vectors: Sequence[Candidate], role: str) -> list[Candidate]:
    """Return the candidate of a role with the most usual name; several if that does not decide."""
    ranked = [((preference(name := _name(c)), len(words(name))), c) for c in vectors if c.role == role]
    best = min((rank for rank, _ in ranked), default=None)
    return [c for rank, c in ranked if rank == best]


def _shares(vectors: Sequence[Candidate]) -> list[Candidate]:
    """Return the only vector of numbers from 0 to 1, none of them whole, whose name says nothing."""
    likely = [c for c in vectors if c.role is None and c.array.kind == "f" and could_be_scores(c.array)]
    inside = [c for c in likely if np.all((c.array.values >= 0) & (c.array.values <= 1))]
    return inside if len(inside) == 1 else []


def _loosely(
    vectors: Sequence[Candidate], label: list[Candidate], predicted: list[Candidate]
) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
    """Return (correct, label, predicted) by names that mean more than one thing elsewhere, and by what they hold.

    An outcome may be called result or status if it holds nothing but words such as pass and fail. Beside labels that
    are named as true, those named label or answer are the predicted ones; beside predicted labels, the true ones.
    """
    outcome = [c for c in vectors if c.role is None and _name(c) in _OUTCOMES and _is_outcome(c.array)]
    if len(outcome) == 1:
        return outcome, label, predicted
    true = [c for c in vectors if c.role == "labels" and _TRUE & {*words(_name(c))}]
    other = [c for c in vectors if _name(c) in _EITHER and could_be_labels(c.array)]
    if len(other) == 1 and true and not predicted:
        return [], true[:1], other
    if len(other) == 1 and predicted and not label:
        return [], other, predicted
    return [], label, predicted


def _name(candidate: Candidate) -> str:
    """Return the name of the array in lower case."""
    return "_".join(words(str(candidate.array.path[-1]))) if candidate.array.path else ""


def _is_outcome(item: RawArray) -> bool:
    """Return whether an array holds nothing but words and numbers that say right or wrong, and both of them."""
    held = {str(value).strip().lower() for value in np.unique(item.values).tolist()}
    return held <= {*TRUE_WORDS, *FALSE_WORDS} and bool(held & {*TRUE_WORDS}) and bool(held & {*FALSE_WORDS})


def _names_classes(candidate: Candidate) -> bool:
    """Return whether integers under this name are more likely predicted classes than scores from 0 to 100."""
    return bool({"pred", "preds", "prediction", "predictions", "output", "outputs"} & {*words(_name(candidate))})


def _of_class_1(confidence: Candidate, label: Candidate, predicted: Candidate) -> bool:
    """Return whether the scores are a binary classifier's probabilities of class 1: below 0.5 it predicts class 0."""
    p, classes = confidence.array.values.reshape(-1), predicted.array.values.reshape(-1)
    if confidence.array.kind not in "f" or not (_binary(predicted.array) and _binary(label.array)):
        return False
    return len(p) == len(classes) and bool(np.any(p < 0.5) and np.array_equal(p >= 0.5, classes == 1))


def _binary(item: RawArray) -> bool:
    return item.kind in "biuf" and bool(np.isin(item.values, (0, 1)).all())
