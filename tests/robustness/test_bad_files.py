"""Broken and odd files end in a set or in one plain sentence: a sample of the generator, and each defect it has found.

The full form is `python -m tests.robustness.soak files [COUNT [SEED]]`.
"""

from __future__ import annotations

import io
import json
import struct
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

import smart_core as sc
from tests.conftest import COUNTED
from tests.data.files import npz
from tests.data.test_hostile_files import lying_npy
from tests.robustness.arrays import Y, Z, rich
from tests.robustness.case import Case
from tests.robustness.generator import FULL, cases, sample
from tests.robustness.mutations import mutated
from tests.robustness.names import HOSTILE_NAMES
from tests.robustness.trial import faults, sentence_faults, table, tried
from tests.timing import slowdown

SHORT = 250
LIMIT = 5.0


def test_a_sample_of_the_odd_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, Any], None]
) -> None:
    chosen = sample(SHORT)
    outcomes = list(tried(chosen, tmp_path))
    with capsys.disabled():
        print(f"\n{table(outcomes)}")
    record_property(COUNTED, ["files: broken or odd", len(outcomes)])
    assert len(outcomes) == len(chosen) >= SHORT
    assert faults(outcomes) == []


NEWEST = {
    "HDF5": (".h5", ".hdf5"),
    "MATLAB 7.3": ("73.mat",),
    "zarr": (".zip",),
    "JSON": (".json",),
    "JSON lines": (".jsonl",),
    "compressed": (".gz", ".bz2", ".xz", ".zst"),
}
"""Formats that libraries read, or that unpack to another: the endings of their sound files."""


@pytest.mark.long
@pytest.mark.parametrize("format", NEWEST)
def test_damaged_files_of_a_format(
    format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, Any], None]
) -> None:
    outcomes = list(tried(list(islice(mutated(7, *NEWEST[format]), 300)), tmp_path))
    with capsys.disabled():
        print(f"\n{table(outcomes)}")
    record_property(COUNTED, ["files: broken or odd", len(outcomes)])
    assert faults(outcomes) == []


def test_the_generator_is_deterministic_and_large() -> None:
    first, second = cases(seed=3), cases(seed=3)
    canary = Path("canary")
    assert len(first) == FULL >= 2000
    assert [case.name for case in first] == [case.name for case in second]
    for one, two in list(zip(first, second, strict=True))[2300::97]:
        assert one.make(canary) == two.make(canary), one
    other = cases(seed=4)
    assert any(one.make(canary) != two.make(canary) for one, two in list(zip(first, other, strict=True))[-50:])


def test_the_worker_detects_every_kind_of_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial itself is tested: each of these breaks a promise."""
    monkeypatch.setattr("tests.robustness.trial.SECONDS", 0.0)
    sound = Case("a.npz", "sound", lambda _: npz(logits=Z, labels=Y))
    (outcome,) = tried([sound], tmp_path)
    assert outcome.result == "loaded"
    assert [fault[:4] for fault in outcome.faults] == ["took"]
    assert list(sentence_faults("a.npz: <x object at 0x7f0011223344>.", "a.npz")) == ["speaks of the program"]
    assert list(sentence_faults("a.npz: two\nlines.", "a.npz")) == ["not one printable line"]
    assert list(sentence_faults("broken", "a.npz")) == [
        "does not begin with the file's name", "does not end like a sentence",
    ]  # fmt: skip


def refusal(content: bytes, name: str) -> str:
    with pytest.raises(sc.LogitFileError) as caught:
        sc.load(content, name=name)
    said = str(caught.value)
    assert list(sentence_faults(said, name)) == []
    return said


def test_a_header_with_an_expression_is_not_shown_as_an_object() -> None:
    assert "0x" not in refusal(lying_npy("(10**9, 4)"), "a.npy")


def test_a_tensor_name_cannot_break_the_sentence() -> None:
    for name in ("two\nlines\x1b[31m", "x" * 5000):
        for entry in ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
                      {"dtype": "F\x1b[31m\n" + "x" * 900, "shape": [2], "data_offsets": [0, 8]}):  # fmt: skip
            header = json.dumps({name: entry}).encode()
            refusal(struct.pack("<Q", len(header)) + header + bytes(8), "a.safetensors")


def test_very_many_tensors_are_refused_before_they_are_made() -> None:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"k{i}": entry for i in range(10_001)}).encode()
    assert "10,001 arrays" in refusal(struct.pack("<Q", len(header)) + header, "a.safetensors")


def test_wide_tables_are_read_in_time() -> None:
    columns = 6000
    values = {f"c{i}": np.zeros(4, np.float32) for i in range(columns)}
    stream = io.BytesIO()
    pyarrow.feather.write_feather(pa.table({**values, "label": [0, 1, 0, 1]}), stream)
    start = time.process_time()
    assert sc.load(stream.getvalue(), name="a.feather").classes == columns
    assert time.process_time() - start < LIMIT * slowdown()


def test_a_table_of_many_text_columns_is_refused() -> None:
    columns = 1200
    header = ",".join([*(f"c{i}" for i in range(columns)), "label"])
    rows = "\n".join(",".join(["x"] * columns) + f",{k}" for k in (0, 1))
    assert "columns of text" in refusal(f"{header}\n{rows}\n".encode(), "a.csv")


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_file_names(name: str) -> None:
    """Names as a browser or a script may pass them."""
    data = sc.load(npz(logits=Z, labels=Y), name=f"{name}.npz")
    assert data.name.isprintable()
    assert all(str(notice).isprintable() for notice in data.notices)
    with pytest.raises(sc.LogitFileError) as caught:
        sc.load(b"\x93NUMPY", name=f"{name}.npy")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if name.strip()])
def test_names_inside_files_can_be_written_anywhere(name: str) -> None:
    """No control character, lone surrogate or direction mark survives loading."""
    content = npz(**{**rich(), "test_group": np.full(30, name), "class_names": np.array([name, "b", "c", "d"])})
    data = sc.load(content, name="a.npz")
    assert data.class_names is not None
    assert data.test.group is not None
    for text in (data.class_names[0], str(data.test.group[0])):
        text.encode()
        assert not set(text) & set("\n\r\t\x00\x07\x1b\u202e\ufeff")
    records = [{"logits": row, "label": k, name: k} for row, k in zip(Z.tolist(), Y.tolist(), strict=True)]
    data = sc.load("".join(f"{json.dumps(record)}\n" for record in records).encode(), name="a.jsonl")
    assert data.content_hash
    assert all(known.isprintable() for known in data.test.metadata)


def test_text_labels_and_class_names_are_cleaned_alike() -> None:
    names = np.array(["a\x1b", "b", "c", "d"])
    data = sc.load(npz(logits=Z, labels=names[Y], class_names=names), name="a.npz")
    assert data.class_names == ("a?", "b", "c", "d")
    assert set(data.test.labels.tolist()) == {0, 1, 2, 3}
