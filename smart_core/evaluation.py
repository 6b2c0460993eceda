"""Evaluation: what is kept of a calibrator applied to a labelled set, and the metrics computed from it.

A calibrator is applied chunk by chunk. Per-sample vectors and classwise sums are kept, never an N x K matrix; every
metric and interval is computed from these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smart_core.calibrators import Calibrator, TemperatureCalibrator
from smart_core.device import threads_for
from smart_core.errors import CalibrationError
from smart_core.fitting.indicators import margin
from smart_core.fitting.reduced import ReducedProfile
from smart_core.formatting import MISSING, decimal
from smart_core.metrics.arrays import confidences
from smart_core.metrics.binned import adaece, ece, ece_l2_debiased, ece_sweep, mce, over_confidence, under_confidence
from smart_core.metrics.binning import Reliability, check_bins, reliability
from smart_core.metrics.classwise import ClasswiseCells, ClasswiseHistogram
from smart_core.metrics.confidence_cells import SUMS_FROM_SAMPLES, ConfidenceCells, cells_of
from smart_core.metrics.cumulative import ks, kuiper
from smart_core.metrics.decomposition import Parts, log_loss_parts, squared_error_parts
from smart_core.metrics.kernel_ece import kde_ece
from smart_core.metrics.proper import SMALLEST_PROBABILITY
from smart_core.metrics.selective import aurc, auroc
from smart_core.metrics.smooth_calibration import smce
from smart_core.metrics.smooth_ece import smece
from smart_core.progress import Run
from smart_core.types import BoolArray, FloatArray, IntArray, Logits, Probabilities

if TYPE_CHECKING:
    from smart_core.data.logitset import Part


CELLS = "cells."
"""What the names of classwise sums begin with in an evaluation's npz."""

CELLS_KEPT = 8
"""Numbers of bins for which an evaluation of many samples keeps its sums."""

REDUCED_CHUNK = 1 << 15
"""Reduced rows that are evaluated at a time; they stay in the cache."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """One calibrator on one labelled set, with one entry per sample; `evaluate` makes it.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits")
    >>> vanilla = evaluate(sc.Vanilla().fit(data.validation.logits, data.validation.labels), data.test)
    >>> vanilla.correct.mean() == vanilla.metric("accuracy")
    np.True_
    """

    confidence: FloatArray
    """(N,) the largest calibrated probability, in the precision it was computed in, so that bin edges hold."""
    prediction: IntArray
    """(N,) its class; 0 throughout for confidences without logits."""
    correct: BoolArray
    """(N,) whether that class is the label."""
    nll: FloatArray
    """(N,) minus the log of the label's probability; without logits, of the outcome, correct or wrong."""
    brier: FloatArray
    """(N,) squared distance of the row from the one-hot label; without logits, of the confidence from the outcome."""
    margin: FloatArray | None = None
    """(N,) largest minus second largest uncalibrated logit; None without logits."""
    temperature: FloatArray | None = None
    """(N,) for temperature methods."""
    cells: ClasswiseHistogram | None = None
    """Sums per class and bin; None for a subset of samples. `ClasswiseCells` have an interval and a floor too."""

    def __len__(self) -> int:
        return len(self.confidence)

    @property
    def margins(self) -> FloatArray:
        """The margins; an error without logits."""
        if self.margin is None:
            raise CalibrationError("Margins need logits; this data set holds confidences alone.")
        return self.margin

    def confidence_cells(self, bins: int) -> ConfidenceCells | None:
        """Of many samples, their sums over equal-width bins; the last few that were asked for are kept."""
        if len(self) < SUMS_FROM_SAMPLES:
            return None
        known: dict[int, ConfidenceCells] = vars(self).setdefault("_cells_by_bins", {})
        if bins not in known:
            check_bins(bins)
            (found,) = cells_of(confidences(self.confidence), self.correct, bins)
            known[bins] = found
            if len(known) > CELLS_KEPT:
                del known[next(iter(known))]
        return known[bins]

    def reliability(self, bins: int = 15) -> Reliability:
        """The reliability table over equal-width bins."""
        known = self.confidence_cells(bins)
        return reliability(self.confidence, self.correct, bins) if known is None else known.table

    def metric(self, name: str, bins: int = 15) -> float:
        """The value of a metric of `METRICS` or `DETAILS`."""
        return (DETAILS.get(name) or metric_named(name)).value(self, bins)

    def __repr__(self) -> str:
        return f"Evaluation({len(self):,} samples, accuracy {np.mean(self.correct):.4f}, ECE {self.metric('ece'):.4f})"

    def without_cells(self) -> Evaluation:
        """The evaluation without the classwise sums, the one part whose size grows with the classes."""
        return replace(self, cells=None)

    @property
    def vectors(self) -> dict[str, Any]:
        """The per-sample arrays that are known, by name."""
        arrays = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "cells"}
        return {name: array for name, array in arrays.items() if array is not None}

    def subset(self, index: IntArray | BoolArray) -> Evaluation:
        """The evaluation of some of the samples, without classwise sums."""
        return Evaluation(**{name: array[index] for name, array in self.vectors.items()})


