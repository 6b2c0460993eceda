"""The attack on many images: a batch in which each image goes through its own search.

When an image's loss stops falling, it moves on to its next c; when its search is done, the next image takes its place
in the batch. So the batch stays full until the images run out, and finished images cost nothing. The formula is in
`smart_core.attacks.carlini_wagner`.
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

from smart_core.attacks.carlini_wagner import ConstantSearch, Minimisation, Model, Search, adam_factors, logits_of
from smart_core.device import as_array, resolve_device, to_tensor
from smart_core.errors import AttackError
from smart_core.progress import Run
from smart_core.types import BoolArray, Vector

NO_GRADIENT = "The logits have no gradient with respect to the images, so no image could be attacked."

PREDICTING = 0.01
"""Fraction of the progress that the predictions of the unchanged images count for."""


@dataclass(frozen=True, eq=False)
class AttackResult:
    """One entry per image, in the order of the images."""

    l2: Vector
    """(N,) L2 norm, in the units of the images, of the smallest change of the prediction; NaN if none was found."""
    success: BoolArray
    """(N,) whether such a change was found."""
    predictions: NDArray[np.int64]
    """(N,) the model's prediction for the unchanged image."""
    queries: NDArray[np.int64]
    """(N,) the number of forward passes of the image, changed or not."""
    images: NDArray[np.float32] | None = None
    """(N, ...) the changed images, or the unchanged one where the attack failed; None unless requested."""
    notices: tuple[str, ...] = ()

    @property
    def failures(self) -> int:
        """The number of images that kept their prediction."""
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
    """Return the distance from each image to the nearest one that the model classifies differently.

    Parameters
    ----------
    model
        Images (B, ...) -> logits (B, K). During the attack a module is in evaluation mode and its parameters get no
        gradient; afterwards it is as it was. Convolutions on a CPU run faster after
        `model.to(memory_format=torch.channels_last)`.
    images
        (N, ...), NumPy or torch, inside `search.bounds`.
    device
        Where the model runs; by default where its parameters are. `auto` takes CUDA, then MPS, then the CPU.
    run
        Receives the progress and may cancel. Nothing is random.

    >>> import numpy as np
    >>> import torch
    >>> from smart_core.attacks import Search
    >>> model = torch.nn.Linear(2, 2)
    >>> _ = model.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [0.0, 1.0]]), "bias": torch.zeros(2)})
    >>> result = carlini_wagner_l2(model, np.array([[0.9, 0.5]]), Search(lr=0.05, iterations=200))
    >>> result.l2.round(2)   # the boundary x_1 = x_2 is 0.4 / sqrt(2) away
    array([0.28])
    """
    search, run = search or Search(), run or Run()
    search.check()
    if not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise AttackError(f"A batch of {batch_size} images cannot be attacked; use a whole number of at least 1.")
    place = resolve_device(str(device)) if device is not None else _device_of(model)
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
    """All images, the next one to enter the batch, and the closest changed images so far."""

    def __init__(self, pixels: Tensor, predictions: Tensor, device: torch.device) -> None:
        self.pixels, self.predictions, self.device = pixels, predictions, device
        self.closest = pixels.clone()
        self.success = np.zeros(len(pixels), dtype=np.bool_)
        self.queries = np.ones(len(pixels), dtype=np.int64)
        self.next = 0

    def attack(self, model: Model, search: Search, batch_size: int, run: Run) -> None:
        """Run until the search of every image is done."""
        constants, state = self._next_images(batch_size, search)
        while len(constants):
            self._iterate(model, constants, state, search, run)
            lowest, previous, found = torch.stack([state.lowest, state.previous, state.found.float()]).cpu().numpy()
            ended = constants.ended(lowest, previous, search)
            state.remember(self._to_device(constants.checked(search)))
            self.queries[constants.image[ended]] += constants.age[ended]
            constants.advance(ended, found > 0, search)
            state.restart(self._to_device(np.flatnonzero(ended)))
            done = constants.step >= search.search_steps
            if done.any():
                self._store(constants.image[done], state.rows(self._to_device(np.flatnonzero(done))))
                going = np.flatnonzero(~done)
                constants, state = constants.rows(going), state.rows(self._to_device(going))
                new_constants, new_state = self._next_images(batch_size - len(constants), search)
                if len(new_constants):
                    constants, state = constants.joined(new_constants), state.joined(new_state)

    def _to_device(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self.device)

    def _next_images(self, count: int, search: Search) -> tuple[ConstantSearch, Minimisation]:
        """Return the next images for the batch, at the beginning of their search."""
        rows = slice(self.next, min(self.next + count, len(self.pixels)))
        self.next = rows.stop
        start = Minimisation.of(self.pixels[rows].to(self.device), self.predictions[rows].to(self.device), search)
        return ConstantSearch.of(np.arange(rows.start, rows.stop), search), start

    def _store(self, images: NDArray[np.int64], state: Minimisation) -> None:
        self.success[images] = torch.isfinite(state.best_distance).cpu().numpy()
        self.closest[torch.from_numpy(images)] = state.best.cpu()

    def _iterate(self, model: Model, constants: ConstantSearch, state: Minimisation, search: Search, run: Run) -> None:
        """Run iterations until the loss of some image has to be checked."""
        count = constants.until_check(search)
        c = self._to_device(constants.c.astype(np.float32))
        fresh = self._to_device(constants.age == 0)
        wide = (count, len(constants), *[1] * (self.pixels.dim() - 1))
        root, step = (self._to_device(part).view(wide) for part in adam_factors(constants.age, count, search.lr))
        behind = (search.search_steps - constants.step - constants.age / search.iterations).sum()
        words = f"{self.next - len(constants)} of {len(self.pixels)} images attacked"
        for j in range(count):
            done = self.next - (behind - j * len(constants) / search.iterations) / search.search_steps
            run.tick(PREDICTING + (1.0 - PREDICTING) * done / len(self.pixels), words)
            state.iterate(model, c, root[j], step[j], search)
            if j == 0:
                state.remember(fresh)
        constants.age += count


