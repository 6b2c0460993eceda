"""Files are read in a process of their own: what it returns, and what becomes of one that meets a limit or dies."""

from __future__ import annotations

import gc
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from smart_core.data import Document, load, sandbox
from smart_core.errors import LogitFileError
from tests.data.files import example, npz

Z, Y = example()
PLAIN = npz(logits=Z, labels=Y)

pytestmark = pytest.mark.skipif(not sandbox.available(), reason="this platform cannot fork")


def children() -> set[int]:
    """The processes that the fork server has forked."""
    server = sandbox._fork_server().process.pid
    told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server)], capture_output=True, text=True, check=False)
    return {int(line) for line in told.stdout.split()}


def gone(pids: set[int]) -> bool:
    """Whether all of them end within ten seconds."""
    deadline = time.monotonic() + 10
    while pids & children() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not pids & children()


def test_the_same_set_as_in_this_process() -> None:
    apart, here = load(PLAIN, name="a.npz"), load(PLAIN, name="a.npz", isolated=False)
    assert apart.content_hash == here.content_hash
    assert (apart.name, apart.notices, apart.class_names) == (here.name, here.notices, here.class_names)
    assert not apart.test.logits.flags.writeable


def test_arrays_outlive_the_document() -> None:
    data = load(PLAIN, name="a.npz")
    gc.collect()
    np.testing.assert_array_equal(np.sort(np.concatenate([data.validation.labels, data.test.labels])), np.sort(Y))


def test_its_process_ends_with_the_document() -> None:
    before = children()
    document = Document.open(PLAIN, name="a.npz")
    mine = children() - before
    assert len(mine) == 1
    del document
    gc.collect()
    assert gone(mine)


def test_a_killed_reader_gets_a_sentence_and_the_next_call_parses_again() -> None:
    before = children()
    document = Document.open(PLAIN, name="a.npz")
    for pid in children() - before:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(LogitFileError, match=r"^a\.npz: could not be read: its reader stopped; save"):
        document.describe()
    assert len(document.describe()) == 2


def test_a_killed_fork_server_is_started_again() -> None:
    load(PLAIN, name="a.npz")
    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    for waits in (True, False) * 3:
        server = sandbox._fork_server().process
        server.kill()
        if waits:
            server.wait()
            assert load(PLAIN, name="a.npz").classes == Z.shape[1]
        else:
            with suppress(LogitFileError):  # it may seem alive when it gets the file
                load(PLAIN, name="a.npz")
    load(PLAIN, name="a.npz")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("which", ["the fork server", "a reader"])
