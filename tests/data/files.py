"""Files in memory for the tests of loading, and one small set to put in them."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any, Self

import numpy as np

from smart_core.data import ArrayInfo, Document, sandbox


def example(rows: int = 60, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are right more often than not, every class present."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    logits = rng.normal(size=(rows, classes)).astype(np.float32)
    logits[np.arange(rows), labels] += 1.5
    return logits, labels.astype(np.int64)


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def torch_bytes(tree: Any, **options: Any) -> bytes:
    import torch

    stream = io.BytesIO()
    torch.save(tree, stream, **options)
    return stream.getvalue()


def pickled(tree: Any, protocol: int = 4) -> bytes:
    return pickle.dumps(tree, protocol=protocol)


def describe(content: bytes, name: str) -> list[ArrayInfo]:
    return Document.open(content, name=name).describe()


def codes(data: Any) -> set[str]:
    """The codes of a set's notices."""
    return {notice.code for notice in data.notices}


class Usage:
    """Inside a `with`: CPU time per call and peak memory of the process that reads files; growth of this one."""

    seconds, peak, growth = 0.0, 0, 0
    ended = False
    """Whether that process met a limit or crashed."""

    def __enter__(self) -> Self:
        self._call = call = sandbox.Sandbox.call
        self._before: dict[sandbox.Sandbox, float] = {}

        def watched(child: sandbox.Sandbox, task: str, arguments: Any = None) -> Any:
            used: sandbox.Usage | None = None
            try:
                answer = call(child, task, arguments)
                used = child.usage
                return answer
            except sandbox.SandboxError as error:
                self.ended, used = True, error.usage
                raise
            finally:
                if used is not None:
                    self.seconds = max(self.seconds, used[0] - self._before.get(child, 0.0))
                    self._before[child], self.peak = used[0], max(self.peak, used[1])

        sandbox.Sandbox.call = watched  # type: ignore[method-assign]
        Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
        self._resident = memory_of("VmRSS")
        return self

    def __exit__(self, *error: object) -> None:
        self.growth = memory_of("VmHWM") - self._resident
        sandbox.Sandbox.call = self._call  # type: ignore[method-assign]


def memory_of(field: str) -> int:
    """Bytes of this process, by the kernel's name of the figure."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(field))
