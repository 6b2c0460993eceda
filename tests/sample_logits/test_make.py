"""The command that makes a sample, from end to end on a few random images."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sample_logits
import smart_core as sc
from sample_logits import attacking, bundles, fashion, fashion_long_tail, make
from sample_logits.fetch import FetchError
from sample_logits.images import ImageSet
from sample_logits.losses import LOSSES
from sample_logits.training import Recipe


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything the command reads or writes, moved to a place of the test's own."""
    made = tmp_path / "bundles"
    made.mkdir()
    monkeypatch.setattr(sample_logits, "FOLDER", made)
    monkeypatch.setattr(bundles, "CORRUPTED_IMAGES", 4)
    monkeypatch.setattr(sys, "argv", ["make", "fashion"])
    monkeypatch.setenv("SMART_SAMPLES_CACHE", str(tmp_path / "cache"))
    labels = np.repeat(np.arange(10, dtype=np.uint8), 3)
    train, test = np.random.default_rng(0).integers(0, 256, (2, 30, 28, 28, 1), dtype=np.uint8)
    monkeypatch.setattr(fashion, "load", lambda: ImageSet(train, labels, test, labels))
    small = replace(fashion.SAMPLE, held_out_per_class=1, recipe=Recipe(2, batch_size=10), attacked=7)
    monkeypatch.setattr(fashion, "SAMPLE", small)
    monkeypatch.setattr(attacking, "distances", lambda name, model, images, *_: np.ones(len(images), np.float32))
    return made


def test_second_run_trains_nothing_and_writes_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make.main()
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert capsys.readouterr().out.count("epoch 2/2") == len(LOSSES)
    make.main()
    assert "epoch" not in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first
    assert len(first) == len(LOSSES) + 1
    for name in first:
        data = sc.load(folder / name)
        assert len(data.validation.labels) == 10
        attacked = data.test.cw_l2
        assert (attacked is None) == (name != "fashion.npz")
        assert (data.test.features is None) == (name not in ("fashion.npz", "fashion_corrupted.npz"))
        if attacked is not None:
            assert np.flatnonzero(np.isfinite(attacked)).tolist() == list(range(7))
    assert "epoch 1/2" in (folder.parent / "cache" / "fashion.log").read_text()


def test_losses_lead_to_different_models(folder: Path) -> None:
    made = dict(fashion.bundles(lambda words: None))
    logits = [made[name]["test_logits"] for name in made if name != "fashion_corrupted"]
    assert len(logits) == len(LOSSES)
    assert all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(logits) for b in logits[:i])


def test_long_tail_thins_training_and_validation_and_not_test(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = (3, 3, *[2] * 8)
    monkeypatch.setattr(fashion_long_tail, "COUNTS", counts)
    small = replace(fashion_long_tail.SAMPLE, held_out_per_class=(2, *[1] * 9), recipe=Recipe(2, batch_size=10))
    monkeypatch.setattr(fashion_long_tail, "SAMPLE", small)
    monkeypatch.setattr(sys, "argv", ["make", "fashion_long_tail"])
    make.main()
    data = sc.load(folder / "fashion_long_tail.npz")
    assert np.bincount(data.validation.labels).tolist() == [2, *[1] * 9]
    assert np.bincount(data.test.labels).tolist() == [3] * 10


def test_missing_package_ends_in_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> ImageSet:
        raise FetchError("the program apt-get is not installed.")

    monkeypatch.setattr(fashion, "load", missing)
    with pytest.raises(SystemExit, match="fashion: the program apt-get is not installed"):
        make.main()
    assert not list(folder.iterdir())


def test_interrupt_key_ends_in_one_sentence_and_the_command_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pressed(*_: object) -> np.ndarray:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(attacking, "distances", pressed)
        with pytest.raises(SystemExit) as stop:
            make.main()
    assert stop.value.code == 130
    assert capsys.readouterr().out.endswith("stopped; the same command goes on from here\n")
    assert not (folder / "fashion.npz").exists()
    make.main()
    assert "epoch" not in capsys.readouterr().out
    assert (folder / "fashion.npz").exists()


def test_checkpoint_of_another_recipe_ends_in_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make.main()
    monkeypatch.setattr(fashion, "SAMPLE", replace(fashion.SAMPLE, recipe=Recipe(3, batch_size=10)))
    with pytest.raises(SystemExit, match=r"fashion: .*fashion_brier\.ckpt is of another recipe: delete it"):
        make.main()


def test_command_knows_its_samples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["make", "imagenet"])
    with pytest.raises(SystemExit):
        make.main()
    assert "cifar10" in capsys.readouterr().err
