"""Files in memory for the tests of loading, and one small set to put in them."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from smart_core.data import ArrayInfo, Document


def example(rows: int = 60, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are right more often than not, every class present."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    logits = rng.normal(size=(rows, classes)).astype(np.float32)
    logits[np.arange(rows), labels] += 1.5
    return logits, labels.astype(np.int64)


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def torch_bytes(tree: Any, **options: Any) -> bytes:
    import torch

    stream = io.BytesIO()
    torch.save(tree, stream, **options)
    return stream.getvalue()


def pickled(tree: Any, protocol: int = 4) -> bytes:
    return pickle.dumps(tree, protocol=protocol)


def describe(content: bytes, name: str) -> list[ArrayInfo]:
    return Document.open(content, name=name).describe()


def codes(data: Any) -> set[str]:
    """The codes of a set's notices."""
    return {notice.code for notice in data.notices}
