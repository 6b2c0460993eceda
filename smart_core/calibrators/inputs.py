"""The data that a method accepts: what it needs, and the checks of arrays that a caller gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from smart_core.calibrators.rows import all_finite
from smart_core.device import as_array, resolve_device, to_tensor, whole_numbers
from smart_core.errors import CalibrationError
from smart_core.fitting.profile import Profile, build_profile
from smart_core.fitting.ragged import class_counts, filled, present
from smart_core.fitting.reduced import ReducedProfile
from smart_core.progress import Run
from smart_core.types import Logits

TWO_CLASSES = "two classes"
"""What a method that is for two classes only has among its `needs`."""
REDUCED = "reduced rows"
"""Whether there are reduced rows in place of logits, among what `missing` asks for."""
EVERY_CLASS = "every class"
"""Whether no row lacks a class, among what `missing` asks for."""


@dataclass(frozen=True)
class FitData:
    """Everything a fit may read, as tensors on the fit's device."""

    logits: Logits
    labels: Tensor
    features: Tensor | None = None
    head: tuple[Tensor, Tensor] | None = None
    reduced: ReducedProfile | None = None
    """Of reduced rows, whose `logits` are the largest ones only."""

    @property
    def classes(self) -> int:
        return self.logits.shape[1] if self.reduced is None else self.reduced.classes

    def profile(self, run: Run | None = None) -> Profile:
        return build_profile(self.logits, self.labels, run) if self.reduced is None else self.reduced.tabulated()

    def __len__(self) -> int:
        return self.logits.shape[0]