def evaluate(
    calibrator: Calibrator, part: Part, *, bins: int = 15, classwise: bool = True, run: Run | None = None
) -> Evaluation:
    """Apply a fitted calibrator to a labelled set, chunk by chunk, and keep what the metrics need.

    The sums of the `classwise` errors take most of the time where classes are many, and are all that depends on `bins`.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(1000, 1000, classes=4, law="constant", seed=0)
    >>> evaluation = evaluate(sc.TS().fit(data.validation.logits, data.validation.labels), data.test)
    >>> evaluation.confidence.shape, evaluation.metric("ece") < 0.05
    ((1000,), True)
    """
    if part.confidence is not None:
        return _evaluate_confidence(calibrator, part.confidence, part.correct)
    if part.reduced:
        return _evaluate_reduced(calibrator, part, run)
    found = Collector(calibrator, ClasswiseCells(part.classes, bins) if classwise else None)
    with threads_for(part.logits.size):
        for rows, logits, probabilities in calibrator.stream_rows(part.logits, features=part.features):
            found.add(logits, probabilities, part.labels[rows])
            if run is not None:
                run.tick(rows.stop / len(part), "evaluating on test")
    return found.evaluation()


class Collector:
    """The evaluation of a calibrator as its chunks of rows come in."""

    def __init__(self, calibrator: Calibrator, cells: ClasswiseHistogram | None) -> None:
        self.calibrator, self.cells = calibrator, cells
        self._columns: list[tuple[NDArray[Any], ...]] = []

    def add(self, logits: Logits, probabilities: Probabilities, labels: IntArray) -> None:
        """Add the next rows: their logits, their calibrated probabilities and their labels."""
        y = torch.from_numpy(np.array(labels)).to(logits.device)
        if self.cells is not None:
            self.cells.update(probabilities, y)
        self.add_vectors(_vectors(self.calibrator, logits, probabilities, y))

    def add_vectors(self, columns: tuple[NDArray[Any], ...]) -> None:
        """Add the columns of the next rows, in the order of the fields of `Evaluation`."""
        self._columns.append(columns)

    def evaluation(self) -> Evaluation:
        vectors: Any = [np.concatenate(column) for column in zip(*self._columns, strict=True)]
        return replace(Evaluation(*vectors), cells=self.cells)


def joined(pieces: Sequence[Evaluation]) -> Evaluation:
    """The evaluation of consecutive pieces of a set as one; the classwise sums are added up in this order.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits")
    >>> model = sc.Vanilla().fit_part(data.validation)
    >>> halves = [evaluate(model, data.test.subset(rows), classwise=False) for rows in np.array_split(range(720), 2)]
    >>> np.array_equal(joined(halves).nll, evaluate(model, data.test).nll)
    True
    """
    columns = {item.name: [getattr(piece, item.name) for piece in pieces] for item in fields(Evaluation)}
    cells = columns.pop("cells")
    vectors: dict[str, Any] = {
        name: None if each[0] is None else np.concatenate(each) for name, each in columns.items()
    }
    total = cells[0]
    for each in cells[1:]:
        if total is not None:
            total.merge(each)
    return Evaluation(**vectors, cells=total)


def _evaluate_confidence(calibrator: Calibrator, confidence: FloatArray, correct: BoolArray) -> Evaluation:
    """The evaluation of confidences without logits: NLL and Brier score are those of the outcome, correct or wrong."""
    p = np.asarray(calibrator.predict_confidence(confidence))
    claimed = np.where(correct, p, 1.0 - p).astype(np.float64)
    nll = -np.log(np.maximum(claimed, SMALLEST_PROBABILITY))
    return Evaluation(p, np.zeros(len(p), dtype=np.int64), correct, nll, (1.0 - claimed) ** 2)


