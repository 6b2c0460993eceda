"""Every problem of an array is refused with its position and a fix, or corrected with a notice."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from smart_core import TS
from smart_core.data import from_arrays, load
from smart_core.data.simulate import simulate_set
from smart_core.errors import LogitFileError
from smart_core.metrics import ece
from tests.data.files import codes, example, npy, npz

Z, Y = example()


def whole(logits=Z, labels=Y, **more):
    """The set as loaded, with its rows put together again."""
    options = {k: more.pop(k) for k in ("values", "labels_start_at", "transposed") if k in more}
    return load(npz(logits=logits, labels=labels, **more), name="a.npz", **options)


def all_rows(data, name="logits"):
    return np.concatenate([getattr(data.validation, name), getattr(data.test, name)])


def spoiled(value, place=(7, 2), dtype=np.float64):
    z = Z.astype(dtype)
    z[place] = value
    return z


X = np.random.default_rng(1).normal(size=(60, 5)).astype(np.float32)
ONE_HOT = np.eye(4)[Y]
HEAD = {"features": X, "head_weight": np.ones((4, 5))}
ANIMALS = np.array(["ant", "bee", "cat", "dog"])
ALMOST = {"logits": np.full((200, 4), 0.25), "labels": np.arange(200) % 4}
ALMOST["logits"][150] = 0.4


RAGGED = np.array([row[: 3 + i % 2] for i, row in enumerate(Z)], dtype=object)
TWINS = np.array(["ant", "bee", "bee", "dog"])


def at(row, value, otherwise=Y):
    return np.where(np.arange(60) == row, value, otherwise)


REFUSED = {
    "nan": ({"logits": spoiled(np.nan)}, r"NaN or infinity in 1 place, the first at row 7, column 2"),
    "infinity": ({"logits": spoiled(np.inf)}, r"NaN or infinity in 1 place, the first at row 7, column 2"),
    "beyond float32": ({"logits": spoiled(1e300)}, r"beyond the range of float32.*row 7, column 2"),
    "label too large": ({"labels": at(9, 7)}, r"holds 7 at row 9 .*outside 0 to 3"),
    "negative label": ({"labels": at(9, -1)}, r"holds -1 at row 9"),
    "huge label": ({"labels": at(9, 2**64 - 1, Y.astype(np.uint64))}, r"row 9"),
    "fractional label": ({"labels": at(5, Y + 0.5)}, r"not an integer, at row 5"),
    "nan label": ({"labels": at(5, np.nan)}, r"holds nan, not an integer, at row 5"),
    "soft labels": ({"labels": softmax(Z, axis=1)}, r"neither a vector of labels nor one-hot"),
    "lengths": ({"labels": Y[:-1]}, r"has 60 rows but array 'labels' has 59 entries"),
    "one class": ({"logits": Z[:, :1], "labels": np.zeros(60, int)}, r"one class only"),
    "predicted classes": ({"logits": Z.argmax(1), "labels": Y}, r"single column, .* run from 0 to 3"),
    "no rows": ({"logits": Z[:0], "labels": Y[:0]}, r"is empty"),
    "no columns": ({"logits": Z[:, :0]}, r"is empty"),
    "one row": ({"logits": Z[:1], "labels": Y[:1]}, r"single row"),
    "images": ({"logits": np.zeros((60, 4, 5, 5))}, r"60 x 4 x 5 x 5 is not a matrix"),
    "object array": ({"logits": Z.astype(object)}, r"holds Python objects"),
    "complex": ({"logits": Z.astype(complex)}, r"holds complex numbers"),
    "text logits": ({"logits": Z.astype(str)}, r"holds text"),
    "text labels": ({"labels": ANIMALS[Y]}, r"text such as 'ant'"),
    "feature rows": ({"features": X[:-1]}, r"has 59 rows but the logits have 60"),
    "feature nan": ({"features": np.where(np.arange(5) == 3, np.nan, X)}, r"row 0, column 3"),
    "head shape": ({"features": X, "head_weight": np.ones((4, 6))}, r"4 x 6 where 4 classes and 5 features"),
    "head bias": ({**HEAD, "head_bias": np.ones(3)}, r"3 entries for 4 classes"),
    "cw negative": ({"cw_l2": at(3, -1.0, 1.0)}, r"1 negative distance, the first at row 3"),
    "cw rows": ({"cw_l2": np.ones(3)}, r"3 rows"),
    "group rows": ({"group": np.array(["a", "b"])}, r"2 rows"),
    "split names": ({"split": np.repeat(["left", "right"], 30)}, r"names no val rows"),
    "nearly probabilities": (ALMOST, r"looks like probabilities, but not in 1 row, .* row 150"),
    "nearly percentages": (
        {**ALMOST, "logits": 100 * ALMOST["logits"]}, r"looks like percentages, but .* is not 100 .* row 150"),
    "single label": ({"labels": np.array(3)}, r"array 'labels' is a single value"),
    "single logit": ({"logits": np.array(3.5)}, r"array 'logits' is a single number"),
    "single feature": ({"features": np.array(3.5)}, r"array 'features' is a single number"),
    "single distance": ({"cw_l2": np.array(3.5)}, r"array 'cw_l2' has 1 row"),
    "single head": ({"features": X, "head_weight": np.array(3.5)}, r"is \(\) where 4 classes and 5 features"),
    "a dict": ({"logits": np.array({"a": Z}, dtype=object)}, r"'logits' is one Python object.*np.savez"),
    "ragged rows": ({"logits": RAGGED}, r"'logits' holds Python objects.*np.stack"),
    "one name for two": ({"labels": TWINS[Y], "class_names": TWINS}, r"'bee' at row 1 .* of classes 1 and 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_sentence(case):
    arrays, words = REFUSED[case]
    with pytest.raises(LogitFileError, match=words) as caught:
        whole(**arrays)
    sentence = str(caught.value)
    assert sentence.startswith("a.npz: ")
    assert re.search(r"; .+\.$", sentence), "no cure"
    assert "\n" not in sentence


UNDERSTOOD = {
    "one-based": ({"labels": Y + 1}, "one_based_labels"),
    "one-based floats": ({"labels": Y + 1.0}, "one_based_labels"),
    "float labels": ({"labels": Y.astype(np.float32)}, "float_labels"),
    "column of labels": ({"labels": Y[:, None]}, "column_labels"),
    "row of labels": ({"labels": Y[None, :]}, "column_labels"),
    "one-hot": ({"labels": ONE_HOT}, "one_hot_labels"),
    "one-hot on its side": ({"labels": ONE_HOT.T}, "one_hot_labels"),
    "boolean one-hot": ({"labels": ONE_HOT.astype(bool)}, "one_hot_labels"),
    "transposed": ({"logits": Z.T}, "transposed"),
    "transposed, one-hot": ({"logits": Z.T, "labels": ONE_HOT}, "transposed"),
    "extra axis": ({"logits": Z[:, :, None, None]}, "split"),
    "digits as text": ({"labels": Y.astype(str)}, "split"),
    "digits as bytes": ({"labels": Y.astype("S")}, "split"),
    "int8 labels": ({"labels": Y.astype(np.int8)}, "split"),
    "names": ({"labels": ANIMALS[Y], "class_names": ANIMALS}, "split"),
    "an axis between": ({"logits": Z[:, None, :]}, "split"),
    "an axis before": ({"logits": Z[None]}, "split"),
    "big-endian": ({"logits": Z.astype(">f8"), "labels": Y.astype(">i2")}, "split"),
    "big-endian floats": ({"logits": Z.astype(">f4"), "labels": Y.astype(">f8")}, "float_labels"),
    "two classes of one name": ({"class_names": TWINS}, "split"),
    "a stray single value": ({"epoch": np.array(3)}, "ignored_arrays"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNDERSTOOD)
def test_unusual_arrays_are_read_with_a_notice(case):
    arrays, code = UNDERSTOOD[case]
    data, plain = whole(**arrays), whole()
    assert code in codes(data)
    np.testing.assert_array_equal(data.test.labels, plain.test.labels)
    np.testing.assert_array_equal(data.test.logits, plain.test.logits)


NOTED = {
    "huge": ({"logits": Z * 1e30}, "huge_logits"),
    "constant": ({"logits": np.full_like(Z, 3.0)}, "constant_logits"),
    "top two equal": ({"logits": np.repeat(Z[:, :2], 2, axis=1)}, "constant_logits"),
    "some constant rows": ({"logits": np.where(np.arange(60)[:, None] < 20, 0.5, Z)}, "tied_rows"),
    "float16": ({"logits": Z.astype(np.float16)}, "coarse_dtype"),
    "big-endian float16": ({"logits": Z.astype(">f2")}, "coarse_dtype"),
    "near the end of float32": ({"logits": Z * np.float32(1e37)}, "beyond_reach"),
    "a mask": ({"logits": np.where(np.arange(4) == 3, np.finfo(np.float32).min, Z), "labels": Y % 3}, "beyond_reach"),
    "a modest mask": ({"logits": np.where(np.arange(4) == 3, -1e5, Z), "labels": Y % 3}, "huge_logits"),
    "int8": ({"logits": np.round(Z * 8).astype(np.int8)}, "coarse_dtype"),
    "unit interval": ({"logits": 1 / (1 + np.exp(-Z))}, "maybe_probabilities"),
    "duplicates": ({"logits": np.repeat(Z, 2, 0), "labels": np.repeat(Y, 2)}, "duplicate_rows"),
    "names wrong": ({"class_names": np.array(["a", "b"])}, "class_names"),
    "head off": ({**HEAD, "head_bias": np.ones(4)}, "head_mismatch"),
    "head without features": ({"head_weight": np.ones((4, 5))}, "head_without_features"),
    "infinite distance": ({"cw_l2": at(3, np.inf, 1.0)}, "infinite_distances"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOTED)
def test_decisions_leave_notices(case):
    arrays, code = NOTED[case]
    assert code in codes(whole(**arrays))
    assert code not in codes(whole())


def test_a_clean_set_has_only_the_notice_of_its_split():
    assert codes(whole()) == {"split"}


@given(st.integers(2, 6), st.integers(0, 50), st.sampled_from([np.float32, np.float64]))
def test_probabilities_become_log_probabilities(classes, seed, dtype):
    z, y = example(30, classes, seed)
    p = softmax(z.astype(np.float64), axis=1).astype(dtype)
    data = load(npz(val_probs=p, val_labels=y, test_probs=p[::-1], test_labels=y[::-1]), name="a.npz")
    assert "probabilities" in codes(data)
    np.testing.assert_allclose(data.validation.logits, log_softmax(z, axis=1), atol=1e-4)


def test_zero_probabilities_are_floored_and_counted():
    p = np.where(ONE_HOT > 0, 1.0, 0.0)
    p[0] = [0.5, 0.5, 0.0, 0.0]
    data = load([("p.npy", npy(p)), ("labels.npy", npy(Y))])
    seen = all_rows(data)
    assert np.isfinite(seen).all()
    assert seen.min() == np.float32(np.log(0.01 / 4))  # the zeros of a row come to 1% of it at most
    text = next(n.text for n in data.notices if n.code == "probabilities")
    assert f"{np.count_nonzero(p == 0)} zeros" in text


@given(st.integers(0, 50), st.sampled_from([1e31, 1e37, 5e37]), st.booleans())
def test_margins_at_the_end_of_float32_are_finite_and_no_prediction_changes(seed, scale, mask):
    z, y = example(30, 5, seed)
    z = np.clip(z.astype(np.float64) * scale, -3.3e38, 3.3e38).astype(np.float32)
    z[::3] = example(10, 5, seed + 1)[0]  # rows of an ordinary size among them
    z[::3, 0] = np.finfo(np.float32).min if mask else 0
    data = load(npz(val_logits=z, val_labels=y, test_logits=z, test_labels=y), name="a.npz")
    seen = data.test.logits
    two = np.sort(seen, axis=1)[:, -2:]
    with np.errstate(over="raise"):
        assert np.isfinite(two[:, 1] - two[:, 0]).all()
        assert np.isfinite(seen.sum(axis=1)).all()
        assert np.isfinite(seen.max(axis=1) - seen.min(axis=1)).all()
    np.testing.assert_array_equal(seen.argmax(axis=1), z.argmax(axis=1))
    truth = softmax(z.astype(np.float64), axis=1)
    np.testing.assert_allclose(softmax(seen.astype(np.float64), axis=1), truth, atol=1e-12)
    np.testing.assert_array_equal(seen[::3, 1:], z[::3, 1:])


def test_float_max_of_a_single_column():
    z = np.where(Y % 2 == 0, -3.3e38, 3.3e38).astype(np.float32)
    seen = all_rows(whole(z, BINARY))
    assert np.abs(seen).max() <= np.float32(1e30)
    assert sorted(seen.argmax(axis=1)) == sorted(BINARY)


def test_percentages_become_log_probabilities():
    p = softmax(Z.astype(np.float64), axis=1)
    for given_, tolerance in ((100 * p, 1e-6), (np.round(100 * p, 1), 2e-3), (np.round(100 * p).astype(int), 2e-2)):
        data = load(npz(val_probs=given_, val_labels=Y, test_probs=given_, test_labels=Y), name="a.npz")
        assert "percentages" in codes(data)
        np.testing.assert_allclose(softmax(data.test.logits.astype(np.float64), axis=1), p, atol=tolerance)


def test_rounded_probabilities_get_a_notice():
    data = whole(logits=np.round(softmax(Z, axis=1), 2))
    assert "within" in next(n.text for n in data.notices if n.code == "probabilities")


def simulated_shares(classes=10):
    """Over-confident probabilities of validation and test, and their labels."""
    data = simulate_set(2000, 2000, classes, "resnet", seed=3)
    parts = data.validation, data.test
    return [softmax(part.logits.astype(np.float64), axis=1) for part in parts], [part.labels for part in parts]


def judged(shares, labels, name):
    """(ECE of TS, its NLL, ECE as given) on test, and the set."""
    (val, test), (val_y, test_y) = shares, labels
    data = load(npz(val_probs=val, val_labels=val_y, test_probs=test, test_labels=test_y), name=name)
    fitted = TS().fit(data.validation.logits, data.validation.labels)
    ts, plain = fitted.predict_proba(data.test.logits), softmax(data.test.logits, axis=1)
    nll = -np.log(ts[np.arange(len(ts)), test_y]).mean()
    return _ece(ts, test_y), nll, _ece(plain, test_y), data


def _ece(rows, labels):
    return ece(rows.max(axis=1), rows.argmax(axis=1) == labels)


@pytest.mark.parametrize(("classes", "scale", "decimals"), [(10, 1, 3), (10, 100, 1), (100, 1, 2)])
def test_rounded_shares_give_nearly_the_result_of_exact_ones(classes, scale, decimals):
    shares, labels = simulated_shares(classes)
    error, nll, plain, exact = judged([scale * p for p in shares], labels, "exact.npz")
    rounded = judged([np.round(scale * p, decimals) for p in shares], labels, "rounded.npz")
    assert rounded[0] < error + 0.01  # 0.13 to 0.24 where zeros become 1e-38
    assert rounded[1] < 1.12 * nll
    assert abs(rounded[2] - plain) < 0.015
    texts = [next(n.text for n in data.notices if n.code in ("probabilities", "percentages"))
             for data in (exact, rounded[3])]  # fmt: skip
    assert "rounded to" not in texts[0]
    assert f"look rounded to {decimals} decimal" in texts[1]
    assert ("replaced by 0.0005)" in texts[1]) == (decimals == 3)


def test_a_rounded_column_is_not_certain_either():
    p = np.round(1 / (1 + np.exp(-6 * Z[:, 0])), 3).astype(np.float32)
    data = whole(p, BINARY)
    assert all_rows(data).min() == np.float32(np.log(0.0005))
    assert "look rounded to 3 decimals" in next(n.text for n in data.notices if n.code == "binary_column")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_of_an_exact_softmax_stay_tiny(dtype):
    p = softmax(60 * Z.astype(dtype), axis=1)
    p[p < 1e-30] = 0
    data = whole(p)
    smallest = np.log(p[p > 0].min() / 2)
    np.testing.assert_allclose(all_rows(data).min(), smallest, rtol=1e-5)
    assert "rounded" not in next(n.text for n in data.notices if n.code == "probabilities")


def test_cures_by_hand():
    p = softmax(Z, axis=1)
    np.testing.assert_allclose(np.sort(all_rows(whole(p, values="logits")), 0), np.sort(p, 0))
    assert "probabilities" in codes(whole(1 / (1 + np.exp(-Z)), values="probabilities"))
    with pytest.raises(LogitFileError, match="negative"):
        whole(values="probabilities")
    with pytest.raises(LogitFileError, match="outside 0 to 3"):
        whole(labels=Y + 1, labels_start_at=0)
    ambiguous = whole(Z[Y > 0], Y[Y > 0])
    assert all_rows(ambiguous, "labels").min() == 1
    assert all_rows(whole(Z[Y > 0], Y[Y > 0], labels_start_at=1), "labels").min() == 0
    square, labels = example(4, 4)
    assert not np.array_equal(all_rows(whole(square, labels, transposed=True)), all_rows(whole(square, labels)))
    with pytest.raises(LogitFileError, match="rows"):
        whole(Z.T, transposed=False)


BINARY = (Y % 2).astype(int)


@pytest.mark.parametrize("shape", [(60,), (60, 1)])
def test_one_column_of_probabilities(shape):
    p = 1 / (1 + np.exp(-Z[:, 0].astype(np.float64)))
    data = whole(p.reshape(shape), BINARY)
    assert "binary_column" in codes(data)
    seen = softmax(all_rows(data), axis=1)
    np.testing.assert_allclose(np.sort(seen[:, 1]), np.sort(p), atol=1e-6)


@pytest.mark.parametrize("labels", [BINARY, 2 * BINARY - 1, BINARY + 1, BINARY.astype(bool)])
def test_one_column_of_logits(labels):
    data = whole(Z[:, 0], labels)
    assert data.classes == 2
    seen = all_rows(data)
    assert not seen[:, 0].any()
    np.testing.assert_array_equal(np.sort(seen[:, 1]), np.sort(Z[:, 0]))
    assert np.bincount(all_rows(data, "labels")).tolist() == np.bincount(BINARY).tolist()


def test_extremes_of_a_single_probability():
    p = np.where(BINARY, 1.0, 0.0)
    assert np.isfinite(all_rows(whole(p, BINARY))).all()


def test_both_splits_must_have_the_same_classes():
    with pytest.raises(LogitFileError, match="has 4 classes"):
        load(npz(val_logits=Z, val_labels=Y, test_logits=Z[:, :3], test_labels=np.minimum(Y, 2)), name="a.npz")


def test_unseen_class_is_named():
    seen = Y != 2
    data = load(npz(val_logits=Z[seen], val_labels=Y[seen], test_logits=Z, test_labels=Y), name="a.npz")
    assert next(n.text for n in data.notices if n.code == "unseen_classes").endswith(": 2.")


def test_duplicates_are_counted():
    data = load(npz(val_logits=Z[:20], val_labels=Y[:20], test_logits=Z[15:], test_labels=Y[15:]), name="a.npz")
    assert "5 of 45 test rows" in next(n.text for n in data.notices if n.code == "duplicate_rows")


def test_extras_follow_their_rows():
    group, cw = np.array(["snow", "fog"])[Y % 2], np.where(Y == 0, np.nan, np.arange(60.0))
    w, b = np.random.default_rng(2).normal(size=(4, 5)), np.arange(4.0)
    data = whole(X @ w.T + b, features=X, head_weight=w.T, head_bias=b, group=group, cw_l2=cw)
    assert {"head_transposed", "split"} == codes(data)
    for part in (data.validation, data.test):
        np.testing.assert_array_equal(part.group, np.array(["snow", "fog"])[part.labels % 2])
        np.testing.assert_array_equal(np.isnan(part.cw_l2), part.labels == 0)
        np.testing.assert_allclose(part.features @ data.head.weight.T + data.head.bias, part.logits, atol=1e-4)


def test_split_array_divides():
    split = np.where(np.arange(60) < 20, "validation", np.where(np.arange(60) < 50, "TEST", "train"))
    data = whole(split=split)
    np.testing.assert_array_equal(data.validation.logits, Z[:20])
    np.testing.assert_array_equal(data.test.logits, Z[20:50])
    assert "rows_left_out" in codes(data)


def test_split_seed_and_fraction():
    load_with = lambda **k: load(npz(logits=Z, labels=Y), name="a.npz", **k)  # noqa: E731
    assert load_with().content_hash == load_with().content_hash
    assert load_with(split_seed=1).content_hash != load_with().content_hash
    assert len(load_with(val_fraction=0.2).validation) == 12
    for option, bad in (("val_fraction", 0), ("val_fraction", 1.5), ("split_seed", -1), ("values", "odds"),
                        ("labels_start_at", 2), ("transposed", "yes")):  # fmt: skip
        with pytest.raises(LogitFileError, match=option.split("_")[-1]):
            load_with(**{option: bad})


def test_arrays_in_memory_are_copied():
    z = Z.copy()
    data = from_arrays(val_logits=z, val_labels=Y, test_logits=z, test_labels=Y)
    z[:] = 0
    np.testing.assert_array_equal(data.test.logits, Z)


def test_masked_values_are_not_used():
    hidden = np.ma.array(Z, mask=np.abs(Z) > 1)
    with pytest.raises(LogitFileError, match="array 'logits' has masked entries; fill them, or drop their rows"):
        from_arrays(logits=hidden, labels=Y)
    with pytest.raises(LogitFileError, match="array 'labels' has masked entries"):
        from_arrays(logits=Z, labels=np.ma.array(Y, mask=Y == 1))
    assert from_arrays(logits=np.ma.array(Z), labels=Y).classes == Z.shape[1]


@pytest.mark.parametrize("source", [(Z, Y), Z, {"logits": Z, "labels": Y}, 3])
def test_arrays_are_referred_to_from_arrays(source):
    with pytest.raises(LogitFileError, match=r"is not a file; .*from_arrays"):
        load(source)


def test_a_fraction_that_is_not_a_number():
    with pytest.raises(LogitFileError, match="must lie between 0 and 1, not half"):
        from_arrays(logits=Z, labels=Y, val_fraction="half")
