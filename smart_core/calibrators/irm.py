"""IRM, the isotonic map of Mix-n-Match (Zhang, Kailkhura & Han, 2020): one for the probabilities of all classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smart_core.calibrators.base import Calibrator, FitData, LineStyle
from smart_core.calibrators.rows import labelled_chunks, row_chunks
from smart_core.calibrators.rules import INCREASING, NOT_DECREASING, PROBABILITIES
from smart_core.calibrators.temperature import lift_top
from smart_core.calibrators.toplabel import broken_line
from smart_core.device import precise
from smart_core.fitting.profile import gaps
from smart_core.progress import Run
from smart_core.types import FloatArray, Logits, Probabilities

SLOPE = 1e-9
"""Slope that is added to the isotonic map, so that it rises strictly and no class overtakes another."""


@dataclass(kw_only=True, eq=False)
class IRM(Calibrator):
    """`q_k` proportional to `g(p_k) + 1e-9 p_k`; g is the isotonic fit of `[y = k]` to `p_k`, all classes pooled.

    p is the softmax. g is linear between the distinct probabilities and constant beyond them. It is shared by all
    classes and rises, so their order stays. Departure: the authors' code leaves the rows as they are; here they sum
    to 1.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> irm = sc.IRM().fit(data.logits, data.labels)
    >>> bool((irm.values_.diff() >= 0).all())
    True
    """

    id = "irm"
    label = "IRM"
    summary = "One non-decreasing map of the probabilities, learned from all classes together and shared by them."
    position = 24
    whole_rows = "it maps the probabilities of all classes by one function"
    family = "One correction for all samples"
    style = LineStyle("#2E86AB", "4px,2px", "circle-x")
    shapes = (("nodes_", ("n+1",)), ("values_", ("n+1",)))
    rules = (("nodes_", PROBABILITIES, INCREASING), ("values_", PROBABILITIES, NOT_DECREASING))
    libraries = ("scipy.optimize",)

    def _fit(self, data: FitData, run: Run) -> None:
        nodes, values = pooled_line(data.logits, data.labels, run)
        device = data.logits.device
        self.nodes_ = torch.as_tensor(nodes, dtype=torch.float32, device=device)
        self.values_ = torch.as_tensor(values, dtype=torch.float32, device=device)

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        p = rounded_softmax(logits)
        mapped = precise(broken_line(p, self.nodes_, self.values_)) + SLOPE * precise(p)
        rows = mapped / mapped.sum(dim=1, keepdim=True)
        return lift_top(Probabilities(rows.to(logits.dtype)), logits)

    def numpy_code(self) -> str:
        return f"""
            p = softmax(z).astype(np.float32)
            mapped = broken_line(p, NODES, VALUES).astype(np.float64) + {SLOPE} * p.astype(np.float64)
            return lift_top(mapped / mapped.sum(axis=1, keepdims=True), z)
        """


def rounded_softmax(logits: Tensor) -> Tensor:
    """The softmax summed in float64 and rounded once: a steep map would show another order of summing."""
    return torch.softmax(precise(gaps(logits)), dim=1).to(logits.dtype)


def pooled_line(logits: Logits, labels: Tensor, run: Run) -> tuple[FloatArray, FloatArray]:
    """Nodes and values of the isotonic fit to the N K pairs of a probability and whether its class is the label.

    All but N of the outcomes are 0, and isotonic regression pools neighbouring samples of equal outcome. So the pairs
    are counted in cells, one for each distinct probability of a label and one for each gap between two of them, and no
    sort of all pairs is needed.
    """
    from scipy.optimize import isotonic_regression

    chunks = labelled_chunks(logits, labels, run.part(0.0, 0.4), "reading label probabilities")
    of_labels = torch.cat([rounded_softmax(chunk).gather(1, y) for chunk, y in chunks]).squeeze(1).cpu()
    at = of_labels.unique()
    cells = 2 * len(at) + 1
    count = torch.zeros(cells, dtype=torch.int64)
    least, greatest = torch.full((cells,), torch.inf), torch.full((cells,), -torch.inf)
    for chunk in row_chunks(logits, run.part(0.4, 0.9), "pooling the classes"):
        p = rounded_softmax(chunk).cpu().reshape(-1)
        cell = torch.bucketize(p, at) + torch.bucketize(p, at, right=True)
        count += torch.bincount(cell, minlength=cells)
        least.scatter_reduce_(0, cell, p, "amin")
        greatest.scatter_reduce_(0, cell, p, "amax")
    run.tick(0.9, "isotonic regression")
    hits = torch.bincount(2 * torch.searchsorted(at, of_labels) + 1, minlength=cells)
    used = count > 0
    weight = count[used].numpy()
    level = isotonic_regression(hits[used].numpy() / weight, weights=weight).x
    ends = torch.stack([least[used], greatest[used]], dim=1).numpy().astype(np.float64).reshape(-1)
    levels = np.repeat(level, 2)
    rises = np.concatenate([[True], levels[1:] != levels[:-1], [True]])
    kept = rises[:-1] | rises[1:]
    nodes, first = np.unique(ends[kept], return_index=True)
    return nodes, levels[kept][first]