def test_a_stopped_process_is_not_waited_for(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, server = children(), sandbox._fork_server().process.pid
    with monkeypatch.context() as short:
        short.setattr(sandbox, "CPU_SECONDS", 0.1)
        short.setattr(sandbox, "GRACE_SECONDS", 1.0)
        document = Document.open(PLAIN, name="a.npz")
        (mine,) = children() - before
        os.kill(mine if which == "a reader" else server, signal.SIGSTOP)
        with pytest.raises(LogitFileError, match=r"^a\.npz: could not be read: it takes longer than"):
            document.describe() if which == "a reader" else load(PLAIN, name="a.npz")
    assert load(PLAIN, name="a.npz").classes == Z.shape[1]
    assert sandbox._fork_server().process.pid != server
    assert mine not in children()


ANSWER = {"value": {}, "arrays": [], "usage": [0, 0]}


@pytest.mark.parametrize(
    "answer",
    [
        *("[" * 100_000, "{{", "1", "[1]", "{}", '{"ended": 1}', '"' + "x" * (17 << 20) + '"'),
        *(
            json.dumps(ANSWER | {"arrays": [described]})
            for described in (["<f4", [-1, 4]], ["q9", [1]], ["O", [1]], ["<f4", [1 << 40]], ["<U0", [1 << 60]], [], 5)
        ),
    ],
    ids=lambda answer: answer[:40],
)
def test_whatever_a_reader_answers_is_one_sentence(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a hostile file had taken over its process."""
    mine, its = socket.socketpair()
    monkeypatch.setattr(socket, "socketpair", lambda: (mine, its))
    monkeypatch.setattr(sandbox, "_fork", lambda connection: None)
    other = its.dup()
    content = answer.encode()
    sender = threading.Thread(target=send, args=(other, sandbox._HEADER.pack(len(content), 0) + content))
    sender.start()
    with pytest.raises(sandbox.SandboxError, match="its reader stopped"):
        sandbox.Sandbox([]).call("open")
    mine.close()
    sender.join()
    other.close()


def send(connection: socket.socket, content: bytes) -> None:
    with suppress(OSError):
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (
            {"CPU_SECONDS": "0.05", "BYTES_PER_CPU_SECOND": "1e12", "WALL_PER_CPU": "1e3"},
            "it takes more computing time than a file of its size may",
        ),
        ({"CPU_SECONDS": "60", "WALL_PER_CPU": "0.001"}, "it takes longer than a file"),
        ({"MEMORY_BYTES": "30000000"}, "does not fit in the memory that a file of its size may take"),
    ],
    ids=["computing time", "time", "memory"],
)
def test_past_a_limit_it_is_ended_with_one_sentence(tmp_path: Path, limits: dict[str, str], said: str) -> None:
    """In a process of its own, whose limits are lower; the file takes seconds and a gigabyte to read."""
    (tmp_path / "a.npz").write_bytes(
        npz(logits=np.zeros((3_000_000, 10), np.int8), labels=np.zeros(3_000_000, np.int8))
    )
    lower = "".join(f"sandbox.{name} = {value}\n" for name, value in limits.items())
    # the fork server is a new interpreter: it gets the limits by the module that starts it
    script = f"""
import sys
from smart_core.data import sandbox
{lower}
if len(sys.argv) > 1:
    import socket
    sandbox._serve(socket.socket(fileno=int(sys.argv[1])))
else:
    import smart_core as sc
    sandbox.COMMAND = [sys.executable, __file__]
    try:
        sc.load("a.npz")
    except sc.LogitFileError as error:
        print(error)
"""
    (tmp_path / "lower.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    told = subprocess.run(
        [sys.executable, "lower.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert said in told.stdout
    assert told.stdout.count("\n") == 1


def test_a_document_that_was_not_used_for_long_parses_again(tmp_path: Path) -> None:
    """As on the page Start, where a user may take minutes to choose how a file is read."""
    script = """
import sys
from smart_core.data import sandbox
sandbox.IDLE_SECONDS = 1.0
if len(sys.argv) > 1:
    import socket
    sandbox._serve(socket.socket(fileno=int(sys.argv[1])))
else:
    import time
    from smart_core.data import Document
    sandbox.COMMAND = [sys.executable, __file__]
    document = Document.open("a.npz")
    time.sleep(1.2)
    print(document.load().classes)
"""
    (tmp_path / "a.npz").write_bytes(PLAIN)
    (tmp_path / "idle.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    told = subprocess.run(
        [sys.executable, "idle.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout == f"{Z.shape[1]}\n"


def test_it_can_open_nothing_while_it_reads(tmp_path: Path) -> None:
    from smart_core.data.sandbox import _no_new_descriptors

    with _no_new_descriptors(), pytest.raises(OSError, match="Too many open files"):
        (tmp_path / "new").write_text("")
    assert not (tmp_path / "new").exists()


def test_many_threads_read_at_once() -> None:
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(load(PLAIN, name="a.npz").content_hash)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [load(PLAIN, name="a.npz", isolated=False).content_hash] * 8


HOW = {
    signal.SIGKILL: "its reader stopped",
    signal.SIGSEGV: "its reader crashed, as on a damaged file",
    signal.SIGPROF: "it takes more computing time than a file of its size may",
    signal.SIGALRM: "it takes longer than a file of its size may",
}
"""The signal that ends a reader -> what the caller is told; the last two are those of its timers."""
EVENT_LOOP = 3
"""Descriptors that the fork server opens once, for zarr, perhaps after it has forked its first child."""


@pytest.mark.parametrize("times", [48, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_deaths_in_a_row_leave_nothing_behind(times: int) -> None:
    """No process and no descriptor; each gets its sentence, and the next file is read."""
    load(PLAIN, name="a.npz")
    gc.collect()
    assert gone(children())
    descriptors = len(os.listdir("/proc/self/fd"))
    server = f"/proc/{sandbox._fork_server().process.pid}/fd"
    of_server = len(os.listdir(server))
    for ended in itertools.islice(itertools.cycle(HOW), times):
        document = Document.open(PLAIN, name="a.npz")
        (mine,) = children()
        os.kill(mine, ended)
        with pytest.raises(LogitFileError, match=f"^a.npz: could not be read: {HOW[ended]}; "):
            document.load()
        del document
    gc.collect()
    assert gone(children())
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert len(os.listdir(server)) <= of_server + EVENT_LOOP
