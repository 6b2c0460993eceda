"""Carlini-Wagner L2: how far each image is from the nearest one that the model calls something else.

Every image goes through its own search in a lane of the batch: when its loss stops falling it moves on to its next c,
when its search is done the next image takes the lane. So the batch stays full until the images run out, and nothing
is spent on images that are done. The formula is in `smart_core.attacks.carlini_wagner`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smart_core.attacks.carlini_wagner import Minimisation, Model, adam_factors, logits_of
from smart_core.attacks.constant_search import AttackError, ConstantSearch, Search
from smart_core.device import as_array, resolve_device, to_tensor
from smart_core.progress import Run

__all__ = ["AttackError", "AttackResult", "Search", "carlini_wagner_l2"]

NO_GRADIENT = "The logits carry no gradient with respect to the images, so nothing could be attacked."

PREDICTING = 0.01
"""Share of the work, for the progress, that is spent on the unchanged images."""


@dataclass(frozen=True, eq=False)
class AttackResult:
    """One entry an image, in the order of the images."""

    l2: NDArray[np.float64]
    """(N,) L2 norm, in the units of the images, of the smallest change found that changes the prediction; NaN where
    none was found."""
    success: NDArray[np.bool_]
    """(N,) whether one was found."""
    predictions: NDArray[np.int64]
    """(N,) the model's prediction for the unchanged image, which the attack set out to change."""
    queries: NDArray[np.int64]
    """(N,) how often the image, changed or not, went through the model."""
    images: NDArray[np.float32] | None = None
    """(N, ...) the changed images, the unchanged one where none was found; None unless asked for."""
    notices: tuple[str, ...] = ()

    @property
    def failures(self) -> int:
        """How many images kept their prediction."""
        return int((~self.success).sum())


def carlini_wagner_l2(
    model: Model,
    images: Any,
    search: Search | None = None,
    *,
    batch_size: int = 256,
    device: str | torch.device | None = None,
    keep_images: bool = False,
    run: Run | None = None,
) -> AttackResult:
    """Attack every image from the model's own prediction; nothing is random.

    `images` is (N, ...), NumPy or torch, inside `search.bounds`. `device` is where the model works, by default where
    its parameters are; `auto` takes CUDA, then MPS, then the CPU. A module is put in evaluation mode, its parameters
    get no gradient, and it is given back as it was. Convolutions on a CPU run faster after
    `model.to(memory_format=torch.channels_last)`. `run` hears of progress and may cancel.
    """
    search, run = search or Search(), run or Run()
    search.check()
    if not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise AttackError(f"A batch of {batch_size} images cannot be attacked; give a whole number, at least 1.")
    place = resolve_device(str(device)) if device is not None else _home(model)
    pixels = _checked(images, search)
    with _frozen(model), torch.no_grad():
        predictions, differentiable = _predict(model, pixels, batch_size, place, run)
        queue = _Queue(pixels, predictions, place)
        if differentiable:
            queue.attack(model, search, batch_size, run)
    run.tick(1.0, "attack done")
    l2 = (queue.closest.double() - pixels.double()).flatten(1).norm(dim=1).numpy()
    return AttackResult(
        l2=np.where(queue.success, l2, np.nan),
        success=queue.success,
        predictions=predictions.numpy(),
        queries=queue.queries,
        images=queue.closest.numpy() if keep_images else None,
        notices=() if differentiable else (NO_GRADIENT,),
    )


