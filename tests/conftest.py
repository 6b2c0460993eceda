"""Shared ground of the tests: capped threads, and where real logits may be found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tests import other_device

torch.set_num_threads(1)
other_device.register()

ROOT = Path(__file__).resolve().parent.parent


def real_data(name: str) -> Path:
    """The path of a real data file or folder; skips the test, by name, where it is missing."""
    folder = Path(os.environ.get("SMART_REAL_DATA", ROOT.parent / "shared" / "data"))
    path = folder / name
    if not path.exists():
        pytest.skip(f"real logits missing: {name} (set SMART_REAL_DATA to the folder that holds it)")
    return path
