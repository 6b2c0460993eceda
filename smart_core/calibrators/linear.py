"""Softmax of a linear map of a row, fitted by L-BFGS: base of vector, matrix, Dirichlet and structured scaling.

The map is `q = softmax(W x + b)` with W a full K x K matrix or a diagonal one, kept as its K entries. It is
fitted as `V = T W` on `x / T`, T of temperature scaling, so that `V = I, b = 0` is temperature scaling, the
start. The loss is the mean NLL plus a `Penalty`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import linear

from smart_core.calibrators.base import Calibrator, FitData, Shape
from smart_core.calibrators.lbfgs import minimise_convex
from smart_core.calibrators.rows import map_rows
from smart_core.calibrators.rules import WEIGHTS
from smart_core.calibrators.settings import setting
from smart_core.calibrators.ts import minimise_nll
from smart_core.device import precise, rows_per_chunk, widen
from smart_core.fitting.profile import GAP_FLOOR, gaps
from smart_core.progress import Run
from smart_core.types import Logits, Probabilities

MOST_PRODUCTS = 1 << 28
"""Multiplications by W between two ticks: a few hundredths of a second."""

MOST_ENTRIES = 1 << 25
"""Entries of W: L-BFGS keeps some 25 arrays of this size, 3.4 GB of float32. A full W reaches it at 5,792 classes."""

MANY_CLASSES = 100
"""From this many classes on, a validation set does not determine one value per class, let alone K x K values."""

DIAGONAL_SD, INTERCEPT_SD, ROW_SD = 0.1, 0.1, 0.3
"""Standard deviations of the prior around temperature scaling: of V_ii, of b_i, and of a row of V off the diagonal, for
inputs of root mean square 1 or less; for larger ones those of V are smaller in proportion."""

Tick = Callable[[], None]
"""Called between row chunks; it may raise to stop the fit."""


@dataclass(frozen=True)
class Penalty:
    """`off_diagonal mean_(i != j) V_ij^2 + diagonal mean_i (V_ii - 1)^2 + intercept mean_i b_i^2`."""

    off_diagonal: float = 0.0
    diagonal: float = 0.0
    intercept: float = 0.0


def odir(reg_lambda: float, reg_mu: float, beta: float) -> Penalty:
    """`reg_lambda mean_(i != j) W_ij^2 + reg_mu mean_i b_i^2`, the regularisation of Kull et al. (2019)."""
    return Penalty(off_diagonal=reg_lambda * beta**2, intercept=reg_mu)


def prior_around_temperature(x: Tensor) -> Penalty:
    """A Gaussian prior with its mean at temperature scaling; relative to the mean NLL it fades like 1/N."""
    samples, classes = x.shape
    scale = max(1.0, float(torch.linalg.vector_norm(x)) ** 2 / x.numel())
    return Penalty(
        off_diagonal=scale * classes * (classes - 1) * classes / (2.0 * samples * ROW_SD**2),
        diagonal=scale * classes / (2.0 * samples * DIAGONAL_SD**2),
        intercept=classes / (2.0 * samples * INTERCEPT_SD**2),
    )


def strength(help: str) -> Any:
    """The setting of a penalty's strength; None leaves it to the number of classes."""
    return setting(None, help, low=0.0, high=1e9, optional=True, kind=float)


