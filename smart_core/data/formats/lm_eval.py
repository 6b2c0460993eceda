"""The samples that lm-evaluation-harness logs: for each question a log-likelihood per choice, and the right choice.

    {"doc_id": 0, "target": 2, "filtered_resps": [["-3.1", "False"], ["-1.9", "False"], ["-1.4", "True"]], ...}

`resps` has the same with one more list around each choice. The log-likelihoods are used as logits: their softmax over
the choices of a question is the model's probability of each. Questions may have different numbers of choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from smart_core.data.formats.limits import Budget
from smart_core.data.formats.ragged import padded
from smart_core.data.formats.raw import MAX_CHARACTERS, Column, RawFile
from smart_core.data.formats.records import Records
from smart_core.data.logitset import Array
from smart_core.errors import LogitFileError
from smart_core.formatting import printable

RESPONSES = ("filtered_resps", "resps")
_LEFT_OUT = {*RESPONSES, "target", "arguments", "doc", "doc_hash", "prompt_hash", "target_hash", "metrics", "filter"}
_FEW = 50
"""Values that a field of the questions may have to be kept for slicing, such as a subject."""


def is_sample(record: Any) -> bool:
    """Return whether a record is a logged sample."""
    return isinstance(record, dict) and "target" in record and any(name in record for name in RESPONSES)


def read_samples(raw: RawFile, budget: Budget, records: Iterable[Any]) -> RawFile:
    """Return the log-likelihoods, the targets, and what else is known of each question."""
    rows: list[Array] = []
    targets: list[int] = []
    others = Records(raw, budget)
    documents = Records(RawFile(raw.name), budget)
    first_filter: Any = None
    for number, record in enumerate(records):
        if not is_sample(record):
            raise _problem(raw, number, "is not a logged sample, as the first one is")
        if not rows:
            first_filter = record.get("filter")
        elif record.get("filter") != first_filter:
            continue  # the same question again, its answers extracted in another way
        choices = _choices(record)
        if choices is None or len(choices) < 2:
            held = "generated text" if choices is None else "a single log-likelihood"
            problem = f"holds {held} instead of a log-likelihood per choice"
            raise _problem(raw, number, problem, "log the samples of a multiple-choice task")
        target = _target(record, len(choices))
        if target is None and isinstance(record["target"], list):
            raise _problem(raw, number, "has several right choices", "log a task with one right choice per question")
        if target is None:
            shown = printable(str(record["target"]), 40)
            raise _problem(raw, number, f"has the target '{shown}', which is none of its {len(choices)} choices")
        rows.append(np.array(choices))
        targets.append(target)
        others.add({name: value for name, value in record.items() if name not in _LEFT_OUT})
        document = record.get("doc")
        documents.add({f"doc_{k}": v for k, v in document.items()} if isinstance(document, dict) else {})
    few = [
        c for c in documents.columns() if c.values.ndim == 1 and len(np.unique(c.values)) <= min(_FEW, len(rows) / 2)
    ]
    scores = Column("logits", padded(budget, "the choices", rows))
    raw.columns = [scores, Column("labels", np.array(targets)), *others.columns(), *few]
    raw.has_header = True
    return raw


def _problem(raw: RawFile, number: int, problem: str, fix: str = "log the samples again") -> LogitFileError:
    return LogitFileError(f"sample {number} (counted from 0) {problem}", fix, file=raw.name)


def _choices(record: Mapping[str, Any]) -> list[float] | None:
    """The log-likelihood of each choice; None where there are none."""
    found = next((record[name] for name in RESPONSES if name in record), None)
    if not isinstance(found, list) or not found:
        return None
    try:
        return [_likelihood(choice) for choice in found]
    except (TypeError, ValueError, IndexError):
        return None


def _likelihood(choice: Any) -> float:
    while isinstance(choice, list):  # [-3.1, False], or that in a list of its own
        choice = choice[0]
    return float(choice)


def _target(record: Mapping[str, Any], choices: int) -> int | None:
    """The index of the right choice: given as such, in a list, as text, as a letter, or as the text of the choice."""
    target = record["target"]
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    if isinstance(target, str):
        texts = [text.strip() for text in _texts(record)]
        matching = [number for number, text in enumerate(texts) if text == target.strip()]
        if len(matching) == 1 and len(texts) == choices:
            return matching[0]
        letter = target.strip(" ().")
        if len(letter) == 1 and "A" <= letter <= "Z":
            return ord(letter) - ord("A") if ord(letter) - ord("A") < choices else None
        target = int(target) if target.strip().isdecimal() and len(target) < 6 else None
    if isinstance(target, bool) or not isinstance(target, int) or not 0 <= target < choices:
        return None
    return target


def _texts(record: Mapping[str, Any]) -> list[str]:
    """The text of each choice, as it was given to the model: [[context, choice], ...], or {"gen_args_0": {...}}."""
    given = record.get("arguments")
    if isinstance(given, dict):
        given = [list(item.values()) if isinstance(item, dict) else item for item in given.values()]
    if not isinstance(given, list):
        return []
    return [str(item[1])[:MAX_CHARACTERS] for item in given if isinstance(item, list) and len(item) > 1]
