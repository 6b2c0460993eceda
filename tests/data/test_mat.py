"""MATLAB files as SciPy writes them, and files on which SciPy's reader crashes."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import scipy.io

from smart_core.data import load
from smart_core.data.formats.mat_file import read_mat
from smart_core.data.formats.raw import Source
from smart_core.errors import LogitFileError
from tests.data.files import example

DTYPES = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]


def written(arrays, **options) -> dict:
    stream = io.BytesIO()
    scipy.io.savemat(stream, arrays, **options)
    return {item.key: item for item in read_mat(Source("a.mat", stream.getvalue())).arrays}


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_number_type(dtype, compress):
    values = np.random.default_rng(0).integers(0, 2, (7, 3)).astype(dtype)
    found = written({"a": values, "empty": values[:0], "deep": values.reshape(7, 3, 1)}, do_compression=compress)
    np.testing.assert_array_equal(found["a"].values, values)
    assert found["a"].values.dtype == np.dtype(dtype)
    assert found["empty"].shape == (0, 3)
    np.testing.assert_array_equal(found["deep"].values.reshape(7, 3), values)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i2", "u1"])
def test_version_4(dtype):
    values = np.arange(12).reshape(4, 3).astype(dtype)
    found = written({"a": values, "b": values.T, "t": "text"}, format="4")
    np.testing.assert_array_equal(found["a"].values, values)
    np.testing.assert_array_equal(found["b"].values, values.T)
    assert found["t"].values.tolist() == ["text"]


def test_text_and_cells():
    cells = np.array(["ant", "bée", "c"], dtype=object)
    found = written({"chars": np.array(["one", "three"]), "cells": cells, "mixed": np.array([1, "a"], object)})
    assert found["chars"].values.tolist() == ["one", "three"]
    assert found["cells"].values.tolist() == ["ant", "bée", "c"]
    assert found["mixed"].problem


@pytest.mark.parametrize("value", [{"x": 1.0}, np.array([1j]), scipy.sparse.eye_array(3).tocsc()])
def test_other_kinds_are_marked(value):
    assert written({"a": value})["a"].problem


def test_class_names_in_cells():
    z, y = example()
    stream = io.BytesIO()
    names = np.array(["a", "b", "c", "d"], dtype=object)
    scipy.io.savemat(stream, {"logits": z, "labels": y + 1, "class_names": names})
    assert load(stream.getvalue(), name="a.mat").class_names == ("a", "b", "c", "d")


@pytest.mark.parametrize("kind", [0, 8, 10, 11, 14, 19, 200])
def test_unknown_element_types(kind):
    """SciPy looks such a type up in a table without an entry for it: it crashes or fails, as what lies there has it."""
    z, y = example()
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"logits": z.astype(np.float32), "labels": y})
    content = stream.getvalue()
    place = content.index(struct.pack("<II", 7, z.nbytes))
    with pytest.raises(LogitFileError, match=r"a\.mat: could not be read: its reader (crashed|stopped)"):
        load(content[:place] + struct.pack("<I", kind) + content[place + 4 :], name="a.mat")
