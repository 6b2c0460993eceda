"""Logits without labels: what a fitted calibrator is applied to."""

from __future__ import annotations

from dataclasses import dataclass

from smart_core.data import extras
from smart_core.data.found import Found, refuse
from smart_core.data.load import one_sentence
from smart_core.data.logitset import Array, Notice
from smart_core.data.readers import read
from smart_core.data.scores import matrix_to_logits
from smart_core.data.slots import WHOLE, Files, Slot, file_names, slots_of
from smart_core.data.source import Sources, collect


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Logits (N, K) and, where the file has them, the features (N, D) of the same rows."""

    logits: Array
    features: Array | None
    notices: tuple[Notice, ...]


def load_logits(source: Sources, *, name: str | None = None) -> dict[str, Unlabelled]:
    """The logits of a file, by side: "" for a file without a split, "val_" and "test_" for one with both.

    Labels are not needed and not looked at. Whatever is wrong raises `LogitFileError`.
    """
    files = [(item, read(item)) for item in collect(source, None, None, name)]
    with one_sentence(files[0][0].name):
        slots = slots_of(files, {})
        found: dict[str, Unlabelled] = {}
        for split in (WHOLE, "val", "test"):
            mine = [slot for slot in slots if slot.of_rows and slot.split == split]
            scores = _scores(mine)
            if scores is not None:
                found["" if split == WHOLE else f"{split}_"] = _unlabelled(scores, mine)
        if not found:
            raise _no_logits(files)
        return found


def _scores(slots: list[Slot]) -> Found | None:
    """The array named as logits, or the only matrix of numbers."""
    named = [slot.found for slot in slots if slot.role == "logits"]
    matrices = [slot.found for slot in slots if slot.role is None and _is_matrix(slot.found)]
    candidates = named or matrices
    return candidates[0] if len(candidates) == 1 else None


def _is_matrix(item: Found) -> bool:
    return item.array is not None and len(item.shape) == 2 and item.shape[1] > 1 and item.kind in "fiu"


def _unlabelled(scores: Found, slots: list[Slot]) -> Unlabelled:
    if not _is_matrix(scores):
        raise refuse(
            scores.file, f"{scores.label} is no matrix of numbers", "give one row a sample, one column a class"
        )
    notices: list[Notice] = []
    logits = matrix_to_logits(scores, scores.values, None, notices)
    features = next((slot.found for slot in slots if slot.role == "features"), None)
    read_features = None if features is None else extras.features_of(features, len(logits), notices)
    return Unlabelled(logits, read_features, tuple(notices))


def _no_logits(files: Files) -> Exception:
    return refuse(file_names(files), "no logits were found", "save them as one matrix, or name the array logits")