def _evaluate_reduced(calibrator: Calibrator, part: Part, run: Run | None = None) -> Evaluation:
    """The evaluation of reduced rows, within the bounds of `fitting.reduced`; without classwise sums."""
    calibrator.check_reduced(part.classes)
    if calibrator.classes_ != part.classes:
        raise CalibrationError(f"{calibrator.label} was fitted on {calibrator.classes_} classes; got {part.classes}.")
    correct, columns = part.correct, []
    for rows, top, chunk in part.reduced_blocks(REDUCED_CHUNK, calibrator.reads_curve):
        if run is not None:
            run.tick(rows.start / len(part), f"evaluating on {len(part):,} rows of test")
        profile = ReducedProfile.of(top, chunk, correct[rows])
        with torch.no_grad():
            found = calibrator._evaluate_reduced(profile)
        margins = profile.top[:, 0] - profile.top[:, 1]
        temperature = None if found.temperature is None else found.temperature.numpy()
        wide = found.nll.double().numpy(), found.brier.double().numpy()
        columns.append(
            (found.confidence.numpy(), chunk["prediction"], correct[rows], *wide, margins.numpy(), temperature)
        )
    return joined([Evaluation(*each) for each in columns])


def _vectors(
    calibrator: Calibrator, logits: Logits, probabilities: Probabilities, labels: Tensor
) -> tuple[NDArray[Any], ...]:
    """One chunk's columns, in the order of the fields of `Evaluation`."""
    confidence, prediction = probabilities.max(dim=1)
    temperature = [calibrator._temperatures(logits)] if isinstance(calibrator, TemperatureCalibrator) else []
    losses = label_losses(logits, probabilities, labels, *temperature), label_brier(probabilities, labels)
    wide = (loss.cpu().double() for loss in losses)
    columns = (confidence, prediction, prediction == labels, *wide, margin(logits), *temperature)
    return tuple(column.cpu().numpy() for column in columns)


def label_losses(
    logits: Tensor, probabilities: Probabilities, labels: Tensor, temperature: Tensor | None = None
) -> Tensor:
    """Per-sample NLL. Temperature methods take it in log space, where small probabilities do not vanish;
    for the others a label given probability 0 costs 708.4 nats (see `smart_core.metrics.proper`)."""
    index = labels.unsqueeze(1)
    if temperature is not None:
        scaled = (logits - logits.amax(dim=1, keepdim=True)) / temperature.unsqueeze(1)
        return (torch.logsumexp(scaled, dim=1, keepdim=True) - scaled.gather(1, index)).squeeze(1)
    label_probability = probabilities.gather(1, index).squeeze(1).cpu().double()
    return -torch.log(label_probability.clamp(min=SMALLEST_PROBABILITY))


def label_brier(probabilities: Probabilities, labels: Tensor) -> Tensor:
    """Per-sample `sum_k q_k^2 - 2 q_y + 1`."""
    squares = torch.linalg.vecdot(probabilities, probabilities)
    return squares - 2.0 * probabilities.gather(1, labels.unsqueeze(1)).squeeze(1) + 1.0


def cell_numbers(evaluation: Evaluation) -> dict[str, int] | None:
    """The whole numbers of the classwise sums: classes, bins, samples, seed."""
    if evaluation.cells is None:
        return None
    return {name: int(value) for name, value in vars(evaluation.cells).items() if not isinstance(value, np.ndarray)}


def evaluation_arrays(evaluation: Evaluation) -> dict[str, NDArray[Any]]:
    """The per-sample vectors of an evaluation and its classwise sums, by the names that an npz gives them."""
    cells = {} if evaluation.cells is None else vars(evaluation.cells)
    sums = {f"{CELLS}{name}": value for name, value in cells.items() if isinstance(value, np.ndarray)}
    return evaluation.vectors | sums


def build_evaluation(arrays: Mapping[str, NDArray[Any]], cell_numbers: Mapping[str, int] | None) -> Evaluation:
    """Return the evaluation of the arrays that `evaluation_arrays` gives and the numbers of `cell_numbers`."""
    own = {name: np.array(array) for name, array in arrays.items()}
    cells = None
    if cell_numbers is not None:
        cells = ClasswiseCells.__new__(ClasswiseCells)  # the constructor would make all its arrays
        sums = {name.removeprefix(CELLS): own.pop(name) for name in list(own) if name.startswith(CELLS)}
        numbers = {name: value for name, value in cell_numbers.items() if name != "first"}  # in older files
        vars(cells).update(numbers, **sums)
    return Evaluation(**own, cells=cells)


