"""Files are parsed in a separate process with hard limits on memory, time and new descriptors.

A fork server, started once and kept warm with the file readers loaded, forks one child for every `Sandbox`. The child
receives the files, answers calls until its `Sandbox` is closed, and never outlives a limit:

    memory       RLIMIT_AS: 750 MB, or four times the files if that is more, beyond the files and the readers themselves
    CPU time     ITIMER_PROF: 4 s per call, or 1 s for every 10 MB of the files if that is more
    wall time    ITIMER_REAL: twelve times that, and two minutes between calls
    descriptors  RLIMIT_NOFILE of 0 while it works: no new file, no socket, no process with pipes

The kernel enforces each one, whatever the parser does. Bytes and arrays go through a socket: into new memory, in huge
pages where the kernel has them, that is faster than to share pages. The rest is a small JSON message that this module
wrote. Nothing is unpickled on either side.

Linux and macOS; macOS does not enforce RLIMIT_AS. Windows cannot fork: there `available()` is False.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

with contextlib.suppress(ImportError):  # on Windows, where nothing here runs
    import resource

MEMORY_BYTES = 750_000_000
"""With the readers, which take up to 200 MB, less than 1 GB."""
MEMORY_PER_FILE_BYTE = 4
CPU_SECONDS = 4.0
BYTES_PER_CPU_SECOND = 10_000_000
WALL_PER_CPU = 12.0
IDLE_SECONDS = 120.0
GRACE_SECONDS = 5.0
"""Beyond the wall time, until the caller waits no longer."""
MESSAGE_BYTES = 16 << 20
"""The longest message that either side accepts."""

COMMAND = [sys.executable, "-c", "from smart_core.data import sandbox; sandbox.main()"]
"""Starts the fork server; the descriptor of its connection follows."""
ENVIRONMENT = {
    **{"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"},
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # the others reserve address space, which RLIMIT_AS counts
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # 200 MB are allocated four times as fast
}

_HEADER = struct.Struct("<QI")
"""Of a message: the length of its JSON, and how many descriptors come with it."""
_END = b"end."
"""Follows the arrays of an answer, so that a message of the fork server is not read as the last bytes of an array."""

Array = NDArray[Any]
Content = bytes | mmap.mmap
Usage = tuple[float, int]
"""Of a child since it was forked: seconds of CPU time, and the most bytes of memory that it held."""


class SandboxError(Exception):
    """The child ended without an answer: it met a limit, or it crashed. `reason` says which, in a few words."""

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        super().__init__(reason)
        self.reason, self.usage = reason, usage


def available() -> bool:
    """Whether this platform can fork and pass descriptors."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


def cpu_seconds(size: int) -> float:
    """The CPU time that one call may take for files of `size` bytes in sum."""
    return max(CPU_SECONDS, size / BYTES_PER_CPU_SECOND)


def memory_bytes(size: int) -> int:
    """The memory that a child may take for files of `size` bytes in sum."""
    return max(MEMORY_BYTES, MEMORY_PER_FILE_BYTE * size)


# -- the caller's side ----------------------------------------------------------------------------------------


