"""Adam on one flat parameter vector, with early stopping, best-state restore, progress, cancel and trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from smart_core import kernels
from smart_core.device import threads_for
from smart_core.progress import Run

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants, PyTorch's defaults."""
SHARES = np.float32(BETA2), np.float32(1.0 - BETA1), np.float32(1.0 - BETA2), np.float32(EPSILON)

MIN_IMPROVEMENT = 1e-4
"""How far the loss must fall below the best so far to count as progress."""

WIDTH_OF_A_STEP = 16
"""Numbers per sample in one operation of a step: hidden units, soft bins, or a few classes."""

Loss = Callable[[Tensor, Tensor | None], Tensor]
"""(parameters, sample indices or None for all) -> scalar loss."""

Gradient = Callable[[Tensor], tuple[float, Tensor]]
"""parameters -> the loss over all samples and its gradient."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train."""

    lr: float
    epochs: int
    patience: int | None = None
    batch_size: int | None = None
    min_improvement: float = MIN_IMPROVEMENT
    cosine: bool = False
    """Whether the learning rate falls to zero along a half cosine."""

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch."""
        return self.lr * 0.5 * (1.0 + math.cos(math.pi * epoch / self.epochs)) if self.cosine else self.lr


class Adam:
    """Adam's state for one tensor of parameters (Kingma & Ba, 2015)."""

    def __init__(self, parameters: Tensor, lr: float) -> None:
        self.parameters = parameters
        self.lr = lr
        self.first = torch.zeros_like(parameters)
        self.second = torch.zeros_like(parameters)
        self.count = 0
        self._compiled: Callable[..., None] | None = None
        if parameters.is_contiguous() and kernels.usable(parameters):
            from smart_core.kernels.adam import adam_step

            vector, first, second = (each.view(-1).numpy() for each in (parameters, self.first, self.second))
            self._compiled = partial(adam_step, vector, first, second)

    def step(self, gradient: Tensor) -> None:
        """One update of the parameters in place."""
        self.count += 1
        rate = self.lr / (1.0 - BETA1**self.count)
        if self._compiled is not None:
            slope = gradient.contiguous().view(-1).numpy()
            self._compiled(slope, *SHARES, np.float32(rate), np.float32(1.0 / (1.0 - BETA2**self.count)))
            return
        self.first.lerp_(gradient, 1.0 - BETA1)
        self.second.mul_(BETA2).addcmul_(gradient, gradient, value=1.0 - BETA2)
        root = (self.second / (1.0 - BETA2**self.count)).sqrt_().add_(EPSILON)
        self.parameters.addcdiv_(self.first, root, value=-rate)


def train(
    parameters: Tensor,
    loss: Loss | None,
    samples: int,
    schedule: Schedule,
    generator: torch.Generator,
    run: Run,
    observe: Callable[[Tensor], dict[str, float]] | None = None,
    gradient: Gradient | None = None,
) -> Tensor:
    """The parameters of the last epoch that made progress.

    An epoch's loss is that of its first parameters (full batch) or the mean over its batches. An epoch makes progress
    if its loss is at least `min_improvement` below the best so far; after `patience` epochs without progress, training
    stops (None runs every epoch). With a trace, each epoch records `objective`, `gradient_norm` and what `observe`
    returns. `gradient` is a faster way to the loss over all samples and its gradient, for full batches, which then need
    no `loss`; without it PyTorch differentiates `loss`.
    """
    theta = parameters.detach().clone()
    adam = Adam(theta, schedule.lr)
    best_theta, best_loss = theta.clone(), float("inf")
    stale = 0
    whole = schedule.batch_size is None or schedule.batch_size >= samples
    with threads_for(WIDTH_OF_A_STEP * min(samples, schedule.batch_size or samples)):
        for epoch in range(schedule.epochs):
            before = theta.clone()
            adam.lr = schedule.rate(epoch)
            tick = partial(run.tick, epoch / schedule.epochs, f"epoch {epoch + 1}")
            if whole:
                found, slope = gradient(theta) if gradient is not None else _gradient(theta, loss, None)
                adam.step(slope)
                value, norm = float(found), float(slope.norm()) if run.trace is not None else math.nan
            else:
                value, norm = _batches(theta, loss, samples, schedule.batch_size or samples, adam, generator, tick)
            if run.trace is not None:
                seen = observe(before) if observe is not None else {}
                run.trace.record(objective=value, gradient_norm=norm, **seen)
            run.tick((epoch + 1) / schedule.epochs, f"epoch {epoch + 1}, objective {value:.5f}")
            if value < best_loss - schedule.min_improvement:
                best_loss, best_theta, stale = value, before, 0
            else:
                stale += 1
            if schedule.patience is not None and stale >= schedule.patience:
                break
    return best_theta


def _batches(
    theta: Tensor,
    loss: Loss | None,
    samples: int,
    batch_size: int,
    adam: Adam,
    generator: torch.Generator,
    tick: Callable[[], None],
) -> tuple[float, float]:
    """One pass over the samples, a tick before each batch; returns the mean loss and the mean gradient's norm."""
    total = torch.zeros((), device=theta.device)
    mean_gradient = torch.zeros_like(theta)
    order = torch.randperm(samples, generator=generator).to(theta.device)
    for index in order.split(batch_size):
        tick()
        value, gradient = _gradient(theta, loss, index)
        adam.step(gradient)
        total += value * len(index)
        mean_gradient += gradient * (len(index) / samples)
    return float(total) / samples, float(mean_gradient.norm())


def _gradient(theta: Tensor, loss: Loss | None, index: Tensor | None) -> tuple[Tensor, Tensor]:
    assert loss is not None
    leaf = theta.detach().requires_grad_()
    with torch.enable_grad():
        value = loss(leaf, index)
        (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), torch.nan_to_num(gradient)