@dataclass(frozen=True)
class Metric:
    """A metric of an evaluation: its name in tables, how it is computed, and how to read it."""

    label: str
    value: Callable[[Evaluation, int], float]
    help: str
    binned: bool = False
    higher_is_better: bool = False
    percent: bool = True
    """Whether tables show it in per cent."""
    classwise: bool = False
    """Whether it needs the classwise sums, which only logits have."""

    def known(self, evaluation: Evaluation) -> bool:
        """Whether the evaluation has what the metric needs."""
        return not self.classwise or evaluation.cells is not None

    def sort_key(self, value: float) -> float:
        """A key that sorts values from best to worst, and what is not a number last."""
        return math.inf if math.isnan(value) else -value if self.higher_is_better else value


def _classwise(evaluation: Evaluation, bins: int, *, debiased: bool) -> float:
    """NaN where the sums were not kept: they belong to the whole set, so that a subset has none."""
    if evaluation.cells is None:
        return float("nan")
    if evaluation.cells.bins != bins:
        raise CalibrationError(
            f"The classwise sums of this evaluation have {evaluation.cells.bins} bins, not {bins}; "
            f"evaluate again with bins={bins}."
        )
    return evaluation.cells.l2_debiased() if debiased else evaluation.cells.ece()


def _binned(label: str, metric: Callable[[Any, Any, int], float], help: str) -> Metric:
    return Metric(label, lambda found, bins: metric(found.confidence, found.correct, bins), help, binned=True)


def _equal_width(label: str, metric: Callable[[Any, Any, int], float], help: str) -> Metric:
    """As `_binned`, from the sums of many samples."""

    def value(found: Evaluation, bins: int) -> float:
        return metric(found.confidence_cells(bins) or found.confidence, found.correct, bins)

    return Metric(label, value, help, binned=True)


def _unbinned(label: str, metric: Callable[[Any, Any], float], help: str, **more: bool) -> Metric:
    return Metric(label, lambda found, bins: metric(found.confidence, found.correct), help, **more)


def _classes(label: str, help: str, *, debiased: bool) -> Metric:
    return Metric(label, partial(_classwise, debiased=debiased), help, binned=True, classwise=True)


def _mean(label: str, name: str, help: str, **more: bool) -> Metric:
    return Metric(label, lambda found, bins: float(np.mean(getattr(found, name))), help, **more)


def _both_parts(name: str, label: str, parts: Callable[[Any, Any], Parts], loss: str) -> dict[str, Metric]:
    """Calibration and refinement of a loss of the confidence, as a forecast of correctness."""
    removed = f"Part of {loss}, as a forecast of correctness, that isotonic recalibration on the same samples removes."
    rest = f"The rest of {loss}, after isotonic recalibration."
    return {
        f"{name}_calibration": _unbinned(f"{label}, calibration", lambda p, a: parts(p, a)[0], removed, percent=False),
        f"{name}_refinement": _unbinned(f"{label}, refinement", lambda p, a: parts(p, a)[1], rest, percent=False),
    }


METRICS: dict[str, Metric] = {
    "ece": _equal_width("ECE", ece, "Mean gap between confidence and accuracy over equal-width bins."),
    "adaece": _binned("AdaECE", adaece, "The same gap over bins that hold equally many samples."),
    "cece": _classes("cwECE", "Mean over classes of the ECE of each class's own probability.", debiased=False),
    "nll": _mean("NLL", "nll", "Mean of minus the log probability of the label.", percent=False),
    "brier": _mean(
        "Brier", "brier", "Mean squared distance between the probabilities and the one-hot label.", percent=False
    ),
    "smce": _unbinned(
        "smCE", smce, "Largest correlation of the residual with a 1-Lipschitz probe of the confidence; exact, no bins."
    ),
    "smece": _unbinned(
        "SmoothECE", smece, "Gap after kernel smoothing whose width is the error itself; no bins to choose."
    ),
    "accuracy": _mean("Accuracy", "correct", "Share of correct predictions.", higher_is_better=True),
    "mce": _equal_width("MCE", mce, "Largest gap of any bin."),
    "ece_l2": _equal_width("L2 ECE", ece_l2_debiased, "Root mean square gap over bins, debiased."),
    "aurc": _unbinned(
        "AURC", aurc, "Area under the risk-coverage curve: mean error rate as the least confident samples are rejected."
    ),
}
"""Every metric that methods can be ranked by, by the name that scripts, tables and links use."""

