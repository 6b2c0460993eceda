"""A small fully connected network held in one flat vector, so that a fit optimises one vector."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor


def layer_sizes(inputs: int, hidden: int, layers: int) -> tuple[int, ...]:
    """Widths from the input to the single output: `inputs, hidden, ..., hidden, 1`."""
    return (inputs, *([hidden] * layers), 1)


def parameter_count(sizes: tuple[int, ...]) -> int:
    """Weights and biases of all layers; 49 for 1-16-1."""
    return sum(fan_in * fan_out + fan_out for fan_in, fan_out in pairwise(sizes))


def random_parameters(sizes: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniform in +-1/sqrt(fan_in), weights and biases alike: PyTorch's default for linear layers."""
    parts = []
    for fan_in, fan_out in pairwise(sizes):
        uniform = torch.rand(fan_in * fan_out + fan_out, generator=generator) * 2.0 - 1.0
        parts.append(uniform * (1.0 / math.sqrt(fan_in)))
    return torch.cat(parts)


def unpack(theta: Tensor, sizes: tuple[int, ...]) -> list[tuple[Tensor, Tensor]]:
    """Weight (out, in) and bias (out,) of each layer, as views of the flat vector."""
    layers = []
    start = 0
    for fan_in, fan_out in pairwise(sizes):
        stop = start + fan_in * fan_out
        layers.append((theta[start:stop].view(fan_out, fan_in), theta[stop : stop + fan_out]))
        start = stop + fan_out
    return layers


def largest_activation(theta: Tensor, sizes: tuple[int, ...], x: Tensor) -> float:
    """An upper bound of every number in `forward` for inputs whose absolute values are at most x, one per input."""
    bounds = [x.double()]
    for weight, bias in unpack(theta.double().abs(), sizes):
        bounds.append(weight @ bounds[-1] + bias)
    return max(float(bound.max()) for bound in bounds)


def forward(theta: Tensor, sizes: tuple[int, ...], x: Tensor) -> Tensor:
    """`W_n relu(... relu(W_1 x + b_1) ...) + b_n`, (N,)."""
    layers = unpack(theta, sizes)
    for weight, bias in layers[:-1]:
        x = torch.relu(torch.addmm(bias, x, weight.T))
    weight, bias = layers[-1]
    return torch.addmm(bias, x, weight.T).squeeze(1)