class Inputs:
    """What a method needs of its data; base of `Calibrator`."""

    label: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """What it cannot run without beyond logits and labels: `features`, `head`, `TWO_CLASSES`."""
    whole_rows: ClassVar[str | None] = "it maps all classes of a row together"
    """Why every row must have every class; None for a method that leaves out those that a row lacks (-inf)."""
    top_label: ClassVar[bool] = False
    """Whether it reads nothing but the top-1 confidence, so that confidences without logits suffice."""
    reducible: ClassVar[bool] = False
    """Whether reduced rows suffice, which keep the largest logits and the profile of a row."""
    reads_curve: ClassVar[bool] = True
    """Whether an evaluation of reduced rows reads their curves, and of the largest logits more than the margin."""
    uses: ClassVar[tuple[str, ...]] = ()
    """Arrays that it reads if they are there; without them it falls back and adds a notice to `notices_`."""

    device: str
    classes_: int
    features_used_: bool
    notices_: list[str]

    @classmethod
    def missing(cls, available: Mapping[str, bool]) -> str | None:
        """Why the method cannot run on data of which this is available, or None if it can."""
        if available.get(REDUCED, False):
            return None if cls.reducible else "needs logits"
        needs = cls.needs if cls.top_label else ("logits", *cls.needs)
        lacking = [name for name in needs if not available.get(name, name == "logits")]
        if lacking:
            return f"needs {' and '.join(lacking)}"
        instead = "features" in cls.uses and available.get("features", False)
        if cls.whole_rows is not None and not available.get(EVERY_CLASS, True) and not instead:
            return f"needs every class in every row: {cls.whole_rows}"
        return None

    @property
    def leaves_out_classes(self) -> bool:
        """Whether rows may lack classes: a class of logit -inf gets probability 0."""
        return self.whole_rows is None or ("features" in self.uses and getattr(self, "features_used_", False))

    def check_reduced(self, classes: int) -> None:
        """Raise if reduced rows do not suffice."""
        reason = self.missing({REDUCED: True, TWO_CLASSES: classes == 2})
        if reason:
            raise CalibrationError(f"{self.label} {reason}; the rows are reduced.")

    def _fit_data(self, logits: Any, labels: Any, features: Any, head: Any) -> FitData:
        device = resolve_device(self.device)
        z = Logits(to_tensor(as_array(logits, "logits"), device))
        if not whole_numbers(labels):
            raise self._error("labels must be whole numbers, one class index per sample")
        y = to_tensor(labels, device, torch.int64)
        if z.ndim != 2 or z.shape[1] < 2 or z.shape[0] < 1:
            raise self._error(f"logits must be (N, K) with K >= 2, not {tuple(z.shape)}")
        if y.shape != (z.shape[0],):
            raise self._error(f"labels must be ({z.shape[0]},) to match the logits, not {tuple(y.shape)}")
        lacking = not all_finite(z)
        if lacking:
            z = Logits(self._without_absent(z, 0, "remove those rows"))
        if int(y.min()) < 0 or int(y.max()) >= z.shape[1]:
            raise self._error(f"labels must lie in 0..{z.shape[1] - 1}")
        f = None if features is None else to_tensor(as_array(features, "features"), device)
        if f is not None:
            self._check_feature_rows(f, z.shape[0])
        h = None if head is None else self._head_data(head, device)
        if lacking and not bool(present(z).gather(1, y.unsqueeze(1)).all()):
            row = int((~present(z).gather(1, y.unsqueeze(1)).squeeze(1)).to(torch.int8).argmax())
            raise self._error(f"the label of row {row} is a class that the row does not have; correct it")
        known = {"features": f is not None, "head": h is not None, EVERY_CLASS: not lacking}
        reason = self.missing(known | {TWO_CLASSES: z.shape[1] == 2})
        if reason:
            raise CalibrationError(f"{self.label} {reason}.")
        return FitData(z, y, f, h)

    def _head_data(self, head: Any, device: torch.device) -> tuple[Tensor, Tensor]:
        """Weights and biases of the last layer, from a pair or from an object that has both."""
        try:
            weight, bias = (head.weight, head.bias) if hasattr(head, "weight") else head
        except (AttributeError, TypeError, ValueError) as error:
            message = "the head must be a pair, weights (K, D) and biases (K,), or a linear layer"
            raise self._error(message) from error
        return to_tensor(as_array(weight, "head's weights"), device), to_tensor(as_array(bias, "biases"), device)

    def _checked_features(self, features: Tensor) -> Tensor:
        """The features, if they are a finite (N, D) matrix."""
        if features.ndim != 2 or features.shape[1] < 1:
            raise self._error(f"features must be (N, D), not {tuple(features.shape)}")
        if not all_finite(features):
            raise self._error("the features hold NaN or infinity; remove those rows")
        return features

    def _features_or_logits(self, data: FitData) -> Tensor:
        """The features, or else the logits with a notice; sets `features_used_`."""
        self.features_used_ = data.features is not None
        if data.features is None:
            self.notices_.append(f"{self.label} was fitted without features; it reads the logits in their place.")
            return data.logits
        return self._checked_features(data.features)

    def _check_top_label(self) -> None:
        if not self.top_label:
            raise CalibrationError(f"{self.label} needs logits; confidences alone are not enough.")

    def _confidences(self, confidence: Any) -> Tensor:
        """Confidences (N,) as float64 on the CPU, checked."""
        p = to_tensor(as_array(confidence, "confidences"), torch.device("cpu"), torch.float64)
        if p.ndim != 1 or not bool(((p >= 0) & (p <= 1)).all()):
            raise self._error("confidences must be a vector of numbers from 0 to 1")
        return p

    def _check_feature_rows(self, features: Any, rows: int) -> None:
        given = features.shape[0] if features.ndim else 0
        if given != rows:
            raise self._error(f"{given} feature rows for {rows} logit rows")

    def _finite(self, chunk: Tensor, start: int, what: str) -> Tensor:
        """The chunk, with a finite number for -inf in logits; an error names its first row with NaN or infinity."""
        if not all_finite(chunk):
            if what == "logits":
                return self._without_absent(chunk, start, "remove it")
            bad = int((~torch.isfinite(chunk)).any(dim=1).to(torch.int8).argmax())
            raise self._error(f"row {start + bad} of the {what} holds NaN or infinity; remove it")
        return chunk

    def _without_absent(self, logits: Tensor, start: int, cure: str) -> Tensor:
        """Logits with a finite number for -inf; an error if that is not all, or if the method needs every class."""
        odd = logits.isnan() | (logits == torch.inf)
        if bool(odd.any()):
            row = start + int(odd.any(dim=1).to(torch.int8).argmax())
            where = f"row {row} of the logits holds" if cure == "remove it" else "the logits hold"
            raise self._error(f"{where} NaN or infinity; {cure}")
        counts = class_counts(logits).squeeze(1)
        if bool((counts < 2).any()):
            row = int((counts < 2).to(torch.int8).argmax())
            has = "one class" if counts[row] == 1 else "no class"
            raise self._error(f"row {start + row} of the logits has {has}, and a confidence needs two; {cure}")
        if hasattr(self, "classes_"):
            known = {"features": self.features_used_, "head": True, EVERY_CLASS: False}
            reason = self.missing(dict.fromkeys(self.needs, True) | known)
            if reason:
                raise CalibrationError(f"{self.label} {reason}.")
        if self.whole_rows is None and not self.leaves_out_classes:
            raise self._error("with these settings it needs every class in every row")
        return filled(logits)

    def _error(self, problem: str) -> CalibrationError:
        return CalibrationError(f"{self.label}: {problem}.")
