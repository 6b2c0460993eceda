"""The bundled samples: small, sound, and what their scripts make."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sample_logits
import smart_core as sc
from sample_logits import digits
from sample_logits.make import samples


@pytest.mark.parametrize("name", samples())
def test_bundle_is_small_and_loads_without_a_notice(name: str) -> None:
    path = sample_logits.path(name)
    assert path.stat().st_size < 500_000
    data = sc.load(path)
    assert not data.notices
    assert data.head is not None
    assert data.test.features is not None
    rebuilt = data.test.features @ data.head.weight.T + data.head.bias
    np.testing.assert_allclose(rebuilt, data.test.logits, atol=1e-3)
    assert data.class_names is not None
    assert len(data.class_names) == data.classes


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
    new = digits.arrays()
    with np.load(sample_logits.path("digits")) as bundle:
        old = {name: bundle[name] for name in bundle.files}
    assert set(new) == set(old)
    assert all(new[name].shape == old[name].shape and new[name].dtype == old[name].dtype for name in new)
    np.testing.assert_array_equal(new["test_labels"], old["test_labels"])
    accuracy = [np.mean(arrays["test_logits"].argmax(axis=1) == arrays["test_labels"]) for arrays in (new, old)]
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.03)
    assert 0.88 < accuracy[1] < 0.97
