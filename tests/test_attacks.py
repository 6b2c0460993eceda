"""The Carlini-Wagner attack against foolbox, closed forms, and its own claims."""

from __future__ import annotations

import threading
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from smart_core.attacks import AttackError, AttackResult, Search, carlini_wagner_l2
from smart_core.attacks.carlini_wagner import hinge_and_gradient
from smart_core.attacks.inputs import build_model, save_distances
from smart_core.cli.output import check_targets
from smart_core.errors import Cancelled, SmartError
from smart_core.progress import Run
from tests.digits_model import digits, network, trained, unseen
from tests.foolbox_attack import foolbox_distances
from tests.other_device import pretend_device
from tests.tolerance import float32_bound

QUICK = Search(lr=0.02, iterations=250)
"""Large steps, so that few suffice; foolbox gets the same settings."""
SHORT = Search(lr=0.05, iterations=80)
"""Coarser still, for properties that hold for any settings."""
COUNT = 60


@pytest.fixture(scope="module")
def attacked() -> AttackResult:
    return carlini_wagner_l2(trained(), unseen(COUNT), QUICK, keep_images=True)


def predict(images: Tensor) -> np.ndarray:
    with torch.no_grad():
        return trained()(images).argmax(dim=1).numpy()


def lead_of_others(images: Tensor, own: np.ndarray) -> tuple[np.ndarray, float]:
    """By how much the largest other logit leads the own class's, and how far that differs from batch to batch.

    A change that was made as small as possible ends where two logits are all but equal; they are sums of 512 terms.
    """
    with torch.no_grad():
        logits = trained()(images).double().numpy()
    rows = np.arange(len(logits))
    kept = logits[rows, own].copy()
    logits[rows, own] = -np.inf
    return logits.max(axis=1) - kept, float(float32_bound(np.sqrt(512), np.abs(kept).max()))


def moved(result: AttackResult, share: float) -> Tensor:
    """The digits with that share of the change found for each."""
    return torch.lerp(unseen(COUNT), torch.from_numpy(result.images), share)


def test_same_distances_as_foolbox(attacked: AttackResult):
    theirs = foolbox_distances(trained(), unseen(COUNT), QUICK)
    success = np.isfinite(theirs)
    assert success.sum() > 0.9 * COUNT
    assert not (success & ~attacked.success).any()
    assert np.median(attacked.l2[success]) == pytest.approx(np.median(theirs[success]), rel=0.05)
    assert spearmanr(attacked.l2[success], theirs[success])[0] > 0.97


def test_the_prediction_changes_at_the_distance_reported_and_mostly_not_before(attacked: AttackResult):
    before = predict(unseen(COUNT))
    np.testing.assert_array_equal(attacked.predictions, before)
    there, changed = moved(attacked, 1.0), attacked.success
    lead, off = lead_of_others(there, before)
    assert (lead[changed] > -off).all()
    assert (lead[~changed] <= off).all()
    distance = (there - unseen(COUNT)).double().flatten(1).norm(dim=1).numpy()
    np.testing.assert_allclose(attacked.l2[changed], distance[changed], rtol=1e-6)
    assert np.isnan(attacked.l2[~changed]).all()
    assert float(there.min()) >= 0.0
    assert float(there.max()) <= 1.0
    nearer = predict(moved(attacked, 0.9)) != before
    assert nearer[changed].mean() <= 0.2


def test_a_wrong_prediction_is_attacked_as_well():
    images, labels = digits()
    wrong = torch.from_numpy(predict(images)) != labels
    assert wrong.sum() >= 5
    chosen = images[wrong][:5]
    result = carlini_wagner_l2(trained(), chosen, SHORT)
    np.testing.assert_array_equal(result.predictions, predict(chosen))
    assert result.success.all()
    assert (result.l2 > 0).all()


