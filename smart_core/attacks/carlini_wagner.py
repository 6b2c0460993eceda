"""The Carlini-Wagner L2 attack on a batch whose images are at different stages: the minimisation and the search for c.

For an image x0 with prediction y = argmax z(x0) and a constant c, the attack minimises over w

    ||x - x0||^2 / range^2 + c max(0, z_y(x) - max_{k != y} z_k(x) + kappa),    x = middle + half * tanh(w),

with Adam; tanh keeps x inside the bounds (Carlini & Wagner, 2017). Division by the range of the bounds, 1 for pixels
in [0, 1], makes the same settings work in any units.

The search multiplies c by ten until the prediction changes, then bisects. Each image has its own c and its own number
of iterations under it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smart_core.errors import AttackError, SmartError
from smart_core.fitting.training import BETA1, BETA2, EPSILON
from smart_core.formatting import plural, printable
from smart_core.types import BoolArray, FloatArray, Vector

Model = Callable[[Tensor], Tensor]
"""Images (B, ...) -> logits (B, K)."""

INSIDE = 0.999999
"""Images are scaled by this factor about the middle of their bounds, so that arctanh is finite at the bounds."""

ROUNDING = 1e-5
"""A lead over the original prediction below this fraction of the largest logit may be rounding and does not count."""

CHECKS = 10
"""How often one minimisation checks whether the loss still falls."""

STILL_FALLING = 0.9999
"""The loss still falls if it is at most this fraction of its value at the previous check."""

GROWTH = 10.0
"""Factor from one c to the next while none has changed the prediction."""

LONG_SEARCH = 10
"""Searches of at least this many steps use the last one for the smallest c known to work, as the authors' code does."""


@dataclass(frozen=True)
class Search:
    """Settings of the attack."""

    lr: float = 5e-3
    """Adam's learning rate."""
    iterations: int = 1000
    """Maximum number of iterations for one c."""
    search_steps: int = 5
    """Number of values of c tried for each image."""
    initial_c: float = 0.01
    """The first c, for distances in units of the range of the bounds."""
    kappa: float = 0.0
    """The lead that the other class must have."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """Smallest and largest value of a pixel."""

    def check(self) -> None:
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
        """Iterations between two checks of the loss: at least two, as the first check compares with the first loss."""
        return max(2, math.ceil(self.iterations / CHECKS))

    @property
    def middle(self) -> float:
        return (self.bounds[0] + self.bounds[1]) / 2

    @property
    def half(self) -> float:
        return (self.bounds[1] - self.bounds[0]) / 2


@dataclass
class Batch:
    """Arrays or tensors, all with one entry per image of the batch."""

    def rows(self, index: Any) -> Self:
        """Return the entries at `index`."""
        return type(self)(*(getattr(self, item.name)[index] for item in fields(self)))

    def joined(self, other: Self) -> Self:
        """Return these entries followed by those of `other`."""
        pairs: Any = [(getattr(self, item.name), getattr(other, item.name)) for item in fields(self)]
        return type(self)(*(torch.cat(pair) if torch.is_tensor(pair[0]) else np.concatenate(pair) for pair in pairs))


@dataclass
class ConstantSearch(Batch):
    """The state of the search for c, with one entry per image of the batch."""

    image: NDArray[np.int64]
    """(B,) the image's index among all images."""
    c: Vector
    lower: Vector
    """(B,) the largest c known to fail."""
    upper: Vector
    """(B,) the smallest c known to work; infinite before there is one."""
    step: NDArray[np.int64]
    """(B,) number of values of c that are finished."""
    age: NDArray[np.int64]
    """(B,) iterations under the current c."""

    @staticmethod
    def of(image: NDArray[np.int64], search: Search) -> ConstantSearch:
        """Return the state at the first c."""
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

    def until_check(self, search: Search) -> int:
        """Return the number of iterations before the loss of any image has to be checked."""
        return int(np.minimum(search.interval - self.age % search.interval, search.iterations - self.age).min())

    def checked(self, search: Search) -> BoolArray:
        """Return (B,) which losses are to be compared with the previous check."""
        return self.age % search.interval == 0

    def ended(self, lowest: FloatArray, previous: FloatArray, search: Search) -> BoolArray:
        """Return (B,) which minimisations are over.

        The lowest loss since the last check is hardly below the one before it, or is NaN, or no iterations are left.
        """
        stopped = ~(lowest <= STILL_FALLING * previous)
        return (stopped & self.checked(search)) | (self.age >= search.iterations)

    def advance(self, ended: BoolArray, found: BoolArray, search: Search) -> None:
        """Move those whose minimisation has ended on to their next c; `found` says whether the prediction changed."""
        self.upper = np.where(ended & found, self.c, self.upper)
        self.lower = np.where(ended & ~found, self.c, self.lower)
        bounded = np.isfinite(self.upper)
        following = np.where(bounded, (self.lower + np.where(bounded, self.upper, 0.0)) / 2, GROWTH * self.c)
        self.step = self.step + ended
        if search.search_steps >= LONG_SEARCH:
            following = np.where(bounded & (self.step == search.search_steps - 1), self.upper, following)
        self.c = np.where(ended, following, self.c)
        self.age = np.where(ended, 0, self.age)


