"""Training that can be stopped at any time and goes on from its last whole epoch to the same weights.

Whatever is random in an epoch (order, crops, flips) is drawn from a generator seeded by (seed, epoch), and the
learning rate is a function of the step, so a checkpoint needs the weights, the momenta and the number of epochs only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from smart_core.progress import Run

Loss = Callable[[Tensor, Tensor], Tensor]
Say = Callable[[str], None]
Images = tuple[Tensor, Tensor]
"""uint8 images (N, height, width, channels), and labels (N,)."""
Model = TypeVar("Model", bound=nn.Module)


class CheckpointError(ValueError):
    """The checkpoint is of another recipe; the message says what to do."""


@dataclass(frozen=True)
class Recipe:
    """SGD with Nesterov momentum under a one-cycle rate; images padded by `pad`, cropped and flipped at random."""

    epochs: int
    batch_size: int = 128
    peak_rate: float = 0.1
    warm_up: float = 0.2
    momentum: float = 0.9
    weight_decay: float = 1e-4
    pad: int = 4
    flip: bool = True
    seed: int = 0


def learning_rate(progress: float, recipe: Recipe) -> float:
    """Straight up to the peak over the first share `warm_up` of all steps, then straight down to 0."""
    if progress < recipe.warm_up:
        return recipe.peak_rate * progress / recipe.warm_up
    return recipe.peak_rate * (1 - progress) / (1 - recipe.warm_up)


def to_pixels(images: Tensor) -> Tensor:
    """uint8 images (N, height, width, channels) as float pixels in [0, 1], (N, channels, height, width) in view."""
    return images.permute(0, 3, 1, 2).float() / 255


def augment(images: Tensor, recipe: Recipe, random: torch.Generator) -> Tensor:
    """Each image moved by up to `pad` pixels with zeros coming in, and mirrored with probability 1/2 if `flip`."""
    count, height, width, _ = images.shape
    padded = nn.functional.pad(images, (0, 0, recipe.pad, recipe.pad, recipe.pad, recipe.pad))
    top, left = torch.randint(0, 2 * recipe.pad + 1, (2, count, 1), generator=random)
    rows = top + torch.arange(height)
    columns = left + torch.arange(width)
    if recipe.flip:
        mirrored = torch.rand(count, generator=random) < 0.5
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def train(
    build: Callable[[], Model],
    data: Images,
    held_out: Images,
    recipe: Recipe,
    checkpoint: Path,
    loss: Loss = nn.functional.cross_entropy,
    say: Say = print,
    run: Run | None = None,
) -> Model:
    """The model after all epochs, in evaluation mode; a checkpoint of the same recipe is taken up where it stopped.

    The held-out images are only looked at to report accuracy: no epoch is chosen by them.
    """
    torch.manual_seed(recipe.seed)
    model = build().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(
        model.parameters(), recipe.peak_rate, recipe.momentum, weight_decay=recipe.weight_decay, nesterov=True
    )
    done = _resume(checkpoint, model, optimiser, recipe)
    for epoch in range(done, recipe.epochs):
        start = time.monotonic()
        mean_loss = _epoch(model, optimiser, data, loss, recipe, epoch, run or Run())
        accuracy = (outputs(model.eval(), held_out[0]).argmax(1) == held_out[1]).float().mean().item()
        _save(checkpoint, model, optimiser, recipe, epoch + 1)
        say(
            f"epoch {epoch + 1}/{recipe.epochs}: {time.monotonic() - start:.0f} s, "
            f"training loss {mean_loss:.4f}, validation accuracy {accuracy:.4f}"
        )
    return model.eval()


def outputs(function: Callable[[Tensor], Tensor], images: Tensor, batch_size: int = 500) -> Tensor:
    """What a function of pixels makes of uint8 images, in batches, without gradients."""
    with torch.no_grad():
        return torch.cat([function(to_pixels(batch)) for batch in images.split(batch_size)])


def _epoch(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    data: Images,
    loss: Loss,
    recipe: Recipe,
    epoch: int,
    run: Run,
) -> float:
    """One pass over all images; the mean loss of its steps."""
    images, labels = data
    random = torch.Generator().manual_seed(recipe.seed * 100_003 + epoch)
    batches = torch.randperm(len(images), generator=random).split(recipe.batch_size)
    total = 0.0
    model.train()
    for step, rows in enumerate(batches):
        progress = (epoch + step / len(batches)) / recipe.epochs
        run.tick(progress, f"epoch {epoch + 1} of {recipe.epochs}")
        rate = learning_rate(progress, recipe)
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        value = loss(model(to_pixels(augment(images[rows], recipe, random))), labels[rows])
        value.backward()
        optimiser.step()
        total += value.item() * len(rows)
    return total / len(images)


def _save(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, recipe: Recipe, epochs: int) -> None:
    """Written beside and moved into place, so that a kill at any moment leaves a whole checkpoint."""
    state = {
        "recipe": asdict(recipe),
        "epochs": epochs,
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
    }
    part = path.with_suffix(".part")
    torch.save(state, part)
    os.replace(part, path)


def _resume(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, recipe: Recipe) -> int:
    """Load the checkpoint if it is of this recipe; the number of epochs done."""
    if not path.exists():
        return 0
    state: dict[str, Any] = torch.load(path, weights_only=True)
    if state["recipe"] != asdict(recipe):
        raise CheckpointError(f"{path} is of another recipe: delete it to train anew.")
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    return int(state["epochs"])
