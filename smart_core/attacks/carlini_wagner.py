"""The minimisation behind the Carlini-Wagner L2 attack, for a batch whose images are at different stages.

For an image x0 with prediction y = argmax z(x0) and a constant c, it minimises over w

    ||x - x0||^2 / range^2 + c max(0, z_y(x) - max_{k != y} z_k(x) + kappa),    x = middle + half * tanh(w),

with Adam; tanh keeps x inside the bounds (Carlini & Wagner, 2017). Dividing by their range, 1 for pixels in [0, 1],
lets the same settings serve in any units. `constant_search` chooses c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smart_core.attacks.constant_search import AttackError, Search
from smart_core.errors import SmartError
from smart_core.formatting import plural, printable
from smart_core.training import BETA1, BETA2, EPSILON

Model = Callable[[Tensor], Tensor]
"""Images (B, ...) -> logits (B, K)."""

INSIDE = 0.999999
"""Images shrink by this factor about the middle of their bounds, so that arctanh is finite at the bounds."""

ROUNDING = 1e-5
"""A lead over the first prediction below this fraction of the largest logit may be rounding, and is no change."""


@dataclass
class Minimisation:
    """The state on the device: one row an image."""

    prediction: Tensor
    """(B,) y."""
    w0: Tensor
    """(B, ...) where w starts."""
    squashed0: Tensor
    """(B, ...) tanh(w0): the unchanged image, but for the factor `INSIDE`, on the scale from -1 to 1."""
    w: Tensor
    first: Tensor
    second: Tensor
    """(B, ...) the variable, and Adam's moments."""
    best: Tensor
    """(B, ...) the closest changed image so far, under any c."""
    best_distance: Tensor
    """(B,) its squared distance over range^2; infinite before there is one."""
    found: Tensor
    """(B,) whether the prediction changed under the present c."""
    lowest: Tensor
    """(B,) the lowest loss since the last look; one loss would tell less, it goes up and down at the boundary."""
    previous: Tensor
    """(B,) the lowest before that, or the loss at the start."""

    @staticmethod
    def of(images: Tensor, prediction: Tensor, search: Search) -> Minimisation:
        """At the unchanged images."""
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

    def rows(self, index: Tensor) -> Minimisation:
        """Some of the rows."""
        return Minimisation(**{name: tensor.index_select(0, index) for name, tensor in self._tensors()})

    def joined(self, other: Minimisation) -> Minimisation:
        """The other's rows below these."""
        pairs = zip(self._tensors(), other._tensors(), strict=True)
        return Minimisation(**{name: torch.cat([above, below]) for (name, above), (_, below) in pairs})

    def _tensors(self) -> list[tuple[str, Tensor]]:
        return [(item.name, getattr(self, item.name)) for item in fields(self)]

    def restart(self, index: Tensor) -> None:
        """Those rows begin again, for another c; the best so far is kept."""
        self.w[index] = self.w0[index]
        self.first[index] = 0.0
        self.second[index] = 0.0
        self.found[index] = False
        self.lowest[index] = torch.inf
        self.previous[index] = torch.inf

    def note(self, looked: Tensor) -> None:
        """Where `looked` (B,) is true, the lowest loss so far becomes the one to fall below."""
        self.previous = torch.where(looked, self.lowest, self.previous)
        self.lowest = torch.where(looked, torch.inf, self.lowest)

    def iterate(self, model: Model, c: Tensor, root: Tensor, step: Tensor, search: Search) -> None:
        """One forward and at most one backward pass, then one step of Adam with the factors of `adam_factors`."""
        squashed = self.w.tanh()
        x = (squashed * search.half).add_(search.middle)
        change = (squashed - self.squashed0).mul_(0.5)
        distance = change.flatten(1).square().sum(dim=1)
        hinge, changed, gradient = push(model, x, self.prediction, c, search.kappa)
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


def push(model: Model, x: Tensor, prediction: Tensor, c: Tensor, kappa: float) -> tuple[Tensor, Tensor, Tensor | None]:
    """The hinge c max(0, z_y - max_{k != y} z_k + kappa) of each row, whether the prediction changed, and the hinge's
    gradient in x: None where it is zero for all rows, or where the logits carry none.
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
    """The model's logits (B, K); what it cannot do with such images is said in one sentence, whenever it happens."""
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
    """(2, steps, B): 1 / sqrt(1 - beta2^t) and lr / (1 - beta1^t) of the steps after `age` (B,) steps."""
    t = age + np.arange(1, steps + 1)[:, None]
    return np.stack([(1.0 - BETA2**t) ** -0.5, lr / (1.0 - BETA1**t)]).astype(np.float32)
