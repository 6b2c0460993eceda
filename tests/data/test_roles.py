"""Names, shapes and the caller's options decide the role of an array."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.data import load
from smart_core.data.roles.names import role_of, split_of
from smart_core.errors import LogitFileError
from tests.data.files import codes, describe, example, npy, npz, pickled

Z, Y = example()


@pytest.mark.parametrize(
    ("name", "split", "role"),
    [
        ("val_logits", "val", "logits"),
        ("logits_test", "test", "logits"),
        ("VALID.Predictions", "val", "logits"),
        ("calibLabels", "val", "labels"),
        ("ground_truth", None, "labels"),
        ("eval-probs", "test", "logits"),
        ("y_true", None, "labels"),
        ("y_val", "val", "labels"),
        ("ytest", "test", "labels"),
        ("Y", None, "labels"),
        ("outputs", None, "logits"),
        ("resnet50_c100_scores", None, "logits"),
        ("test_features", "test", "features"),
        ("head_weight", None, "head_weight"),
        ("val_cw_l2", "val", "cw_l2"),
        ("class_names", None, "class_names"),
        ("class_weights", None, None),
        ("evaluate_value", None, None),
        ("val_test_logits", None, "logits"),
        ("gt", None, "labels"),
        ("groundtruth", None, "labels"),
        ("holdout_gt", "val", "labels"),
        ("heldOutScores", "val", "logits"),
        ("held_out_gt", "val", "labels"),
        ("final_gt", "test", "labels"),
        ("eval_gt", "test", "labels"),
        ("val_final_logits", "val", "logits"),
        ("", None, None),
    ],
)
def test_names(name, split, role):
    assert (split_of(name), role_of(name)) == (split, role)


@pytest.mark.parametrize("z", ["logits", "predictions", "probs", "scores", "outputs", "Logits", "foo"])
@pytest.mark.parametrize("y", ["labels", "targets", "ground_truth", "y", "y_true", "LABELS", "bar"])
def test_usual_names_and_unknown_ones(z, y):
    data = load(npz(**{z: Z, y: Y}), name="a.npz")
    assert data.classes == 4
    assert ("guessed_roles" in codes(data)) == (z == "foo" or y == "bar")


def test_several_score_arrays_prefer_logits():
    junk = np.full_like(Z, 0.25)
    data = load(npz(probs=junk, logits=Z, labels=Y, predictions=Z.argmax(1)), name="a.npz")
    assert data.test.logits.std() > 0.1
    assert "ignored_arrays" in codes(data)


def test_loose_words_for_the_splits():
    arrays = {"holdout_scores": Z[:24], "holdout_gt": Y[:24], "final_scores": Z[24:], "final_gt": Y[24:]}
    data = load(npz(**arrays), name="a.npz")
    np.testing.assert_array_equal(data.validation.logits, Z[:24])
    np.testing.assert_array_equal(data.test.labels, Y[24:])
    assert codes(data) == set()


def test_loose_words_yield_to_unambiguous_ones():
    arrays = {"val_logits": Z[:24], "val_labels": Y[:24], "test_logits": Z[24:], "test_labels": Y[24:]}
    data = load(npz(**arrays, final_logits=9 * Z, holdout_labels=Y), name="a.npz")
    np.testing.assert_array_equal(data.validation.logits, Z[:24])
    np.testing.assert_array_equal(data.test.logits, Z[24:])
    assert "ignored_arrays" in codes(data)


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [("val", "test", "logits"), ("holdout", "final", "logits"), ("resnet_val", "resnet_test", "resnet")],
)
def test_a_pair_of_uploads_is_not_named_after_its_split(first, second, name):
    files = [(f"{stem}.npz", npz(logits=Z, labels=Y)) for stem in (first, second)]
    assert load(files).name == name
    assert load(val=files[0], test=files[1]).name == name


def test_swapped_pair_is_understood():
    data = load([("logits.npy", npy(Y)), ("labels.npy", npy(Z))])
    assert data.classes == 4
    assert "swapped" in codes(data)


def test_four_files_by_name():
    files = [
        ("test_labels.npy", Y[24:]),
        ("val_logits.npy", Z[:24]),
        ("labels_val.npy", Y[:24]),
        ("logits_test.npy", Z[24:]),
    ]
    data = load([(name, npy(array)) for name, array in files])
    np.testing.assert_array_equal(data.validation.logits, Z[:24])
    np.testing.assert_array_equal(data.test.labels, Y[24:])


def test_a_single_split_is_split_again():
    data = load(npz(test_logits=Z, test_labels=Y), name="a.npz", val_fraction=0.25)
    assert (len(data.validation), len(data.test)) == (15, 45)


def test_training_arrays_are_left_out():
    arrays = {
        "train_logits": Z * 9,
        "train_labels": Y,
        "val_logits": Z,
        "val_labels": Y,
        "test_logits": Z,
        "test_labels": Y,
    }
    data = load(npz(**arrays), name="a.npz")
    np.testing.assert_array_equal(data.validation.logits, Z)
    assert "ignored_arrays" in codes(data)


def test_splits_given_as_arguments_override_names():
    one, two = npz(test_logits=Z[:30], test_labels=Y[:30]), npz(logits=Z[30:], labels=Y[30:])
    data = load(val=[("a.npz", one)], test=[("b.npz", two)])
    np.testing.assert_array_equal(data.validation.logits, Z[:30])
    both = npz(val_logits=Z[:30], val_labels=Y[:30], test_logits=Z[30:], test_labels=Y[30:])
    data = load(val=[("a.npz", both)], test=[("a.npz", both)])
    np.testing.assert_array_equal(data.validation.logits, Z[:30])
    np.testing.assert_array_equal(data.test.logits, Z[30:])


@pytest.mark.parametrize("side", ["val", "test"])
def test_val_needs_test_and_vice_versa(side):
    with pytest.raises(LogitFileError, match="also pass"):
        load(**{side: [("a.npz", npz(logits=Z, labels=Y))]})


def test_roles_by_hand():
    content = npz(a=Z[:24], b=Z[24:], c=Y[:24], d=Y[24:], e=Z)
    roles = {"test_logits": "a", "val_logits": "b", "test_labels": "c", "val_labels": "d"}
    data = load(content, name="a.npz", roles=roles)
    np.testing.assert_array_equal(data.test.logits, Z[:24])
    np.testing.assert_array_equal(data.validation.labels, Y[24:])
    with pytest.raises(LogitFileError, match="no array 'q' to be the logits; the arrays are 'a', 'b'"):
        load(content, name="a.npz", roles={"logits": "q"})
    with pytest.raises(LogitFileError, match="'lodgings' is not a role; use logits, labels"):
        load(content, name="a.npz", roles={"lodgings": "a"})


def test_describe_lists_everything():
    listed = describe(npz(val_logits=Z, val_labels=Y, test_logits=Z, test_labels=Y, junk=Z[:3]), name="a.npz")
    assert [(i.key, i.role) for i in listed] == [
        ("val_logits", "val_logits"), ("val_labels", "val_labels"), ("test_logits", "test_logits"),
        ("test_labels", "test_labels"), ("junk", "ignored"),
    ]  # fmt: skip
    assert listed[0].shape == (60, 4)
    assert listed[0].dtype == "float32"
    unknown = describe(npz(a=Z, b=Z, c=Y), name="a.npz")
    assert {i.role for i in unknown} == {"unknown"}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"logits": Z}, "no labels were found"),
        ({"labels": Y}, "no logits were found"),
        ({"a": Z, "b": Z, "c": Y}, "several arrays could be the logits: 'a', 'b'"),
        ({"val_logits": Z, "val_labels": Y, "test_logits": Z}, "no labels were found"),
    ],
)
def test_missing_or_ambiguous(arrays, words):
    with pytest.raises(LogitFileError, match=words):
        load(npz(**arrays), name="a.npz")


@pytest.mark.parametrize("names", [("logits.npy", "labels.npy"), ("x_logits.npy", "x.npy"), ("a.npy", "b.npy")])
@pytest.mark.parametrize("order", [1, -1])
def test_a_pair_of_unequal_length(names, order):
    files = [(names[0], npy(Z)), (names[1], npy(Y[:-1]))][::order]
    logits, labels = (name.removesuffix(".npy") for name in names)
    with pytest.raises(LogitFileError, match=rf"'{logits}' has 60 rows but array '{labels}' has 59 entries; save"):
        load(files)


def test_a_list_that_is_not_an_array_matters_only_if_it_is_needed():
    assert load(pickled({"logits": Z, "labels": Y, "layers": ["conv", 3, [1, 2]]}), name="a.pkl").classes == 4
    with pytest.raises(LogitFileError, match="array 'labels' is a list of unequal or mixed entries"):
        load(pickled({"logits": Z, "labels": ["cat", 3]}), name="a.pkl")


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.array([row[: 3 + i % 2] for i, row in enumerate(Z)], dtype=object), r"Python objects .*np\.stack\(rows\)"),
        (np.array(list("abcd"), dtype=object)[Y], r"Python objects .*\.astype\(str\)"),
        (np.zeros(60, dtype=[("a", "f4"), ("b", "i8")]), "records"),
        (np.zeros(60, dtype="M8[D]"), "datetime64"),
        (Z + 1j, "complex"),
    ],
)
def test_arrays_without_numbers_are_named_with_a_fix(array, problem, protocol):
    content = pickled({"model": {"logits": array}, "labels": Y}, protocol)
    with pytest.raises(LogitFileError, match=rf"^a\.pkl: array 'model\.logits' holds {problem}"):
        load(content, name="a.pkl")
    data = load(pickled({"logits": Z, "labels": Y, "extra": array}, protocol), name="a.pkl")
    assert data.classes == 4
    assert "ignored_arrays" in codes(data)


def test_model_weights_are_not_logits():
    with pytest.raises(LogitFileError):
        load(pickled({"conv1.weight": np.ones((8, 3, 3, 3)), "fc.weight": np.ones((10, 8))}), name="a.pkl")


def test_the_same_head_in_both_files():
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    w = np.ones((4, 3), np.float32)
    content = npz(logits=Z, labels=Y, features=x, head_weight=w, head_bias=np.zeros(4))
    assert load(val=[("a.npz", content)], test=[("b.npz", content)]).head is not None
    other = npz(logits=Z, labels=Y, features=x, head_weight=w + 1, head_bias=np.zeros(4))
    with pytest.raises(LogitFileError, match="head_weight"):
        load(val=[("a.npz", content)], test=[("b.npz", other)])