@dataclass(kw_only=True, eq=False)
class LinearMap(Calibrator):
    """`q = softmax(W x + b)` with the learned `weight_` and `bias_`."""

    whole_rows = "it has parameters for each class"
    family = "Linear maps of the logits"
    diagonal: ClassVar[bool] = False
    """Whether W is a diagonal matrix, kept as its K entries."""
    numpy_inputs: ClassVar[str]
    """The value of `_inputs` as an expression of `numpy_code`."""
    least_gain: ClassVar[float] = 1e-10
    """The fit ends when the expected gain of a step is less than this."""
    keeps_top1 = False

    max_iterations: int = setting(200, "Most steps of the optimiser, L-BFGS.", low=1, high=10_000)

    @abstractmethod
    def _inputs(self, logits: Logits) -> Tensor:
        """The rows x, in the precision of the logits."""

    def _identity(self, data: FitData) -> Tensor:
        """The W that changes nothing; an error if there are too many classes to fit one."""
        entries = data.classes if self.diagonal else data.classes**2
        if entries > MOST_ENTRIES:
            raise self._error(
                f"{data.classes:,} classes need a map of {entries:,} numbers, more than can be fitted here; "
                "choose a method that does not grow with the square of the classes, such as Vector, SVS or SMART"
            )
        device = data.logits.device
        return torch.ones(entries, device=device) if self.diagonal else torch.eye(data.classes, device=device)

    @abstractmethod
    def _problem(self, data: FitData, beta: float, run: Run) -> tuple[Tensor, Penalty, float]:
        """The problem for temperature scaling's beta: the rows x, the penalty on V, and the factor from V to W."""

    def _fit(self, data: FitData, run: Run) -> None:
        identity = self._identity(data)
        beta = minimise_nll(data.logits, data.labels, run)
        x, penalty, factor = self._problem(data, beta, run)
        weight, self.bias_ = minimise(x, data.labels, identity, penalty, self.max_iterations, run, self.least_gain)
        self.weight_ = weight * factor

    def learned(self) -> dict[str, Shape]:
        k = self.classes_
        return {"weight_": (k,) if self.diagonal else (k, k), "bias_": (k,)}

    def _probabilities(self, logits: Logits, features: Tensor | None) -> Probabilities:
        x = self._inputs(Logits(precise(gaps(logits))))
        q = torch.softmax(scores(x, precise(self.weight_), precise(self.bias_)), dim=1)
        return Probabilities(q.to(logits.dtype))

    def numpy_code(self) -> str:
        scores = "x * WEIGHT + BIAS" if self.diagonal else "linear(x, WEIGHT, BIAS)"
        return f"x = {self.numpy_inputs}\nreturn softmax({scores}).astype(np.float32)"


@dataclass(kw_only=True, eq=False)
class LinearCalibrator(LinearMap):
    """`q = softmax(W x + b)`, started at temperature scaling and never worse than it in penalised loss."""

    rules = (("weight_", WEIGHTS), ("bias_", WEIGHTS))
    numpy_inputs = "centred(z)"

    def _inputs(self, logits: Logits) -> Tensor:
        """The rows x, for which `softmax(x / T)` must be temperature scaling."""
        return centred(logits)

    @abstractmethod
    def _set_penalty(self, beta: float) -> Penalty | None:
        """The regularisation that the settings ask for; None if they leave it to the number of classes."""

    def _problem(self, data: FitData, beta: float, run: Run) -> tuple[Tensor, Penalty, float]:
        x = map_rows(lambda rows: self._inputs(rows) * beta, data.logits, run, "reading the logits")
        return x, self._penalty(x, beta), beta

    def _penalty(self, x: Tensor, beta: float) -> Penalty:
        penalty, many = self._set_penalty(beta), x.shape[1] >= MANY_CLASSES
        parameters = x.shape[1] * (2 if self.diagonal else x.shape[1] + 1)
        held = many and penalty is None
        if many or parameters > len(x):
            treatment = "a prior holds them near temperature scaling" if held else "expect overfitting"
            self.notices_.append(f"{parameters:,} parameters from {len(x):,} samples; {treatment}.")
        return prior_around_temperature(x) if held else penalty or Penalty()


def centred(logits: Logits) -> Tensor:
    """`z_k - mean_j z_j`, the part of the logits that softmax depends on; a trained network's mean is nearly 0."""
    d = gaps(logits).clamp(min=GAP_FLOOR)
    return d - d.mean(dim=1, keepdim=True)


def log_probabilities(logits: Logits) -> Tensor:
    """`log softmax(z)`, with gaps to the largest logit kept above -10,000."""
    return torch.log_softmax(gaps(logits).clamp(min=GAP_FLOOR), dim=1)


