"""Saved calibrators, workspaces and results: opened here, parsed in the sandbox, returned as plain values and arrays.

A reader of `tasks.READ_WHOLE` gets the content of one file in the child. It refuses whatever is not plain, or out of
bounds, with a `LogitFileError`, whose problem continues a sentence that begins with the file's name.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any, TypeVar

import numpy as np

from smart_core.data import sandbox
from smart_core.data.formats.limits import MAX_BYTES
from smart_core.data.formats.safetensors_file import CALIBRATOR as CALIBRATOR
from smart_core.data.logitset import Array
from smart_core.data.tasks import Tasks, decode
from smart_core.errors import LogitFileError, SmartError
from smart_core.formatting import printable

Saved = str | os.PathLike[str] | bytes | bytearray | memoryview

LONGEST_NAME = 200
LONGEST_TEXT = 20_000
MOST_VALUES = 300_000
"""Texts and numbers of one file that may travel as JSON: a session of 400 rows has about half as many."""
MOST_JSON_VALUES = 10_000_000
"""Those of a file of JSON values: one of 100,000 fits of a benchmark has about 2 million."""
DEEPEST = 50
LARGEST = 1e300
LONG_LIST = 16
"""Numbers from which a list travels as an array."""
MOST_NOTICES = 1000
CALIBRATOR_VERSION = 1

T = TypeVar("T")


def read_saved(task: str, source: Saved, unnamed: str, error: type[SmartError]) -> tuple[str, Any]:
    """Return the name of a file and what the task reads from it; whatever is wrong raises `error`, one sentence."""
    given = isinstance(source, bytes | bytearray | memoryview)
    name = unnamed if given else printable(os.path.basename(os.fspath(source)) or str(source), LONGEST_NAME)  # type: ignore[arg-type]
    try:
        file = bytes(source) if given else _opened(source)  # type: ignore[arg-type]
    except (OSError, ValueError) as fault:
        raise error(f"{name} cannot be read: {getattr(fault, 'strerror', None) or fault}.") from fault
    try:
        answer, arrays = _answer(task, file)
    except (OSError, sandbox.SandboxError) as fault:
        reason = getattr(fault, "reason", "its reader could not be started")
        raise error(f"{name} could not be read: {reason}", "use another copy of it") from None
    finally:
        if isinstance(file, int):
            os.close(file)
    if "error" in answer:
        problem, fixes, _ = answer["error"]
        raise error(f"{name} {problem}", *fixes)
    return name, decode(answer["value"], arrays)


def _opened(path: str | os.PathLike[str]) -> int:
    """A descriptor of a regular file; a pipe without a writer must not make the caller wait."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    info = os.fstat(descriptor)
    if stat.S_ISREG(info.st_mode) and info.st_size <= MAX_BYTES:
        return descriptor
    os.close(descriptor)
    raise ValueError("it is larger than any saved file" if stat.S_ISREG(info.st_mode) else "it is not a file")


def _answer(task: str, file: bytes | int) -> tuple[Any, list[Array]]:
    if not sandbox.available():
        return Tasks([file if isinstance(file, bytes) else open(file, "rb", closefd=False).read()]).run(task, None)
    box = sandbox.Sandbox([file])
    try:
        return box.call(task)
    finally:
        box.close()


# -- in the child -------------------------------------------------------------------------------------------