def test_distance_to_a_hyperplane():
    generator = torch.Generator().manual_seed(3)
    images = 0.3 + 0.4 * torch.rand(40, 1, 4, 4, generator=generator)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.randn(2, 16, generator=generator))
        model[1].bias.copy_(-model[1].weight @ torch.full((16,), 0.5))
        w = (model[1].weight[0] - model[1].weight[1]).double()
        lead = images.flatten(1).double() @ w + (model[1].bias[0] - model[1].bias[1]).double()
    exact = (lead.abs() / w.norm()).numpy()
    result = carlini_wagner_l2(model, images, Search(), keep_images=True)
    assert result.success.all()
    inside = ((result.images > 0.02) & (result.images < 0.98)).reshape(40, -1).all(axis=1)
    assert inside.sum() >= 30
    assert (result.l2 >= exact * (1 - 1e-4)).all()
    np.testing.assert_allclose(result.l2[inside], exact[inside], rtol=0.02, atol=1e-4)


def test_kappa_is_the_lead_of_the_other_class():
    result = carlini_wagner_l2(trained(), unseen(12), replace(SHORT, kappa=2.0), keep_images=True)
    assert result.success.sum() >= 8
    lead, off = lead_of_others(torch.from_numpy(result.images), result.predictions)
    assert (lead[result.success] > 2.0 - off).all()


def test_other_bounds_give_the_same_in_other_units():
    """By a power of two, so that every bit is the same."""
    model = trained()
    plain = carlini_wagner_l2(model, unseen(6), SHORT)
    scaled = replace(SHORT, bounds=(-2.0, 2.0))
    result = carlini_wagner_l2(lambda x: model((x + 2.0) / 4.0), unseen(6) * 4.0 - 2.0, scaled)
    assert plain.success.sum() >= 4
    np.testing.assert_allclose(result.l2, 4.0 * plain.l2, rtol=1e-5)


def test_images_are_independent_of_the_batch_they_are_in():
    together = carlini_wagner_l2(trained(), unseen(7), SHORT)
    assert together.success.sum() >= 5
    apart, again = (carlini_wagner_l2(trained(), unseen(7).numpy(), SHORT, batch_size=3) for _ in range(2))
    np.testing.assert_array_equal(apart.success, together.success)
    ratio = (apart.l2 / together.l2)[apart.success]
    assert np.median(np.abs(ratio - 1.0)) < 0.01  # rounding differs with the batch and Adam makes more of it
    assert np.abs(ratio - 1.0).max() < 0.25
    np.testing.assert_array_equal(apart.l2, again.l2)  # with the same batches, the same bits
    np.testing.assert_array_equal(apart.queries, again.queries)


def test_finished_images_cost_nothing():
    """The model sees as many images as the result says, and no minimisation outlives its iterations."""
    seen = 0
    model = trained()

    def counting(x: Tensor) -> Tensor:
        nonlocal seen
        seen += len(x)
        return model(x)

    search = replace(QUICK, iterations=37)
    result = carlini_wagner_l2(counting, unseen(9), search, batch_size=4)
    assert result.queries.sum() == seen
    assert result.queries.max() <= 1 + search.search_steps * 37
    assert result.queries.min() < 1 + search.search_steps * 37


def test_a_few_iterations_are_used():
    """A short minimisation does not end at its first check while its loss falls."""
    result = carlini_wagner_l2(trained(), unseen(5), Search(lr=0.01, iterations=8, search_steps=1, initial_c=10.0))
    np.testing.assert_array_equal(result.queries, 1 + 8)


def test_an_impossible_attack_gives_nan_and_ends_early():
    def flat(x: Tensor) -> Tensor:
        return 0.0 * x.flatten(1)[:, :3] + torch.tensor([1.0, 3.0, 2.0])

    result = carlini_wagner_l2(flat, unseen(3), QUICK, keep_images=True)
    assert np.isnan(result.l2).all()
    assert result.failures == 3
    np.testing.assert_array_equal(result.images, unseen(3).numpy())
    np.testing.assert_array_equal(result.queries, 1 + QUICK.search_steps * 25)  # the first look ends each step
    assert result.notices == ()


def test_a_model_without_gradient_says_so():
    result = carlini_wagner_l2(lambda x: torch.ones(len(x), 4), unseen(3))
    assert np.isnan(result.l2).all()
    assert "no gradient" in result.notices[0]


