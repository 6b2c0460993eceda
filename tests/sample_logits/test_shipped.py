"""The bundles in the folder: small, sound, and what their scripts make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import sample_logits
import smart_core as sc
from sample_logits import digits
from sample_logits.make import SAMPLES

BUNDLES = sorted(sample_logits.FOLDER.glob("*.npz"))


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_bundle_loads_without_a_notice_and_its_head_gives_its_logits(path: Path) -> None:
    data = sc.load(path)
    assert not data.notices
    assert data.head is not None
    assert data.class_names is not None
    assert len(data.class_names) == data.classes
    with np.load(path) as bundle:
        assert bundle["test_logits"].dtype == np.float32
        # half precision keeps 11 bits of a feature
        tolerance = 1e-2 if bundle["test_features"].dtype == np.float16 else 1e-3
    for part in (data.validation, data.test):
        assert part.features is not None
        rebuilt = part.features @ data.head.weight.T + data.head.bias
        np.testing.assert_allclose(rebuilt, part.logits, atol=tolerance)


def test_every_bundle_comes_from_a_sample_and_the_folder_is_small() -> None:
    assert BUNDLES
    assert all(any(path.stem.startswith(name) for name in SAMPLES) for path in BUNDLES)
    assert sum(path.stat().st_size for path in sample_logits.FOLDER.glob("*.*")) < 30e6


@pytest.mark.parametrize(
    "path", [path for path in BUNDLES if path.stem.endswith("_corrupted")], ids=lambda path: path.stem
)
def test_corrupted_bundle_has_equal_groups_of_at_least_8_types_at_2_severities(path: Path) -> None:
    groups = sc.load(path).test.groups()
    kinds = {name.rsplit(" ", 1)[0] for name in groups}
    assert len(kinds) >= 8
    assert len(groups) == 2 * len(kinds)
    assert len({len(part.labels) for part in groups.values()}) == 1


def test_digits_is_split_by_class_without_overlap() -> None:
    labels = digits._images()[1]
    rows = digits._split(labels)
    together = torch.cat(list(rows.values()))
    assert sorted(together.tolist()) == list(range(1797))
    for name, share in digits.SHARES.items():
        counts = torch.bincount(labels[rows[name]])
        assert torch.allclose(counts.float(), share * torch.bincount(labels).float(), atol=1.01)


def test_digits_can_be_made_anew() -> None:
    """Training differs in its last bits between machines, so the model is compared by how it behaves."""
    new = digits.bundles()["digits"]
    with np.load(sample_logits.path("digits")) as bundle:
        old = {name: bundle[name] for name in bundle.files}
    assert set(new) == set(old)
    assert all(new[name].shape == old[name].shape and new[name].dtype == old[name].dtype for name in new)
    np.testing.assert_array_equal(new["test_labels"], old["test_labels"])
    accuracy = [np.mean(arrays["test_logits"].argmax(axis=1) == arrays["test_labels"]) for arrays in (new, old)]
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.03)
    assert 0.88 < accuracy[1] < 0.97
