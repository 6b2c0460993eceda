"""Logits: what a set of them is, how it is read and checked, split, saved, and simulated."""

from __future__ import annotations

from smart_core.data.bundle import save_bundle
from smart_core.data.load import ArrayInfo, describe, from_arrays, load
from smart_core.data.logitset import Cure, Head, LogitSet, Notice, Part
from smart_core.data.split import stratified_split, stratified_subset

__all__ = [
    "ArrayInfo",
    "Cure",
    "Head",
    "LogitSet",
    "Notice",
    "Part",
    "describe",
    "from_arrays",
    "load",
    "save_bundle",
    "stratified_split",
    "stratified_subset",
]
