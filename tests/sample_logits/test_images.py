"""Published files become the right arrays, and what is held out is never trained on."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from sample_logits import cifar10, fashion, images


def tiny_package(path: Path, train: images.Bytes, test: images.Bytes) -> None:
    """Two images a file, written pixel by pixel as the package has them: one image a row, row after row of it."""

    def png(block: images.Bytes) -> bytes:
        picture = Image.new("RGB", (1024, len(block)))
        for row, image in enumerate(block):
            for y in range(32):
                for x in range(32):
                    picture.putpixel((32 * y + x, row), tuple(int(value) for value in image[y, x]))
        file = io.BytesIO()
        picture.save(file, "PNG")
        return file.getvalue()

    files = {f"data_batch_{i + 1}.png": png(train[2 * i : 2 * i + 2]) for i in range(5)}
    files["test_batch.png"] = png(test)
    files["train_lables.json"] = json.dumps(list(range(10))).encode()
    files["test_lables.json"] = json.dumps([7, 3]).encode()
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def test_cifar10_package_decodes_to_its_images(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    train = random.integers(0, 256, (10, 32, 32, 3), dtype=np.uint8)
    test = random.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    tiny_package(tmp_path / "p.tgz", train, test)
    data = cifar10.decode(tmp_path / "p.tgz")
    np.testing.assert_array_equal(data.train_images, train)
    np.testing.assert_array_equal(data.test_images, test)
    assert data.train_labels.tolist() == list(range(10))
    assert data.test_labels.tolist() == [7, 3]


def test_fashion_files_decode_to_their_images(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    for name in fashion.CHECKSUMS:
        head = struct.pack(">4B3I", 0, 0, 8, 3, 3, 28, 28) if "images" in name else struct.pack(">4BI", 0, 0, 8, 1, 3)
        body = pixels.tobytes() if "images" in name else bytes([4, 0, 9])
        (tmp_path / name).write_bytes(gzip.compress(head + body))
    data = fashion.decode(tmp_path)
    np.testing.assert_array_equal(data.test_images[..., 0], pixels)
    assert data.train_labels.tolist() == [4, 0, 9]


def test_file_that_is_not_idx_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(ValueError, match="not an idx file"):
        fashion.idx(tmp_path / "x.gz")


@given(per_class=st.integers(0, 6), seed=st.integers(0, 100))
def test_held_out_rows_are_balanced_and_disjoint_from_the_others(per_class: int, seed: int) -> None:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(5, dtype=np.uint8), 6))
    rows, held = images.hold_out(labels, per_class, seed)
    assert sorted([*rows, *held]) == list(range(30))
    assert np.bincount(labels[held], minlength=5).tolist() == [per_class] * 5


def test_held_out_rows_differ_by_seed_and_repeat_for_one() -> None:
    labels = np.repeat(np.arange(5, dtype=np.uint8), 60)
    first, again, other = (images.hold_out(labels, 10, seed)[1].tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_number_for_each_class_is_held_out() -> None:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(3, dtype=np.uint8), 6))
    rows, held = images.hold_out(labels, (6, 3, 1), seed=0)
    assert np.bincount(labels[held]).tolist() == [6, 3, 1]
    assert sorted([*rows, *held]) == list(range(18))
    with pytest.raises(ValueError, match="shorter"):
        images.hold_out(labels, (6, 3), seed=0)


def test_thinned_set_keeps_each_image_with_its_label_and_the_test_part() -> None:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(3, dtype=np.uint8), 6))
    whole = images.ImageSet(labels[:, None, None, None], labels, labels[:4, None, None, None], labels[:4])
    thin = images.thinned(whole, (6, 3, 1), seed=0)
    assert np.bincount(thin.train_labels).tolist() == [6, 3, 1]
    np.testing.assert_array_equal(thin.train_images[:, 0, 0, 0], thin.train_labels)
    assert thin.test_images is whole.test_images


def balanced() -> images.ImageSet:
    pixels = np.zeros((6, 4, 4, 1), dtype=np.uint8)
    labels = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)
    return images.ImageSet(pixels, labels, pixels[:3], labels[:3])


def test_balanced_set_passes() -> None:
    images.check_balance(balanced(), 3, train_per_class=2, test_per_class=1)


@pytest.mark.parametrize(
    "broken",
    [
        lambda ok: images.ImageSet(ok.train_images[:5], ok.train_labels, ok.test_images, ok.test_labels),
        lambda ok: images.ImageSet(ok.train_images, np.sort(ok.train_labels) // 2, ok.test_images, ok.test_labels),
        lambda ok: images.ImageSet(ok.train_images, ok.train_labels, ok.test_images[:0], ok.test_labels[:0]),
        lambda ok: images.ImageSet(ok.train_images, ok.train_labels, ok.train_images, ok.train_labels),
    ],
    ids=["images missing", "labels mixed up", "no test part", "test part too long"],
)
def test_unbalanced_set_is_refused(broken: Callable[[images.ImageSet], images.ImageSet]) -> None:
    with pytest.raises(ValueError, match="part has"):
        images.check_balance(broken(balanced()), 3, train_per_class=2, test_per_class=1)


def test_set_is_decoded_once(tmp_path: Path) -> None:
    calls = []

    def decode() -> images.ImageSet:
        calls.append(1)
        return balanced()

    for _ in range(2):
        stored = images.cached(tmp_path / "set.npz", decode)
        np.testing.assert_array_equal(stored.train_labels, [0, 1, 2, 0, 1, 2])
    assert len(calls) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["set.npz"]
