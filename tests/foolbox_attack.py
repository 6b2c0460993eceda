"""foolbox's Carlini-Wagner attack with the settings of ours."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor, nn

from smart_core.attacks import Search


def foolbox_distances(model: nn.Module, images: Tensor, search: Search) -> np.ndarray:
    """(N,) L2 distances from the model's own predictions; NaN where foolbox found nothing, which it leaves black."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # an import of its own from an old place in SciPy
        import foolbox

    attack = foolbox.attacks.L2CarliniWagnerAttack(
        binary_search_steps=search.search_steps,
        steps=search.iterations,
        stepsize=search.lr,
        confidence=search.kappa,
        initial_const=search.initial_c,
    )
    with torch.no_grad():
        labels = model(images).argmax(dim=1)
    seen = foolbox.PyTorchModel(model, bounds=search.bounds, device="cpu")
    found = attack.run(seen, images, foolbox.criteria.Misclassification(labels))
    l2 = (found - images).flatten(1).norm(dim=1).numpy()
    return np.where((found.flatten(1) != 0).any(dim=1).numpy(), l2, np.nan)