DETAILS: dict[str, Metric] = {
    "over": _equal_width(
        "Overconfidence", over_confidence, "The part of the ECE from bins whose confidence exceeds their accuracy."
    ),
    "under": _equal_width(
        "Underconfidence",
        under_confidence,
        "The part of the ECE from bins whose accuracy exceeds their confidence; both parts add up to the ECE.",
    ),
    "ece_sweep": _unbinned(
        "ECE-sweep",
        ece_sweep,
        "ECE over bins of equally many samples, as many as keep the accuracy rising from bin to bin.",
    ),
    "ece_kde": _unbinned(
        "KDE-ECE",
        kde_ece,
        "Mean gap between confidence and accuracy from kernel densities (triweight, reflected at 0 and 1).",
    ),
    "cece_l2": _classes(
        "L2 cwECE", "Root mean square over classes and bins of each class's gap, debiased.", debiased=True
    ),
    "ks": _unbinned(
        "KS", ks, "Largest absolute sum of the residuals up to a confidence, divided by the number of samples; no bins."
    ),
    "kuiper": _unbinned(
        "Kuiper",
        kuiper,
        "Largest absolute sum of the residuals between two confidences, divided by the number of samples; no bins.",
    ),
    "auroc": _unbinned(
        "AUROC",
        auroc,
        "Probability that a correct prediction is more confident than a wrong one; ties count half.",
        higher_is_better=True,
    ),
    **_both_parts("nll", "Log-loss", log_loss_parts, "the log-loss of the confidence"),
    **_both_parts("brier", "Brier", squared_error_parts, "the squared error of the confidence"),
}
"""Metrics that are shown beside those of `METRICS`, and that methods are not ranked by."""

IMPROVED = {"nll": "PHI, NLL", "brier": "PHI, Brier"}
"""Loss -> the heading of its post-hoc improvement, the share of the uncalibrated model's loss that a method removes."""


def metric_named(name: str) -> Metric:
    """A metric by its name; an unknown one is an error that lists them."""
    if name not in METRICS:
        raise CalibrationError(f"There is no metric '{name}'; the metrics are {' '.join(METRICS)}.")
    return METRICS[name]


def _known(metric: str | Metric) -> Metric:
    return metric if isinstance(metric, Metric) else DETAILS.get(metric) or metric_named(metric)


def metric_number(metric: str | Metric, value: float) -> str:
    """A metric's value without its unit: two decimals of per cent, or four decimals; empty where it is not known.

    >>> metric_number("ece", 0.0061), metric_number("nll", 0.2041), metric_number("ece", math.nan)
    ('0.61', '0.2041', '')
    """
    if not math.isfinite(value):
        return ""
    return f"{100 * value:.2f}" if _known(metric).percent else f"{value:.4f}"


def metric_value(metric: str | Metric, value: float) -> str:
    """A metric's value with its unit: `0.61%` for an ECE, `0.2041` for an NLL, `−1.20%` for a change."""
    if not math.isfinite(value):
        return MISSING
    return decimal(100 * value) + "%" if _known(metric).percent else decimal(value, ".4f")


def metric_range(metric: str | Metric, low: float, high: float) -> str:
    """Both ends of an interval with their unit: `0.43–0.81%`, `0.2041–0.2165`."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return MISSING
    return f"{metric_number(metric, low)}–{metric_value(metric, high)}"


def measured_label(metric: str) -> str:
    """The heading of a metric's value: `ECE, measured` for a calibration error, `NLL` for a metric without a floor."""
    label = metric_named(metric).label
    return f"{label}, measured" if metric in CALIBRATION_ERRORS else label


def metric_label(metric: str | Metric) -> str:
    """A metric's name with its unit, for axes and headings: `ECE, %`."""
    known = _known(metric)
    return f"{known.label}, %" if known.percent else known.label


def tick_format(metric: str | Metric) -> str:
    """The d3 format of an axis that shows a metric."""
    return ".1~%" if _known(metric).percent else ".3~f"


HEADLINE = ("ece", "adaece", "cece", "nll", "brier", "smce", "smece", "accuracy")
"""The metrics of the leaderboard, each with an interval."""

FURTHER: dict[str, Metric] = {name: item for name, item in (METRICS | DETAILS).items() if name not in HEADLINE}
"""All others, which tables and files have without an interval."""

CALIBRATION_ERRORS = ("ece", "adaece", "cece", "smce", "smece")
"""The metrics that noise alone lifts above zero; each has a noise floor."""

TRUE_RANGE = "true, 95%"
"""The heading of an interval: what it is an interval of, and its level."""

MEASURED_AND_TRUE = (
    "Measured: the error on these test samples, the number that other tools print. Sampling noise inflates it: a "
    "perfectly calibrated model stays below the noise floor on 95% of test sets. True, 95%: a 95% confidence interval "
    "of the model's true error, over the whole population. Near the noise floor, the measured error can lie above its "
    "own interval."
)
"""The explanation of both, the same wherever a calibration error is shown with its interval."""
