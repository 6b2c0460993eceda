"""The tensors of a saved model: what the sandbox reads from a safetensors file or a state dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smart_core.data.formats import sniff
from smart_core.data.formats.raw import BFLOAT16, RawArray, Source
from smart_core.data.formats.safetensors_file import tensors_of
from smart_core.data.formats.torch_file import Tensor, torch_legacy_tree, torch_zip_tree
from smart_core.data.logitset import Array
from smart_core.data.saved import LONGEST_TEXT, text
from smart_core.errors import LogitFileError

NESTED_UNDER = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts store the state dict in a checkpoint."""

_TREES = {"pt": torch_zip_tree, "pt-legacy": torch_legacy_tree}


def weights(content: bytes) -> dict[str, Any]:
    """Return the `tensors` by name; those that `bfloat16` lists are its bits, which NumPy has no type for."""
    try:
        found = _found(Source("", content))
        arrays: dict[str, Array] = {}
        for name, item in found.items():
            if item.array is None:
                raise LogitFileError(f"holds a tensor that {item.problem}")
            arrays[text(name, LONGEST_TEXT)] = item.array  # not `values`, which widens bfloat16
        return {
            "tensors": {name: each.astype(each.dtype.newbyteorder("="), copy=False) for name, each in arrays.items()},
            "bfloat16": [name for name, item in found.items() if item.dtype == BFLOAT16],
        }
    except MemoryError:
        raise
    except Exception as error:
        why = f" (it {error.problem})" if isinstance(error, LogitFileError) else ""
        problem = f"is neither safetensors nor a state dict of tensors only{why}"
        raise LogitFileError(problem, "save one with torch.save(model.state_dict(), ...)") from error


def _found(source: Source) -> dict[str, RawArray]:
    kind = sniff(source)
    if kind == "safetensors":
        return {str(item.path[0]): item for item in tensors_of(source)[0].arrays}
    _, tree, _ = _TREES[kind](source)
    for key in NESTED_UNDER:
        if isinstance(tree, Mapping) and isinstance(tree.get(key), Mapping):
            tree = tree[key]
    if not isinstance(tree, Mapping) or not all(isinstance(tensor, Tensor) for tensor in tree.values()):
        raise LogitFileError("holds no state dict")
    return {name: tensor.array for name, tensor in tree.items()}
