"""Dask: the same bits in other processes, joined by an address, also when a worker is killed meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import smart_core as sc
from smart_core.experiments import executors
from smart_core.experiments.executors import LOST_WORKERS, Workers, in_order, scheduler
from smart_core.experiments.streaming import evaluate_all
from smart_core.progress import Run
from tests.lazy.shards import write

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Workers]:
    with scheduler("local", 2, "2GB") as workers:
        yield workers


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> sc.LogitSet:
    return sc.open(write(tmp_path_factory.mktemp("shards") / "resnet"))


def process_of(piece: int) -> tuple[int, int]:
    time.sleep(0.05)
    return piece, os.getpid()


def moment_of(piece: int) -> int:
    return time.time_ns()


def test_another_process_evaluates_the_same_bits(cluster: Workers, data: sc.LogitSet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("smart_core.data.lazy.rows.RANGE_LOGITS", 7 * 256)
    monkeypatch.setattr("smart_core.device.CHUNK_ELEMENTS", 7 * 256)
    fits = [sc.calibrators.get(id).fit_part(data.validation) for id in ("vanilla", "ts", "smart", "isotonic")]
    there = evaluate_all(fits, data.test)
    with scheduler("threads", 2):
        here = evaluate_all(fits, data.test)
    for one, other in zip(there, here, strict=True):
        for name in ("confidence", "nll", "brier", "margin", "correct"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        np.testing.assert_array_equal(one.cells.sum_p, other.cells.sum_p)


def test_a_cluster_that_runs_is_joined_by_its_address(cluster: Workers):
    address = distributed.default_client().scheduler.address
    assert address.startswith("tcp://")
    with scheduler(address) as joined:
        found = list(in_order(process_of, range(8), Run(), "asking"))
    assert [piece for piece, _ in found] == list(range(8))
    assert os.getpid() not in {process for _, process in found}
    assert joined.count == 2


def test_no_result_is_taken_from_an_earlier_pass(cluster: Workers):
    two = zip(*(in_order(moment_of, range(3), Run(), "asking") for _ in range(2)), strict=True)
    assert all(one != other for one, other in two)


def test_a_killed_worker_loses_nothing(cluster: Workers):
    client = distributed.default_client()
    kills = 2

    def kill() -> None:
        for _ in range(kills):
            time.sleep(0.3)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = [piece for piece, _ in in_order(process_of, range(60), Run(), "counting")]
    killer.join()
    assert found == list(range(60))
    assert LOST_WORKERS > 20


def test_no_scheduler_at_an_address_is_one_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executors, "JOIN_SECONDS", 1)
    with pytest.raises(sc.SmartError, match="no Dask scheduler answers"), scheduler("tcp://127.0.0.1:9"):
        pass