def test_the_model_is_restored_after_the_attack():
    model = nn.Sequential(network(), nn.Dropout(0.9))
    model.train()
    model[0][0].eval()
    model[0][0].weight.requires_grad_(False)
    seen: list[tuple[bool, bool]] = []
    hook = model.register_forward_hook(
        lambda module, *_: seen.append((module.training, any(p.requires_grad for p in module.parameters())))
    )
    carlini_wagner_l2(model, unseen(2), replace(QUICK, iterations=5))
    hook.remove()
    assert set(seen) == {(False, False)}
    assert model.training
    assert model[1].training
    assert not model[0][0].training
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True, True, True]
    assert all(p.grad is None for p in model.parameters())


def test_the_device_goes_by_the_engines_names():
    short = replace(QUICK, iterations=5)
    here = carlini_wagner_l2(trained(), unseen(2), short, device="cpu")
    np.testing.assert_array_equal(carlini_wagner_l2(trained(), unseen(2), short, device="auto").l2, here.l2)
    for device in ("abacus", "meta"):
        with pytest.raises(SmartError, match="device"):
            carlini_wagner_l2(trained(), unseen(2), short, device=device)


def test_invalid_images_and_settings_are_reported_in_one_sentence():
    with pytest.raises(SmartError, match="images must be numbers"):
        carlini_wagner_l2(trained(), "photo.png")
    with pytest.raises(AttackError, match=r"batch of 2\.5"):
        carlini_wagner_l2(trained(), unseen(2), QUICK, batch_size=2.5)
    for settings in ({"iterations": 2.5}, {"search_steps": 1.5}):
        with pytest.raises(AttackError, match="cannot run with"):
            carlini_wagner_l2(trained(), unseen(2), replace(QUICK, **settings))


def test_gradient_of_the_hinge_by_finite_differences():
    model = network().double().requires_grad_(False)

    def logits_of(x: Tensor) -> Tensor:
        return model(x.double())

    x = unseen(4).clone()
    y, c = logits_of(x).argmax(dim=1), torch.tensor([0.5, 1.0, 2.0, 4.0])
    _, changed, gradient = hinge_and_gradient(logits_of, x, y, c, 0.0)
    assert not changed.any()
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def hinge(step: float) -> Tensor:
        z = logits_of(x.double() + step * direction)
        return c * (z.gather(1, y[:, None])[:, 0] - z.scatter(1, y[:, None], -torch.inf).amax(dim=1))

    slope = (hinge(1e-6) - hinge(-1e-6)) / 2e-6
    torch.testing.assert_close((gradient.double() * direction).flatten(1).sum(dim=1), slope, rtol=1e-4, atol=1e-6)


