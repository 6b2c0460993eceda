"""Class-based temperature scaling (Frenkel & Goldberger, 2021): one temperature for each class's logit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smart_core import kernels
from smart_core.calibrators.base import Calibrator, FitData, LineStyle, Shape
from smart_core.calibrators.candidate_ece import UNIT, candidate_ece
from smart_core.calibrators.rules import TEMPERATURES
from smart_core.calibrators.settings import setting
from smart_core.calibrators.ts import minimise_nll
from smart_core.device import threads_for
from smart_core.errors import CalibrationError
from smart_core.metrics.binning import bin_edges
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

HUGE = 1e37
"""Logits are clipped to plus and minus this, so that dividing by the least temperature stays finite."""

LEAST_GAIN = 1e-7
"""An ECE must fall by more than this to count as lower: smaller differences are rounding."""


@dataclass(kw_only=True, eq=False)
class CTS(Calibrator):
    """`q = softmax(z_k / T_k)` with the `T_k` of least validation ECE, searched class by class.

    All start at the temperature of TS. A sweep visits the classes in order and tries every grid value, in order; a
    value is taken if it lowers the ECE and does not lower the accuracy reached so far. Sweeps end when one changes
    nothing. A class without validation samples keeps the common temperature. Unlike a common temperature, this depends
    on the level of the logits, which are divided as they are.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> cts = sc.CTS(sweeps=1).fit(data.logits, data.labels)
    >>> tuple(cts.temperatures_.shape)
    (10,)
    """

    id = "cts"
    label = "CTS"
    summary = "One temperature per class, searched on validation ECE without losing accuracy."
    position = 7
    whole_rows = "it has parameters for each class"
    family = "One temperature per sample or class"
    style = LineStyle("#5B7BD5", "dashdot", "pentagon-open")
    rules = (("temperatures_", TEMPERATURES),)
    keeps_top1 = False  # classes divided by different temperatures may change places

    sweeps: int = setting(5, "Passes over the classes, at most.", low=1, high=1000)
    t_low: float = setting(0.5, "Least temperature of the grid.", low=0.05, high=20.0)
    t_high: float = setting(5.0, "Greatest temperature of the grid.", low=0.05, high=100.0)
    t_step: float = setting(0.1, "Step of the grid.", low=1e-3, high=10.0)
    bins: int = setting(15, "Bins of the ECE that the search lowers.", low=1, high=1000)

    def _fit(self, data: FitData, run: Run) -> None:
        start = 1.0 / minimise_nll(data.logits, data.labels, run.part(0.0, 0.05))
        grid = temperature_grid(self.t_low, self.t_high, self.t_step)
        search = ClassSearch(data.logits, data.labels, start, grid, self.bins, run.part(0.05, 0.05))
        present = sorted(set(data.labels.cpu().tolist()))
        with threads_for(len(grid) * len(data)):  # the largest array of a step
            self._search(search, present, run.part(0.05, 1.0))
        if len(present) < data.classes:
            self.notices_.append(
                f"{data.classes - len(present)} of {data.classes} classes are absent from validation; "
                f"they keep the common temperature {start:.4g}."
            )
        self.temperatures_ = torch.tensor(search.temperatures, dtype=torch.float32, device=data.logits.device)

    def _search(self, search: ClassSearch, present: list[int], run: Run) -> None:
        for sweep in range(self.sweeps):
            if sweep > 0:
                search.refresh()
            changed = False
            for number, k in enumerate(present):
                done = (sweep + number / len(present)) / self.sweeps
                run.tick(done, f"sweep {sweep + 1}, class {k}, ECE {search.ece:.4f}")
                changed = search.improve(k) or changed
            if not changed:
                break

    def learned(self) -> dict[str, Shape]:
        return {"temperatures_": (self.classes_,)}

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        return Probabilities(torch.softmax(logits.clamp(-HUGE, HUGE) / self.temperatures_, dim=1))

    def numpy_code(self) -> str:
        return f"return softmax(np.clip(z, -{HUGE}, {HUGE}) / TEMPERATURES).astype(np.float32)"


def temperature_grid(low: float, high: float, step: float) -> list[float]:
    """`low, low + step, ...` up to `high`, both ends included where the step allows."""
    if high < low:
        raise CalibrationError(f"CTS: t_high={high!r} is below t_low={low!r}.")
    return [round(low + number * step, 10) for number in range(int((high - low) / step + 1e-9) + 1)]


class ClassSearch:
    """The scaled logits `z_k / T_k` with each row's maximum, its place and the log-sum-exp, kept up to date.

    Trying a class needs only its own column: with `m` and `L` the maximum and the log-sum-exp of the other
    classes and `x = z_k / T`, the class's probability is `sigmoid(x - L)`, and the best other class's is
    `exp(m - L) (1 - sigmoid(x - L))`.
    """

    def __init__(
        self, logits: Logits, labels: Tensor, start: float, grid: list[float], bins: int, run: Run | None = None
    ) -> None:
        run = run or Run()
        run.tick(0.0, "turning rows into columns")
        self.columns = logits.T.clamp(-HUGE, HUGE).contiguous()
        run.tick(0.0, "turning rows into columns")
        self.scaled = self.columns / start
        self.labels = labels
        self.bins = bins
        self.grid = grid
        self.grid_column = torch.tensor(grid, dtype=logits.dtype, device=logits.device).unsqueeze(1)
        self.temperatures = [start] * logits.shape[1]
        self.edges = bin_edges(bins, np.float32)
        self.compiled = kernels.usable(self.columns, labels)
        self.refresh()
        hit = self.top == labels
        confidence = torch.exp(self.peak - self.log_sum)
        self.ece = candidate_ece(confidence.unsqueeze(0), hit.unsqueeze(0), bins)[0]
        self.hits = int(hit.sum())

    def refresh(self) -> None:
        """Recompute maximum and log-sum-exp: in many small updates rounding errors would add up."""
        self.peak, self.top = self.scaled.max(dim=0)
        self.log_sum = torch.logsumexp(self.scaled, dim=0)

    def improve(self, k: int) -> bool:
        """Try the whole grid for class `k`; keep the last value that improved, if any did."""
        others = self._others(k)
        errors, all_hits = (self._compiled_candidates if self.compiled else self._candidates)(k, *others)
        taken = None
        for number, (error, hits) in enumerate(zip(errors, all_hits, strict=True)):
            if error < self.ece - LEAST_GAIN and hits >= self.hits:
                taken, self.ece, self.hits = number, error, hits
        if taken is None:
            return False
        peak, top, log_sum = others
        self.temperatures[k] = self.grid[taken]
        self.scaled[k] = x = self.columns[k] / self.grid_column[taken]
        wins = self._wins(k, x, peak, top)
        self.peak = torch.where(wins, x, peak)
        self.top = torch.where(wins, torch.full_like(top, k), top)
        self.log_sum = torch.logaddexp(log_sum, x)
        return True

    def _wins(self, k: int, x: Tensor, peak: Tensor, top: Tensor) -> Tensor:
        """Where class `k`, scaled to x, is the prediction; ties go to the first class."""
        return (x > peak) | ((x == peak) & (k < top))

    def _candidates(self, k: int, peak: Tensor, top: Tensor, log_sum: Tensor) -> tuple[list[float], list[int]]:
        """ECE and hits of every grid value for class `k`, from the maximum, its place and log-sum-exp of the others."""
        x = self.columns[k] / self.grid_column
        wins = self._wins(k, x, peak, top)
        share = torch.sigmoid(x - log_sum)
        rival = torch.exp(peak - log_sum).clamp(max=1.0)
        confidence = torch.where(wins, share, rival * (1.0 - share))
        hit = torch.where(wins, self.labels == k, self.labels == top)
        return candidate_ece(confidence, hit, self.bins), hit.sum(dim=1).cpu().tolist()

    def _compiled_candidates(self, k: int, peak: Tensor, top: Tensor, log_sum: Tensor) -> tuple[list[float], list[int]]:
        """The same in one loop over the samples, most of which stay in one bin for every grid value."""
        from smart_core.kernels.class_search import candidate_sums

        sums, hits = np.zeros((self.bins, len(self.grid)), np.int64), np.zeros(len(self.grid), np.int64)
        candidate_sums(
            self.columns[k].numpy(),
            np.ascontiguousarray(self.grid_column.numpy()[:, 0]),
            peak.numpy(),
            top.numpy(),
            log_sum.numpy(),
            self.labels.numpy(),
            k,
            self.edges,
            np.float32(UNIT),
            sums,
            hits,
        )
        return (np.abs(sums).sum(axis=0) / (UNIT * len(peak))).tolist(), hits.tolist()

    def _others(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Maximum, its place, and log-sum-exp of all classes but `k`.

        Where `k` is not the largest it is at most half of the sum, so subtracting it loses nothing to cancellation. The
        rows where it is the largest are summed again.
        """
        peak, top = self.peak.clone(), self.top.clone()
        log_sum = self.log_sum + torch.log1p(-torch.exp(self.scaled[k] - self.log_sum).clamp(max=0.75))
        led = (top == k).nonzero().squeeze(1)
        rest = self.scaled[:, led]
        rest[k] = -torch.inf
        best, place = rest.max(dim=0)
        peak[led], top[led], log_sum[led] = best, place, torch.logsumexp(rest, dim=0)
        return peak, top, log_sum
