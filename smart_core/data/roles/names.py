"""The split and role that a name stands for: `val_logits`, `y_test`, `GroundTruth` -> (split, role)."""

from __future__ import annotations

import re
from collections.abc import Collection

SPLIT_NAMES = {
    "val": frozenset({"val", "valid", "validation", "cal", "calib", "calibration", "dev"}),
    "test": frozenset({"test", "eval", "evaluation", "tst"}),
    "train": frozenset({"train", "training"}),
}
LOOSE_SPLIT_NAMES = {"holdout": "val", "heldout": "val", "final": "test"}
"""Words with other meanings too (a final layer): they name the split only if no word above does."""

ROLE_NAMES: dict[str, list[str]] = {
    role: names.split()
    for role, names in {
        "logits": (
            "logits logit scores score outputs output probabilities probability probs prob probas proba softmax "
            "softmaxes predictions prediction preds y_score y_scores y_prob y_probs y_proba y_pred z pred logprobs "
            "logprob log_probs log_prob log_probabilities log_probability log_likelihoods log_likelihood loglikelihoods"
        ),
        "labels": (
            "labels label targets target ground_truth groundtruth y_true ytrue true_labels true_label truth true gt y "
            "ys class class_label class_id true_class true_classes gold gold_label gold_labels gold_answer actual "
            "actuals actual_label expected expected_label reference correct_label correct_class correct_answer "
            "true_answer answer_key answer answers"
        ),
        "features": "features feature feats feat embeddings embedding penultimate representations",
        "head_weight": "head_weight head_weights head_w fc_weight classifier_weight linear_weight",
        "head_bias": "head_bias head_b fc_bias classifier_bias linear_bias",
        "cw_l2": "cw_l2 cwl2 cw cw_distance cw_distances",
        "group": "group groups domain domains corruption corruptions",
        "class_names": "class_names classnames label_names categories classes",
        "split": "split splits",
        "confidence": (
            "confidence confidences conf confs top1_confidence top_confidence pred_conf pred_confidence max_prob "
            "max_probs max_probability max_softmax msp stated_confidence verbal_confidence confidence_score "
            "certainty top1_prob top1_score top_prob top_score pred_prob predicted_prob predicted_probability p"
        ),
        "correct": (
            "correct is_correct iscorrect correctness corrects hit hits is_hit is_right right acc accs accuracy "
            "accuracies tp is_tp true_positive matched is_match exact_match"
        ),
        "prediction": (
            "predicted_label predicted_labels pred_label pred_labels predicted predicted_class predicted_classes "
            "pred_class pred_classes pred_id pred_idx y_hat yhat prediction_label model_prediction model_answer "
            "predicted_answer pred_answer top1 top1_class top1_label"
        ),
    }.items()
}
"""Role -> its usual names without the split, the preferred ones first."""

ROLES = tuple(ROLE_NAMES)
CONFIDENCE_ROLES = ("confidence", "correct", "prediction")
"""The roles of a table of confidences; beside logits, such arrays are metadata."""
ROW_ROLES = ("logits", "labels", "features", "cw_l2", "group", "split", *CONFIDENCE_ROLES)
"""The roles with one entry per sample; the others belong to the whole set."""

METADATA_ROLE = "metadata"
"""The role of every further vector with one value per sample."""

_ROLE_OF = {name: role for role, names in ROLE_NAMES.items() for name in names}
_RANK = {name: rank for names in ROLE_NAMES.values() for rank, name in enumerate(names)}
_DISTINCTIVE = {
    *("confidence", "conf", "certainty", "correct"),
    *(name for role in ("logits", "labels", "features") for name in ROLE_NAMES[role] if len(name) > 3),
} - {"class", "true", "actual", "expected", "reference", "answer", "answers"}
"""Words that decide the role of a longer name (`resnet50_c10_logits`); short words are too ambiguous."""
_SPLIT_WORDS = sorted(frozenset(LOOSE_SPLIT_NAMES).union(*SPLIT_NAMES.values()), key=len, reverse=True)


def words(name: str) -> list[str]:
    """Return the words of `valLogits`, `val.logits`, `VAL-logits` or `logitsval` in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
    spaced = re.sub(r"\b(held|hold)[\W_]+out(?![a-z0-9])", r"\1out", spaced.replace("_", " "))
    return [part for word in re.split(r"[^a-z0-9]+", spaced) if word for part in _unglued(word)]


def _unglued(word: str) -> list[str]:
    """Return ["y", "test"] for `ytest`, where one half names a role and the other a split."""
    for split in _SPLIT_WORDS:
        if word.endswith(split) and word.removesuffix(split) in _ROLE_OF:
            return [word.removesuffix(split), split]
        if word.startswith(split) and word.removeprefix(split) in _ROLE_OF:
            return [split, word.removeprefix(split)]
    return [word]


def split_of(name: str, settled: Collection[str] = ()) -> str | None:
    """Return `val`, `test`, `train`, or None if the name mentions no split, or several.

    Loose words count only if there are no others, and not for a `settled` split, which other names mention.
    """
    parts = words(name)
    splits = {split for word in parts for split, known in SPLIT_NAMES.items() if word in known}
    splits = splits or {LOOSE_SPLIT_NAMES[word] for word in parts if word in LOOSE_SPLIT_NAMES}.difference(settled)
    return splits.pop() if len(splits) == 1 else None


def role_of(name: str) -> str | None:
    """Return the role that a name stands for, or None; `label == prediction` says whether a prediction is correct."""
    if "==" in name:
        return "correct"
    rest = _without_split(name)
    exact = _ROLE_OF.get("_".join(rest)) or _ROLE_OF.get("".join(rest))
    if exact is not None:
        return exact
    roles = {_ROLE_OF[word] for word in rest if word in _DISTINCTIVE}
    return roles.pop() if len(roles) == 1 else None


def preference(name: str) -> int:
    """Return the rank among several arrays with one role; the smallest is used (`logits` before `probs`)."""
    rest = _without_split(name)
    return min((_RANK[word] for word in ("_".join(rest), "".join(rest), *rest) if word in _RANK), default=len(_RANK))


def _without_split(name: str) -> list[str]:
    return [word for word in words(name) if word not in _SPLIT_WORDS]


def without_role_and_split(name: str) -> str:
    """Return a file's name without the words that only say its role or split."""
    return "_".join(word for word in _without_split(name) if word not in _ROLE_OF)


def parse_role(text: str) -> tuple[str | None, str] | None:
    """Return (split, role) of a role given by hand (`val_logits`, `labels`, `head_weight`), or None if it is none."""
    if text in ROLES:
        return None, text
    split, _, role = text.partition("_")
    return (split, role) if split in ("val", "test") and role in ROW_ROLES and role != "split" else None