def test_progress_rises_to_one_and_cancel_stops():
    reports: list[float] = []
    search = replace(QUICK, iterations=20)
    carlini_wagner_l2(trained(), unseen(6), search, batch_size=3, run=Run(lambda done, words: reports.append(done)))
    assert reports == sorted(reports)
    assert reports[-1] == 1.0
    token = threading.Event()
    calls = 0
    model = trained()

    def stopping(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 7:
            token.set()
        return model(x)

    with pytest.raises(Cancelled):
        carlini_wagner_l2(stopping, unseen(6), search, run=Run(cancel=token))
    assert calls == 7


def test_everything_stays_on_the_device():
    search = replace(QUICK, lr=0.1, iterations=12, search_steps=3, initial_c=1.0)
    weight = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
    here = carlini_wagner_l2(lambda x: x.flatten(1) @ weight, unseen(6), search, batch_size=4)
    assert here.success.any()
    with pretend_device() as device:
        there_weight = weight.to(device)
        there = carlini_wagner_l2(
            lambda x: x.flatten(1) @ there_weight, unseen(6), search, batch_size=4, device=device, keep_images=True
        )
    np.testing.assert_allclose(there.l2, here.l2, rtol=1e-3)


BAD = {
    "outside the bounds": (lambda x: x.flatten(1), torch.full((2, 1, 2, 2), 1.5), {}, "between 0 and 1"),
    "not a number": (lambda x: x.flatten(1), torch.full((2, 1, 2, 2), torch.nan), {}, "between 0 and 1"),
    "no images": (lambda x: x.flatten(1), torch.zeros(0, 1, 2, 2), {}, "at least 1"),
    "one logit": (lambda x: x.flatten(1)[:, :1], torch.zeros(2, 1, 2, 2), {}, "2 x 1"),
    "not a tensor": (lambda x: (x,), torch.zeros(2, 1, 2, 2), {}, "a tuple"),
    "infinite logits": (lambda x: x.flatten(1) / 0.0, torch.ones(2, 1, 2, 2), {}, "not finite"),
    "a tensor too few": (lambda x: x.flatten(1)[1:], torch.zeros(2, 1, 2, 2), {}, "gave 1 x 4"),
    "wrong shape": (nn.Linear(3, 2), torch.zeros(2, 1, 2, 2), {}, "fails on images of 1 x 2 x 2"),
    "no learning": (lambda x: x.flatten(1), torch.zeros(2, 1, 2, 2), {"lr": 0.0}, "learning rate of 0"),
    "no steps": (lambda x: x.flatten(1), torch.zeros(2, 1, 2, 2), {"search_steps": 0}, "0 search steps"),
    "no range": (lambda x: x.flatten(1), torch.zeros(2, 1, 2, 2), {"bounds": (1.0, 0.0)}, "bounds from 1 to 0"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_invalid_images_and_models_are_reported(case: str):
    model, images, settings, words = BAD[case]
    with pytest.raises(AttackError, match=words):
        carlini_wagner_l2(model, images, Search(**settings))


def test_a_model_that_fails_during_the_attack_is_reported():
    """The unchanged images went well; the last image left alone in the batch loses its axis, or memory runs out."""
    model = trained()

    def squeezing(x: Tensor) -> Tensor:
        return model(x).squeeze()

    search = replace(QUICK, iterations=40, search_steps=2)
    lone = carlini_wagner_l2(model, unseen(4), search, batch_size=2).queries
    assert len(set(lone.tolist())) > 1  # so the images end at different times
    with pytest.raises(AttackError, match="turn 1 image into 1 row of logits, at least 2 a row; it gave 10"):
        carlini_wagner_l2(squeezing, unseen(4), search, batch_size=2)
    calls = 0

    def failing(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise RuntimeError("out of memory")
        return model(x)

    with pytest.raises(AttackError, match=r"fails on images of 1 x 8 x 8 \(out of memory\)"):
        carlini_wagner_l2(failing, unseen(4), search)


def test_a_script_that_exits_when_imported_or_called_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "exits_at_once.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "exits_when_called.py").write_text("def factory():\n    raise SystemExit('usage: train')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AttackError, match=r"exits_at_once cannot be imported \(SystemExit: 3\)"):
        build_model("exits_at_once:factory")
    with pytest.raises(AttackError, match=r"failed when called without arguments \(SystemExit: usage: train\)"):
        build_model("exits_when_called:factory")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"out": "x.npz"}, "--out .*x.npz: is also the file of --images"),
        ({"out": "./sub/../w.pt"}, "is also the file of --weights"),
        ({"out": "b.npz", "bundle": "b.npz", "out_bundle": "c.npz"}, "--out .*b.npz: is also the file of --bundle"),
        ({"out": "d.npz", "bundle": "b.npz", "out_bundle": "d.npz"}, "--out-bundle .*d.npz: is also the file of --out"),
        ({"out": "d.npz", "json": "x.npz"}, "--json .*x.npz: is also the file of --images"),
    ],
)
def test_an_input_file_is_not_overwritten(names: dict[str, str], words: str, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    given = {
        "images": "x.npz",
        "weights": "w.pt",
        "out": None,
        "bundle": None,
        "out_bundle": None,
        "json": None,
    } | names
    options = Namespace(**{key: name and str(tmp_path / name) for key, name in given.items()})
    with pytest.raises(SmartError, match=words):
        check_targets(options)


def test_distances_are_written_completely_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "d.npz"
    save_distances(file, np.array([0.5, np.nan]), None)
    before = file.read_bytes()

    def full(handle, **arrays):
        handle.write(b"half of it")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space"):
        save_distances(file, np.array([0.1, 0.2]), None)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
