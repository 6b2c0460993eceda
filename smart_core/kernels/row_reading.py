"""Statistics of rows of probabilities, by the compiled loops if that pays and by NumPy otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smart_core import kernels
from smart_core.kernels.threads import share
from smart_core.progress import Run

WORTH_LOADING = 1 << 20
"""Numbers from which the compiled loops pay for loading the compiler's package."""

PIECE = 1 << 22
"""Numbers per piece of work of one thread."""


@dataclass(frozen=True, eq=False)
class RowStatistics:
    """Of every row: its sum in float64, its smallest and its largest entry, and the column of the first largest."""

    total: NDArray[np.float64]
    least: NDArray[np.floating]
    top: NDArray[np.floating]
    place: NDArray[np.int64]


def compiled_for(matrix: NDArray[Any]) -> bool:
    """Whether the compiled loops should read these rows."""
    right_kind = matrix.dtype == np.float32 and matrix.flags.c_contiguous and matrix.flags.writeable
    return right_kind and matrix.size >= WORTH_LOADING and kernels.usable()


def read_rows(matrix: NDArray[np.floating]) -> RowStatistics:
    """The statistics of (N, K) rows; of a row that holds NaN only the sum is defined."""
    if not compiled_for(matrix):
        place = matrix.argmax(axis=1)
        total = matrix.sum(axis=1, dtype=np.float64)
        return RowStatistics(total, matrix.min(axis=1), matrix[np.arange(len(matrix)), place], place)
    from smart_core.kernels.probability_rows import row_statistics

    count = len(matrix)
    total, least, top = np.empty(count), np.empty(count, np.float32), np.empty(count, np.float32)
    place = np.empty(count, np.int64)
    step = max(1, PIECE // matrix.shape[1])

    def piece(start: int) -> None:
        rows = slice(start, start + step)
        row_statistics(matrix[rows], total[rows], least[rows], top[rows], place[rows])

    share(piece, range(0, count, step), Run(), "")
    return RowStatistics(total, least, top, place)