class _Queue:
    """The images, those of them in the batch, and what has been found."""

    def __init__(self, pixels: Tensor, predictions: Tensor, place: torch.device) -> None:
        self.pixels, self.predictions, self.place = pixels, predictions, place
        self.closest = pixels.clone()
        self.success = np.zeros(len(pixels), dtype=np.bool_)
        self.queries = np.ones(len(pixels), dtype=np.int64)
        self.next = 0

    def attack(self, model: Model, search: Search, batch_size: int, run: Run) -> None:
        """Until every image's search is done."""
        lanes, state = self._entrants(batch_size, search)
        while len(lanes):
            self._iterate(model, lanes, state, search, run)
            lowest, previous, found = torch.stack([state.lowest, state.previous, state.found.float()]).cpu().numpy()
            ended = lanes.ended(lowest, previous, search)
            state.note(self._there(lanes.looks(search)))
            self.queries[lanes.image[ended]] += lanes.age[ended]
            lanes.advance(ended, found > 0, search)
            state.restart(self._there(np.flatnonzero(ended)))
            done = lanes.step >= search.search_steps
            if done.any():
                self._leave(lanes.image[done], state.rows(self._there(np.flatnonzero(done))))
                going = np.flatnonzero(~done)
                lanes, state = lanes.rows(going), state.rows(self._there(going))
                new_lanes, new_state = self._entrants(batch_size - len(lanes), search)
                if len(new_lanes):
                    lanes, state = lanes.joined(new_lanes), state.joined(new_state)

    def _there(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self.place)

    def _entrants(self, count: int, search: Search) -> tuple[ConstantSearch, Minimisation]:
        """The next images, at the beginning of their search."""
        rows = slice(self.next, min(self.next + count, len(self.pixels)))
        self.next = rows.stop
        start = Minimisation.of(self.pixels[rows].to(self.place), self.predictions[rows].to(self.place), search)
        return ConstantSearch.of(np.arange(rows.start, rows.stop), search), start

    def _leave(self, images: NDArray[np.int64], state: Minimisation) -> None:
        self.success[images] = torch.isfinite(state.best_distance).cpu().numpy()
        self.closest[torch.from_numpy(images)] = state.best.cpu()

    def _iterate(self, model: Model, lanes: ConstantSearch, state: Minimisation, search: Search, run: Run) -> None:
        """As many iterations as no lane needs a look."""
        count = lanes.until_look(search)
        c = self._there(lanes.c.astype(np.float32))
        fresh = self._there(lanes.age == 0)
        wide = (count, len(lanes), *[1] * (self.pixels.dim() - 1))
        root, step = (self._there(part).view(wide) for part in adam_factors(lanes.age, count, search.lr))
        behind = (search.search_steps - lanes.step - lanes.age / search.iterations).sum()
        words = f"{self.next - len(lanes)} of {len(self.pixels)} images attacked"
        for j in range(count):
            done = self.next - (behind - j * len(lanes) / search.iterations) / search.search_steps
            run.tick(PREDICTING + (1.0 - PREDICTING) * done / len(self.pixels), words)
            state.iterate(model, c, root[j], step[j], search)
            if j == 0:
                state.note(fresh)
        lanes.age += count


def _predict(model: Model, pixels: Tensor, batch_size: int, place: torch.device, run: Run) -> tuple[Tensor, bool]:
    """The model's predictions (N,), and whether its logits carry a gradient with respect to the images."""
    found: list[Tensor] = []
    differentiable = True
    for rows in torch.arange(len(pixels)).split(batch_size):
        run.tick(PREDICTING * int(rows[0]) / len(pixels), "predicting")
        batch = pixels[rows].to(place)
        with torch.set_grad_enabled(not found):  # the first batch tells of the gradient
            logits = logits_of(model, batch.requires_grad_(not found))
        if not found:
            differentiable = logits.requires_grad
        if not bool(torch.isfinite(logits).all()):
            raise AttackError("The model's logits are not finite on the unchanged images; check weights and images.")
        found.append(logits.detach().argmax(dim=1).cpu())
    return torch.cat(found), differentiable


def _checked(images: Any, search: Search) -> Tensor:
    """The images as float32 on the CPU, inside the bounds."""
    pixels = to_tensor(as_array(images, "images"), torch.device("cpu"))
    if pixels.dim() < 2 or not pixels.numel():
        raise AttackError(f"Images must be (N, ...) with N at least 1, not {' x '.join(map(str, pixels.shape))}.")
    low, high = search.bounds
    least, most = float(pixels.min()), float(pixels.max())
    if not (low <= least and most <= high):  # also where one of them is NaN
        raise AttackError(f"Images must lie between {low:g} and {high:g}; these go from {least:g} to {most:g}.")
    return pixels


def _home(model: Model) -> torch.device:
    """Where a module's parameters or buffers are; the CPU for anything else."""
    if isinstance(model, nn.Module):
        for tensor in (*model.parameters(), *model.buffers()):
            return tensor.device
    return torch.device("cpu")


@contextmanager
def _frozen(model: Model) -> Iterator[None]:
    """A module in evaluation mode whose parameters get no gradient, inside; afterwards as it was."""
    if not isinstance(model, nn.Module):
        yield
        return
    training = [(module, module.training) for module in model.modules()]
    learning = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.eval().requires_grad_(False)
    try:
        yield
    finally:
        for module, mode in training:
            module.training = mode
        for parameter, flag in learning:
            parameter.requires_grad_(flag)
