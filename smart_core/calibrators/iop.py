"""Intra order-preserving scaling (Rahimi et al., 2020): a network that stretches the gaps between sorted logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from smart_core import kernels
from smart_core.calibrators import mlp
from smart_core.calibrators.base import Calibrator, FitData, LineStyle, Shape
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.rules import DEVIATIONS, TEMPERATURES, WEIGHTS, between
from smart_core.calibrators.settings import setting
from smart_core.calibrators.smart import compiled_samples
from smart_core.calibrators.temperature import lift_top
from smart_core.calibrators.ts import minimise_nll
from smart_core.device import precise
from smart_core.fitting.indicators import Standardizer
from smart_core.fitting.profile import GAP_FLOOR, Profile, build_profile, gaps
from smart_core.fitting.training import Gradient, Schedule, train
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

CLIP = 30.0
"""The network reads gaps down to minus this."""

FLAT = 0.01
"""The random output weights are scaled by this: the start is temperature scaling."""

NEUTRAL = math.log(math.e - 1.0)
"""`softplus` of this is 1, a gap that is left as it is."""


@dataclass(kw_only=True, eq=False)
class IOP(Calibrator):
    """`q = softmax(f(z / T))`, f stretching each gap between neighbours of the sorted row by a positive factor.

    With `y_1 >= y_2 >= ...` the sorted row of `(z - max z) / T`, T of temperature scaling, the class of rank r has the
    score `-sum_(j < r) c_j (y_j - y_(j+1))`, `c = softplus(network(y_2, ..., y_top))`: the order of the classes never
    changes. The network has one hidden layer and minimises the NLL plus a ridge penalty, `M / N` times the sum of its
    squared weights for M factors, by Adam from `c = 1`, which is temperature scaling. Departures: the authors' network
    reads every sorted logit and has a factor for each gap, two hidden layers and a start at random; here it reads the
    ten largest and the gaps beyond share one factor, so that a fit costs the same for any number of classes.

    >>> import smart_core as sc
    >>> data = sc.load("sample:digits")
    >>> iop = sc.IOP().fit(data.validation.logits, data.validation.labels)
    >>> z, q = data.test.logits, iop.predict_proba(data.test.logits)
    >>> bool((q.argmax(axis=1) == z.argmax(axis=1)).all())
    True
    """

    id = "iop"
    label = "IOP"
    summary = "A small network stretches the gaps between the sorted logits and keeps the order of the classes."
    position = 25
    family = "One temperature per sample or class"
    style = LineStyle("#B0413E", "11px,3px", "star")
    rules = (("temperature_", TEMPERATURES), ("theta_", WEIGHTS), ("mean_", between(-CLIP, 0.0)), ("std_", DEVIATIONS))
    stochastic = True

    top: int = setting(10, "How many of the largest logits have their own gaps and are read.", low=2, high=100)
    hidden: int = setting(16, "Width of the hidden layer.", low=1, high=1024)
    ridge: float = setting(1.0, "Strength of the penalty on the weights.", low=1e-6, high=1e6, logarithmic=True)
    epochs: int = setting(200, "Steps of Adam over all samples.", low=1, high=100_000)
    lr: float = setting(1e-2, "Adam's learning rate, which falls to zero.", low=1e-6, high=1.0, logarithmic=True)

    def _fit(self, data: FitData, run: Run) -> None:
        beta = minimise_nll(data.logits, data.labels, run.part(0.0, 0.05))
        self.temperature_ = torch.tensor([1.0 / beta], dtype=torch.float32, device=data.logits.device)
        nodes = map_rows(lambda rows: self._nodes(self._scaled(rows)), data.logits, run, "reading the logits")
        values = nodes[:, 1:].clamp(min=-CLIP)
        scale = Standardizer.of(values)
        self.mean_, self.std_ = scale.mean, scale.std
        generator = torch.Generator().manual_seed(self.seed)
        self.theta_ = train(
            self._start(generator).to(nodes.device),
            None,
            len(data),
            Schedule(self.lr, self.epochs, min_improvement=0.0, cosine=True),
            generator,
            run.part(0.15, 1.0),
            gradient=self._gradient(data, nodes, scale(values), run.part(0.05, 0.15)),
        )

    def _gradient(self, data: FitData, nodes: Tensor, x: Tensor, run: Run) -> Gradient:
        """The mean NLL with the penalty, and its gradient.

        The scores are those of the nodes and, through a profile, of the classes beyond. With `q = softmax(s)` and `l_j`
        the part of a stretch above the label, `dNLL/dc_j = l_j - (y_j - y_(j+1)) sum_(r > j) q_r`; the last stretch has
        `l + q dg/dc` for the log-partition g of the classes beyond.
        """
        label_gap = map_rows(self._scaled, data.logits, run, "reading the labels").gather(1, data.labels.unsqueeze(1))
        at_label = self._lengths(nodes, label_gap)[:, :, 0].T.contiguous()
        steps = (nodes[:, :-1] - nodes[:, 1:]).T.contiguous()
        beyond = None
        if data.classes > nodes.shape[1]:
            rest = map_rows(self._beyond, data.logits, run, "reading the logits")
            beyond = partition_reader(build_profile(Logits(rest), rest.argmax(dim=1), run))
        sizes, columns = self._sizes(), x.T.contiguous()
        penalty = self.ridge * sizes[-1] / len(x)
        first = torch.zeros_like(steps[:1])

        def gradient(theta: Tensor) -> tuple[float, Tensor]:
            (w1, b1), (w2, b2) = mlp.unpack(theta, sizes)
            hidden = torch.addmm(b1.unsqueeze(1), w1, columns).relu_()
            output = torch.addmm(b2.unsqueeze(1), w2, hidden)
            c, slope = softplus(output), at_label.clone()
            scores = torch.cat([first, -(c[:-1] * steps).cumsum(dim=0)])
            if beyond is not None:
                g, rise = beyond(c[-1])
                scores[-1] += g
            total = torch.logsumexp(scores, dim=0)
            nll = float((total + torch.linalg.vecdot(c, at_label, dim=0)).mean())
            q = torch.exp(scores - total)
            if beyond is not None:
                slope[-1] += q[-1] * rise
            slope[:-1] -= steps * q.flip(0).cumsum(dim=0).flip(0)[1:]
            slope *= torch.sigmoid(output) / len(x)
            inner = (w2.T @ slope) * (hidden > 0.0)
            parts = inner @ x, inner.sum(dim=1), slope @ hidden.T, slope.sum(dim=1)
            squares = float(w1.square().sum() + w2.square().sum())
            parts[0].add_(w1, alpha=2.0 * penalty)
            parts[2].add_(w2, alpha=2.0 * penalty)
            return nll + penalty * squares, torch.cat([part.reshape(-1) for part in parts])

        return gradient

    def _start(self, generator: torch.Generator) -> Tensor:
        theta = mlp.random_parameters(self._sizes(), generator)
        weight, bias = mlp.unpack(theta, self._sizes())[-1]
        weight *= FLAT
        bias[:] = NEUTRAL
        return theta

    def _scaled(self, logits: Logits) -> Tensor:
        return gaps(logits).clamp(min=GAP_FLOOR) / self.temperature_

    def _nodes(self, scaled: Tensor) -> Tensor:
        """The largest entries of each row in descending order."""
        return scaled.topk(min(self.top, scaled.shape[1]), dim=1).values

    def _beyond(self, logits: Logits) -> Tensor:
        """The rows without the entries above the last node."""
        scaled = self._scaled(logits)
        above = scaled.topk(min(self.top, scaled.shape[1]) - 1, dim=1).indices
        return scaled.scatter(1, above, GAP_FLOOR * 10.0)

    @staticmethod
    def _lengths(nodes: Tensor, values: Tensor) -> Tensor:
        """(n, M, k): how much of each stretch lies above each value (n, k); the last one has no end."""
        v = values.unsqueeze(1)
        upper, lower = nodes[:, :-1].unsqueeze(2), nodes[:, 1:].unsqueeze(2)
        within = torch.minimum(upper - v, upper - lower).clamp(min=0.0)
        return torch.cat([within, (nodes[:, -1:].unsqueeze(2) - v).clamp(min=0.0)], dim=1)

    def _sizes(self) -> tuple[int, int, int]:
        nodes = min(self.top, self.classes_)
        return nodes - 1, self.hidden, nodes

    def learned(self) -> dict[str, Shape]:
        sizes = self._sizes()
        parameters = mlp.parameter_count(sizes)
        return {"temperature_": (1,), "theta_": (parameters,), "mean_": (sizes[0],), "std_": (sizes[0],)}

    @property
    def parameters(self) -> int:
        return mlp.parameter_count(self._sizes()) + 1 if hasattr(self, "classes_") else 0

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        scaled = precise(gaps(logits).clamp(min=GAP_FLOOR)) / self.temperature_
        nodes, ranked = scaled.topk(min(self.top, scaled.shape[1]), dim=1)
        x = (nodes[:, 1:].clamp(min=-CLIP) - self.mean_) / self.std_
        c = stretches(precise(self.theta_), self._sizes(), x)
        at_nodes = torch.zeros_like(nodes)
        at_nodes[:, 1:] = -(c[:, :-1] * (nodes[:, :-1] - nodes[:, 1:])).cumsum(dim=1)
        scores = at_nodes[:, -1:] - c[:, -1:] * (nodes[:, -1:] - scaled)  # what the classes below the last node get
        scores.scatter_(1, ranked, at_nodes)
        q = torch.softmax(scores, dim=1)
        return lift_top(Probabilities(q.to(logits.dtype)), logits)

    def numpy_code(self) -> str:
        sizes = self._sizes()
        return f"""
            y = np.maximum(gaps(z), GAP_FLOOR).astype(np.float64) / TEMPERATURE[0]
            nodes = largest(y, {sizes[-1]})
            x = (np.maximum(nodes[:, 1:], -{CLIP}) - MEAN) / STD
            c = np.logaddexp(0.0, network_outputs(x, layers(THETA, {sizes})))
            return lift_top(softmax(stretched(y, nodes, c)), z)
        """


def partition_reader(profile: Profile) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """`beta -> g, dg/dbeta` of a profile: by the compiled loops, or PyTorch's derivative."""
    if kernels.usable(profile.correct):
        from smart_core.kernels.smart_objective import Partition

        return Partition(compiled_samples(profile.correct, profile)).at

    def read(beta: Tensor) -> tuple[Tensor, Tensor]:
        leaf = beta.detach().requires_grad_()
        with torch.enable_grad():
            g = profile.log_partition(leaf)
            (slope,) = torch.autograd.grad(g.sum(), leaf)
        return g.detach(), slope

    return read


def stretches(theta: Tensor, sizes: tuple[int, ...], x: Tensor) -> Tensor:
    """(N, M) the factors of the stretches between nodes, and of the one beyond the last."""
    return softplus(mlp.forward(theta, sizes, x).reshape(len(x), sizes[-1]))
