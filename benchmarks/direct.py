"""The plain ways that the ratios are measured against: SMART with a softmax over all classes in every step, and the
usual double loop of the classwise ECE."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

BINS = 15


def objective(confidence: Tensor, correct: Tensor, sigma: float = 0.05, delta: float = 1e-3) -> Tensor:
    """Charbonnier-SoftECE as the paper writes it."""
    centres = (torch.arange(BINS) + 0.5) / BINS
    weight = torch.softmax(-((confidence[:, None] - centres) ** 2) / (2 * sigma**2), dim=1)
    mass = weight.sum(dim=0)
    gap = (weight * (confidence - correct)[:, None]).sum(dim=0)
    return (torch.sqrt(gap**2 + (delta * mass) ** 2) - delta * mass).sum() / len(confidence)


class DirectSmart(torch.nn.Module):
    """`T(m) = softplus(W2 relu(W1 x + b1) + b2) + 0.1`, flat at a temperature to begin with."""

    def __init__(self, margin: Tensor, temperature: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mean, self.std = margin.mean(), margin.std(correction=0)
        self.hidden, self.output = torch.nn.Linear(1, 16), torch.nn.Linear(16, 1)
        with torch.no_grad():
            self.output.weight *= 0.01
            self.output.bias.fill_(float(np.log(np.expm1(temperature - 0.1))))

    def forward(self, margin: Tensor) -> Tensor:
        x = ((margin - self.mean) / self.std)[:, None]
        return softplus(self.output(torch.relu(self.hidden(x))))[:, 0] + 0.1


def direct_fit(logits: Tensor, labels: Tensor, temperature: float, epochs: int) -> float:
    """The last objective of full-batch Adam, every step over all classes and differentiated by autograd."""
    top = logits.topk(2, dim=1)
    margin = top.values[:, 0] - top.values[:, 1]
    prediction = top.indices[:, 0]
    correct = (prediction == labels).float()
    model = DirectSmart(margin, temperature)
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    value = torch.zeros(())
    for _ in range(epochs):
        adam.zero_grad()
        q = torch.softmax(logits / model(margin)[:, None], dim=1)
        value = objective(q.gather(1, prediction[:, None])[:, 0], correct)
        value.backward()
        adam.step()
    return float(value.detach())


def double_loop_classwise_ece(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """A loop over classes and bins."""
    edges = np.linspace(0, 1, BINS + 1)
    total = 0.0
    for k in range(probabilities.shape[1]):
        p, y = probabilities[:, k], labels == k
        for low, high in pairwise(edges):
            inside = (p > low) & (p <= high)
            if inside.any():
                total += abs(p[inside].mean() - y[inside].mean()) * inside.mean()
    return total / probabilities.shape[1]