@dataclass
class Minimisation(Batch):
    """The state of the minimisation on the device, with one row per image."""

    prediction: Tensor
    """(B,) y."""
    w0: Tensor
    """(B, ...) the start of w."""
    squashed0: Tensor
    """(B, ...) tanh(w0): the unchanged image, times `INSIDE`, on the scale from -1 to 1."""
    w: Tensor
    first: Tensor
    second: Tensor
    """(B, ...) the variable, and Adam's moments."""
    best: Tensor
    """(B, ...) the closest changed image so far, under any c."""
    best_distance: Tensor
    """(B,) its squared distance over range^2; infinite before there is one."""
    found: Tensor
    """(B,) whether the prediction changed under the current c."""
    lowest: Tensor
    """(B,) the lowest loss since the last check; a single loss says less, because it oscillates at the boundary."""
    previous: Tensor
    """(B,) the lowest loss before that, or the loss at the start."""

    @staticmethod
    def of(images: Tensor, prediction: Tensor, search: Search) -> Minimisation:
        """Return the state at the unchanged images."""
        w0 = ((images - search.middle) * (INSIDE / search.half)).atanh()
        zeros = torch.zeros_like(images)
        infinite = torch.full(prediction.shape, torch.inf, device=images.device)
        return Minimisation(
            prediction=prediction,
            w0=w0,
            squashed0=w0.tanh(),
            w=w0.clone(),
            first=zeros,
            second=zeros.clone(),
            best=images.clone(),
            best_distance=infinite,
            found=torch.zeros_like(prediction, dtype=torch.bool),
            lowest=infinite.clone(),
            previous=infinite.clone(),
        )

    def restart(self, index: Tensor) -> None:
        """Start these rows again for another c; the best image so far is kept."""
        self.w[index] = self.w0[index]
        self.found[index] = False
        for moment in (self.first, self.second):
            moment[index] = 0.0
        for loss in (self.lowest, self.previous):
            loss[index] = torch.inf

    def remember(self, checked: Tensor) -> None:
        """Where `checked` (B,) is true, make the lowest loss so far the one to compare with."""
        self.previous = torch.where(checked, self.lowest, self.previous)
        self.lowest = torch.where(checked, torch.inf, self.lowest)

    def iterate(self, model: Model, c: Tensor, root: Tensor, step: Tensor, search: Search) -> None:
        """Run one forward and at most one backward pass, then one step of Adam with the factors of `adam_factors`."""
        squashed = self.w.tanh()
        x = (squashed * search.half).add_(search.middle)
        change = (squashed - self.squashed0).mul_(0.5)
        distance = change.flatten(1).square().sum(dim=1)
        hinge, changed, gradient = hinge_and_gradient(model, x, self.prediction, c, search.kappa)
        self.lowest = torch.minimum(self.lowest, distance + hinge)
        self.found |= changed
        better = changed & (distance < self.best_distance)
        self.best_distance = torch.where(better, distance, self.best_distance)
        self.best = torch.where(better.view(root.shape), x, self.best)
        # dx/dw = half (1 - tanh^2), and half of the range is 1/2 where the change is measured
        gradient = change if gradient is None else gradient.mul_(search.half).add_(change)
        gradient.mul_(squashed.square_().neg_().add_(1.0))
        self.first.lerp_(gradient, 1.0 - BETA1)
        self.second.mul_(BETA2).addcmul_(gradient, gradient, value=1.0 - BETA2)
        self.w.sub_((self.first * step).div_(self.second.sqrt().mul_(root).add_(EPSILON)))


def hinge_and_gradient(
    model: Model, x: Tensor, prediction: Tensor, c: Tensor, kappa: float
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the hinge c max(0, z_y - max_{k != y} z_k + kappa) of each row, whether its prediction changed, and the
    gradient of the hinge in x: None if it is zero for all rows or the logits have none.
    """
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        logits = logits_of(model, leaf)
    z = logits.detach().float()
    y = prediction[:, None]
    own = z.gather(1, y)
    strongest, other = z.scatter(1, y, -torch.inf).max(dim=1, keepdim=True)
    lead = (strongest - own)[:, 0]
    changed = lead > kappa + ROUNDING * z.abs().amax(dim=1)
    hinge = c * (kappa - lead).clamp_(min=0.0)
    if not logits.requires_grad or bool(changed.all()):
        return hinge, changed, None
    weight = torch.where(changed, 0.0, c)[:, None]
    seed = torch.zeros_like(z).scatter_(1, y, weight).scatter_(1, other, -weight)
    (gradient,) = torch.autograd.grad(logits, leaf, seed.to(logits.dtype), allow_unused=True)
    return hinge, changed, gradient


def logits_of(model: Model, images: Tensor) -> Tensor:
    """Return the model's logits (B, K); raise `AttackError` if it fails or returns something else."""
    count = len(images)
    try:
        logits = model(images)
    except SmartError:
        raise
    except Exception as error:
        shape = " x ".join(map(str, images.shape[1:]))
        said = printable(str(error) or type(error).__name__, 160).rstrip(".")
        raise AttackError(f"The model fails on images of {shape} ({said}).") from error
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != count or logits.shape[1] < 2:
        given = " x ".join(map(str, logits.shape)) if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        wanted = f"{plural(count, 'image')} into {plural(count, 'row')} of logits, at least 2 a row"
        raise AttackError(f"The model must turn {wanted}; it gave {given}.")
    return logits


def adam_factors(age: NDArray[np.int64], steps: int, lr: float) -> NDArray[np.float32]:
    """Return (2, steps, B): 1 / sqrt(1 - beta2^t) and lr / (1 - beta1^t) of the steps after `age` (B,) steps."""
    t = age + np.arange(1, steps + 1)[:, None]
    return np.stack([(1.0 - BETA2**t) ** -0.5, lr / (1.0 - BETA1**t)]).astype(np.float32)
