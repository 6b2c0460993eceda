"""Every guess can be overridden: its notice names the option of `load`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from smart_core.data import Cure, from_arrays, load
from smart_core.errors import LogitFileError
from tests.data.files import describe, example, npy, npz, pickled

Z, Y = example()
P = softmax(Z.astype(np.float64), axis=1)
SQUARE, FOUR = example(4, 4)
FROM_ONE = Y > 0


def loaded(arrays, **options):
    return load(npz(**arrays), name="a.npz", **options)


def rows(data, name="logits"):
    """Every row of the set, in an order that does not depend on the split."""
    values = np.concatenate([getattr(data.validation, name), getattr(data.test, name)])
    return np.sort(values, axis=0)


def noticed(data, code):
    return next(notice for notice in data.notices if notice.code == code)


FLIPS = {
    # what is read -> the code of the notice, the cure, and the array that the cure gives
    "probabilities": ({"probs": P, "labels": Y}, "probabilities", "values", "logits", P),
    "percentages": ({"probs": 100 * P, "labels": Y}, "percentages", "values", "logits", 100 * P),
    "unit interval": (
        {"logits": P / 2, "labels": Y}, "maybe_probabilities", "values", "probabilities", np.log(P / 2)),
    "one column": (
        {"logits": P[:, 0], "labels": Y % 2}, "binary_column", "values", "logits",
        np.stack([np.zeros(60), P[:, 0]], axis=1)),
    "a column of percentages": (
        {"logits": 100 * P[:, 0], "labels": Y % 2}, "binary_column", "values", "probabilities",
        np.log(np.stack([1 - P[:, 0], P[:, 0]], axis=1))),
    "square": ({"logits": SQUARE, "labels": FOUR}, "square", "transposed", True, SQUARE.T),
}  # fmt: skip


@pytest.mark.parametrize("case", FLIPS)
def test_a_cure_changes_the_reading_and_offers_the_way_back(case):
    arrays, code, option, value, expected = FLIPS[case]
    first = loaded(arrays)
    cure = noticed(first, code).cure
    assert (cure.option, cure.value) == (option, value)
    assert cure.label
    other = loaded(arrays, **{cure.option: cure.value})
    np.testing.assert_allclose(rows(other), np.sort(expected, axis=0), rtol=1e-5, atol=1e-6)
    assert other.content_hash != first.content_hash
    back = [n.cure for n in other.notices if n.cure is not None and n.cure.option == option]
    assert len(back) == 1
    again = loaded(arrays, **{back[0].option: back[0].value})
    assert again.content_hash == first.content_hash


def test_the_other_split_decides_how_a_square_matrix_is_read():
    y = FOUR
    upright = loaded({"val_logits": SQUARE, "val_labels": y, "test_logits": Z, "test_labels": Y})
    assert "square" not in {n.code for n in upright.notices}
    np.testing.assert_array_equal(upright.validation.logits, SQUARE)
    turned = loaded({"val_logits": SQUARE, "val_labels": y, "test_logits": Z.T, "test_labels": Y})
    np.testing.assert_array_equal(turned.validation.logits, SQUARE.T)
    assert [n.code for n in turned.notices].count("transposed") == 2


def test_labels_that_are_never_0():
    arrays = {"logits": Z[FROM_ONE], "labels": Y[FROM_ONE]}
    first = loaded(arrays)
    cure = noticed(first, "no_label_is_0").cure
    assert cure == Cure("labels_start_at", 1, "Labels start at 1")
    other = loaded(arrays, labels_start_at=1)
    np.testing.assert_array_equal(rows(other, "labels"), np.sort(Y[FROM_ONE] - 1))
    back = noticed(other, "one_based_labels").cure
    assert back == Cure("labels_start_at", 0, "Labels start at 0")
    assert loaded(arrays, labels_start_at=0).content_hash == first.content_hash


def test_a_cure_that_cannot_apply_names_the_rows_that_prevent_it():
    one_based = loaded({"logits": Z, "labels": Y + 1})
    cure = noticed(one_based, "one_based_labels").cure
    with pytest.raises(LogitFileError, match=r"holds 4 at row 3 .* outside 0 to 3, in 15 rows"):
        loaded({"logits": Z, "labels": Y + 1}, **{cure.option: cure.value})
    turned = loaded({"logits": Z.T, "labels": Y})
    cure = noticed(turned, "transposed").cure
    with pytest.raises(LogitFileError, match=r"has 4 rows but array 'labels' has 60 entries"):
        loaded({"logits": Z.T, "labels": Y}, **{cure.option: cure.value})


@pytest.mark.parametrize(
    ("content", "name", "code"),
    [
        (npz(foo=Z, bar=Y), "a.npz", "guessed_roles"),
        (npz(logits=Z, labels=Y, extra=Z), "a.npz", "ignored_arrays"),
        (npz(logits=Y, labels=Z), "a.npz", "swapped"),
        (pickled(((Z, Y), (Z + 1, Y))), "a.p", "positional_pairs"),
        (pickled([Z, Y, Z + 1, Y]), "a.p", "guessed_roles"),
    ],
)
def test_guessed_arrays_are_for_the_user_to_choose(content, name, code):
    cure = noticed(load(content, name=name), code).cure
    assert (cure.option, cure.value) == ("roles", None)


def test_a_split_can_be_drawn_again():
    assert noticed(loaded({"logits": Z, "labels": Y}), "split").cure.option == "split_seed"


def test_options_on_clean_files_change_nothing():
    arrays = {"logits": Z, "labels": Y}
    plain = loaded(arrays)
    settled = loaded(arrays, values="logits", labels_start_at=0, transposed=False)
    assert settled.content_hash == plain.content_hash
    assert settled.notices == plain.notices


def test_options_for_arrays_in_memory():
    data = from_arrays(logits=P.T, labels=Y + 1, values="logits", labels_start_at=1, transposed=True)
    np.testing.assert_array_equal(rows(data), np.sort(P.astype(np.float32), axis=0))
    np.testing.assert_array_equal(rows(data, "labels"), np.sort(Y))


MESS = {"val": {"a": Z[:24], "b": Y[:24]}, "more": [Z[24:], Y[24:]], "names": ["w", "x", "y", "z"], "seed": 3}


def test_roles_name_arrays_by_the_keys_that_describe_lists():
    listed = describe(pickled(MESS), name="a.p")
    keys = [info.key for info in listed]
    assert keys == ["val.a", "val.b", "more[0]", "more[1]", "names"]
    assert [info.shape for info in listed] == [(24, 4), (24,), (36, 4), (36,), (4,)]
    roles = dict(zip(["test_logits", "test_labels", "val_logits", "val_labels", "class_names"], keys, strict=True))
    data = load(pickled(MESS), name="a.p", roles=roles)
    np.testing.assert_array_equal(data.test.logits, Z[:24])
    np.testing.assert_array_equal(data.validation.labels, Y[24:])
    assert data.class_names == ("w", "x", "y", "z")


@pytest.mark.parametrize(
    "arrays",
    [
        {
            "val_logits": Z,
            "val_labels": Y,
            "test_logits": Z + 1,
            "test_labels": Y,
            "class_names": np.array(list("abcd")),
        },
        {"logits": Z, "labels": Y, "features": Z, "group": np.array(["a", "b"])[Y % 2], "junk": Z},
        {"foo": Z, "bar": Y},
    ],
)
def test_the_roles_of_describe_are_those_of_load(arrays):
    content = npz(**arrays)
    roles = {i.role: i.key for i in describe(content, name="a.npz") if i.role not in ("ignored", "unknown")}
    assert load(content, name="a.npz", roles=roles).content_hash == load(content, name="a.npz").content_hash


def test_a_role_given_by_hand_overrides_the_name():
    content = npz(logits=Z, other=Z * 2, labels=Y, features=Z)
    data = load(content, name="a.npz", roles={"logits": "other", "features": None})
    np.testing.assert_array_equal(rows(data), np.sort(Z * 2, axis=0))
    assert data.test.features is None
    assert load(content, name="a.npz").test.features is not None


def test_the_same_key_in_two_files():
    files = [("a.npz", npz(x=Z, y=Y)), ("b.npz", npz(x=Z + 1, y=Y))]
    roles = {"val_logits": "b.npz:x", "val_labels": "b.npz:y", "test_logits": "a.npz:x", "test_labels": "a.npz:y"}
    data = load(files, roles=roles)
    np.testing.assert_array_equal(data.validation.logits, Z + 1)
    with pytest.raises(LogitFileError, match="could be the logits"):
        load(files, roles={"logits": "x"})
    sides = load(val=files[:1], test=files[1:], roles={"logits": "x", "labels": "y"})
    np.testing.assert_array_equal(sides.test.logits, Z + 1)


def test_one_array_may_serve_both_splits():
    roles = {"val_logits": "z", "val_labels": "y", "test_logits": "z", "test_labels": "y"}
    data = load(npz(z=Z, y=Y), name="a.npz", roles=roles)
    np.testing.assert_array_equal(data.validation.logits, data.test.logits)
    assert "duplicate_rows" in {n.code for n in data.notices}


def test_describe_uses_names_if_the_arrays_do_not_form_a_set():
    listed = describe(npz(val_logits=Z, b=Z, c=Z, head_weight=Z), name="a.npz")
    assert [info.role for info in listed] == ["logits", "unknown", "unknown", "head_weight"]


def test_describe_says_what_cannot_be_used():
    ragged = np.array([Z[0], Z[1, :3]], dtype=object)
    listed = {info.key: info for info in describe(npz(logits=Z, labels=Y, ragged=ragged), name="a.npz")}
    assert "Python objects" in listed["ragged"].problem
    assert listed["ragged"].shape == (2,)
    assert listed["logits"].problem is None


def test_cured_probabilities_are_log_probabilities():
    data = load([("probs.npy", npy(P)), ("labels.npy", npy(Y))], values="probabilities")
    np.testing.assert_allclose(rows(data), np.sort(log_softmax(Z.astype(np.float64), axis=1), axis=0), atol=1e-5)