def scores(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`W x + b` row by row, for a full or a diagonal W."""
    return linear(x, weight, bias) if weight.ndim == 2 else torch.addcmul(bias, x, weight)


def minimise(
    x: Tensor, labels: Tensor, identity: Tensor, penalty: Penalty, max_iterations: int, run: Run, least_gain: float
) -> tuple[Tensor, Tensor]:
    """The V and b of least loss on the path of L-BFGS from I and 0."""
    bias = torch.zeros(x.shape[1], device=x.device)
    done = 0.0

    def tick() -> None:
        run.tick(done, "L-BFGS")

    def between(iteration: int) -> None:
        nonlocal done
        done = iteration / max_iterations
        tick()

    def loss(theta: Tensor) -> tuple[float, Tensor]:
        value, *gradients = loss_and_gradient(x, labels, *_unpack(theta, identity), penalty, tick)
        return value, _pack(*gradients)

    start = _pack(identity, bias)
    curvature = _pack(*loss_curvature(x, labels, identity, bias, penalty, tick))
    return _unpack(minimise_convex(loss, start, curvature, max_iterations, least_gain, between), identity)


def loss_and_gradient(
    x: Tensor, labels: Tensor, weight: Tensor, bias: Tensor, penalty: Penalty, tick: Tick
) -> tuple[float, Tensor, Tensor]:
    """The loss and its derivatives: `r^T x / N` in V, `mean r` in b, `r = q - onehot(y)`, with penalty."""
    value, w_gradient, b_gradient = _penalty_terms(weight, bias, penalty)
    count = x.shape[0]
    for rows, y in _chunks(x, labels, weight, tick):
        log_q = torch.log_softmax(scores(rows, weight, bias), dim=1)
        at_label = log_q.gather(1, y)
        value -= float(widen(at_label).sum()) / count
        residual = log_q.exp_().scatter_(1, y, torch.expm1(at_label)).div_(count)
        _add_products(w_gradient, b_gradient, residual, rows)
    return value, w_gradient, b_gradient


def loss_curvature(
    x: Tensor, labels: Tensor, weight: Tensor, bias: Tensor, penalty: Penalty, tick: Tick
) -> tuple[Tensor, Tensor]:
    """The size of the loss's second derivatives in each entry of V and of b: `mean v_k x_j^2` and `mean v_k`.

    `v = (q (1 - q) + r^2) / 2`: the Hessian's diagonal has `q (1 - q)`, the mean of r^2 if the model is calibrated.
    Where the model is wrong and confident, q (1 - q) alone would vanish.
    """
    classes, count = bias.numel(), x.shape[0]
    w_curvature = torch.zeros_like(weight)
    b_curvature = torch.full_like(bias, 2.0 * penalty.intercept / classes)
    for rows, y in _chunks(x, labels, weight, tick):
        q = torch.softmax(scores(rows, weight, bias), dim=1)
        residual = q.scatter(1, y, q.gather(1, y) - 1.0)
        variance = (q - q * q + residual * residual) / (2.0 * count)
        _add_products(w_curvature, b_curvature, variance, rows * rows)
    off_diagonal = 2.0 * penalty.off_diagonal / (classes * (classes - 1))
    diagonal = 2.0 * penalty.diagonal / classes
    if weight.ndim == 1:
        return w_curvature + diagonal, b_curvature
    w_curvature += off_diagonal
    w_curvature.diagonal().add_(diagonal - off_diagonal)
    return w_curvature, b_curvature


def _chunks(x: Tensor, labels: Tensor, weight: Tensor, tick: Tick) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows and their labels (n, 1), with a tick before each; few enough rows for short pauses between ticks."""
    size = min(rows_per_chunk(x.shape[1]), max(1, MOST_PRODUCTS // weight.numel()))
    for start in range(0, x.shape[0], size):
        tick()
        yield x[start : start + size], labels[start : start + size].unsqueeze(1)


def _add_products(w_total: Tensor, b_total: Tensor, factor: Tensor, rows: Tensor) -> None:
    """Add `f^T x` to a full W's total, its diagonal to a diagonal one's, and the sum of f to b's."""
    b_total += factor.sum(dim=0)
    if w_total.ndim == 2:
        w_total.addmm_(factor.T, rows)
    else:
        w_total += (factor * rows).sum(dim=0)


def _penalty_terms(weight: Tensor, bias: Tensor, penalty: Penalty) -> tuple[float, Tensor, Tensor]:
    """The penalty's value and gradients in V and b; a diagonal V has nothing off its diagonal."""
    classes = bias.numel()
    value = penalty.intercept * float(bias.square().mean())
    b_gradient = bias * (2.0 * penalty.intercept / classes)
    deviation = (weight if weight.ndim == 1 else weight.diagonal()) - 1.0
    value += penalty.diagonal * float(deviation.square().mean())
    diagonal_gradient = deviation * (2.0 * penalty.diagonal / classes)
    if weight.ndim == 1:
        return value, diagonal_gradient, b_gradient
    pairs = classes * (classes - 1)
    off_diagonal = weight - torch.diag(weight.diagonal())
    value += penalty.off_diagonal * float(off_diagonal.square().sum()) / pairs
    gradient = off_diagonal * (2.0 * penalty.off_diagonal / pairs) + torch.diag(diagonal_gradient)
    return value, gradient, b_gradient


def _pack(weight: Tensor, bias: Tensor) -> Tensor:
    """V's entries and b in one vector."""
    return torch.cat([weight.reshape(-1), bias])


def _unpack(theta: Tensor, identity: Tensor) -> tuple[Tensor, Tensor]:
    """V, in the shape of the identity, and b from the flat vector."""
    return theta[: identity.numel()].view(identity.shape), theta[identity.numel() :]
