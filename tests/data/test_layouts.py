"""Usual names, orders and types, beyond those of the layouts that every front end is tried with."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from smart_core.data import load as load_isolated
from smart_core.errors import LogitFileError
from tests.data.containers import json_lines
from tests.data.files import codes, npy, npz, torch_bytes
from tests.data.layouts import (
    ACCURACY,
    CLASSES,
    CONFIDENCE,
    HIT,
    LETTERS,
    NAMED,
    NAMES,
    OUTCOMES,
    PIECES,
    PREDICTED,
    ROWS,
    SCORES,
    TOLD,
    TRUE,
    Z,
    csv,
)

load = partial(load_isolated, isolated=False)  # much faster, and read by the same readers


def accuracy(data) -> float:
    return float(np.concatenate([data.validation.correct, data.test.correct]).mean())


def same_pairs(data) -> bool:
    parts = (data.validation, data.test)
    found = sorted(
        zip(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("confidence", "correct")), strict=True)
    )
    return np.allclose(found, sorted(zip(CONFIDENCE, HIT, strict=True)), atol=1e-12)


@pytest.mark.parametrize("names", NAMED)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_names_of_labels_and_confidence(names, order):
    for classes in (NAMES, np.arange(CLASSES), np.arange(CLASSES) * 1.0, LETTERS):
        columns = [classes[TRUE], classes[PREDICTED], CONFIDENCE]
        data = load(csv(**{names[i]: columns[i] for i in order}), name="a.csv")
        assert data.kind == "confidence"
        assert same_pairs(data)
        labels = np.concatenate([part.metadata["true_label"] for part in (data.validation, data.test)])
        np.testing.assert_array_equal(
            np.sort(labels.astype(str)), np.sort(classes[TRUE].astype(labels.dtype).astype(str))
        )


@pytest.mark.parametrize("names", TOLD)
def test_names_of_confidence_and_outcome(names):
    for right, wrong in OUTCOMES:
        for order in (1, -1):
            columns = {names[0]: CONFIDENCE, names[1]: np.where(HIT, right, wrong), "age": np.arange(ROWS) + 0.5}
            data = load(csv(**dict(list(columns.items())[::order])), name="a.csv")
            assert same_pairs(data)
            assert list(data.test.metadata) == ["age"]
            assert ("guessed_roles" in codes(data)) == (names[0] == "unheard_of")


@pytest.mark.parametrize("case", SCORES)
def test_odd_files_of_scores(case):
    name, content = SCORES[case]
    data = load(content, name=name)
    assert (data.kind, data.classes) == ("logits", CLASSES)
    assert accuracy(data) == ACCURACY


def test_logarithms_of_confidences():
    data = load(csv(logprob=np.log(CONFIDENCE), correct=HIT), name="a.csv")
    assert same_pairs(data)
    assert "logarithms" in codes(data)
    with pytest.raises(LogitFileError, match=r"holds 0\.5 at row 0 .* not the logarithm of a confidence"):
        load(csv(logprob=[0.5, -1.0, -2.0], correct=[1, 0, 1]), name="a.csv")


def test_ratings_are_not_percentages():
    for top in (5, 10):
        ratings = np.ceil(CONFIDENCE * top).astype(int)
        with pytest.raises(LogitFileError, match=f"whole numbers up to {top}: ratings, .*; divide them by the highest"):
            load(csv(confidence=ratings, correct=HIT), name="a.csv")
    assert load(csv(confidence=np.ceil(CONFIDENCE * 100).astype(int), correct=HIT), name="a.csv").kind == "confidence"


def test_two_confidences_are_a_question():
    content = csv(confidence_before=CONFIDENCE, confidence_after=CONFIDENCE**2, correct=HIT)
    with pytest.raises(LogitFileError, match=r"'confidence_before' and .*'confidence_after' .* could be the conf"):
        load(content, name="a.csv")
    assert same_pairs(load(content, name="a.csv", roles={"confidence": "confidence_before", "correct": "correct"}))


def test_whose_answer_it_is_the_outcome_does_not_say():
    data = load(csv(question=IDS, answer=LETTERS[PREDICTED], confidence=CONFIDENCE, correct=HIT), name="a.csv")
    assert set(data.test.metadata) == {"question", "answer"}


IDS = [f"q{i}" for i in range(ROWS)]


def test_a_pickled_dict_of_objects_is_not_read():
    with pytest.raises(LogitFileError, match="asks for pathlib"):
        load(npy(np.array({"logits": Z, "labels": TRUE, "where": Path("x")}, dtype=object)), name="a.npy")


def numbered(folder, stem: str, numbers, pieces=PIECES):
    for number, rows in zip(numbers, pieces, strict=True):
        content = csv(label=TRUE[rows], pred=PREDICTED[rows], conf=CONFIDENCE[rows])
        (folder / f"{stem}{number}.csv").write_bytes(content)
    return folder


def test_one_that_only_says_its_role_is_chosen_by_it_beside_others(tmp_path):
    for name, array in (("logits", Z), ("labels", TRUE), ("model", Z)):
        (tmp_path / f"{name}.npy").write_bytes(npy(array))
    with pytest.raises(LogitFileError, match="2 experiments: 'logits', 'model'"):
        load(tmp_path)
    assert accuracy(load(tmp_path, group="logits")) == ACCURACY


def test_a_folder_of_text_files_alone(tmp_path):
    np.savetxt(tmp_path / "logits.txt", Z)
    np.savetxt(tmp_path / "labels.txt", TRUE, fmt="%d")
    assert accuracy(load(tmp_path)) == ACCURACY


def test_a_matrix_beside_labels_and_confidences_may_be_logits():
    content = npz(out=Z, label=TRUE, confidence=CONFIDENCE, correct=HIT)
    with pytest.raises(LogitFileError, match="several arrays could be the logits: 'out', 'confidence'"):
        load(content, name="a.npz")


def test_classes_that_a_row_lacks_are_not_nan():
    content = json_lines([{"logits": [1.0, 2.0, None], "label": i % 2} for i in range(9)])
    with pytest.raises(LogitFileError, match=r"NaN or infinity in 9 places.* or write -inf for the classes that a row"):
        load(content, name="a.jsonl")


def test_a_decimal_comma_below_a_first_row_of_whole_numbers():
    rows = [f"{value:.4f};{int(hit)}".replace(".", ",") for value, hit in zip(CONFIDENCE, HIT, strict=True)]
    data = load("\n".join(["confidence;correct", "1;1", *rows]).encode(), name="a.csv")
    found = np.concatenate([data.validation.confidence, data.test.confidence])
    np.testing.assert_allclose(np.sort(found), np.sort([1.0, *CONFIDENCE.round(4)]))


def test_a_gap_between_numbered_files_is_told(tmp_path):
    data = load(numbered(tmp_path, "preds_", (0, 1, 3)))
    assert accuracy(data) == ACCURACY
    assert any("1 number between them is missing" in notice.text for notice in data.notices)


@pytest.mark.parametrize(
    ("stem", "numbers"), [("resnet_", (18, 34, 50)), ("run_", (0, 1, 2)), ("preds_seed_", (1, 2, 3))]
)
def test_numbers_of_models_are_not_pieces(stem, numbers, tmp_path):
    folder = numbered(tmp_path, stem, numbers, [slice(None)] * 3)
    with pytest.raises(LogitFileError, match="holds 3 experiments"):
        load(folder)
    (folder / f"{stem}{numbers[0]}.csv").rename(folder / "swin_1.csv")
    (folder / f"{stem}{numbers[1]}.csv").rename(folder / "swin_2.csv")
    (folder / f"{stem}{numbers[2]}.csv").unlink()
    with pytest.raises(
        LogitFileError, match=r"swin_1.csv: 1 other file holds the same labels, so these look like several models"
    ):
        load(folder)


def test_rows_are_put_in_the_order_of_the_indices_beside_them(tmp_path):
    order = np.random.default_rng(0).permutation(ROWS)
    for rank in (0, 1):
        own = order[rank::2]
        saved = {"logits": torch.from_numpy(Z[own]), "indices": torch.from_numpy(own)}
        (tmp_path / f"predictions_{rank}.pt").write_bytes(torch_bytes(saved))
    (tmp_path / "labels.npy").write_bytes(npy(TRUE))
    assert accuracy(load(tmp_path)) == ACCURACY


def test_a_summary_without_samples_says_what_to_do():
    with pytest.raises(LogitFileError, match=r"summary that lm-evaluation-harness writes.*--log_samples"):
        load(b'{"results": {"arc": {"acc,none": 0.5}}, "configs": {"arc": {}}}', name="results.json")


def test_one_record_over_and_over_is_refused_before_it_is_copied():
    record = {"probs": np.ones(100_000), "label": 1}
    with pytest.raises(LogitFileError, match="larger than the file"):
        load(pickle.dumps([record] * 5000), name="a.pkl")
