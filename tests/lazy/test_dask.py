"""Dask: the same bits in other processes, joined by an address, also when a worker is killed meanwhile."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import smart_core as sc
from benchmarks.scale import kill
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


@pytest.mark.long
def test_twenty_killed_workers_lose_nothing(tmp_path: Path):
    assert kill(write(tmp_path / "resnet"), 20)


@pytest.fixture
def apart() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a scheduler, its process, and two workers that have another address."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.2", 0))
        except OSError:
            pytest.skip("this machine has one loopback address")
        port = probe.getsockname()[1]
    address, run = f"tcp://127.0.0.1:{port}", [sys.executable, "-m"]
    asked = [*run, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    place = [address, "--host", "127.0.0.2", "--nworkers", "2", "--nthreads", "1", "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        subprocess.Popen(asked, **quiet) as head,
        subprocess.Popen([*run, "distributed.cli.dask_worker", *place], **quiet) as hands,
    ):
        try:
            with distributed.Client(address, timeout=60, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=60)
            yield address, head
        finally:
            hands.terminate()
            head.terminate()


def test_machines_apart_give_the_same_bits_and_a_lost_scheduler_one_sentence(
    apart: tuple[str, subprocess.Popen[bytes]], data: sc.LogitSet, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("smart_core.data.lazy.rows.RANGE_LOGITS", 7 * 256)
    address, head = apart
    fits = [sc.calibrators.get(id).fit_part(data.validation) for id in ("ts", "isotonic")]
    here = evaluate_all(fits, data.test)
    with scheduler(address) as workers:
        assert workers.count == 2
        assert all("127.0.0.2" in each for each in distributed.default_client().scheduler_info()["workers"])
        there = evaluate_all(fits, data.test)
        for one, other in zip(there, here, strict=True):
            for name in ("confidence", "nll", "brier", "margin", "correct"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        found = in_order(process_of, range(1000), Run(), "asking")
        next(found)
        head.kill()
        with pytest.raises(sc.SmartError, match="the connection to the Dask scheduler was lost"):
            list(found)


def test_a_worker_that_is_gone_for_good_is_replaced(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executors, "REVIVE_EVERY", 0.5)
    with scheduler("local", 1, "2GB"):
        cluster = distributed.default_client().cluster
        nanny = cluster.workers.pop(0)
        cluster.sync(nanny.close)
        assert next(in_order(process_of, [3], Run(), "asking"))[0] == 3


def test_no_scheduler_at_an_address_is_one_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(executors, "JOIN_SECONDS", 1)
    with pytest.raises(sc.SmartError, match="no Dask scheduler answers"), scheduler("tcp://127.0.0.1:9"):
        pass
