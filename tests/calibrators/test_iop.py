"""Intra order-preserving scaling against its formula, an independent implementation, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import smart_core as sc
from smart_core.calibrators import mlp
from smart_core.calibrators.iop import CLIP, stretches
from tests.calibrators.made_up import softmax
from tests.calibrators.problems import over_confident


def by_rank(logits: np.ndarray, fit: sc.IOP) -> np.ndarray:
    """The formula, class by class in the order of its rank."""
    expected = np.empty(logits.shape)
    for row, z in zip(expected, logits.astype(np.float64), strict=True):
        scaled = (z - z.max()) / float(fit.temperature_)
        order = np.argsort(-scaled, kind="stable")
        y = scaled[order]
        top = min(fit.top, len(y))
        x = (np.maximum(y[1:top], -CLIP) - fit.mean_.numpy()) / fit.std_.numpy()
        (w1, b1), (w2, b2) = [(w.double().numpy(), b.double().numpy()) for w, b in mlp.unpack(fit.theta_, fit._sizes())]
        c = np.log1p(np.exp(w2 @ np.maximum(w1 @ x + b1, 0.0) + b2))
        factors = np.array([c[min(j, top - 1)] for j in range(len(y) - 1)])
        row[order] = -np.concatenate([[0.0], np.cumsum(factors * (y[:-1] - y[1:]))])
    return softmax(expected)


@pytest.mark.parametrize(("classes", "top"), [(2, 10), (5, 3), (5, 10), (30, 10)])
def test_the_formula(classes: int, top: int):
    problem = over_confident(200, classes, seed=1)
    fit = sc.IOP(top=top, epochs=30).fit(problem.logits, problem.labels)
    np.testing.assert_allclose(fit.predict_proba(problem.logits), by_rank(problem.logits, fit), atol=1e-6)


def training_loss(theta: torch.Tensor, fit: sc.IOP, logits: np.ndarray, labels: np.ndarray) -> torch.Tensor:
    """The NLL of the formula, rank by rank in float64, and the penalty."""
    scaled = torch.from_numpy(logits).double()
    y, order = ((scaled - scaled.amax(dim=1, keepdim=True)) / float(fit.temperature_)).sort(dim=1, descending=True)
    top = min(fit.top, logits.shape[1])
    c = stretches(theta, fit._sizes(), (y[:, 1:top].clamp(min=-CLIP) - fit.mean_) / fit.std_)
    factors = c[:, [min(rank, top - 1) for rank in range(logits.shape[1] - 1)]]
    scores = torch.cat([torch.zeros(len(y), 1), -(factors * (y[:, :-1] - y[:, 1:])).cumsum(dim=1)], dim=1)
    at_label = scores[order == torch.from_numpy(labels).unsqueeze(1)]
    squares = sum(weight.square().sum() for weight, _ in mlp.unpack(theta, fit._sizes()))
    return (torch.logsumexp(scores, dim=1) - at_label).mean() + fit.ridge * top / len(y) * squares


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("classes", [2, 6, 30, 100])
def test_the_training_loss_and_its_gradient(classes: int, compiled: bool, monkeypatch: pytest.MonkeyPatch):
    """The factors are moved away from 1 to see every term; from 65 classes on, those beyond come from a table."""
    monkeypatch.setattr(sc.kernels, "enabled", compiled)
    problem = over_confident(300, classes, seed=2)
    fit = sc.IOP(top=8, epochs=1).fit(problem.logits, problem.labels)
    generator = torch.Generator().manual_seed(1)
    theta = fit.theta_ + 0.3 * torch.randn(fit.theta_.shape, generator=generator)
    data = fit._fit_data(problem.logits, problem.labels, None, None)
    nodes = fit._nodes(fit._scaled(data.logits))
    x = (nodes[:, 1:].clamp(min=-CLIP) - fit.mean_) / fit.std_
    value, slope = fit._gradient(data, nodes, x, sc.progress.Run())(theta)
    leaf = theta.double().requires_grad_()
    expected = training_loss(leaf, fit, problem.logits, problem.labels)
    (by_autograd,) = torch.autograd.grad(expected, leaf)
    assert value == pytest.approx(float(expected.detach()), abs=2e-4)
    torch.testing.assert_close(slope.double(), by_autograd, rtol=0.0, atol=5e-4 * float(by_autograd.abs().max()))


def test_the_order_preserving_layer_of_probmetrics_gives_the_same():
    """Their layer with the same factors: it reads them from a base model, ours from the fitted network."""
    peers = pytest.importorskip("probmetrics.calibrators.orderpreserving")
    problem = over_confident(300, 6, seed=3)
    fit = sc.IOP(epochs=60).fit(problem.logits, problem.labels)

    class Base(torch.nn.Module):
        def forward(self, ordered: torch.Tensor) -> torch.Tensor:
            y = ordered - ordered[:, :1]
            c = stretches(fit.theta_, fit._sizes(), (y[:, 1:].clamp(min=-CLIP) - fit.mean_) / fit.std_)
            m = torch.log(torch.expm1(c[:, :5]))  # their layer takes softplus, of the gaps from the smallest up
            return torch.cat([torch.zeros(len(y), 1), m.flip([1])], dim=1)

    layer = peers._OrderPreservingModel(Base(), num_classes=6)
    logits = torch.from_numpy(problem.logits) / float(fit.temperature_)
    expected = torch.softmax(layer(logits), dim=1).detach().numpy()
    np.testing.assert_allclose(fit.predict_proba(problem.logits), expected, atol=2e-5)


def test_the_whole_order_is_kept():
    problem = over_confident(500, 12, seed=4)
    rows = sc.IOP(epochs=60).fit(problem.logits, problem.labels).predict_proba(problem.logits).astype(np.float64)
    ordered = np.take_along_axis(rows, np.argsort(problem.logits, axis=1), axis=1)
    assert (np.diff(ordered, axis=1) >= 0.0).all()


def test_it_stretches_where_a_temperature_cannot():
    """The gap to the second class is right, those below are half of what they should be."""
    rng = np.random.default_rng(5)
    z = np.sort(rng.normal(size=(4000, 5)) * 2.0, axis=1)[:, ::-1]
    truth = z.copy()
    truth[:, 1:] = z[:, 1:2] - 2.0 * (z[:, 1:2] - z[:, 1:])
    p = softmax(truth)
    labels = (p.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1).clip(0, 4)
    nll = {}
    for method in (sc.TS(), sc.IOP()):
        rows = method.fit(z[:2000].astype(np.float32), labels[:2000]).predict_proba(z[2000:].astype(np.float32))
        nll[method.id] = -np.log(rows[np.arange(2000), labels[2000:]]).mean()
    best = -np.log(p[2000:][np.arange(2000), labels[2000:]]).mean()
    assert nll["iop"] - best < 0.5 * (nll["ts"] - best)