class Sandbox:
    """A child process that holds files, for one caller; closing it ends the child.

    `files` are the contents, or descriptors of files that the child reads, one after another: a descriptor is not used
    once the next one is asked for.
    """

    def __init__(self, files: Iterable[bytes | int]) -> None:
        self._lock = threading.Lock()
        self._called = time.monotonic()
        self.usage: Usage | None = None
        mine, its = socket.socketpair()
        self._socket = mine
        self._wait_at_most(IDLE_SECONDS)
        with its:
            _fork(its)
        size = 0
        with contextlib.suppress(OSError):  # the first call reports a child that has ended
            for file in files:
                size += os.fstat(file).st_size if isinstance(file, int) else len(file)
                _send_file(mine, file)
            _send(mine, {"size": None})
        self._most = memory_bytes(size)
        self._wait_at_most(WALL_PER_CPU * cpu_seconds(size) + GRACE_SECONDS)

    def _wait_at_most(self, seconds: float) -> None:
        """A child ends by itself in time, unless it, or the fork server, was stopped."""
        limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        for direction in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._socket.setsockopt(socket.SOL_SOCKET, direction, limit)

    def call(self, task: str, arguments: Any = None) -> tuple[Any, list[Array]]:
        """Return the answer of a task: plain JSON, and read-only arrays. Raises `SandboxError`."""
        with self._lock:
            self._called = time.monotonic()
            try:
                with contextlib.suppress(OSError):
                    _send(self._socket, {"task": task, "arguments": arguments})
                answer, _ = _receive(self._socket, 0)
                if "ended" in answer:
                    raise SandboxError(answer["ended"], tuple(answer["usage"]))
                self.usage = tuple(answer["usage"])
                return answer["value"], _receive_arrays(self._socket, answer["arrays"], self._most)
            except SandboxError:
                raise
            except BlockingIOError as error:
                _fork_server(fresh=True)
                raise SandboxError(_TOO_LONG) from error
            except Exception as error:  # whatever a child sends that a hostile file has taken over
                raise SandboxError("its reader stopped") from error

    def expired(self) -> bool:
        """Whether the child has waited so long for a call that it ends, or has ended, by itself."""
        return time.monotonic() - self._called > 0.9 * IDLE_SECONDS

    def close(self) -> None:
        """End the child."""
        self._socket.close()


