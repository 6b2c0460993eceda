"""Notices about a set that is otherwise fine; never errors."""

from __future__ import annotations

import numpy as np

from smart_core.data.logitset import Array, LogitSet, Notice, Part
from smart_core.formatting import first_few, plural, printable

HUGE = 1e4
"""Networks rarely put out logits beyond this."""
HEAD_ROWS = 256
"""Rows on which the head is checked."""


def notices_of(data: LogitSet) -> list[Notice]:
    """Return all notices about the finished set."""
    if data.kind == "confidence":
        return _few_outcomes(data)
    if data.kind == "reduced" or not data.test.in_memory:
        return _unseen_classes(data)
    found = [*_unseen_classes(data), *_duplicate_rows(data.validation, data.test)]
    found += [*_odd_values(data.validation, "validation"), *_odd_values(data.test, "test")]
    return found + _head_mismatch(data)


def _few_outcomes(data: LogitSet) -> list[Notice]:
    """Confidences of predictions that are all correct, or all wrong: nothing can be learned from them.

    Equal rows are no reason for a notice: confidences are often round numbers.
    """
    if data.validation.accuracy not in (0.0, 1.0):
        return []
    outcome = "correct" if data.validation.accuracy else "wrong"
    return [Notice("one_outcome", f"Every validation prediction is {outcome}: there is nothing to fit.")]


def _unseen_classes(data: LogitSet) -> list[Notice]:
    """Classes without a validation row: nothing can be learned about them."""
    unseen = np.flatnonzero(np.bincount(data.validation.labels, minlength=data.classes) == 0)
    if len(unseen) == 0:
        return []
    listed = first_few(printable(data.class_names[k]) if data.class_names else k for k in unseen)
    does = "does" if len(unseen) == 1 else "do"
    text = f"{len(unseen):,} of {plural(data.classes, 'class')} {does} not occur in validation: {listed}."
    return [Notice("unseen_classes", text)]


def _duplicate_rows(validation: Part, test: Part) -> list[Notice]:
    """Test rows whose logits and label also occur in validation: methods are evaluated on rows they were fitted on."""

    def hashes(part: Part) -> list[int]:
        return [hash((row.tobytes(), label)) for row, label in zip(part.logits, part.labels.tolist(), strict=True)]

    seen = {*hashes(validation)}
    count = sum(key in seen for key in hashes(test))
    if count == 0:
        return []
    occur = "occurs" if count == 1 else "occur"
    text = f"{count:,} of {plural(len(test), 'test row')} also {occur} in validation (same logits and label)."
    return [Notice("duplicate_rows", text)]


def _odd_values(part: Part, name: str) -> list[Notice]:
    """Huge logits, and rows in which the two largest are equal."""
    notices = []
    high = float(part.logits.max())
    low = float(np.min(part.logits, where=np.isfinite(part.logits), initial=high))
    if high > HUGE:
        text = f"The {name} logits reach {high:.2g}: confidences are 0 or 1 before any scaling."
        notices.append(Notice("huge_logits", text))
    elif low < -HUGE:
        text = f"The {name} logits go down to {low:.2g}, unusually low for network outputs; possibly masked classes."
        notices.append(Notice("huge_logits", text))
    constant, tied = _ties(part.logits)
    if constant == len(part):
        notices.append(Notice("constant_logits", f"Every {name} row has equal logits: all margins are 0."))
    elif tied == len(part):
        text = f"In every {name} row the two largest logits are equal: all margins are 0."
        notices.append(Notice("constant_logits", text))
    elif tied > max(1, len(part) // 100):
        text = f"{tied:,} of {plural(len(part), name + ' row')} have margin 0 ({constant:,} of them constant)."
        notices.append(Notice("tied_rows", text))
    return notices


def _ties(logits: Array) -> tuple[int, int]:
    """Return (rows with all logits equal, rows whose largest logit is not unique)."""
    constant = tied = 0
    step = max(1, (1 << 18) // logits.shape[1])
    for start in range(0, len(logits), step):
        rows = logits[start : start + step]
        same = np.count_nonzero(rows == rows.max(axis=1, keepdims=True), axis=1)
        tied += int(np.count_nonzero(same > 1))
        constant += int(np.count_nonzero(same == logits.shape[1]))
    return constant, tied


def _head_mismatch(data: LogitSet) -> list[Notice]:
    """A head for which features @ weight.T + bias is not the logits, up to a constant per row."""
    part, head = data.validation, data.head
    if head is None or part.features is None or part.ragged:
        return []
    given = part.logits[:HEAD_ROWS].astype(np.float64)
    made = part.features[:HEAD_ROWS].astype(np.float64) @ head.weight.T.astype(np.float64) + head.bias
    given -= given.mean(axis=1, keepdims=True)
    made -= made.mean(axis=1, keepdims=True)
    scale = np.sqrt(np.mean(given**2))
    error = np.sqrt(np.mean((made - given) ** 2))
    if error <= 1e-2 * scale:
        return []
    off = f"{error / max(scale, 1e-30):.0%}"
    text = f"The head does not reproduce the logits (off by {off}): feature clipping would not be exact."
    return [Notice("head_mismatch", text)]
