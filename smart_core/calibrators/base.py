"""The interface of calibrators: settings, fit on validation arrays, probabilities of new logits, exported form."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from smart_core.calibrators.inputs import FitData as FitData
from smart_core.calibrators.inputs import Inputs
from smart_core.calibrators.rules import Rule
from smart_core.calibrators.settings import Setting, setting, settings_of, with_settings
from smart_core.data.split import stratified_subset
from smart_core.device import as_array, like_input, resolve_device, rows_per_chunk, threads_for, to_tensor
from smart_core.errors import CalibrationError
from smart_core.fitting.reduced import ReducedProfile
from smart_core.progress import CancelToken, Progress, Run, Trace
from smart_core.types import Logits, Probabilities

if TYPE_CHECKING:
    from smart_core.data.logitset import Part

Shape = tuple[int | str, ...]
"""Lengths of a learned tensor. A symbol such as `n` is a length that the data decide, 0 or more, the same in all of a
method's tensors; `n+1` is one more."""


REDUCED_ROWS = 50_000
"""Reduced rows that a fit reads at most, like `FIT_ROWS` of a lazy part."""


class LineStyle(NamedTuple):
    """How charts draw a method, in plotly's words."""

    color: str
    dash: str = "solid"
    symbol: str = "circle"
    width: float = 2.0


class ReducedColumns(NamedTuple):
    """Of each reduced row, (N,): the calibrated confidence, its NLL and Brier score, and its temperature if any."""

    confidence: Tensor
    nll: Tensor
    brier: Tensor
    temperature: Tensor | None = None


