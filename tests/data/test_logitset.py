"""The set itself, and its round trip through the project's own bundles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from smart_core.data import from_arrays, load, save_bundle
from smart_core.data.logitset import LogitSet, Part
from smart_core.errors import LogitFileError
from tests.conftest import ROOT
from tests.data.files import example


def full():
    z, y = example()
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    sides = {}
    for side, rows in (("val", slice(0, 20)), ("test", slice(20, 60))):
        sides[f"{side}_logits"], sides[f"{side}_labels"], sides[f"{side}_features"] = (
            z[rows],
            y[rows],
            x[rows],
        )
        sides[f"{side}_cw_l2"] = np.where(y[rows] == 1, np.nan, 0.5)
        sides[f"{side}_group"] = np.array(["fog", "é", "snow", "fog"])[y[rows]]
    names = np.array(["a", "b", "ç", "d"])
    return from_arrays("full", **sides, head_weight=np.ones((4, 3)), head_bias=np.zeros(4), class_names=names)


def pairs(data, name):
    """What each row carries, as a multiset: the array beside the logits it belongs to."""
    return sorted(
        (row.tobytes(), int(label), str(value))
        for part in (data.validation, data.test)
        for row, label, value in zip(part.logits, part.labels, getattr(part, name), strict=True)
    )


def test_parts_made_by_hand_need_rows_and_two_classes():
    part = full().test
    few = {"no rows": part.subset(np.arange(0)), "one class": Part(part.logits[:, :1].copy(), part.labels * 0)}
    for side in few.values():
        for pair in ((part, side), (side, part)):
            with pytest.raises(LogitFileError, match="where at least 1 x 2 is needed"):
                LogitSet("by hand", *pair)
    with pytest.raises(LogitFileError, match="logits has masked entries; fill them"):
        Part(np.ma.array(part.logits, mask=part.logits > 0), part.labels)


def test_resplit_pools_and_splits_again():
    data = full()
    again = data.resplit(0.5, seed=3)
    assert (len(again.validation), len(again.test)) == (30, 30)
    for name in ("features", "cw_l2", "group"):
        assert pairs(again, name) == pairs(data, name)
    for k in range(4):
        share = np.sum(again.validation.labels == k)
        assert share in (7, 8)
    assert again.class_names == data.class_names
    np.testing.assert_array_equal(again.head.weight, data.head.weight)
    assert len(data.resplit(0.2).validation) == 12


def test_resplit_changes_the_content_hash():
    data = full()
    hashes = [data.resplit(f, s).content_hash for f in (0.3, 0.5) for s in (0, 1, 2)]
    assert len({data.content_hash, *hashes}) == 7
    assert data.resplit(0.5, 1).content_hash == hashes[4]


def test_resplit_updates_the_notices():
    z, y = example()
    data = from_arrays(val_logits=z[y != 2], val_labels=y[y != 2], test_logits=z, test_labels=y)
    before = {notice.code for notice in data.notices}
    assert {"unseen_classes", "duplicate_rows"} <= before
    again = data.resplit(0.5, 0)
    after = [notice.code for notice in again.notices]
    assert "unseen_classes" not in after
    assert after.count("split") == 1
    thrice = again.resplit(0.4, 1).resplit(0.6, 2)
    assert [notice.code for notice in thrice.notices].count("split") == 1
    assert "fraction 0.6, seed 2" in next(n.text for n in thrice.notices if n.code == "split")


def test_resplit_of_what_one_part_lacks():
    data = full()
    bare = replace(data.test, features=None, cw_l2=None, group=None)
    again = data.with_parts(test=bare).resplit(0.5, 0)
    assert again.test.features is None
    assert again.head is None
    assert "pooled_features" in {notice.code for notice in again.notices}
    both = np.concatenate([again.validation.group, again.test.group])
    assert np.sum(both == "") == len(bare)
    assert sorted(both[both != ""]) == sorted(data.validation.group)
    for bad in ({"val_fraction": 1.0}, {"seed": -1}):
        with pytest.raises(LogitFileError):
            data.resplit(**bad)


def test_groups_in_order_of_first_appearance():
    part = full().test
    groups = part.groups()
    assert list(groups) == list(dict.fromkeys(part.group.tolist()))
    assert sum(len(g) for g in groups.values()) == len(part)
    np.testing.assert_array_equal(groups["snow"].labels, part.labels[part.labels == 2])
    assert from_arrays(logits=example()[0], labels=example()[1]).test.groups() == {}


def test_subset_takes_every_array():
    part = full().test
    rows = np.array([5, 2, 9])
    small = part.subset(rows)
    for name, array in part.arrays():
        np.testing.assert_array_equal(getattr(small, name), array[rows])
        assert not getattr(small, name).flags.writeable


def test_the_hash_depends_on_the_content_alone():
    data = full()
    assert replace(data, name="other", notices=()).content_hash == data.content_hash
    assert data.with_parts(test=data.validation).content_hash != data.content_hash
    swapped = data.with_parts(validation=data.test, test=data.validation)
    assert swapped.content_hash != data.content_hash
    for change in ({"class_names": ("a", "b", "c", "e")}, {"head": None}):
        assert replace(data, **change).content_hash != data.content_hash


@pytest.mark.parametrize("extension", ["npz", "safetensors"])
def test_round_trip(tmp_path, extension):
    data = full()
    path = save_bundle(data, tmp_path / f"b.{extension}")
    again = load(path)
    assert again.content_hash == data.content_hash
    assert again.class_names == data.class_names
    np.testing.assert_array_equal(again.test.group, data.test.group)
    assert os.listdir(tmp_path) == [f"b.{extension}"]


def test_bundles_are_plain_files_of_their_format(tmp_path):
    data = full()
    with np.load(save_bundle(data, tmp_path / "b.npz"), allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["val_logits"], data.validation.logits)
        assert archive["class_names"].tolist() == list(data.class_names)
    tensors = safetensors.numpy.load_file(save_bundle(data, tmp_path / "b.safetensors"))
    np.testing.assert_array_equal(tensors["test_features"], data.test.features)


def test_import_is_cheap():
    heavy = ("torch", "pandas", "pyarrow", "sklearn", "plotly", "scipy", "safetensors", "streamlit")
    script = f"import sys, smart_core.data; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = save_bundle(full(), tmp_path / "b.npz")
    before = path.read_bytes()

    def fail(*_args, **_more):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        save_bundle(full(), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["b.npz"]
    with pytest.raises(ValueError, match="npz or"):
        save_bundle(full(), tmp_path / "b.csv")


@pytest.mark.parametrize("code", [-1, 3])
def test_a_group_code_without_a_name_is_refused(code: int, tmp_path: Path):
    """pandas writes -1 for a missing category, which would be the last name."""
    content = save_bundle(full(), tmp_path / "a.safetensors").read_bytes()
    tensors = safetensors.numpy.load(content)
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    codes = tensors["test_group"].copy()
    codes[2] = code
    changed = safetensors.numpy.save({**tensors, "test_group": codes}, metadata)
    with pytest.raises(LogitFileError, match=r"test_group.* codes outside 0 to 2"):
        load(changed, name="a.safetensors")
