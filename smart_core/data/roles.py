"""What a name says: `val_logits`, `y_test`, `GroundTruth` -> (split, role)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

VALIDATION_WORDS = frozenset({"val", "valid", "validation", "cal", "calib", "calibration", "dev"})
TEST_WORDS = frozenset({"test", "eval", "evaluation", "tst"})
TRAIN_WORDS = frozenset({"train", "training"})
LOOSE_WORDS = {"holdout": "val", "heldout": "val", "final": "test"}
"""Words that can mean other things too (a final layer): they tell the side only where no word above does."""

ROLE_NAMES: dict[str, tuple[str, ...]] = {
    # in order of preference, should a file hold several
    "logits": (
        *(
            "logits",
            "logit",
            "scores",
            "score",
            "outputs",
            "output",
            "probabilities",
            "probability",
            "probs",
            "prob",
        ),
        *(
            "probas",
            "proba",
            "softmax",
            "softmaxes",
            "predictions",
            "prediction",
            "preds",
            "y_score",
            "y_scores",
        ),
        *("y_prob", "y_probs", "y_proba", "y_pred", "z", "pred"),
    ),
    "labels": (
        *(
            "labels",
            "label",
            "targets",
            "target",
            "ground_truth",
            "groundtruth",
            "y_true",
            "ytrue",
            "true_labels",
        ),
        *("true_label", "truth", "gt", "y", "ys", "class", "class_label", "class_id"),
    ),
    "features": (
        "features",
        "feature",
        "feats",
        "feat",
        "embeddings",
        "embedding",
        "penultimate",
        "representations",
    ),
    "head_weight": (
        "head_weight",
        "head_weights",
        "head_w",
        "fc_weight",
        "classifier_weight",
        "linear_weight",
    ),
    "head_bias": ("head_bias", "head_b", "fc_bias", "classifier_bias", "linear_bias"),
    "cw_l2": ("cw_l2", "cwl2", "cw", "cw_distance", "cw_distances"),
    "group": ("group", "groups", "domain", "domains", "corruption", "corruptions"),
    "class_names": ("class_names", "classnames", "label_names", "categories", "classes"),
    "split": ("split", "splits"),
}
"""Role -> the names it goes by, without the split's word."""

ROLES = tuple(ROLE_NAMES)
ROW_ROLES = ("logits", "labels", "features", "cw_l2", "group", "split")
"""The roles with one entry a sample; the others belong to the whole set."""

_ROLE_OF = {name: role for role, names in ROLE_NAMES.items() for name in names}
_RANK = {name: rank for names in ROLE_NAMES.values() for rank, name in enumerate(names)}
_TELLING = frozenset(
    name for role in ("logits", "labels", "features") for name in ROLE_NAMES[role] if len(name) > 3 and name != "class"
)
"""Words that give a longer name away (`resnet50_c10_logits`); short ones could be anything."""


_SPLITS = (("val", VALIDATION_WORDS), ("test", TEST_WORDS), ("train", TRAIN_WORDS))
_SPLIT_WORDS = sorted(VALIDATION_WORDS | TEST_WORDS | TRAIN_WORDS | LOOSE_WORDS.keys(), key=len, reverse=True)


def words(name: str) -> list[str]:
    """`valLogits`, `val.logits`, `VAL-logits`, `logitsval` -> its words, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
    spaced = re.sub(r"\b(held|hold)[\W_]+out(?![a-z0-9])", r"\1out", spaced.replace("_", " "))
    return [part for word in re.split(r"[^a-z0-9]+", spaced) if word for part in _unglued(word)]


def _unglued(word: str) -> list[str]:
    """`ytest` -> ["y", "test"], where both halves are words that are known here."""
    for side in _SPLIT_WORDS:
        if word.endswith(side) and word.removesuffix(side) in _ROLE_OF:
            return [word.removesuffix(side), side]
        if word.startswith(side) and word.removeprefix(side) in _ROLE_OF:
            return [side, word.removeprefix(side)]
    return [word]


def split_of(name: str, settled: Collection[str] = ()) -> str | None:
    """`val`, `test`, `train`, or None where the name says nothing, or both.

    Loose words count where no other does, and not for a side that is `settled`: that other names speak of.
    """
    said = words(name)
    found = {side for word in said for side, known in _SPLITS if word in known}
    found = found or {LOOSE_WORDS[word] for word in said if word in LOOSE_WORDS}.difference(settled)
    return found.pop() if len(found) == 1 else None


def sides_told(names: Iterable[str]) -> set[str]:
    """The sides that some of the names speak of outright, without loose words."""
    return {side for name in names if (side := split_of(name, ("val", "test"))) is not None}


def role_of(name: str) -> str | None:
    """The role that a name stands for, or None."""
    rest = [word for word in words(name) if word not in _SPLIT_WORDS]
    exact = _ROLE_OF.get("_".join(rest)) or _ROLE_OF.get("".join(rest))
    if exact is not None:
        return exact
    told = {_ROLE_OF[word] for word in rest if word in _TELLING}
    return told.pop() if len(told) == 1 else None


def preference(name: str) -> int:
    """Which of several arrays with one role is meant: the smaller the likelier (`logits` before `probs`)."""
    rest = [word for word in words(name) if word not in _SPLIT_WORDS]
    ranks = [_RANK[word] for word in ("_".join(rest), "".join(rest), *rest) if word in _RANK]
    return min(ranks, default=len(_RANK))


def parse_role(text: str) -> tuple[str | None, str] | None:
    """A role given by hand (`val_logits`, `labels`, `head_weight`), or None if it is no role."""
    if text in ROLES:
        return None, text
    split, _, role = text.partition("_")
    return (split, role) if split in ("val", "test") and role in ROW_ROLES and role != "split" else None
