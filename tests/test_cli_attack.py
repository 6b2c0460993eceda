"""The command `attack` with a user's own model, weights and images."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import smart_core as sc
from smart_core.attacks import Search, carlini_wagner_l2
from smart_core.attacks.inputs import _read_state, load_weights
from smart_core.cli import main
from smart_core.data import sandbox
from smart_core.errors import AttackError
from tests.conftest import ROOT
from tests.data.files import Usage
from tests.data.test_bombs import GROWTH, PEAK, SECONDS, deep_header, lying_pt, negated, old_torch, repeated_rows
from tests.digits_model import digits, network, trained, unseen
from tests.timing import slowdown

COUNT = 6
QUICK = ["--iterations", "40", "--lr", "0.1", "--search-steps", "4", "--device", "cpu"]
SEARCH = Search(iterations=40, lr=0.1, search_steps=4)


def engine(images: np.ndarray) -> np.ndarray:
    """Distances without the command."""
    model = network()
    model.load_state_dict(trained().state_dict())
    return carlini_wagner_l2(model.to(memory_format=torch.channels_last), images, SEARCH).l2


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    found = engine(unseen(COUNT).numpy())
    assert np.isfinite(found).sum() >= 4
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user works: a module of their own, weights in two forms, images, and a bundle of logits."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    state = trained().state_dict()
    save_file(state, "w.safetensors")
    torch.save({"epoch": 3, "state_dict": {f"module.{key}": tensor for key, tensor in state.items()}}, "w.pt")
    np.savez("x.npz", images=unseen(COUNT).numpy())
    images, labels = digits()
    with torch.no_grad():
        logits = trained()(images).numpy()
    side = {"test_logits": logits[1000:1020], "test_labels": labels[1000:1020].numpy()}
    np.savez("bundle.npz", val_logits=logits[:30], val_labels=labels[:30].numpy(), **side)
    np.savez("whole.npz", logits=logits[:30], labels=labels[:30].numpy())
    Path("mine.py").write_text("from tests.digits_model import network\nnumber = 3\ndef broken():\n    1 / 0\n")
    return tmp_path


def attack(*more: str, model: str = "tests.digits_model:network", weights: str = "w.safetensors") -> int:
    return main(["attack", "--model", model, "--weights", weights, *QUICK, *more])


@pytest.mark.parametrize("weights", ["w.safetensors", "w.pt"])
def test_distances_of_the_engine(folder: Path, expected: np.ndarray, weights: str, capsys):
    assert attack("--images", "x.npz", "--out", "d.npz", "--json", "s.json", weights=weights) == 0
    with np.load("d.npz") as written:
        assert written.files == ["cw_l2"]
        np.testing.assert_array_equal(written["cw_l2"], expected)
    summary = json.loads(Path("s.json").read_text())
    assert summary["images"] == COUNT
    assert summary["failures"] == np.isnan(expected).sum()
    assert summary["median"] == pytest.approx(np.nanmedian(expected))
    assert f"{COUNT} images attacked" in capsys.readouterr().out


def test_uint8_images_are_scaled_with_a_notice(folder: Path, capsys):
    pixels = (unseen(COUNT).numpy() * 255).round().astype(np.uint8)
    np.savez("x.npz", images=pixels)
    assert attack("--images", "x.npz", "--out", "d.npz") == 0
    assert "divided by 255" in capsys.readouterr().out
    with np.load("d.npz") as written:
        np.testing.assert_array_equal(written["cw_l2"], engine(pixels.astype(np.float32) / 255))


def test_distances_go_to_their_rows_of_a_bundle(folder: Path, expected: np.ndarray, capsys):
    rows = np.array([4, 0, 3, 1, 2, 5])
    np.savez("x.npz", images=unseen(COUNT).numpy()[rows], rows=rows)
    assert attack("--images", "x.npz", "--bundle", "bundle.npz", "--out-bundle", "b2.npz") == 0
    assert "differ" not in capsys.readouterr().out
    before, after = sc.load("bundle.npz"), sc.load("b2.npz")
    np.testing.assert_array_equal(after.test.logits, before.test.logits)
    assert after.validation.cw_l2 is None
    assert np.isnan(after.test.cw_l2[COUNT:]).all()
    np.testing.assert_array_equal(np.isnan(after.test.cw_l2[:COUNT]), np.isnan(expected))
    np.testing.assert_allclose(after.test.cw_l2[:COUNT], expected, rtol=0.2)
    # a second attack, on other rows, leaves the first ones alone
    np.savez("x.npz", images=unseen(8).numpy()[6:], rows=[6, 7])
    assert attack("--images", "x.npz", "--bundle", "b2.npz", "--out-bundle", "b3.safetensors") == 0
    last = sc.load("b3.safetensors").test.cw_l2
    np.testing.assert_array_equal(last[:COUNT], after.test.cw_l2[:COUNT])
    assert np.isfinite(last[6:8]).any()


def test_images_that_are_not_the_bundles_are_noticed(folder: Path, capsys):
    np.savez("x.npz", images=unseen(20).numpy()[::-1])
    command = ["--images", "x.npz", "--bundle", "bundle.npz", "--out-bundle", "b2.npz", "--iterations", "1"]
    assert attack(*command) == 0
    assert "predictions differ" in capsys.readouterr().out


IMAGES = {
    "white": {"images": np.full((2, 1, 8, 8), 2.0)},
    "flat": {"images": np.zeros((2, 64))},
    "integers": {"images": np.zeros((2, 1, 8, 8), dtype=np.int64)},
    "colour": {"images": np.zeros((2, 3, 8, 8))},
    "unnamed": {"pictures": np.zeros((2, 1, 8, 8))},
    "rows": {"images": np.zeros((2, 1, 8, 8)), "rows": [1, 1]},
    "few": {"images": np.zeros((2, 1, 8, 8))},
}
OUT = ["--out", "d.npz"]
BUNDLE = ["--bundle", "bundle.npz", "--out-bundle", "b2.npz"]
BAD = {
    "no output": ([], {}, "Give --out"),
    "half a bundle": (["--bundle", "bundle.npz", *OUT], {}, "belong together"),
    "no such folder": (["--out", "absent/d.npz"], {}, "no such folder"),
    "not a bundle's name": (["--bundle", "bundle.npz", "--out-bundle", "b2.pt"], {}, ".npz or .safetensors"),
    "bundle without a split": (["--bundle", "whole.npz", "--out-bundle", "b2.npz"], {}, "no split"),
    "absent images": (["--images", "absent.npz", *OUT], {}, "absent.npz"),
    "images too bright": (["--images", "white.npz", *OUT], {}, "go from 2 to 2"),
    "images not of pixels": (["--images", "flat.npz", *OUT], {}, "2 x 64"),
    "images of integers": (["--images", "integers.npz", *OUT], {}, "int64"),
    "images of another model": (["--images", "colour.npz", *OUT], {}, "fails on images of 3 x 8 x 8"),
    "no array of images": (["--images", "unnamed.npz", *OUT], {}, "no array 'images'"),
    "rows twice": (["--images", "rows.npz", *BUNDLE], {}, "different numbers from 0 to 19"),
    "too few images": (["--images", "few.npz", *BUNDLE], {}, "20 rows and there are 2 images"),
    "no factory": (OUT, {"model": "tests.digits_model"}, "package.module:factory"),
    "no module": (OUT, {"model": "absent_module:f"}, "cannot be imported"),
    "no such name": (OUT, {"model": "mine:absent"}, "no function or class called absent"),
    "not callable": (OUT, {"model": "mine:number"}, "no function or class called number"),
    "broken factory": (OUT, {"model": "mine:broken"}, "division by zero"),
    "not a module": (OUT, {"model": "builtins:list"}, "gives a list"),
    "absent weights": (OUT, {"weights": "absent.pt"}, "no such file"),
    "not weights": (OUT, {"weights": "mine.py"}, "neither safetensors nor a state dict"),
    "weights of another model": (OUT, {"weights": "other.safetensors"}, "has no tensor 0.weight and 5 more"),
    "weights of another shape": (OUT, {"weights": "wide.pt"}, "has another shape for 5.weight and 1 more"),
    "no such device": ([*OUT, "--device", "abacus"], {}, "abacus"),
    "no learning": ([*OUT, "--lr", "0"], {}, "learning rate of 0"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_sentence_and_exit_2(case: str, folder: Path, capsys):
    for name, arrays in IMAGES.items():
        np.savez(f"{name}.npz", **arrays)
    save_file({"weight": torch.zeros(2)}, "other.safetensors")
    torch.save({**trained().state_dict(), "5.weight": torch.zeros(11, 512), "5.bias": torch.zeros(11)}, "wide.pt")
    before = set(folder.iterdir())
    more, named, words = BAD[case]
    images = [] if "--images" in more else ["--images", "x.npz"]
    assert attack(*images, *more, **named) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.rstrip().endswith(".")
    assert words in captured.err
    assert {path for path in set(folder.iterdir()) - before if path.name != "__pycache__"} == set()


def test_a_hostile_state_dict_runs_nothing(folder: Path, capsys):
    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (Path("touched"),))

    torch.save({"weight": Hostile()}, "hostile.pt")
    assert attack("--images", "x.npz", *OUT, weights="hostile.pt") == 2
    assert "neither safetensors nor a state dict" in capsys.readouterr().err
    assert not Path("touched").exists()


def test_weights_are_those_that_pytorch_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of every type, shape and order in memory, by each writer; PyTorch's own readers are not called."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)).bfloat16()
    model.register_buffer("halves", torch.rand(2, 3).half().T)
    model.register_buffer("counts", torch.arange(6).reshape(2, 3)[:, ::2])
    model.register_buffer("small", torch.tensor([True, False]))
    model.register_buffer("one", torch.tensor(-7, dtype=torch.int8))
    model.register_buffer("none", torch.zeros(0, 4, dtype=torch.float64))
    state = model.state_dict()
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, tmp_path / "w.safetensors")
    torch.save(state, tmp_path / "w.pt")
    torch.save({"model": state, "epoch": 3, "lr": [0.1]}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for reader in ("torch.load", "safetensors.torch.load_file"):
        monkeypatch.setattr(reader, lambda *_, **__: pytest.fail("not in the sandbox"))
    for name in ("w.safetensors", "w.pt", "old.pt"):
        found = _read_state(tmp_path / name)
        assert found.keys() == state.keys()
        for key, tensor in state.items():
            assert (found[key].dtype, found[key].shape) == (tensor.dtype, tensor.shape), (name, key)
            assert found[key].equal(tensor), (name, key)


@pytest.mark.skipif(not sandbox.available(), reason="this platform cannot fork")
@pytest.mark.parametrize("make", [repeated_rows, negated, old_torch, lying_pt, deep_header])
def test_hostile_weights_stay_within_memory_and_time(make: Callable[[], bytes], tmp_path: Path):
    path = tmp_path / "w.pt"
    path.write_bytes(make())
    with Usage() as usage, pytest.raises(AttackError) as caught:
        load_weights(network(), path)
    assert str(caught.value).startswith("w.pt ")
    assert "\n" not in str(caught.value)
    assert usage.peak < max(PEAK, 4 * path.stat().st_size)
    assert usage.seconds < SECONDS * slowdown()
    assert usage.growth < GROWTH


def test_help_warns_and_imports_nothing_heavy():
    code = (
        "import sys\nfrom smart_core.cli import main\n"
        "try:\n    main(['attack', '--help'])\nexcept SystemExit as stop:\n    print(stop.code)\n"
        "print([name for name in ('torch', 'numpy', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    shown = " ".join(done.stdout.split())
    assert "its code is run: use this only for models of your own" in shown
    assert shown.endswith("0 []")