def _predict(model: Model, pixels: Tensor, batch_size: int, device: torch.device, run: Run) -> tuple[Tensor, bool]:
    """Return the model's predictions (N,), and whether its logits have a gradient with respect to the images."""
    found: list[Tensor] = []
    differentiable = False
    for rows in torch.arange(len(pixels)).split(batch_size):
        run.tick(PREDICTING * int(rows[0]) / len(pixels), "predicting")
        batch = pixels[rows].to(device)
        with torch.set_grad_enabled(not found):  # the first batch shows whether there is a gradient
            logits = logits_of(model, batch.requires_grad_(not found))
        differentiable |= logits.requires_grad
        if not bool(torch.isfinite(logits).all()):
            raise AttackError("The model's logits are not finite on the unchanged images; check weights and images.")
        found.append(logits.detach().argmax(dim=1).cpu())
    return torch.cat(found), differentiable


def _checked(images: Any, search: Search) -> Tensor:
    """Return the images as float32 on the CPU; raise if one lies outside the bounds."""
    pixels = to_tensor(as_array(images, "images"), torch.device("cpu"))
    if pixels.dim() < 2 or not pixels.numel():
        raise AttackError(f"Images must be (N, ...) with N at least 1, not {' x '.join(map(str, pixels.shape))}.")
    low, high = search.bounds
    least, most = float(pixels.min()), float(pixels.max())
    if not (low <= least and most <= high):  # false for NaN too
        raise AttackError(f"Images must lie between {low:g} and {high:g}; these go from {least:g} to {most:g}.")
    return pixels


def _device_of(model: Model) -> torch.device:
    """Return the device of a module's parameters or buffers; the CPU for anything else."""
    tensors = (*model.parameters(), *model.buffers()) if isinstance(model, nn.Module) else ()
    return tensors[0].device if tensors else torch.device("cpu")


@contextmanager
def _frozen(model: Model) -> Iterator[None]:
    """Inside, a module is in evaluation mode and its parameters get no gradient; afterwards it is as it was."""
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
