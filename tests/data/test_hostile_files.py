"""Damaged and truncated files, and files with wrong claims, are refused quickly in one sentence."""

from __future__ import annotations

import io
import os
import struct
import time
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smart_core.data import Document, load
from smart_core.data.formats.raw import MAX_AXES, MAX_CHARACTERS
from smart_core.errors import LogitFileError
from tests.data.containers import hdf5
from tests.data.files import example, npy, npz, torch_bytes
from tests.data.test_formats import FILES

Z, Y = example()
FUZZED = [
    *(
        "plain.npz",
        "compressed.npz",
        "dict.pt",
        "legacy.pth",
        "tensors.safetensors",
        "table.csv",
        "table.parquet",
    ),
    *("table.feather", "table.arrow", "compressed.mat", "matlab.mat", "pairs4.p", "dict2.pkl"),
]
EXTENSIONS = ["npz", "npy", "pt", "safetensors", "csv", "tsv", "mat", "parquet", "feather", "p", "xyz"]


def attempt(content, name):
    """Loads or is refused in one line; anything else fails the test."""
    sentence = ""
    try:
        load(content, name=name)
    except LogitFileError as error:
        sentence = str(error)
    assert "\n" not in sentence


def refused(content, name, words=r"; .+\.$"):
    start = time.perf_counter()
    with pytest.raises(LogitFileError, match=words) as caught:
        load(content, name=name)
    assert time.perf_counter() - start < 10
    assert str(caught.value).startswith(name)


@pytest.mark.parametrize("name", [n for n in FUZZED if n != "table.csv"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.97])
def test_truncated(name, share):
    content = FILES[name]
    refused(content[: int(len(content) * share)], name)


@pytest.mark.parametrize("name", FUZZED)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes(name, data):
    content = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    attempt(bytes(content), name)


@given(st.binary(max_size=300), st.sampled_from(EXTENSIONS))
def test_noise(content, extension):
    attempt(content, f"a.{extension}")


def lying_npy(shape: str, descr: str = "<f4", version: bytes = b"\x01\x00") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    size = struct.pack("<H", len(header)) if version == b"\x01\x00" else struct.pack("<I", len(header))
    return b"\x93NUMPY" + version + size + header + b"\0" * 64


def zipped(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


@pytest.mark.parametrize("shape", ["(500000000,)", "(99999999999999999999, 10)", "(-4, -4)", "(1000000, 1000)"])
def test_a_header_that_claims_more_than_the_file_holds(shape):
    refused(lying_npy(shape), "a.npy", "claims" if "-" not in shape else "a.np")
    refused(zipped(logits=lying_npy(shape), labels=npy(Y)), "a.npz", "claims" if "-" not in shape else "a.np")


def test_a_header_of_two_gigabytes():
    refused(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31 - 1) + b"{'descr'", "a.npy")
    refused(struct.pack("<Q", 2**31) + b"{}" + b" " * 50, "a.safetensors", "header claims 2.1 GB")
    refused(lying_npy("(4,)", "|O"), "a.npy", "Python objects")


def test_safetensors_offsets_are_checked():
    for entry in (
        '{"dtype":"F32","shape":[1000000000,2],"data_offsets":[0,8]}',
        '{"dtype":"F32","shape":[2],"data_offsets":[0,8000000]}',
        '{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}',
        '{"dtype":"F32","shape":[-2,-1],"data_offsets":[0,8]}',
        '{"dtype":"F32","shape":["x"],"data_offsets":[0,8]}',
        "[]",
        "[" * 100_000,
    ):
        header = f'{{"logits":{entry}}}'.encode()
        words = "does not fit the bytes" if '"shape":[' in entry and "x" not in entry else "cannot be read"
        refused(struct.pack("<Q", len(header)) + header + b"\0" * 8, "a.safetensors", words)