class _ForkServer:
    """The warm process that forks the children; started when first needed, and again if it has died."""

    def __init__(self) -> None:
        mine, its = socket.socketpair()
        with its:
            source = os.pathsep.join(path for path in sys.path if path)
            self.process = subprocess.Popen(
                [*COMMAND, str(its.fileno())],
                env={**os.environ, **ENVIRONMENT, "PYTHONPATH": source},
                pass_fds=[its.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.socket = mine

    def close(self) -> None:
        self.socket.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # with its children, of which one may have been stopped
        self.process.wait()


_server: _ForkServer | None = None
_server_lock = threading.RLock()


def _fork_server(fresh: bool = False) -> _ForkServer:
    global _server
    with _server_lock:
        if _server is not None and (fresh or _server.process.poll() is not None):
            _close()
        if _server is None:
            _server = _ForkServer()
        return _server


@atexit.register
def _close() -> None:
    global _server
    if _server is not None:
        _server.close()
        _server = None


def _fork(connection: socket.socket) -> None:
    """Hand a connection to a new child, of a new fork server if the one there was has just died."""
    with _server_lock:
        try:
            _send(_fork_server().socket, {}, [connection.fileno()])
        except OSError:
            _send(_fork_server(fresh=True).socket, {}, [connection.fileno()])


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


def _send_file(connection: socket.socket, file: bytes | int) -> None:
    if isinstance(file, int):
        _send(connection, {"size": 0}, [file])
    else:
        _send(connection, {"size": len(file)})
        connection.sendall(file)


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
    pieces = []
    while length:
        pieces.append(connection.recv(min(length, 1 << 30), socket.MSG_WAITALL))
        if not pieces[-1]:
            raise EOFError
        length -= len(pieces[-1])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _receive_arrays(
    connection: socket.socket, described: Sequence[tuple[str, Sequence[int]]], most: int
) -> list[Array]:
    """Return read-only arrays of up to `most` bytes, described by (type, shape); EOFError if the child has ended."""
    arrays = []
    for code, shape in described:
        dtype = np.dtype(code)
        most -= dtype.itemsize * math.prod(shape)
        if most < 0 or dtype.hasobject:
            raise OSError("arrays that no child may send")
        array = np.empty(shape, dtype)
        view = array.reshape(-1).view(np.uint8).data
        while view:
            received = connection.recv_into(view)
            if not received:
                raise EOFError
            view = view[received:]
        array.flags.writeable = False
        arrays.append(array)
    if _exactly(connection, len(_END)) != _END:
        raise EOFError
    return arrays


# -- the child's side -----------------------------------------------------------------------------------------


def _child(connection: socket.socket) -> None:
    """Answer calls until the caller closes its end."""
    from smart_core.data.tasks import Tasks

    signal.setitimer(signal.ITIMER_REAL, IDLE_SECONDS)
    files = _received_files(connection)
    size = sum(map(len, files))
    _limit_memory(memory_bytes(size))
    seconds = cpu_seconds(size)
    tasks = Tasks(files)
    while True:
        signal.setitimer(signal.ITIMER_REAL, IDLE_SECONDS)
        try:
            request, _ = _receive(connection, 0)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, WALL_PER_CPU * seconds)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        tasks.prepare(request["task"])
        with _no_new_descriptors():
            value, arrays = tasks.run(request["task"], request["arguments"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        described = [(array.dtype.str, array.shape) for array in arrays]
        usage = _usage(resource.getrusage(resource.RUSAGE_SELF))
        _send(connection, {"value": value, "arrays": described, "usage": usage})
        for array in arrays:
            connection.sendall(array.reshape(-1).view(np.uint8).data)
        connection.sendall(_END)


def _received_files(connection: socket.socket) -> list[Content]:
    files: list[Content] = []
    while True:
        message, descriptors = _receive(connection, 1)
        if message["size"] is None:
            return files
        files.append(_content(*descriptors) if descriptors else _exactly(connection, message["size"]))


def _content(descriptor: int) -> Content:
    """Read a file; one in a format whose reader takes what it needs is mapped instead."""
    from smart_core.data.formats import is_mapped

    with open(descriptor, "rb") as stream:
        stream.seek(0)
        if is_mapped(stream.read(16)):
            return mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        stream.seek(0)
        return stream.read()


def _usage(usage: resource.struct_rusage) -> Usage:
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _limit_memory(allowance: int) -> None:
    taken = 0
    with contextlib.suppress(OSError), open("/proc/self/statm", "rb") as file:
        taken = int(file.read().split()[0]) * mmap.PAGESIZE
    with contextlib.suppress(ValueError, OSError):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (taken + allowance, taken + allowance))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _no_new_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- the fork server ------------------------------------------------------------------------------------------

_OUT_OF_MEMORY = 2
"""The exit code of a child without memory even for an answer."""
_TOO_LONG = "it takes longer than a file of its size may"


def _serve(control: socket.socket) -> None:
    """Fork a child for every connection, load the readers meanwhile, and say how each child ended."""
    from smart_core.data import tasks

    children: dict[int, socket.socket] = {}
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
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
    control: socket.socket, connection: socket.socket, children: dict[int, socket.socket], pipe: tuple[int, int]
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
    except MemoryError:
        code = _OUT_OF_MEMORY
    finally:
        os._exit(code)


def _reap(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            return
        connection = children.pop(pid)
        with connection, contextlib.suppress(OSError):
            code = os.waitstatus_to_exitcode(status)
            if code:
                _send(connection, {"ended": _how_it_ended(code), "usage": _usage(usage)})


def _how_it_ended(code: int) -> str:
    """Return what the caller is told of an exit code, negative for a signal."""
    crashed = "its reader crashed, as on a damaged file"
    told: dict[int, str] = {
        -signal.SIGPROF: "it takes more computing time than a file of its size may",
        -signal.SIGALRM: _TOO_LONG,
        **dict.fromkeys((-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE, -signal.SIGABRT), crashed),
        _OUT_OF_MEMORY: "it does not fit in the memory that a file of its size may take",
    }
    return told.get(code, "its reader stopped")


def main() -> None:
    """Run the fork server on the connection whose descriptor is the last argument.

    Where many files together fill the machine's memory, Linux is to end those that read them, not the caller.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    _serve(socket.socket(fileno=int(sys.argv[-1])))