def plain(tree: Any, arrays: bool = True, most: int = MOST_VALUES) -> Any:
    """A tree of JSON, if it is small and every text and number in it can be used; ValueError if not.

    With `arrays`, a long list of numbers becomes `{"$numbers": array}`, which does not travel as text.
    """
    count = 0

    def checked(value: Any, depth: int) -> Any:
        nonlocal count
        count += 1 + (len(value) // 16 if isinstance(value, str) else 0)
        if count > most or depth > DEEPEST:
            raise ValueError("it holds more values, or nests them deeper, than a saved file does")
        if isinstance(value, dict):
            return {checked(key, depth): checked(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            if arrays and len(value) >= LONG_LIST and all(type(item) is float for item in value):
                value = np.array(value)
                if not (abs(value) < LARGEST).all():
                    raise ValueError("a number in it is too large")
                return {"$numbers": value}
            return [checked(item, depth + 1) for item in value]
        if isinstance(value, str):
            return text(value, LONGEST_TEXT)
        if isinstance(value, int | float) and not abs(value) < (LARGEST if isinstance(value, float) else 2**63):
            raise ValueError("a number in it is too large")
        return value

    return checked(tree, 0)


def text(value: Any, longest: int = LONGEST_NAME) -> str:
    """A text that can be encoded, if it has at most so many characters."""
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"a text in it is longer than {longest:,} characters, or not a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("a text in it cannot be encoded") from None
    return value


def calibrator(content: bytes) -> dict[str, Any]:
    """The header and the tensors of a calibrator's file."""
    from safetensors.numpy import load

    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length]).get("__metadata__", {})
        tensors = load(content)
    except MemoryError:
        raise
    except Exception as error:
        raise LogitFileError("is not a calibrator file", "save one with calibrator.save(path)") from error
    if header.get("format") != CALIBRATOR:
        problem = "is a safetensors file, but it holds no calibrator"
        raise LogitFileError(problem, "save one with calibrator.save(path)")
    try:
        if _whole(header, "version", 1) > CALIBRATOR_VERSION:
            raise LogitFileError("was saved by a newer version", "update this package to read it")
        settings = _entry(header, "settings", dict)
        if not all(isinstance(value, bool | int | float | str | None) for value in settings.values()):
            raise ValueError("settings in its header are not plain numbers and texts")
        return {
            "method": text(header["method"]),
            "settings": {text(name): value for name, value in settings.items()},
            "classes": _whole(header, "classes", 0),
            "features_used": _entry(header, "features_used", bool),
            "notices": [text(notice, LONGEST_TEXT) for notice in _entry(header, "notices", list)[:MOST_NOTICES]],
            "decided": plain(_entry(header, "decided", dict), arrays=False) if "decided" in header else {},
            "tensors": {text(name): tensor for name, tensor in tensors.items()},
        }
    except KeyError as error:
        raise _damaged(f"its header lacks {error.args[0]}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(str(error) if type(error) is ValueError else "its header is not JSON") from error


def _damaged(why: str) -> LogitFileError:
    return LogitFileError(f"is a damaged calibrator file: {why}", "fit and save it again")


def _entry(header: dict[str, str], key: str, kind: type[T]) -> T:
    value = json.loads(header[key])
    if not isinstance(value, kind):
        raise ValueError(f"{key} in its header is not a {kind.__name__}")
    return value


def _whole(header: dict[str, str], key: str, least: int) -> int:
    entry = header[key]
    if not (entry.isdecimal() and len(entry) < 10 and int(entry) >= least):
        raise ValueError(f"{key} in its header is {entry[:40]!r}, not a whole number from {least} up")
    return int(entry)


def json_value(content: bytes) -> Array:
    """The value of a JSON file that this program wrote, such as the results of a benchmark."""
    try:
        return _bytes(json.loads(content))
    except MemoryError:
        raise
    except Exception as error:
        raise LogitFileError("is not JSON that can be used", "use another copy of it") from error


def json_lines(content: bytes) -> Array:
    """A list of the values of the lines; one that was cut off, or cannot be used, is left out."""
    values = []
    for line in content.splitlines():
        try:
            values.append(plain(json.loads(line), arrays=False))
        except (ValueError, RecursionError):
            continue
    return _bytes(values)


def _bytes(value: Any) -> Array:
    """JSON that is written anew from checked values, as one array of bytes."""
    checked = plain(value, arrays=False, most=MOST_JSON_VALUES)
    return np.frombuffer(json.dumps(checked, allow_nan=False).encode(), dtype=np.uint8)
