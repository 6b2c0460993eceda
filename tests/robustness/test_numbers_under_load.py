"""The same data, method and seed give the same bits, alone or beside other fits in threads and processes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from smart_core.calibrators import get, methods
from smart_core.data.logitset import Head
from smart_core.data.simulate import simulate
from smart_core.device import WORTH_SHARING, one_thread, threads_for
from tests.calibrators.fits import ALL
from tests.conftest import COUNTED, ROOT

ROWS, CLASSES, WIDTH = 300, 5, 8
FEW = {"epochs": 12, "max_iter": 12}
"""Enough steps for an error in one to show in the bits of the last."""

BESIDE = ("matrix", "smart", "isotonic", "pts")
"""What is fitted over and over meanwhile, each in a thread of its own."""

FEW_METHODS = ("ts", "smart", "pts", "isotonic", "spline")
"""One of each kind of fit, for the short form."""

LARGE = (WORTH_SHARING // 100 + 100, 100)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def bits(method: str, seed: int = 0, shape: tuple[int, int] = (ROWS, CLASSES)) -> str:
    """A digest of what the fitted method predicts, and of its parameters by way of that."""
    rows, classes = shape
    generator = np.random.default_rng(seed)
    drawn = simulate(rows, classes, seed=seed)
    features = generator.standard_normal((rows, WIDTH)).astype(np.float32)
    head = Head(generator.standard_normal((classes, WIDTH)).astype(np.float32), np.zeros(classes, np.float32))
    # one method reads its logits from the features and the head, so they must be theirs
    logits = features @ head.weight.T if methods()[method].id == "fc" else drawn.logits
    known = {item.name for item in methods()[method].settings()}
    settings = {name: value for name, value in {**FEW, "seed": seed, "device": "cpu"}.items() if name in known}
    fitted = get(method, **settings).fit(logits, drawn.labels, features=features, head=head)
    found = np.ascontiguousarray(fitted.predict_proba(logits, features=features))
    return hashlib.sha256(found.tobytes()).hexdigest()


def in_a_new_thread(function, *arguments):  # type: ignore[no-untyped-def]
    """What the function gives in a thread that has never used PyTorch before."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(function(*arguments)))
    thread.start()
    thread.join()
    return found[0]


class Crowd:
    """Fits that go on in threads until told to stop."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.fits = 0
        self.threads = [threading.Thread(target=self._fit, args=(method,), daemon=True) for method in BESIDE]

    def _fit(self, method: str) -> None:
        seed = 100
        while not self.stop.is_set():
            bits(method, seed)
            self.fits += 1
            seed += 1

    def __enter__(self) -> Crowd:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()


@pytest.mark.long
def test_every_method_gives_the_same_bits_beside_other_fits(
    threads: int, record_property: Callable[[str, Any], None]
) -> None:
    """Alone; beside four threads of fits; in new threads there; and in another process that works at the same time."""
    alone = {method: bits(method) for method in ALL}
    assert len(set(alone.values())) == len(alone), "two methods that give the same bits tell nothing of either"
    code = (
        f"import torch; torch.set_num_threads({threads})\n"
        "from tests.robustness.test_numbers_under_load import ALL, bits\n"
        "for method in ALL: print(method, bits(method))\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        with Crowd() as crowd:
            beside = {method: bits(method) for method in ALL}
            anew = {method: in_a_new_thread(bits, method) for method in ALL}
            told, _ = other.communicate(timeout=200)
        elsewhere = dict(line.split() for line in told.splitlines())
    finally:
        other.kill()
    record_property(COUNTED, ["numbers: fits beside others, held against those made alone", 3 * len(alone)])
    assert crowd.fits > 0
    assert beside == alone
    assert anew == alone
    assert elsewhere == alone


def test_a_few_methods_give_the_same_bits_beside_other_fits(record_property: Callable[[str, Any], None]) -> None:
    alone = {method: bits(method) for method in FEW_METHODS}
    with Crowd() as crowd:
        beside = {method: bits(method) for method in FEW_METHODS}
        anew = {method: in_a_new_thread(bits, method) for method in FEW_METHODS}
    record_property(COUNTED, ["numbers: fits beside others, held against those made alone", 2 * len(alone)])
    assert crowd.fits > 0
    assert beside == alone
    assert anew == alone


def test_a_thread_that_starts_beside_single_threaded_work_gets_its_threads(two_threads: None) -> None:
    def number(elements: int) -> int:
        with threads_for(elements):
            return torch.get_num_threads()

    with one_thread():
        assert torch.get_num_threads() == 1
        assert in_a_new_thread(number, WORTH_SHARING) == 2
        assert in_a_new_thread(number, WORTH_SHARING - 1) == 1
        assert number(WORTH_SHARING) == 1, "inside, one thread means one"
    assert torch.get_num_threads() == 2
    assert in_a_new_thread(torch.get_num_threads) == 2


def test_the_number_of_threads_is_restored_in_any_order_of_entry_and_exit(two_threads: None) -> None:
    rounds = np.random.default_rng(0).uniform(0, 0.002, (4, 30))

    def come_and_go(pauses: np.ndarray) -> set[int]:
        seen = set()
        for pause in pauses:
            with one_thread():
                threading.Event().wait(pause)
            with threads_for(WORTH_SHARING):
                seen.add(torch.get_num_threads())
        return seen

    found: list[set[int]] = []
    workers = [threading.Thread(target=lambda row=row: found.append(come_and_go(row))) for row in rounds]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [{2}] * 4
    assert in_a_new_thread(torch.get_num_threads) == 2


def test_a_large_fit_does_not_depend_on_single_threaded_work_beside_it(two_threads: None) -> None:
    """A sum over many rows differs in its last bits between one thread and two."""
    alone = in_a_new_thread(bits, "matrix", 0, LARGE)
    with one_thread():
        beside = in_a_new_thread(bits, "matrix", 0, LARGE)
    assert beside == alone