@dataclass(kw_only=True, eq=False)
class Calibrator(Inputs, ABC):
    """Base of all methods. Settings are stored as plain numbers and checked in `fit`; learned values end in `_`."""

    id: ClassVar[str]
    label: ClassVar[str]
    summary: ClassVar[str]
    """A description of the method in one sentence."""
    position: ClassVar[int]
    """Place in lists and tables."""
    family: ClassVar[str]
    """Heading under which the pages list it."""
    style: ClassVar[LineStyle] = LineStyle("#7A7A7A")
    stochastic: ClassVar[bool] = False
    """Whether the seed matters."""
    traceable: ClassVar[bool] = True
    """Whether PyTorch can record `_probabilities` as a graph."""
    shapes: ClassVar[tuple[tuple[str, Shape], ...]] = ()
    """The learned tensors, which a file keeps, and their shapes; `learned` gives those that depend on a fit."""
    infinite: ClassVar[tuple[str, ...]] = ()
    """Learned tensors that may hold infinity."""
    rules: ClassVar[tuple[tuple[str, *tuple[Rule, ...]], ...]] = ()
    """A learned tensor, and what holds for its values after any fit; a file in which it does not is refused."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Modules that a fit imports on demand: slow to load, and not part of the fit's own time."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings under one name, such as those of a paper's text: `preset` gives them."""

    seed: int = setting(0, "Seed of every random choice.", low=0, high=2**31 - 1)
    device: str = setting("auto", "Where to compute: auto, cuda, mps or cpu.")

    def __init_subclass__(cls) -> None:
        """Append the settings' own descriptions to the class's documentation."""
        super().__init_subclass__()
        cls.__doc__ = with_settings(cls)

    def __post_init__(self) -> None:
        self._make_plain()

    def _make_plain(self) -> None:
        """Turn NumPy's numbers and PyTorch's device into Python's own values, which a file can keep."""
        if isinstance(self.device, torch.device):
            self.device = str(self.device)
        for described in self.settings():
            setattr(self, described.name, described.plain(getattr(self, described.name)))

    # -- what a method defines ---------------------------------------------------------------------------

    @abstractmethod
    def _fit(self, data: FitData, run: Run) -> None:
        """Learn from the validation arrays; set the attributes that `learned` names."""

    def learned(self) -> dict[str, Shape]:
        """The learned tensors: `shapes`, or other ones from the settings and `classes_`."""
        return dict(self.shapes)

    @abstractmethod
    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        """Calibrated rows of one chunk, on the calibrator's device."""

    def _fit_confidence(self, confidence: Tensor, correct: Tensor, run: Run) -> None:
        """Learn from confidences and hits (N,), float64 on the CPU; for `top_label` methods."""
        raise NotImplementedError

    def _map_confidence(self, confidence: Tensor) -> Tensor:
        """Calibrated confidences of confidences (N,); for `top_label` methods."""
        raise NotImplementedError

    def _evaluate_reduced(self, rows: ReducedProfile) -> ReducedColumns:
        """What an evaluation keeps of reduced rows; for `reducible` methods."""
        raise NotImplementedError

    @property
    def parameters(self) -> int:
        """How many numbers were learned; 0 before the fit."""
        return sum(tensor.numel() for tensor in self.state().values()) if hasattr(self, "classes_") else 0

    @property
    def keeps_top1(self) -> bool:
        """Whether the largest probability is always at the largest logit."""
        return True

    def numpy_code(self) -> str | None:
        """The body of a NumPy function of one chunk of rows, from which every exported form is made.

        It reads the logits `z` (n, K), the features `x` (n, D) if the fit used them, and the learned tensors, named in
        capitals without their final `_`: `temperature_` is `TEMPERATURE`. It returns float32 probabilities (n, K); for
        a `TemperatureCalibrator`, temperatures (n,). It may call NumPy and the functions of `export.numpy_functions`.
        The ONNX graph is recorded while this code runs, so it must not change arrays in place or ask for `len(z)`.
        None, the default, means that the method has no such form.
        """
        return None

    def _widest_row(self) -> int:
        """Numbers per sample of the widest array in `numpy_code`; it decides how many rows make a chunk."""
        return self.classes_

    # -- what every method shares ------------------------------------------------------------------------

    def fit(
        self,
        logits: Any,
        labels: Any,
        *,
        features: Any = None,
        head: Any = None,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        trace: bool = False,
    ) -> Self:
        """Learn from validation logits (N, K) and labels (N,), NumPy or torch; returns `self`.

        `progress(fraction, message)` is called during the fit; a `cancel` token that is set ends it with `Cancelled`;
        `trace=True` keeps per-epoch records in `trace_` for methods trained by epochs.
        """
        self.check_settings()
        data = self._fit_data(logits, labels, features, head)
        return self._fit_rows(data, Run(progress, cancel, trace))

    def _fit_rows(self, data: FitData, run: Run) -> Self:
        """The fit itself, on arrays that have been checked."""
        return self._learn(lambda run: self._fit(data, run), data.classes, len(data), run)

    def fit_confidence(
        self,
        confidence: Any,
        correct: Any,
        *,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        trace: bool = False,
    ) -> Self:
        """Learn from the confidences of predictions (N,) and whether each is correct (N,), without logits.

        Only methods that map the top-1 confidence alone can: `top_label`. `classes_` is 0 then.

        >>> import smart_core as sc
        >>> sc.Histogram(bins=1).fit_confidence([0.9, 0.8, 0.7, 0.6], [1, 0, 1, 0]).predict_confidence([0.65])
        array([0.5], dtype=float32)
        """
        self.check_settings()
        self._check_top_label()
        p, hits = self._confidences(confidence), to_tensor(correct, torch.device("cpu"), torch.float64)
        if hits.shape != p.shape or len(p) < 1:
            raise self._error(f"there are {len(p)} confidences for {tuple(hits.shape)} outcomes; give one for each")
        if not bool(((hits == 0) | (hits == 1)).all()):
            raise self._error("whether a prediction is correct must be 1 or 0")
        run = Run(progress, cancel, trace)
        return self._learn(lambda run: self._fit_confidence(p, hits, run), 0, len(p), run)

    def fit_part(self, part: Part, *, head: Any = None, features: bool = True, **watched: Any) -> Self:
        """Learn from a part of a loaded set, of logits or of confidences; `watched` as in `fit`.

        Of a lazy part, a fit reads `part.for_fit`.

        >>> import smart_core as sc
        >>> data = sc.load("sample:digits")
        >>> sc.TS().fit_part(data.validation).classes_
        10
        """
        part = part.for_fit
        if part.confidence is not None:
            return self.fit_confidence(part.confidence, part.correct, **watched)
        if part.reduced:
            run = Run(watched.get("progress"), watched.get("cancel"), bool(watched.get("trace")))
            return self._fit_reduced(part, run)
        return self.fit(part.logits, part.labels, features=part.features if features else None, head=head, **watched)

    def _fit_reduced(self, part: Part, run: Run) -> Self:
        """Learn from reduced rows, at most `REDUCED_ROWS`, on the CPU."""
        self.check_settings()
        self.check_reduced(part.classes)
        if len(part) > REDUCED_ROWS:
            part = part.subset(stratified_subset(part.labels, REDUCED_ROWS, seed=0))
        rows = ReducedProfile.of(part.logits, part.reduced, part.correct)
        data = FitData(rows.top, torch.from_numpy(np.array(part.labels)), reduced=rows)
        return self._fit_rows(data, run)

    def _learn(self, learn: Callable[[Run], None], classes: int, rows: int, run: Run) -> Self:
        run.tick(0.0, f"fitting {self.label}")
        self.notices_: list[str] = []
        self.classes_ = classes
        self.features_used_ = False
        try:
            with threads_for(rows * max(classes, 1)):
                learn(run)
            self.trace_: Trace | None = run.trace
            run.tick(1.0, f"{self.label} fitted")
        except BaseException:
            del self.classes_  # what was learned so far is not a fitted calibrator
            raise
        return self

    def predict_proba(self, logits: Any, *, features: Any = None) -> Any:
        """Calibrated probabilities (N, K), float32, NumPy or torch like the input."""
        chunks: list[Tensor] = [probabilities for _, _, probabilities in self.stream_rows(logits, features=features)]
        empty = torch.empty((0, self.classes_), device=resolve_device(self.device))
        return like_input(torch.cat(chunks) if chunks else empty, logits)

    def predict_confidence(self, confidence: Any) -> Any:
        """Calibrated confidences (N,) of confidences (N,), NumPy or torch like the input; for `top_label` methods."""
        self._check_fitted()
        self._check_top_label()
        with torch.no_grad():
            return like_input(self._map_confidence(self._confidences(confidence)), confidence)

    def stream_rows(self, logits: Any, *, features: Any = None) -> Iterator[tuple[slice, Logits, Probabilities]]:
        """Which rows, their logits and their calibrated probabilities, chunk by chunk on the device.

        No N x K matrix exists at once.
        """
        for rows, chunk, extra in self._chunks(logits, features):
            with torch.no_grad():
                probabilities = self._probabilities(chunk, extra)
            yield rows, chunk, probabilities

    def _chunks(self, logits: Any, features: Any) -> Iterator[tuple[slice, Logits, Tensor | None]]:
        """Which rows, their logits and the features that the fit used, checked, chunk by chunk on the device."""
        logits, features = self._check_rows(logits, features)
        device = resolve_device(self.device)
        size = rows_per_chunk(self.classes_)
        for start in range(0, len(logits), size):
            rows = slice(start, start + size)
            chunk = self._finite(to_tensor(logits[rows], device), start, "logits")
            extra = None if features is None else self._finite(to_tensor(features[rows], device), start, "features")
            yield rows, Logits(chunk), extra

    @classmethod
    def settings(cls) -> tuple[Setting, ...]:
        """Descriptions of the constructor's arguments."""
        return settings_of(cls)

    @classmethod
    def preset(cls, name: str | None) -> dict[str, Any]:
        """The settings of a preset; none for None."""
        if name is None:
            return {}
        if name not in cls.presets:
            known = f"it has {', '.join(cls.presets)}" if cls.presets else "it has none"
            raise CalibrationError(f"{cls.label} has no preset '{name}'; {known}.")
        return dict(cls.presets[name])

    @classmethod
    def upgraded(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Settings and learned tensors of a file, with what files of older versions lack."""
        return settings, tensors

    def check_settings(self) -> None:
        """Raise `CalibrationError` for the first setting that is not allowed."""
        self._make_plain()
        for described in self.settings():
            described.check(getattr(self, described.name), self.label)

    @classmethod
    def prepare(cls) -> None:
        """Import and compile what the fit would on demand, so that its seconds are those of the fit."""
        from smart_core.kernels.compiling import make_ready

        make_ready()
        for library in cls.libraries:
            import_module(library)

    def settings_dict(self) -> dict[str, Any]:
        """The constructor's arguments as they are now."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def save(self, path: str | PathLike[str]) -> None:
        """Write settings and learned tensors to a safetensors file (no pickle)."""
        from smart_core.calibrators.store import save_calibrator

        save_calibrator(self, path)

    def state(self) -> dict[str, Tensor]:
        """The learned tensors by name."""
        self._check_fitted()
        return {name: getattr(self, name) for name in self.learned()}

    def with_state(self, tensors: Mapping[str, Tensor]) -> Self:
        """A copy whose learned tensors are these."""
        found = copy.copy(self)
        for name, tensor in tensors.items():
            setattr(found, name, tensor)
        return found

    def bare(self) -> Self:
        """A copy without its learned tensors."""
        found = copy.copy(self)
        for name in self.learned():
            delattr(found, name)
        return found

    def decided(self) -> dict[str, Any]:
        """Choices of a fit besides tensors, as plain JSON; a file keeps them for `restore`."""
        return {}

    def restore(self, classes: int, features_used: bool, notices: list[str], decided: Mapping[str, Any]) -> None:
        """Restore the state of a fit from a file, before its tensors."""
        if decided:
            raise CalibrationError(f"{self.label} decides nothing in a fit, and the file says that it did.")
        self.classes_, self.features_used_ = classes, features_used
        self.notices_, self.trace_ = notices, None

    # -- checks ------------------------------------------------------------------------------------------

    def check_learned(self) -> None:
        """Raise an error if learned values, which may come from a file, are none that a fit could give."""
        for name, *rules in self.rules:
            for rule in rules:
                if not rule.holds(getattr(self, name)):
                    raise CalibrationError(f"{self.label}: {name} must {rule.words}.")

    def _check_fitted(self) -> None:
        if not hasattr(self, "classes_"):
            raise CalibrationError(f"{self.label} is not fitted yet; call fit first.")

    def _check_rows(self, logits: Any, features: Any) -> tuple[Any, Any]:
        """Rows to apply a fit to, as arrays or tensors, and their features if the fit uses them."""
        self._check_fitted()
        logits = as_array(logits, "logits")
        shape = tuple(logits.shape)
        if self.classes_ == 0:
            raise CalibrationError(f"{self.label} was fitted on confidences without logits; use predict_confidence.")
        if len(shape) != 2 or shape[1] != self.classes_:
            raise CalibrationError(f"{self.label} was fitted on {self.classes_} classes; got shape {shape}.")
        if not self.features_used_:
            return logits, None
        if features is None:
            raise CalibrationError(f"{self.label} was fitted with features; give features= here too.")
        features = as_array(features, "features")
        self._check_feature_rows(features, shape[0])
        width = self._feature_width()
        if width is not None and (features.ndim != 2 or features.shape[1] != width):
            raise CalibrationError(
                f"{self.label} was fitted on {width} features per row; got shape {tuple(features.shape)}."
            )
        return logits, features

    def _feature_width(self) -> int | None:
        """Number of features per row, for methods that read them: the length `d` of a learned tensor."""
        shapes, state = self.learned().items(), self.state()
        return next((state[name].shape[shape.index("d")] for name, shape in shapes if "d" in shape), None)
