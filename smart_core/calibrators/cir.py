"""Centred isotonic regression (Oron & Flournoy, 2017) of the hits on the top-1 confidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smart_core.calibrators.base import LineStyle
from smart_core.calibrators.isotonic import Isotonic, non_increasing_levels
from smart_core.types import FloatArray


@dataclass(kw_only=True, eq=False)
class CIR(Isotonic):
    """`c(s)`, linear between the centres of isotonic regression's levels: the mean s of a level's samples.

    Isotonic regression is constant over each level. Joining the centres instead gives a map that rises strictly
    between them, and so keeps the order of the confidences. As in the paper, levels 0 and 1 stay flat, and so do the
    outer halves of the first and the last level. Departure: the paper is about dose and response; this maps the top-1
    confidence, and the other classes share the rest.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits").validation
    >>> cir = sc.CIR().fit(data.logits, data.labels)
    >>> bool((cir.values_.diff() <= 0).all())  # as a function of 1 - s
    True
    """

    id = "cir"
    label = "CIR"
    summary = "Isotonic regression with its levels joined at their centres, so that the map rises without steps."
    position = 22
    style = LineStyle("#6E8B2F", "2px,2px", "hourglass-open")

    def _line(self, u: FloatArray, hits: FloatArray) -> tuple[FloatArray, FloatArray]:
        return centred_line(u, hits)


def centred_line(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes and values of the centred, non-increasing line; the nodes are distinct float32 numbers."""
    nodes, count, level = non_increasing_levels(x, y)
    first = np.flatnonzero(np.concatenate([[True], level[1:] != level[:-1]]))
    last = np.concatenate([first[1:], [len(level)]]) - 1
    centre = np.add.reduceat(nodes * count, first) / np.add.reduceat(count, first)
    level = level[first]
    flat = (level == 0.0) | (level == 1.0)
    from_first, to_last = flat.copy(), flat.copy()
    from_first[0] = to_last[-1] = True  # beyond the outer centres the line stays level
    line = np.concatenate([nodes[first][from_first], centre[~flat], nodes[last][to_last]])
    values = np.concatenate([level[from_first], level[~flat], level[to_last]])
    distinct, kept = np.unique(line.astype(np.float32), return_index=True)
    return distinct.astype(np.float64), values[kept]
