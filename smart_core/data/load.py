"""`load` and `from_arrays`: from files or arrays to a checked `LogitSet`. Nothing after them checks again."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from smart_core.data.document import Document
from smart_core.data.formats.raw import BFLOAT16, RawArray, RawFile
from smart_core.data.logitset import LogitSet
from smart_core.data.roles.assign import Roles
from smart_core.data.source import Sources


def load(
    source: Sources | None = None,
    *,
    val: Sources | None = None,
    test: Sources | None = None,
    name: str | None = None,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    roles: Roles | None = None,
    values: Literal["logits", "probabilities"] | None = None,
    labels_start_at: Literal[0, 1] | None = None,
    transposed: bool | None = None,
) -> LogitSet:
    """Read logits and labels from a bundle, a pair of files, or `val=` and `test=` files.

    A source is a path, `"sample:NAME"` for a bundled sample, bytes (with `name=`), an open file, a (name, bytes)
    pair, or a list of these. A set without a split is split at random, stratified by label. Whatever is wrong raises
    `LogitFileError`.

    Names, shapes and values decide what is not said, and `notices` say what they decided. These options decide
    instead; the `cure` of a notice is the option that would have decided otherwise:

    roles: which array is what, {"val_logits": "a", "val_labels": "b", ...}. The roles are logits, labels, features,
        cw_l2 and group (of one split with val_ or test_ before), split, head_weight, head_bias and class_names. The
        arrays go by the keys that `Document.describe` lists, or "file:key" where two files share one. None in place
        of an array leaves the role out. Roles that are not given are found by name and shape.
    values: "logits" or "probabilities" (or percentages); by default rows that sum to 1 are probabilities, rows
        that sum to 100 percentages.
    labels_start_at: 0 or 1; by default 1 if the labels run up to the number of classes and none is 0.
    transposed: whether columns are samples; by default if only then there are as many samples as labels.

    >>> import io
    >>> import numpy as np
    >>> import smart_core as sc
    >>> file = io.BytesIO()
    >>> np.savez(file, logits=np.tile([[2.0, 0.5, -1.0], [0.0, 1.0, 3.0]], (5, 1)), labels=[1, 3] * 5)
    >>> data = sc.load(file, name="model.npz", val_fraction=0.4)
    >>> data
    LogitSet('model', 3 classes, 4 + 6 samples)
    >>> data.validation.labels
    array([0, 2, 0, 2])
    >>> print(data.notices[0])
    model.npz: labels run from 1 to 3 for 3 classes; 1 was subtracted.
    """
    return Document.open(source, val=val, test=test, name=name).load(
        val_fraction=val_fraction,
        split_seed=split_seed,
        roles=roles,
        values=values,
        labels_start_at=labels_start_at,
        transposed=transposed,
    )


def from_arrays(
    name: str = "arrays",
    *,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    values: Literal["logits", "probabilities"] | None = None,
    labels_start_at: Literal[0, 1] | None = None,
    transposed: bool | None = None,
    **arrays: Any,
) -> LogitSet:
    """A `LogitSet` of arrays in memory under their bundle names, with the checks and options of `load`.

    NumPy arrays, torch tensors on any device, pandas columns and lists are converted, and copied.

    >>> from smart_core.data import from_arrays
    >>> from_arrays(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 1.0], [1.0, 2.0]], labels=[0, 1, 0, 1])
    LogitSet('arrays', 2 classes, 2 + 2 samples)
    """
    raw = [_from_memory(name, key, value) for key, value in arrays.items() if value is not None]
    return Document((RawFile(name, raw),), name).load(
        val_fraction=val_fraction,
        split_seed=split_seed,
        values=values,
        labels_start_at=labels_start_at,
        transposed=transposed,
    )


def _from_memory(name: str, key: str, value: Any) -> RawArray:
    """A copy of a NumPy array, a torch tensor, a pandas column, a list, ..."""
    unusable = RawArray(name, (key,), None, "")
    if np.ma.is_masked(value):  # NumPy would use what is under the mask
        raise unusable.error("has masked entries", "fill them", "drop their rows")
    try:
        if hasattr(value, "detach") and hasattr(value, "resolve_neg"):  # a tensor; NumPy knows no gradients or devices
            import torch

            value = value.detach().cpu().resolve_conj().resolve_neg()
            if value.dtype is torch.bfloat16:
                bits = np.array(value.contiguous().view(torch.int16).numpy()).view(np.uint16)
                return RawArray.of(name, (key,), bits, BFLOAT16)
            value = value.numpy()
        return RawArray.of(name, (key,), np.array(value))
    except Exception as error:  # whatever the object does when it is converted
        problem = f"is a {type(value).__name__} that cannot be made an array"
        raise unusable.error(problem, "give numbers or text in rows of equal length") from error
