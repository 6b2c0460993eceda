"""The interval of the classwise ECE: by testing candidate values, as for the top label, with room for what cells of few
labels may hide.

Cells with labels in numbers are tested along the path of `top_label_errors`. In a cell of few labels nothing says how
large its error is: the sum over those is allowed its largest bias at either end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smart_core.metrics.absolute import absolute_estimate
from smart_core.metrics.classwise_cells import ClasswiseCells
from smart_core.metrics.classwise_law import classwise_bracket, has_few_labels, of_few_labels, used_cells
from smart_core.metrics.inversion import REACH, Candidates, inverted, judged, one_sided_at_zero

Vector = NDArray[np.float64]

_INWARD, _OUTWARD = 10, 3
_MOST_DRAWS, _FEWEST_DRAWS, _DRAWN = 300, 80, 300_000
"""Many cells make a sum that few draws settle: about so many cells times draws."""


def classwise_interval(cells: ClasswiseCells, level: float) -> tuple[float, float]:
    """Interval of the population's classwise ECE; where all cells have few labels, that of the bracket."""
    used = used_cells(cells)
    few = has_few_labels(used)
    if few.all():
        return classwise_bracket(cells).interval(level)
    hidden = of_few_labels(used, few)
    gap, sd, groups = used.gap[~few], used.sd[~few], used.groups[:, ~few]
    generator = np.random.default_rng(0)
    draws = int(np.clip(_DRAWN / gap.size, _FEWEST_DRAWS, _MOST_DRAWS))
    # the groups tell how cells move together; how much each one moves is known better
    spread = np.maximum(np.sqrt((groups**2).sum(axis=0)), 1e-9)
    noise = generator.standard_normal((draws, len(groups))) @ (groups / spread)
    besides = hidden.sd * generator.standard_normal(draws)
    z = gap / sd
    observed = float(sd @ absolute_estimate(z))

    def judge(places: Vector) -> Candidates:
        size = np.maximum(np.abs(z) + places[:, None], 0.0)
        drawn = np.stack([absolute_estimate(np.copysign(one, z) + noise) @ sd + besides for one in size])
        return judged(size @ sd, drawn, observed)

    inward = np.linspace(-float(np.abs(z).max()), 0, _INWARD)
    places = np.concatenate([inward, np.linspace(0, REACH, _OUTWARD + 1)[1:]])
    low, high = inverted(judge, places, one_sided_at_zero(level))
    scale = 1 / (cells.samples * cells.classes)
    least, most = max(0.0, hidden.value - hidden.most), hidden.value + hidden.most
    return (low + least) * scale, (high + most) * scale
