"""Foreign files are read in a process of their own, with hard limits on memory, time and new descriptors.

A fork server, started once and kept warm with the file readers loaded, forks one child for every `Sandbox`. The child
receives the open files, answers calls until its `Sandbox` is closed, and never outlives a limit:

    memory       RLIMIT_AS: 1 GiB, or four times the files where that is more, beyond what the readers take themselves
    CPU time     ITIMER_PROF: 5 s per call, and 1 s more for every 10 MB
    wall time    ITIMER_REAL: twelve times that, and two minutes between calls
    descriptors  RLIMIT_NOFILE of 0 while it works: no new file, no socket, no process with pipes

The kernel enforces each one, whatever the parser does. Arrays come back through shared memory that the caller maps,
everything else as a small JSON message that this module wrote. Nothing is unpickled on either side.

Linux and macOS; macOS does not enforce RLIMIT_AS. Windows cannot fork: there `available()` is False.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

MEMORY_BYTES = 1 << 30
MEMORY_PER_FILE_BYTE = 4
CPU_SECONDS = 5.0
BYTES_PER_CPU_SECOND = 10_000_000
WALL_PER_CPU = 12.0
IDLE_SECONDS = 120.0
MESSAGE_BYTES = 16 << 20
"""The longest message that either side accepts."""

COMMAND = [sys.executable, "-c", "from smart_core.data import sandbox; sandbox.main()"]
"""Starts the fork server; the descriptor of its connection follows."""

_HEADER = struct.Struct("<QI")
"""Of a message: the length of its JSON, and how many descriptors come with it."""
_MOST_FILES = 64

Array = NDArray[Any]


class SandboxError(Exception):
    """The child ended without an answer: it met a limit, or it crashed. `reason` says which, in a few words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def available() -> bool:
    """Whether this platform can fork and pass descriptors."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


def cpu_seconds(size: int) -> float:
    """The CPU time that one call may take for files of `size` bytes in sum."""
    return CPU_SECONDS + size / BYTES_PER_CPU_SECOND


def memory_bytes(size: int) -> int:
    """The memory that a child may take for files of `size` bytes in sum."""
    return max(MEMORY_BYTES, MEMORY_PER_FILE_BYTE * size)


# -- the caller's side ----------------------------------------------------------------------------------------


class Sandbox:
    """A child process that holds open files, for one caller; closing it ends the child."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._lock = threading.Lock()
        self._called = time.monotonic()
        mine, its = socket.socketpair()
        self._socket = mine
        with its:
            _fork_server().fork(its)
        _send(mine, {"pid": os.getpid()}, list(descriptors))

    def call(self, task: str, arguments: Any = None) -> tuple[Any, list[Array]]:
        """The answer of a task: plain JSON and read-only arrays in shared memory. Raises `SandboxError`."""
        with self._lock:
            self._called = time.monotonic()
            try:
                _send(self._socket, {"task": task, "arguments": arguments})
                answer, descriptors = _receive(self._socket, 1)
            except (OSError, EOFError) as error:
                raise SandboxError("its reader could not be started") from error
        if "ended" in answer:
            raise SandboxError(str(answer["ended"]))
        try:
            return answer["value"], _mapped(answer["arrays"], descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def expired(self) -> bool:
        """Whether the child has waited so long for a call that it ends, or has ended, by itself."""
        return time.monotonic() - self._called > 0.9 * IDLE_SECONDS

    def close(self) -> None:
        """End the child."""
        self._socket.close()


def _mapped(described: Sequence[Sequence[Any]], descriptors: Sequence[int]) -> list[Array]:
    """Arrays over one shared mapping, described by (type, shape, offset)."""
    if not described:
        return []
    shared = mmap.mmap(descriptors[0], 0, access=mmap.ACCESS_READ)
    arrays = []
    for dtype, shape, offset in described:
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(
            np.frombuffer(shared, np.dtype(dtype), count, offset).reshape(shape) if count else np.empty(shape, dtype)
        )
    return arrays


def shared_file(content: bytes | bytearray | memoryview) -> int:
    """A descriptor of an unnamed file in memory with this content."""
    descriptor = _unnamed_file()
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view[: 1 << 30]) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("smart", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:  # macOS
        return os.dup(file.fileno())


class _ForkServer:
    """The warm process that forks the children; started when first needed, and again if it has died."""

    def __init__(self) -> None:
        mine, its = socket.socketpair()
        with its:
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
            source = os.pathsep.join(path for path in sys.path if path)
            self.process = subprocess.Popen(
                [*COMMAND, str(its.fileno())],
                env=environment | {"PYTHONPATH": source},
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.socket = mine
        self.lock = threading.Lock()

    def fork(self, connection: socket.socket) -> None:
        """Hand a connection to a new child."""
        with self.lock:
            _send(self.socket, {}, [connection.fileno()])

    def close(self) -> None:
        self.socket.close()
        self.process.wait()


_server: _ForkServer | None = None
_server_lock = threading.Lock()


def _fork_server() -> _ForkServer:
    global _server
    with _server_lock:
        if _server is None or _server.process.poll() is not None:
            _server = _ForkServer()
            atexit.register(_server.close)
        return _server


def start() -> None:
    """Start the fork server ahead of the first file."""
    if available():
        _fork_server()


# -- messages -------------------------------------------------------------------------------------------------


def _send(connection: socket.socket, message: Any, descriptors: Sequence[int] = ()) -> None:
    content = json.dumps(message).encode()
    header = _HEADER.pack(len(content), len(descriptors))
    if descriptors:
        socket.send_fds(connection, [header], descriptors)
    else:
        connection.sendall(header)
    connection.sendall(content)


def _receive(connection: socket.socket, most: int) -> tuple[Any, list[int]]:
    """The next message and up to `most` descriptors; EOFError at the end."""
    header, descriptors, _, _ = socket.recv_fds(connection, _HEADER.size, most)
    header += _exactly(connection, _HEADER.size - len(header)) if header else b""
    if not header:
        raise EOFError
    length, count = _HEADER.unpack(header)
    if length > MESSAGE_BYTES or count != len(descriptors):
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError("a message is longer than allowed")
    return json.loads(_exactly(connection, length)), list(descriptors)


def _exactly(connection: socket.socket, length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        piece = connection.recv(min(length - len(content), 1 << 20))
        if not piece:
            raise EOFError
        content += piece
    return bytes(content)


# -- the child's side -----------------------------------------------------------------------------------------


def _child(connection: socket.socket) -> None:
    """Answer calls until the caller closes its end."""
    from smart_core.data.tasks import Tasks

    tasks = Tasks()
    _, files = _receive(connection, _MOST_FILES)
    size = sum(os.fstat(file).st_size for file in files)
    _limit_memory(memory_bytes(size))
    seconds = cpu_seconds(size)
    while True:
        signal.setitimer(signal.ITIMER_REAL, IDLE_SECONDS)
        try:
            request, _ = _receive(connection, 0)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, WALL_PER_CPU * seconds)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        tasks.prepare(files, request["task"])
        with _no_new_descriptors():
            value, arrays = tasks.run(files, request["task"], request["arguments"])
        _answer(connection, value, arrays)
        signal.setitimer(signal.ITIMER_PROF, 0)


def _answer(connection: socket.socket, value: Any, arrays: Sequence[Array]) -> None:
    described: list[tuple[str, tuple[int, ...], int]] = []
    offset = 0
    for array in arrays:
        described.append((array.dtype.str, array.shape, offset))
        offset += -(-array.nbytes // 64) * 64
    if not offset:
        _send(connection, {"value": value, "arrays": described})
        return
    descriptor = _unnamed_file()
    os.ftruncate(descriptor, offset)
    with mmap.mmap(descriptor, offset) as shared:
        for (dtype, shape, start), array in zip(described, arrays, strict=True):
            if array.size:
                np.frombuffer(shared, dtype, array.size, start).reshape(shape)[...] = array
    _send(connection, {"value": value, "arrays": described}, [descriptor])
    os.close(descriptor)


def _limit_memory(allowance: int) -> None:
    import resource

    taken = 0
    with contextlib.suppress(OSError), open("/proc/self/statm", "rb") as file:
        taken = int(file.read().split()[0]) * mmap.PAGESIZE
    with contextlib.suppress(ValueError, OSError):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (taken + allowance, taken + allowance))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _no_new_descriptors() -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- the fork server ------------------------------------------------------------------------------------------

_ENDED = {
    int(signal.SIGPROF): "it takes more computing time than a file of its size may",
    int(signal.SIGALRM): "it takes longer than a file of its size may",
}


def _serve(control: socket.socket) -> None:
    """Fork a child for every connection, load the readers meanwhile, and say how each child ended."""
    from smart_core.data import tasks

    children: dict[int, socket.socket] = {}
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the caller, whose end closes the connections
    readers = iter(tasks.READERS)
    more = True
    while True:
        ready, _, _ = select.select([control.fileno(), wake_read], [], [], 0 if more else None)
        if wake_read in ready:
            os.read(wake_read, 1024)
            _reap(children)
        if control.fileno() in ready:
            try:
                _, (descriptor,) = _receive(control, 1)
            except (EOFError, OSError):
                return
            connection = socket.socket(fileno=descriptor)
            pid = os.fork()
            if pid == 0:
                _become_child(control, connection, children, (wake_read, wake_write))
            children[pid] = connection
        elif not ready:
            more = tasks.load_reader(next(readers, None))


def _become_child(
    control: socket.socket,
    connection: socket.socket,
    children: dict[int, socket.socket],
    pipe: tuple[int, int],
) -> NoReturn:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    control.close()
    for other in children.values():
        other.close()
    for descriptor in pipe:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        os.nice(5)  # the pages of other sessions come first
    code = 1
    try:
        _child(connection)
        code = 0
    finally:
        os._exit(code)


def _reap(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        connection = children.pop(pid)
        with connection, contextlib.suppress(OSError):
            if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
                ended = _ENDED.get(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
                _send(connection, {"ended": ended or "its reader stopped"})


def main() -> None:
    """Run the fork server on the connection whose descriptor is the last argument."""
    _serve(socket.socket(fileno=int(sys.argv[-1])))
