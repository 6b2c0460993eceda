"""Distances of a sample's images: those of the attack itself, kept chunk by chunk, taken up where they stopped."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from sample_logits import attacking, digits
from sample_logits.networks import fused
from sample_logits.training import to_pixels
from smart_core.attacks import Search, carlini_wagner_l2
from smart_core.errors import Cancelled
from smart_core.progress import Run

QUICK = Search(lr=0.1, iterations=20, search_steps=3, initial_c=1.0)
IMAGES = digits.load().test_images[:5]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMART_SAMPLES_CACHE", str(tmp_path))
    monkeypatch.setattr(attacking, "CHUNK", 2)
    return tmp_path


def attacked(search: Search = QUICK, run: Run | None = None) -> np.ndarray:
    return attacking.distances("tiny", digits.trained(), IMAGES, search, lambda words: None, run)


def test_distances_are_the_attacks_own_and_only_what_is_missing_is_done(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[float] = []
    found = attacked(run=Run(lambda share, words: reports.append(share)))
    assert reports[-1] == 1.0
    direct = carlini_wagner_l2(fused(digits.trained()), to_pixels(torch.from_numpy(IMAGES)), QUICK).l2
    assert np.isfinite(direct).sum() >= 3
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(direct))
    np.testing.assert_allclose(found, direct, rtol=0.1)  # rounding differs with the batch and Adam makes more of it

    (folder,) = cache.iterdir()
    kept = sorted(folder.iterdir())
    assert [path.name for path in kept] == ["000.npy", "001.npy"]
    kept[1].unlink()
    asked: list[int] = []

    def remember(chunks, paths, *_) -> None:  # type: ignore[no-untyped-def]
        asked.extend(len(chunk) for chunk in chunks)
        np.save(paths[0], np.full(len(chunks[0]), 7, np.float32))

    monkeypatch.setattr(attacking, "_attack", remember)
    again = attacked()
    assert asked == [2]
    np.testing.assert_array_equal(again, [*found[:3], 7, 7])
    attacked()
    assert asked == [2]


def test_other_weights_or_settings_start_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(chunks, paths, *_) -> None:  # type: ignore[no-untyped-def]
        for chunk, path in zip(chunks, paths, strict=True):
            np.save(path, np.zeros(len(chunk), np.float32))

    monkeypatch.setattr(attacking, "_attack", fill)
    attacked()
    attacked(Search())
    other = digits.trained()
    with torch.no_grad():
        other.head.bias += 1e-3
    attacking.distances("tiny", other, IMAGES, QUICK, lambda words: None)
    attacking.distances("tiny", digits.trained(), IMAGES[::-1], QUICK, lambda words: None)
    assert len(list(cache.iterdir())) == 4


def test_attack_can_be_cancelled(cache: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        attacked(run=Run(cancel=cancel))


def test_stopped_attack_does_not_wait_for_the_chunks_under_way(cache: Path) -> None:
    """One image, then chunks that take minutes each: the interrupt comes when the one is done."""
    stopped: list[float] = []

    def press(share: float, words: str) -> None:
        if share > 0:
            stopped.append(time.monotonic())
            raise KeyboardInterrupt

    chunks = [IMAGES[:1], *[np.repeat(IMAGES, 4000, axis=0)] * 3]
    paths = [cache / f"{number}.npy" for number in range(len(chunks))]
    with pytest.raises(KeyboardInterrupt):
        attacking._attack(chunks, paths, digits.trained(), Search(iterations=200, search_steps=2), Run(press))
    assert time.monotonic() - stopped[0] < 60
    assert sorted(cache.iterdir()) == paths[:1]
