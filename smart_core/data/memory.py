"""Arrays that are in memory already, of whatever library, brought through the same door as a file's."""

from __future__ import annotations

from typing import Any

import numpy as np

from smart_core.data.found import BFLOAT16, Found, found_array, refuse, shown


def found_in_memory(file: str, key: str, value: Any) -> Found:
    """A copy of a NumPy array, a torch tensor, a pandas column, a list, ..."""
    if np.ma.is_masked(value):  # NumPy would hand over what is under the mask
        raise refuse(file, f"array '{shown(key)}' has masked entries", "fill them, or drop their rows")
    try:
        if hasattr(value, "detach") and hasattr(value, "resolve_neg"):
            return _tensor(file, key, value)
        return found_array(file, (key,), np.array(value))
    except (ValueError, TypeError, RuntimeError) as error:
        what = f"array '{shown(key)}' is a {type(value).__name__} that cannot be made an array"
        raise refuse(file, what, "give numbers or text in rows of equal length") from error


def _tensor(file: str, key: str, value: Any) -> Found:
    """NumPy knows neither gradients nor devices, nor bfloat16, whose bits travel as whole numbers."""
    import torch

    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        bits = np.array(tensor.contiguous().view(torch.int16).numpy()).view(np.uint16)
        return found_array(file, (key,), bits, dtype=BFLOAT16)
    return found_array(file, (key,), np.array(tensor.numpy()))
