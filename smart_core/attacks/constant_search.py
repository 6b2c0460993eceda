"""The search for the constant c of the Carlini-Wagner attack: times ten until the prediction changes, then bisection.

Each image has its own search, its own age in the present minimisation, and its own end of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from smart_core.errors import SmartError

CHECKS = 10
"""How often in one minimisation it is asked whether the loss still falls."""

STILL_FALLING = 0.9999
"""The loss falls if it is at most this fraction of what it was at the look before."""

GROWTH = 10.0
"""Factor from one c to the next while none has worked."""

LONG_SEARCH = 10
"""Searches of at least this many steps spend the last one on the smallest c known to work."""


class AttackError(SmartError):
    """The model or the images cannot be attacked."""


@dataclass(frozen=True)
class Search:
    """Settings of the attack."""

    lr: float = 5e-3
    """Adam's learning rate."""
    iterations: int = 1000
    """Most iterations for one c."""
    search_steps: int = 5
    """How many values of c each image gets."""
    initial_c: float = 0.01
    """The first c, for distances in units of the pixels' range."""
    kappa: float = 0.0
    """By how much the other class must lead."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """Least and largest value of a pixel."""

    def check(self) -> None:
        """One sentence if a setting makes no sense."""
        low, high = self.bounds
        wrong = {
            f"a learning rate of {self.lr:g}": not 0 < self.lr < math.inf,
            f"{self.iterations} iterations": self.iterations < 1 or self.iterations % 1 != 0,
            f"{self.search_steps} search steps": self.search_steps < 1 or self.search_steps % 1 != 0,
            f"an initial c of {self.initial_c:g}": not 0 < self.initial_c < math.inf,
            f"a kappa of {self.kappa:g}": not 0 <= self.kappa < math.inf,
            f"bounds from {low:g} to {high:g}": not -math.inf < low < high < math.inf,
        }
        for what, is_wrong in wrong.items():
            if is_wrong:
                raise AttackError(f"The attack cannot run with {what}.")

    @property
    def interval(self) -> int:
        """Iterations between two looks at the loss; at least two, for the first look compares with the first loss."""
        return max(2, math.ceil(self.iterations / CHECKS))

    @property
    def middle(self) -> float:
        return (self.bounds[0] + self.bounds[1]) / 2

    @property
    def half(self) -> float:
        return (self.bounds[1] - self.bounds[0]) / 2


@dataclass
class ConstantSearch:
    """Where each image of a batch stands; one entry an image."""

    image: NDArray[np.int64]
    """(B,) its place among all images."""
    c: NDArray[np.float64]
    lower: NDArray[np.float64]
    """(B,) the largest c known to fail."""
    upper: NDArray[np.float64]
    """(B,) the smallest c known to work; infinite before there is one."""
    step: NDArray[np.int64]
    """(B,) values of c done with."""
    age: NDArray[np.int64]
    """(B,) iterations under the present c."""

    @staticmethod
    def of(image: NDArray[np.int64], search: Search) -> ConstantSearch:
        """At the first c."""
        size = image.size
        return ConstantSearch(
            image=image,
            c=np.full(size, search.initial_c),
            lower=np.zeros(size),
            upper=np.full(size, np.inf),
            step=np.zeros(size, dtype=np.int64),
            age=np.zeros(size, dtype=np.int64),
        )

    def __len__(self) -> int:
        return self.image.size

    def rows(self, index: NDArray[np.int64]) -> ConstantSearch:
        """Some of the entries."""
        return ConstantSearch(*(getattr(self, item.name)[index] for item in fields(self)))

    def joined(self, other: ConstantSearch) -> ConstantSearch:
        """The other's entries after these."""
        names = [item.name for item in fields(self)]
        return ConstantSearch(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def until_look(self, search: Search) -> int:
        """Iterations that all can do before the loss of any must be looked at."""
        return int(np.minimum(search.interval - self.age % search.interval, search.iterations - self.age).min())

    def looks(self, search: Search) -> NDArray[np.bool_]:
        """(B,) whose loss is to be compared with that at the look before."""
        return self.age % search.interval == 0

    def ended(self, lowest: NDArray[np.floating], previous: NDArray[np.floating], search: Search) -> NDArray[np.bool_]:
        """(B,) whose minimisation is over: its lowest loss since the look before is hardly below what it was then, or
        NaN, or its iterations are used up."""
        stopped = ~(lowest <= STILL_FALLING * previous)
        return (stopped & self.looks(search)) | (self.age >= search.iterations)

    def advance(self, ended: NDArray[np.bool_], found: NDArray[np.bool_], search: Search) -> None:
        """The next c of those whose minimisation has ended: `found` says whether the prediction changed in it."""
        self.upper = np.where(ended & found, self.c, self.upper)
        self.lower = np.where(ended & ~found, self.c, self.lower)
        bounded = np.isfinite(self.upper)
        following = np.where(bounded, (self.lower + np.where(bounded, self.upper, 0.0)) / 2, GROWTH * self.c)
        self.step = self.step + ended
        if search.search_steps >= LONG_SEARCH:
            following = np.where(bounded & (self.step == search.search_steps - 1), self.upper, following)
        self.c = np.where(ended, following, self.c)
        self.age = np.where(ended, 0, self.age)
