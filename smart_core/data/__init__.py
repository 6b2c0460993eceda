"""Sets of logits: reading and checking files, splitting, saving, and simulating.

`formats` parses files into raw arrays, `roles` finds out which array is what, and `normalize` brings them into the form
of a `LogitSet`. A `Document` goes that way; `load` is `Document.open(...).load(...)`.
"""

from __future__ import annotations

from smart_core.data.document import Document, from_arrays, load
from smart_core.data.logitset import Cure, Head, LogitSet, Notice, Part
from smart_core.data.parsed import ArrayInfo
from smart_core.data.saving import save_bundle
from smart_core.data.split import stratified_split, stratified_subset

__all__ = [
    "ArrayInfo",
    "Cure",
    "Document",
    "Head",
    "LogitSet",
    "Notice",
    "Part",
    "from_arrays",
    "load",
    "save_bundle",
    "stratified_split",
    "stratified_subset",
]
