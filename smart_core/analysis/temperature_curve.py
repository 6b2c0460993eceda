"""The learned temperature as a function of an indicator of hardness: the paper's margin-temperature figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from smart_core.calibrators import Calibrator, TemperatureCalibrator
from smart_core.calibrators.smart import SMART
from smart_core.errors import CalibrationError
from smart_core.experiments.results import OverSeeds
from smart_core.fitting.indicators import scalar_indicator
from smart_core.metrics.binning import equal_mass_groups
from smart_core.types import BoolArray, Vector

if TYPE_CHECKING:
    from smart_core.data.logitset import Part

SAMPLES_PER_BIN, MOST_BINS = 100, 40
"""Fewest samples per bin and most bins, if T is averaged in bins: more of them would show the noise of the samples."""

QUANTILES = (0.1, 0.9)
"""Quantiles of the temperatures within a bin."""

DENSITY_BINS = 60


@dataclass(frozen=True)
class Support:
    """Where the validation set, on which T was learned, has samples."""

    low: float
    q01: float
    q99: float
    high: float

    @classmethod
    def of(cls, values: Vector) -> Support:
        """Ends, and the 1% and 99% quantiles."""
        q01, q99 = np.quantile(values, [0.01, 0.99])
        return cls(float(values.min()), float(q01), float(q99), float(values.max()))


@dataclass(frozen=True, eq=False)
class TemperatureCurve:
    """T against an indicator for several seeds of one method, and the density of the test samples."""

    method: str
    indicator: str
    x: Vector
    """(P,) rising values of the indicator."""
    temperature: Vector
    """(seeds, P): T at x if `exact`, else the mean T of the test samples in the bin around x."""
    exact: bool
    """Whether T is a function of the indicator alone."""
    low: Vector | None
    """(P,) 10% quantile of T within the bin, samples of all seeds together; None if `exact`."""
    high: Vector | None
    """(P,) the 90% quantile."""
    edges: Vector
    """(B + 1,) bins of the density."""
    count: NDArray[np.int64]
    """(B,) test samples in each."""
    support: Support | None
    """None if no validation set was given."""
    outside: int
    """Test samples outside the validation set's range; 0 if that is not known."""
    pearson: Vector
    """(seeds,) correlation of indicator and T over test samples; NaN where T is the same for all."""
    test_range: tuple[float, float]
    """Smallest and largest T of a test sample, mean over seeds."""

    @property
    def mean(self) -> Vector:
        """(P,) over seeds."""
        return np.asarray(self.temperature.mean(axis=0))

    @property
    def std(self) -> Vector:
        """(P,) sample standard deviation over seeds; NaN for a single one."""
        return OverSeeds.of(self.temperature.T).std

    @property
    def r(self) -> float:
        """Pearson's r, the mean over the seeds that have one; NaN if none has."""
        known = self.pearson[np.isfinite(self.pearson)]
        return float(known.mean()) if known.size else float("nan")

    @property
    def supported(self) -> BoolArray:
        """(P,) whether x lies within the validation set's range; everywhere if that is not known.

        A range narrower than the steps of x, such as that of equal values, has the point next to it.
        """
        if self.support is None:
            return np.ones(len(self.x), dtype=np.bool_)
        inside = (self.x >= self.support.low) & (self.x <= self.support.high)
        if not inside.any():
            inside[np.abs(self.x - self.support.low).argmin()] = True
        return np.asarray(inside)


def temperature_curve(
    calibrators: Sequence[Calibrator],
    part: Part,
    indicator: str = "margin",
    points: int = 200,
    *,
    validation: Part | None = None,
) -> TemperatureCurve:
    """The learned T of one method's fitted calibrators, one per seed, against an indicator.

    SMART's T is a function of its own indicator: it is evaluated on `points` even steps over the range of `part` (the
    test samples) and `validation`. For other methods, and for SMART against another indicator, T is averaged in at
    most 40 bins of equally many test samples.

    >>> import smart_core as sc
    >>> data = sc.simulate_set(200, 200, 4, seed=0)
    >>> smart = sc.SMART(seed=0, epochs=3).fit(data.validation.logits, data.validation.labels)
    >>> curve = temperature_curve([smart], data.test, points=50, validation=data.validation)
    >>> curve.exact, curve.mean.shape, bool((curve.mean > 0.1).all())
    (True, (50,), True)
    """
    methods = _one_method(calibrators, part.logits)
    values = scalar_indicator(indicator, part.logits)
    known = None if validation is None else scalar_indicator(indicator, validation.logits)
    both = values if known is None else np.concatenate([values, known])
    low, high = float(both.min()), float(both.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    exact = all(isinstance(each, SMART) and each.indicator == indicator for each in methods)
    bin_low = bin_high = None
    if exact:
        maps = [each for each in methods if isinstance(each, SMART)]
        x = np.linspace(low, high, points)
        temperature = np.stack([map_at(each, x) for each in maps])
        samples = np.stack([map_at(each, values) for each in maps])
    else:
        samples = np.stack([np.asarray(each.temperatures(part.logits), dtype=np.float64) for each in methods])
        x, temperature, bin_low, bin_high = _binned(values, samples, points)
    count, edges = np.histogram(values, bins=DENSITY_BINS, range=(low, high))
    return TemperatureCurve(
        methods[0].id,
        indicator,
        x,
        temperature,
        exact,
        bin_low,
        bin_high,
        edges,
        count,
        None if known is None else Support.of(known),
        0 if known is None else int(((values < known.min()) | (values > known.max())).sum()),
        np.array([pearson(values, each) for each in samples]),
        (float(samples.mean(axis=0).min()), float(samples.mean(axis=0).max())),
    )


def map_at(calibrator: SMART, values: Vector) -> Vector:
    """T of a fitted SMART at given values of its (scalar) indicator."""
    x = torch.as_tensor(values, dtype=torch.float32, device=calibrator.mean_.device).unsqueeze(1)
    with torch.no_grad():
        return np.asarray(calibrator.map(x).cpu().double().numpy())


def pearson(x: Vector, y: Vector) -> float:
    """Pearson's r; NaN where one of the two is constant."""
    if len(x) < 2 or np.ptp(x) == 0.0 or np.ptp(y) == 0.0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def _one_method(calibrators: Sequence[Calibrator], logits: NDArray[np.float32]) -> list[TemperatureCalibrator]:
    """Check that the calibrators are fitted, of one method, and divide by a temperature."""
    found = []
    for each in calibrators:
        if not isinstance(each, TemperatureCalibrator):
            raise CalibrationError(f"{each.label} does not divide by a temperature; there is no T to draw.")
        each.temperatures(logits[:1])  # raises if it is not fitted, or to other classes
        found.append(each)
    if not found:
        raise CalibrationError("No calibrator was given; fit one, and give it here.")
    labels = sorted({each.label for each in found})
    if len(labels) > 1:
        raise CalibrationError(f"A curve is of one method; {' and '.join(labels)} were given. Make a curve of each.")
    return found


def _binned(values: Vector, samples: Vector, points: int) -> tuple[Vector, Vector, Vector, Vector]:
    """Mean indicator, mean T of each seed, and quantiles of T, in bins of about equally many samples."""
    groups = equal_mass_groups(values, min(points, MOST_BINS, max(1, len(values) // SAMPLES_PER_BIN)))
    x = np.array([values[group].mean() for group in groups])
    temperature = np.stack([samples[:, group].mean(axis=1) for group in groups], axis=1)
    low, high = np.stack([np.quantile(samples[:, group], QUANTILES) for group in groups], axis=1)
    return x, temperature, low, high
