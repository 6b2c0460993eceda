"""Logits, labels, features and head from a model: run it over loaders, or adapt what another library returns."""

from __future__ import annotations

from smart_core.data.collecting.adapters import from_predictions, from_sklearn
from smart_core.data.collecting.collect import collect

__all__ = ["collect", "from_predictions", "from_sklearn"]
