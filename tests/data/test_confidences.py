"""Tables and arrays of confidences without logits: what is one, what is not, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from smart_core import Part, load
from smart_core.data import from_arrays, save_bundle
from smart_core.data.document import Document
from smart_core.errors import LogitFileError
from tests.data.files import npz

RNG = np.random.default_rng(0)
N = 400
CONFIDENCE = np.round(RNG.beta(5, 2, N), 3)
CORRECT = RNG.random(N) < CONFIDENCE**1.5
TRUE = RNG.integers(0, 7, N)
PREDICTED = np.where(CORRECT, TRUE, (TRUE + 1) % 7)
NAMES = np.array(["cat", "dog", "owl", "eel", "fox", "hen", "ant"])
SITE = np.where(RNG.random(N) < 0.3, "north", "south")


def csv(**columns) -> bytes:
    return pd.DataFrame(columns).to_csv(index=False).encode()


def together(data, of):
    return np.concatenate([of(data.validation), of(data.test)])


def same_samples(data) -> bool:
    """Whether the set holds every pair of a confidence and an outcome, in any order."""
    pairs = zip(together(data, lambda part: part.confidence), together(data, lambda part: part.correct), strict=True)
    return sorted(pairs) == sorted(zip(CONFIDENCE, CORRECT, strict=True))


@pytest.mark.parametrize("confidence", ["conf", "confidence", "Confidence", "score", "prob", "p", "max_prob"])
@pytest.mark.parametrize("correct", ["correct", "is_correct", "hit", "acc", "isCorrect"])
def test_confidence_and_correct(confidence, correct):
    data = load(csv(**{confidence: CONFIDENCE, correct: CORRECT.astype(int)}), name="a.csv")
    assert (data.kind, data.classes) == ("confidence", 0)
    assert same_samples(data)
    assert {notice.code for notice in data.notices} == {"split"}  # equal rows are normal, and no warning


@pytest.mark.parametrize("names", [("true_label", "pred_label", "confidence"), ("y_true", "y_pred", "prob")])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("text", [False, True])
def test_true_and_predicted_labels(names, order, text):
    columns = [NAMES[TRUE], NAMES[PREDICTED], CONFIDENCE] if text else [TRUE, PREDICTED, CONFIDENCE]
    data = load(csv(**{names[i]: columns[i] for i in order}), name="a.csv")
    assert same_samples(data)
    labels = together(data, lambda part: part.metadata["true_label"])
    predicted = together(data, lambda part: part.metadata["predicted_label"])
    np.testing.assert_array_equal(labels == predicted, together(data, lambda part: part.correct))


@pytest.mark.parametrize(
    "words", [("True", "False"), ("yes", "no"), ("correct", "incorrect"), ("1.0", "0.0"), ("Right", "Wrong")]
)
def test_outcomes_in_words(words):
    outcome = np.where(CORRECT, *words)
    assert same_samples(load(csv(confidence=CONFIDENCE, correct=outcome), name="a.csv"))


def test_percentages_and_text():
    for values in (CONFIDENCE * 100, [f"{100 * value:.1f}%" for value in CONFIDENCE]):
        data = load(csv(confidence=values, correct=CORRECT), name="a.csv")
        np.testing.assert_allclose(np.sort(together(data, lambda part: part.confidence)), np.sort(CONFIDENCE))
        assert "percentages" in {notice.code for notice in data.notices}
    whole = load(csv(score=np.round(CONFIDENCE * 100).astype(int), correct=CORRECT), name="a.csv")
    assert (whole.kind, whole.test.confidence.max() <= 1) == ("confidence", True)


def test_further_columns_are_kept():
    age = RNG.normal(40, 10, N)
    data = load(csv(id=np.arange(N), confidence=CONFIDENCE, correct=CORRECT, site=SITE, age=age), name="a.csv")
    assert set(data.test.metadata) == {"id", "site", "age"}
    rows = data.test.metadata["id"]
    np.testing.assert_array_equal(data.test.metadata["site"], SITE[rows])
    np.testing.assert_allclose(data.test.metadata["age"], age[rows])
    np.testing.assert_allclose(data.test.confidence, CONFIDENCE[rows])


def test_npz_with_splits_and_parquet():
    half = N // 2
    content = npz(
        val_confidence=CONFIDENCE[:half], val_correct=CORRECT[:half], val_site=SITE[:half],
        test_confidence=CONFIDENCE[half:], test_correct=CORRECT[half:], test_site=SITE[half:],
    )  # fmt: skip
    data = load(content, name="a.npz")
    np.testing.assert_array_equal(data.validation.confidence, CONFIDENCE[:half])
    np.testing.assert_array_equal(data.test.metadata["site"], SITE[half:])
    frame = pd.DataFrame({"confidence": CONFIDENCE, "correct": CORRECT, "site": SITE})
    assert same_samples(load(frame.to_parquet(index=False), name="a.parquet"))


def test_the_file_may_be_saved_and_read_again(tmp_path):
    data = load(csv(confidence=CONFIDENCE, correct=CORRECT, site=SITE, **{"test score": TRUE}), name="a.csv")
    for name in ("a.npz", "a.safetensors"):
        again = load(save_bundle(data, tmp_path / name))
        assert again.content_hash == data.content_hash
        assert set(again.test.metadata) == {"site", "test score"}
    split = data.resplit(0.25, seed=1)
    assert (len(split.validation), split.kind, set(split.test.metadata)) == (100, "confidence", {"site", "test score"})


def test_a_binary_classifier_is_still_one():
    p = RNG.random(N)
    labels = (RNG.random(N) < p).astype(int)
    for columns in (
        {"y_true": labels, "y_pred": (p >= 0.5).astype(int), "prob": p},
        {"label": labels, "score": p},
        {"confidence": p, "label": labels},
    ):
        data = load(csv(**columns), name="a.csv")
        assert (data.kind, data.classes) == ("logits", 2)


def test_logits_beside_confidences_are_logits():
    z = RNG.normal(size=(N, 7)).astype(np.float32)
    columns = {f"logit_{k}": z[:, k] for k in range(7)}
    data = load(csv(**columns, label=TRUE, confidence=CONFIDENCE, correct=CORRECT, site=SITE), name="a.csv")
    assert (data.kind, data.classes) == ("logits", 7)
    assert set(data.test.metadata) == {"confidence", "correct", "site"}
    named = {f"logit_{name}": z[:, k] for k, name in enumerate(NAMES)}
    data = load(csv(**named, label=NAMES[TRUE], age=TRUE * 1.5), name="a.csv")
    assert (data.class_names, list(data.test.metadata)) == (tuple(NAMES), ["age"])
    arrays = load(npz(logits=z, labels=TRUE, confidence=CONFIDENCE, ids=SITE), name="a.npz")
    assert (arrays.kind, set(arrays.test.metadata)) == ("logits", {"confidence", "ids"})


def test_roles_by_hand():
    content = npz(a=CONFIDENCE, b=CORRECT.astype(int))
    assert same_samples(load(content, name="a.npz", roles={"confidence": "a", "correct": "b"}))
    table = csv(confidence=CONFIDENCE, correct=CORRECT.astype(int), outcome=CORRECT.astype(int))
    data = load(table, name="a.csv", roles={"logits": "confidence", "labels": "outcome"})
    assert (data.kind, data.classes) == ("logits", 2)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"confidence": [0.5, 101.0, 0.2], "correct": [1, 0, 1]}, "holds 101 at row 1 .* not a confidence from 0 to 1"),
        ({"confidence": [0.5, -0.5, 0.2], "correct": [1, 0, 1]}, "holds -0.5 at row 1"),
        ({"confidence": [0.5, np.nan, 0.2], "correct": [1, 0, 1]}, "holds nan at row 1"),
        ({"confidence": ["high", "low", "high"], "correct": [1, 0, 1]}, "holds 'high' at row 0"),
        ({"confidence": [0.5, 0.6, 0.2], "correct": [1, 2, 1]}, "array 'correct' holds '2' at row 1"),
        ({"confidence": [0.5, 0.6, 0.2], "correct": ["yes", "no", "maybe"]}, "holds 'maybe' at row 2"),
    ],
)
def test_refused_in_one_sentence(columns, words):
    with pytest.raises(LogitFileError, match=words):
        load(csv(**columns), name="a.csv")


def test_a_part_of_each_kind_is_refused():
    z = RNG.normal(size=(N, 7))
    arrays = {"val_logits": z, "val_labels": TRUE, "test_confidence": CONFIDENCE, "test_correct": CORRECT}
    with pytest.raises(LogitFileError, match="holds logits and the other confidences"):
        from_arrays(**arrays)


def test_a_contradiction_is_noticed():
    data = load(csv(label=TRUE, pred_label=PREDICTED, confidence=CONFIDENCE, correct=~CORRECT), name="a.csv")
    assert "correct_differs" in {notice.code for notice in data.notices}
    assert together(data, lambda part: part.correct).sum() == (~CORRECT).sum()


def test_confidences_without_outcomes():
    document = Document.open(("a.csv", csv(confidence=CONFIDENCE, site=SITE)))
    (part,) = document.logits(classes=0).values()
    np.testing.assert_array_equal(part.confidence, CONFIDENCE)


def test_numbers_of_classes_are_names():
    part = load(csv(true_label=TRUE * 100, pred_label=PREDICTED * 100, confidence=CONFIDENCE), name="a.csv").test
    groups = part.groups("true_label")
    assert set(groups) == {str(100 * k) for k in range(7)}
    assert sum(map(len, groups.values())) == len(part)


def test_parts_are_checked():
    part = Part.of_confidences(CONFIDENCE, CORRECT, metadata={"site": SITE})
    assert part.accuracy == CORRECT.mean()
    assert len(part.subset(SITE == "north")) == (SITE == "north").sum()
    assert {name: len(rows) for name, rows in part.groups("site").items()} == {
        name: (name == SITE).sum() for name in ("south", "north")
    }
    with pytest.raises(LogitFileError, match="the metadata 'site' has 3 rows and confidence 400"):
        Part.of_confidences(CONFIDENCE, CORRECT, metadata={"site": SITE[:3]})