def test_torch_tensors_are_checked_against_their_storage():
    """The pickle says a million numbers, the storage has 240."""
    good = torch_bytes({"logits": torch.from_numpy(Z), "labels": torch.from_numpy(Y)})
    evil = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as source, zipfile.ZipFile(evil, "w") as target:
        for member in source.namelist():
            data = source.read(member)
            if member.endswith("data.pkl"):
                assert b"K<K\x04\x86" in data, "the shape (60, 4)"
                data = data.replace(b"K<K\x04\x86", b"J\x40\x42\x0f\x00K\x04\x86")
            target.writestr(member, data)
    refused(evil.getvalue(), "a.pt", "larger than its bytes")


def test_expanded_tensors_are_not_bombs():
    refused(torch_bytes({"logits": torch.zeros(1).expand(10**9, 10), "labels": torch.zeros(3)}), "a.pt", "claims")


def test_zip_bombs():
    bomb = zipped(logits=lying_npy("(18000000, 4)")[:-64] + b"\0" * 288_000_000)
    assert len(bomb) < 500_000
    refused(bomb, "a.npz", "decompression bomb")
    refused(bomb, "a.pt", "decompression bomb")


def test_compressible_arrays_are_not_bombs():
    zeros = np.zeros((200_000, 10), np.float32)
    zeros[:, 0] = 1
    stream = io.BytesIO()
    np.savez_compressed(stream, logits=zeros * 5, labels=np.arange(200_000) % 10)
    assert len(stream.getvalue()) * 20 < zeros.nbytes
    assert load(stream.getvalue(), name="a.npz").classes == 10


def test_what_is_not_a_file(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    fifo = tmp_path / "fifo.npz"
    os.mkfifo(fifo)
    for bad, words in (
        (tmp_path / "none.npz", "no such file"),
        (folder, "is a folder"),
        (fifo, "device or a pipe"),
        ("/dev/zero", "device or a pipe"),
        ("a\0b.npz", "cannot be opened"),
        (42, "is not a file"),
        ([42], "is not a file"),
        ([], "No file was given"),
        (None, "No file was given"),
    ):
        with pytest.raises(LogitFileError, match=words):
            load(bad)
    with pytest.raises(LogitFileError, match="not both"):
        load("a.npz", val="b.npz", test="c.npz")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(npz(logits=Z, labels=Y))
    path.chmod(0)
    with pytest.raises(LogitFileError, match="not allowed to read"):
        load(path)


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b"", "a.npz", "is empty"),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * 600, "a.h5", "HDF5"),
        (b"MATLAB 7.3 MAT-file".ljust(600), "a.mat", "cannot be read as an HDF5 file"),
        (b"\x1f\x8b\x08\x00" + b"\0" * 50, "a.csv.gz", "gzip"),
        (b"\xde\xad\xbe\xef" * 20, "a.xyz", "npz, npy, pt"),
        (b"hello world\nthis is a letter\n", "letter.txt", "not a table"),
        (b"<html><body>404</body></html>", "a.npz", "is text"),
        (b"PK\x05\x06" + b"\0" * 18, "a.npz", "zip archive without arrays"),
        (b"a,b,label\n", "a.csv", "without rows"),
        (b"a,b,label\n1,2,0,9,9\n1,2\n", "a.csv", "cannot be read"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 20, "a.jpg", "picture"),
    ],
)
def test_recognised_formats_that_are_not_read(content, name, words):
    refused(content, name, words)


def test_names_cannot_break_the_sentence():
    with pytest.raises(LogitFileError) as caught:
        load(b"\0\1\2", name="../../etc/evil\nname\x1b[31m" + "x" * 500 + ".npz")
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "/etc/" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_what_a_file_claims_is_cut_before_it_is_used():
    shape = "[" + ",".join(["1"] * 100_000) + "]"
    header = f'{{"a": {{"dtype": "Q", "shape": {shape}, "data_offsets": [0, 0]}}}}'.encode()
    (info,) = Document.open(struct.pack("<Q", len(header)) + header, name="a.safetensors").describe()
    assert info.shape == (1,) * MAX_AXES
    models = {f"{k}{'x' * 60_000}/{name}": values for k in range(2) for name, values in (("logits", Z), ("labels", Y))}
    groups = Document.open(hdf5(models), name="a.h5").groups
    assert [len(group) for group in groups] == [MAX_CHARACTERS] * 2
