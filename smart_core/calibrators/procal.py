"""ProCal (Xiong et al., 2023), density-ratio form: confidence corrected for the proximity to other samples.

The kernel density estimate is written out because none in scipy or scikit-learn fits: they take one covariance or one
bandwidth for both coordinates, work in float64 on the CPU alone, and return densities that underflow where both vanish.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smart_core import kernels
from smart_core.calibrators.base import Calibrator, FitData, LineStyle, Shape
from smart_core.calibrators.neighbours import nearest_squares, unit_rows
from smart_core.calibrators.rows import map_rows, row_chunks
from smart_core.calibrators.rules import PROBABILITIES, between
from smart_core.calibrators.settings import setting
from smart_core.calibrators.toplabel import spread
from smart_core.device import precise, rows_per_chunk
from smart_core.fitting.profile import gaps
from smart_core.fitting.ragged import present
from smart_core.kernels.threads import share
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

LEAST_BANDWIDTH = 1e-6
"""Both coordinates lie in [0, 1]; a smaller bandwidth would resolve rounding errors."""

BANDWIDTHS = between(0.9 * LEAST_BANDWIDTH, 10.0)


@dataclass(kw_only=True, eq=False)
class ProCal(Calibrator):
    """`c = f+ / (f+ + f- n-/n+)`; `f+`, `f-` are the densities of (confidence, proximity) of hits and misses.

    Proximity is the mean of `exp(-d^2)` over the nearest validation samples, d the distance of L2-normalised
    features. The other classes share `1 - c` in their old proportions, and the prediction stays the largest. Without
    features it reads the logits.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> procal = sc.ProCal().fit(data.logits, data.labels, features=data.features)
    >>> len(procal.hits_) + len(procal.misses_) == len(data.labels)
    True
    """

    id = "procal"
    label = "ProCal"
    summary = "Accuracy estimated from a density ratio over confidence and proximity to the validation set."
    position = 10
    whole_rows = "without features it reads the logits"
    family = "With the network's features"
    style = LineStyle("#C2528B", "3px,3px", "star-triangle-down")
    rules = (
        ("reference_", between(-1.001, 1.001)),
        ("hits_", PROBABILITIES),
        ("misses_", PROBABILITIES),
        ("hit_bandwidth_", BANDWIDTHS),
        ("miss_bandwidth_", BANDWIDTHS),
    )
    uses = ("features",)
    traceable = False  # it goes through the reference rows in pieces

    neighbours: int = setting(10, "Nearest validation samples in the proximity.", low=1, high=10_000)

    def _fit(self, data: FitData, run: Run) -> None:
        values = self._features_or_logits(data)
        self.reference_ = map_rows(unit_rows, values, run, "normalising")
        tops = [_top1(Logits(chunk))[1:] for chunk in row_chunks(data.logits, run, "reading confidences")]
        confidence, prediction = (torch.cat(column) for column in zip(*tops, strict=True))
        near = proximity(self.reference_, self.reference_, self.neighbours, run)
        points = torch.stack([confidence, near], dim=1)
        hit = prediction == data.labels
        self.hits_, self.misses_ = points[hit], points[~hit]
        self.hit_bandwidth_ = Density.bandwidth(self.hits_, points)
        self.miss_bandwidth_ = Density.bandwidth(self.misses_, points)
        if not self._has_both:
            lacking = "misses" if len(self.misses_) == 0 else "hits"
            self.notices_.append(
                f"The validation set holds no {lacking}, so there is no density ratio; "
                "confidences are left as they are."
            )

    @property
    def _has_both(self) -> bool:
        return len(self.hits_) > 0 and len(self.misses_) > 0

    def _confidence(self, confidence: Tensor, near: Tensor) -> Tensor:
        """The ratio as a logistic function of `log f+ + log n+ - log f- - log n-`, safe where both vanish."""
        points = torch.stack([confidence, near], dim=1)
        for_hit = Density(self.hits_, self.hit_bandwidth_).log_mass(points)
        for_miss = Density(self.misses_, self.miss_bandwidth_).log_mass(points)
        return torch.sigmoid(for_hit - for_miss)

    def learned(self) -> dict[str, Shape]:
        width = "d" if self.features_used_ else self.classes_
        return {
            "reference_": ("n", width),
            "hits_": ("hits", 2),
            "misses_": ("misses", 2),
            "hit_bandwidth_": (2,),
            "miss_bandwidth_": (2,),
        }

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        probabilities, confidence, prediction = _top1(logits)
        if self._has_both:
            # a bandwidth may be as narrow as the rounding of float32 numbers is wide
            queries = unit_rows(precise(logits if features is None else features))
            sharp = torch.softmax(precise(gaps(logits)), dim=1).amax(dim=1)
            confidence = self._confidence(sharp, proximity(queries, self.reference_, self.neighbours))
        return spread(probabilities, prediction, confidence, keep=True, present=present(logits))

    def numpy_code(self) -> str:
        if not self._has_both:
            return "return spread(z, softmax(z).max(axis=1), keep=True)"
        return f"""
            near = proximity(unit_rows({"x" if self.features_used_ else "z"}), REFERENCE, {self.neighbours})
            confidence = softmax(z).max(axis=1)
            for_hit = log_mass(confidence, near, HITS, HIT_BANDWIDTH)
            for_miss = log_mass(confidence, near, MISSES, MISS_BANDWIDTH)
            return spread(z, sigmoid(for_hit - for_miss), keep=True)
        """

    def _widest_row(self) -> int:
        return max(self.classes_, len(self.reference_))


def _top1(logits: Logits) -> tuple[Probabilities, Tensor, Tensor]:
    """The softmax, and the confidence and place of the largest logit (the softmax may round to ties)."""
    probabilities = torch.softmax(gaps(logits), dim=1)
    prediction = logits.argmax(dim=1)
    confidence = probabilities.gather(1, prediction.unsqueeze(1)).squeeze(1)
    return Probabilities(probabilities), confidence, prediction


def proximity(queries: Tensor, reference: Tensor, neighbours: int, run: Run | None = None) -> Tensor:
    """(N,) means of `exp(-d^2)` over the nearest reference rows, for normalised rows."""
    return torch.exp(-nearest_squares(queries, reference, neighbours, run)).mean(dim=1)


@dataclass(frozen=True)
class Density:
    """`f(x) = 1/n sum_i prod_j N(x_j; p_ij, h_j^2)` over points (n, 2) with bandwidths h (2,)."""

    points: Tensor
    h: Tensor

    @staticmethod
    def bandwidth(points: Tensor, everyone: Tensor) -> Tensor:
        """The normal reference rule `h_j = 1.06 s_j n^(-1/6)`, s_j the population standard deviation.

        Points without spread in a coordinate take that of `everyone`. A coordinate in which all points are equal gets
        bandwidth 1: it then contributes the same to every group and cancels in their ratio.
        """
        own, common = _spread(points), _spread(everyone)
        s = torch.where(own > LEAST_BANDWIDTH, own, common)
        h = (1.06 * s * max(len(points), 1) ** (-1.0 / 6.0)).clamp(min=LEAST_BANDWIDTH)
        return torch.where(common > LEAST_BANDWIDTH, h, torch.ones_like(h))

    def log_mass(self, queries: Tensor) -> Tensor:
        """`log(n f(x))` up to the constant `log 2 pi`, (N,), in the queries' precision and chunk by chunk."""
        points, h = self.points.to(queries.dtype), self.h.to(queries.dtype)
        x, y = (points / h).T.contiguous()
        chunks = (queries / h).split(rows_per_chunk(len(points)))
        compiled = kernels.usable() and queries.device.type == "cpu" and queries.dtype == torch.float64
        function = _compiled_log_kernel_sum if compiled else _log_kernel_sum
        parts = share(lambda chunk: function(chunk, x, y), chunks, Run(), "densities")
        return torch.cat(parts) - torch.log(h).sum()


def _log_kernel_sum(queries: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """`log sum_i exp(-|q - p_i|^2 / 2)` over points with coordinates x and y.

    Terms below e^-80 of the largest are raised to that, which changes nothing: as subnormal numbers they would be ten
    times slower.
    """
    first, second = queries[:, :1] - x, queries[:, 1:] - y
    exponent = first.mul_(first).addcmul_(second, second).mul_(-0.5)
    largest = exponent.amax(dim=1, keepdim=True)
    total = exponent.sub_(largest).clamp_(min=-80.0).exp_().sum(dim=1)
    return torch.log(total) + largest.squeeze(1)


def _compiled_log_kernel_sum(queries: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The same in one loop."""
    from smart_core.kernels.density import log_kernel_sums

    logs = torch.empty(len(queries), dtype=torch.float64)
    first, second = queries.T.contiguous()
    log_kernel_sums(first.numpy(), second.numpy(), x.numpy(), y.numpy(), logs.numpy())
    return logs


def _spread(points: Tensor) -> Tensor:
    """Population standard deviation, column by column; zero without points."""
    if len(points) == 0:
        return torch.zeros(points.shape[1], device=points.device, dtype=points.dtype)
    return points.std(dim=0, correction=0)
