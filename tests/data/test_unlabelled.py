"""`apply` reads the same forms of logits as `fit`, without labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from smart_core.data import Document
from smart_core.errors import LogitFileError
from tests.data.files import example, npy, npz, pickled

Z, Y = example()
P = softmax(Z.astype(np.float64), axis=1)
X = np.random.default_rng(1).normal(size=(60, 5)).astype(np.float32)
SIGMOID = 1 / (1 + np.exp(-Z[:, 0].astype(np.float64)))


def read(content, **options):
    (part,) = Document.open(content, name="a.npz").logits(**options).values()
    return part


def said(part):
    return {notice.code for notice in part.notices}


FORMS = {
    "logits": ({"logits": Z}, {}),
    "logits and labels": ({"logits": Z, "labels": Y}, {}),
    "an unknown name": ({"foo": Z}, {}),
    "beside unnamed labels": ({"foo": Z, "bar": Y}, {}),
    "big-endian": ({"logits": Z.astype(">f8")}, {}),
    "an axis between": ({"logits": Z[:, None, :]}, {}),
    "an axis behind": ({"logits": Z[:, :, None, None]}, {}),
    "an axis before": ({"foo": Z[None]}, {}),
    "transposed, classes known": ({"logits": Z.T}, {"classes": 4}),
    "transposed, labels there": ({"logits": Z.T, "labels": Y}, {}),
    "transposed, as said": ({"logits": Z.T}, {"transposed": True}),
    "logits and probabilities": ({"probs": P, "logits": Z}, {}),
    "logits, probabilities, predictions": ({"probs": P, "logits": Z, "predictions": Z.argmax(1)}, {}),
    "by hand": ({"a": P, "b": Z}, {"roles": {"logits": "b"}}),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_logits(form):
    arrays, options = FORMS[form]
    np.testing.assert_array_equal(read(npz(**arrays), **options).logits, Z)


@pytest.mark.parametrize("scale", [1, 100])
def test_probabilities_and_percentages(scale):
    part = read(npz(probs=P * scale))
    np.testing.assert_allclose(part.logits, log_softmax(Z.astype(np.float64), axis=1), atol=1e-5)
    assert said(part) == {"probabilities" if scale == 1 else "percentages"}
    np.testing.assert_array_equal(read(npz(probs=P), values="logits").logits, P.astype(np.float32))


@pytest.mark.parametrize("shape", [(60,), (60, 1), (1, 60)])
def test_one_column_is_class_1_of_2(shape):
    part = read(npz(logits=(Z[:, 0] * 3).reshape(shape)), classes=2, transposed=shape == (1, 60) or None)
    np.testing.assert_array_equal(part.logits, np.stack([np.zeros(60), Z[:, 0] * 3], axis=1))
    part = read(npz(scores=SIGMOID.reshape(shape)), classes=2, transposed=shape == (1, 60) or None)
    np.testing.assert_allclose(softmax(part.logits, axis=1)[:, 1], SIGMOID, atol=1e-6)
    assert "binary_column" in said(part)


def test_one_sample():
    np.testing.assert_array_equal(read(npz(logits=Z[0]), classes=4).logits, Z[:1])


def test_both_splits_are_read_alike():
    content = npz(val_logits=SIGMOID, test_logits=SIGMOID * 9)
    parts = Document.open(content, name="a.npz").logits()
    assert set(parts) == {"val_", "test_"}
    np.testing.assert_array_equal(parts["val_"].logits[:, 1], SIGMOID.astype(np.float32))


def test_features_follow():
    part = read(npz(logits=Z, features=X))
    np.testing.assert_array_equal(part.features, X)
    with pytest.raises(LogitFileError, match=r"has 59 rows but the logits have 60"):
        read(npz(logits=Z, features=X[:-1]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npz(a=Z, b=Z + 1), "several arrays could be the logits: 'a', 'b'"),
        (npz(labels=Y), "no logits were found"),
        (npz(logits=Z.astype(str)), "holds text"),
        (npz(logits=np.array(3.0)), "'logits' is a single number"),
        (npz(logits=Z[:, :0]), "is empty"),
        (npz(val_logits=Z, test_logits=Z[:, :3]), "has 4 classes"),
        (npz(logits=np.where(Z > 2, np.nan, Z)), "NaN or infinity"),
        (npz(foo=np.array([Z[0], Z[1, :3]], dtype=object)), "'foo' holds Python objects.*np.stack"),
    ],
)
def test_refused_in_one_sentence(content, words):
    with pytest.raises(LogitFileError, match=words) as caught:
        read(content)
    assert str(caught.value).startswith("a.npz: ")


def test_notices_of_the_file_are_kept():
    assert "format" in said(next(iter(Document.open(npy(Z), name="a.txt").logits().values())))
    assert next(iter(Document.open(pickled({"logits": Z}), name="a.p").logits().values())).notices == ()


def test_apply_reads_rounded_probabilities_as_fit_does():
    rows = np.round(softmax(4 * Z, axis=1), 3)
    part = read(npz(probs=rows))
    assert part.logits.min() == np.float32(np.log(0.0005))
    assert "look rounded to 3 decimals" in part.notices[0].text
