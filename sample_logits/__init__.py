"""Real logits of small models, each trained by the script beside it."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def path(name: str) -> Path:
    """Where the bundle of a sample lies."""
    return FOLDER / f"{name}.npz"
