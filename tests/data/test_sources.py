"""Open files, uploads and arrays in memory are loaded like paths."""

from __future__ import annotations

import io
import tempfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import smart_core as sc
from smart_core.data import Head, LogitSet, Part, from_arrays, load
from smart_core.errors import LogitFileError
from tests.data.files import codes, example, npz, pickled

Z, Y = example()
CONTENT = npz(logits=Z, labels=Y)
PLAIN = load(CONTENT, name="a.npz")


class Upload(io.BytesIO):
    """What a browser's upload looks like: bytes with a name."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name


def test_an_open_file(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(CONTENT)
    with path.open("rb") as stream:
        data = load(stream)
        assert data.name == "model"
        assert data.content_hash == PLAIN.content_hash
        assert load(stream).content_hash == PLAIN.content_hash, "read a second time"


def test_bytes_in_memory():
    assert load(io.BytesIO(CONTENT)).content_hash == PLAIN.content_hash
    named = load(io.BytesIO(pickled({"logits": Z, "labels": Y}, 0)), name="b.pkl")
    assert (named.name, named.content_hash) == ("b", PLAIN.content_hash)


def test_uploads_are_named_by_their_files():
    data = load([Upload(npz(x=Z), "logits.npz"), Upload(npz(x=Y), "labels.npz")])
    assert data.content_hash == PLAIN.content_hash
    assert "guessed_roles" not in codes(data)
    sides = load(val=Upload(CONTENT, "v.npz"), test=[Upload(CONTENT, "t.npz")])
    np.testing.assert_array_equal(sides.validation.logits, Z)
    with pytest.raises(LogitFileError, match=r"^evil\.npz: is empty"):
        load(Upload(b"", "/etc/evil.npz"))


def test_a_stream_without_a_name_that_cannot_seek():
    with tempfile.TemporaryFile() as stream:  # its name is a number
        stream.write(CONTENT)
        assert load(stream, name="c.npz").name == "c"
    read_once = io.BytesIO(CONTENT)
    read_once.seekable = lambda: False
    assert load(read_once).content_hash == PLAIN.content_hash


def test_a_file_opened_in_text_mode():
    table = pd.DataFrame(Z, columns=[f"logit_{k}" for k in range(4)]).assign(label=Y).to_csv(index=False)
    assert load(io.StringIO(table), name="a.csv").classes == 4


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(CONTENT)
    with path.open() as stream, pytest.raises(LogitFileError, match=r"^a\.npz: cannot be read .*'rb'"):
        load(stream)
    with path.open("rb") as stream:
        pass
    with pytest.raises(LogitFileError, match=r"^a\.npz: cannot be read \(.*closed"):
        load(stream)
    odd = io.BytesIO()
    odd.read = lambda _size=-1: 42
    with pytest.raises(LogitFileError, match="gives int when read"):
        load(odd)


def test_a_saved_calibrator_is_recognised(tmp_path):
    sc.TS().fit(Z, Y).save(tmp_path / "ts.safetensors")
    with pytest.raises(LogitFileError, match=r"ts\.safetensors: is a saved calibrator, not logits; .*load_calibrator"):
        load(tmp_path / "ts.safetensors")


IN_MEMORY = {
    "tensors": lambda z, y: (torch.from_numpy(z), torch.from_numpy(y)),
    "with a gradient": lambda z, y: (torch.from_numpy(z).requires_grad_(), torch.from_numpy(y)),
    "negated lazily": lambda z, y: (torch._neg_view(torch.from_numpy(-z)), torch.from_numpy(y)),
    "lists": lambda z, y: (z.tolist(), y.tolist()),
    "pandas": lambda z, y: (pd.DataFrame(z), pd.Series(y)),
    "big-endian": lambda z, y: (z.astype(">f8"), y.astype(">i4")),
    "one tensor a row": lambda z, y: ([torch.from_numpy(row) for row in z], list(y)),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_arrays_of_other_kinds(kind):
    logits, labels = IN_MEMORY[kind](Z, Y)
    assert from_arrays(logits=logits, labels=labels).content_hash == PLAIN.content_hash


def test_bfloat16_in_memory():
    halves = torch.from_numpy(Z).bfloat16()
    data = from_arrays(val_logits=halves, val_labels=Y, test_logits=halves, test_labels=Y)
    np.testing.assert_array_equal(data.test.logits, halves.float().numpy())
    assert "coarse_dtype" in codes(data)


def test_arrays_that_are_not_arrays():
    with pytest.raises(LogitFileError, match="array 'logits' is a list that cannot be made an array"):
        from_arrays(logits=[[1.0, 2.0], [3.0]], labels=[0, 1])
    with pytest.raises(LogitFileError, match="has 60 rows but array 'labels' has 59 entries"):
        from_arrays(logits=Z.tolist(), labels=Y.tolist()[:-1])
    with pytest.raises(LogitFileError, match="complex"):
        from_arrays(logits=torch.from_numpy(Z + 1j).conj(), labels=Y)


WRONG_PARTS = {
    "a tensor": (lambda: Part(torch.from_numpy(Z), Y), "logits is a Tensor where a NumPy array"),
    "a list": (lambda: Part(Z.tolist(), Y), "logits is a list"),
    "float64": (lambda: Part(Z.astype(np.float64), Y), "60x4 of float64 where a matrix of float32"),
    "big-endian": (lambda: Part(Z.astype(">f4"), Y), "of >f4 where a matrix of float32"),
    "a vector": (lambda: Part(Z[:, 0].copy(), Y), "60 of float32 where a matrix"),
    "on its side": (lambda: Part(Z.T, Y[:4]), "not C-contiguous"),
    "labels too short": (lambda: Part(Z, Y[:-1]), "labels has 59 rows and logits 60"),
    "labels of floats": (lambda: Part(Z, Y.astype(float)), "labels is 60 of float64 where a vector of int64"),
    "labels in a list": (lambda: Part(Z, Y.tolist()), "labels is a list"),
    "labels beyond": (lambda: Part(Z, Y + 1), "labels run from 1 to 4 where the logits have 4 columns"),
    "features too short": (lambda: Part(Z, Y, features=Z[1:]), "features has 59 rows"),
    "distances": (lambda: Part(Z, Y, cw_l2=Z[:, 0].copy()), "cw_l2 is 60 of float32"),
    "group": (lambda: Part(Z, Y, group=Y), "group is 60 of int64 where a vector of strings"),
    "sides": (lambda: LogitSet("a", PLAIN.validation, from_arrays(logits=Z[:, :3], labels=Y % 3).test), "4 classes"),
    "no part": (lambda: LogitSet("a", Z, PLAIN.test), "is a ndarray where a Part"),
    "names": (lambda: replace(PLAIN, class_names=("a", "b")), "2 class names for 4 classes"),
}


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_parts_made_by_hand_are_checked(case):
    make, words = WRONG_PARTS[case]
    with pytest.raises(LogitFileError, match=words) as caught:
        make()
    assert str(caught.value).endswith("from_arrays converts and checks arrays of any kind.")


def test_valid_parts_made_by_hand_are_not_copied():
    part = Part(Z, Y, features=Z, cw_l2=np.full(60, np.nan), group=np.array(["a"] * 60))
    assert part.logits is Z
    assert len(Part(Z[:0], Y[:0])) == 0
    assert len(sc.simulate(20)[::2].part()) == 10
    data = LogitSet("a", part, part, Head(Z[:4], Z[0]), ("a", "b", "c", "d"))
    assert data.with_parts(test=part.subset(np.arange(5))).classes == 4
