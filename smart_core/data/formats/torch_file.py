"""pt and pth: tensors and plain containers, read by the restricted unpickler straight into NumPy.

Each tensor is compared with the bytes of its storage, wherever (CPU or GPU) it was saved. PyTorch's own loader is
not used: even with `weights_only=True` it builds a `bytearray` of any size that a file names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from io import BytesIO
from typing import Any, Literal

import numpy as np

from smart_core.data.formats.limits import DAMAGED, Budget, open_zip, unzip
from smart_core.data.formats.nested import flatten
from smart_core.data.formats.pickle_file import NUMPY_TABLE, unwrap
from smart_core.data.formats.raw import BFLOAT16, RawArray, RawFile, Source
from smart_core.data.formats.unpickler import Interpreter, Name, Table
from smart_core.data.logitset import Array, Notice
from smart_core.errors import LogitFileError
from smart_core.formatting import first_few, printable

Order = Literal["<", ">"]

_STORAGES = {
    **{"DoubleStorage": "f8", "FloatStorage": "f4", "HalfStorage": "f2", "BFloat16Storage": BFLOAT16},
    **{"LongStorage": "i8", "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1"},
    "BoolStorage": "?",
}
_UNTYPED = {"uint16": "u2", "uint32": "u4", "uint64": "u8"}


@dataclass(frozen=True)
class Storage:
    """A reference to the numbers of one or more tensors; `code` is None if the tensor names the type."""

    key: str
    code: str | None


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor as the pickle describes it; in old files its bytes come after the pickle."""

    tensors: Tensors
    storage: Storage
    code: str
    offset: Any
    size: Any
    stride: Any
    negated: bool

    @cached_property
    def array(self) -> RawArray:
        """The numbers as a view of their storage; bfloat16 is kept as bits, of which the first is the sign."""
        dtype = dtype_of(self.code, self.tensors.order)
        array = strided(
            self.tensors.file, self.tensors.raw_of(self.storage), dtype, self.offset, self.size, self.stride
        )
        is_bits = self.code == BFLOAT16
        if self.negated:
            array = array ^ np.asarray(0x8000, dtype=dtype) if is_bits else -array
        return RawArray.of("", (), array, BFLOAT16 if is_bits else None)


class Tensors:
    """The globals that the pickle of a torch file may use; `raw_of` finds the bytes of a storage."""

    def __init__(self, file: str, order: Order, raw_of: Callable[[Storage], bytes | bytearray]) -> None:
        self.file, self.order, self.raw_of = file, order, cache(raw_of)
        self.devices: set[str] = set()
        self.storages: dict[str, Storage] = {}

    def storage(self, reference: Any) -> Storage:
        """("storage", type, key, device, length), and in old files whether it is part of another storage."""
        kind, name, key, device, _, *view = reference
        if kind != "storage" or not isinstance(name, Name) or not isinstance(device, str) or any(view):
            raise TypeError("a reference that is not a storage")
        self.devices.add(device)
        return self.storages.setdefault(str(key), Storage(str(key), _STORAGES.get(name.name)))

    def rebuild(self, storage: Any, offset: Any, size: Any, stride: Any, *rest: Any, code: Any = None) -> Tensor:
        """A tensor over a storage; of (grad, hooks, marks) only marks count: lazily negated or conjugated."""
        code = code or getattr(storage, "code", None)
        marks = rest[2] if len(rest) > 2 and rest[2] else {}
        if not isinstance(storage, Storage) or code is None or not isinstance(marks, dict) or marks.get("conj"):
            raise TypeError("a tensor that does not hold plain numbers")
        return Tensor(self, storage, code, offset, size, stride, bool(marks.get("neg")))

    def rebuild_v3(
        self, storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, *rest: Any
    ) -> Tensor:
        """The same for newer types, which are named beside the tensor: (grad, hooks, type, marks)."""
        kind, *marks = rest
        return self.rebuild(storage, offset, size, stride, grad, hooks, *marks, code=_UNTYPED[kind.name])

    def run(self, stream: BytesIO) -> Any:
        """Return what the next pickle in the stream builds."""
        table: Table = {
            **NUMPY_TABLE,
            ("torch._utils", "_rebuild_tensor"): self.rebuild,
            ("torch._utils", "_rebuild_tensor_v2"): self.rebuild,
            ("torch._utils", "_rebuild_tensor_v3"): self.rebuild_v3,
            ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
            ("torch", "Size"): lambda size, *_: size,
            ("torch.storage", "UntypedStorage"): None,
            **{("torch", name): None for name in (*_STORAGES, *_UNTYPED)},
        }
        return Interpreter(stream, self.file, table, self.storage).run()

    def raw_file(self, tree: Any, size: int) -> RawFile:
        """Return the arrays of what the pickle in a file of `size` bytes built."""
        raw = flatten(tree, self.file, size, lambda n: n.array if isinstance(n, Tensor) else unwrap(n))
        other = first_few(sorted(printable(device, 20) for device in self.devices if device != "cpu"))
        if other:
            raw.notices.append(Notice("device", f"{self.file}: saved from {other}, read on the CPU."))
        return raw


def read_torch_zip(source: Source) -> RawFile:
    """Read the tensors of a file that torch.save wrote."""
    return Tensors.raw_file(*torch_zip_tree(source))


def read_torch_legacy(source: Source) -> RawFile:
    """Read a file from before PyTorch 1.6."""
    return Tensors.raw_file(*torch_legacy_tree(source))


def torch_zip_tree(source: Source) -> tuple[Tensors, Any, int]:
    """Return the tensors of a file that torch.save wrote, what its pickle builds, and the bytes of the file."""
    archive = open_zip(source.name, source.data)
    names = archive.namelist()
    prefix = next(name for name in names if name.endswith("data.pkl")).removesuffix("data.pkl")
    big = f"{prefix}byteorder" in names and unzip(archive, f"{prefix}byteorder") == b"big"
    tensors = Tensors(source.name, ">" if big else "<", lambda s: unzip(archive, f"{prefix}data/{s.key}"))
    program = bytes(unzip(archive, f"{prefix}data.pkl"))
    return tensors, tensors.run(BytesIO(program)), len(source.data)


def torch_legacy_tree(source: Source) -> tuple[Tensors, Any, int]:
    """Return the same of a file from before PyTorch 1.6.

    It holds five pickles (the tree is the fourth, the storages' keys the fifth), then each storage as its length and
    its numbers, in the order of the keys.
    """
    stream = BytesIO(source.data)
    raw: dict[str, bytes] = {}
    tensors = Tensors(source.name, "<", lambda storage: raw[storage.key])
    *_, tree, keys = [tensors.run(stream) for _ in range(5)]
    for key in map(str, keys):
        code = tensors.storages[key].code
        size = int.from_bytes(stream.read(8), "little") * (1 if code is None else dtype_of(code, "<").itemsize)
        if size > len(source.data) - stream.tell():
            raise LogitFileError("a storage is larger than the rest of the file", DAMAGED, file=source.name)
        raw[key] = stream.read(size)
    return tensors, tree, len(source.data)


def strided(file: str, raw: bytes | bytearray, dtype: np.dtype[Any], offset: Any, size: Any, stride: Any) -> Array:
    """Return the tensor as a view of its storage, if every element it can reach lies inside."""
    if len(size) != len(stride) or any(not isinstance(n, int) or n < 0 for n in [offset, *size, *stride]):
        raise TypeError("a tensor with an impossible shape")
    count = math.prod(size)
    if count == 0:
        return np.empty(size, dtype=dtype)
    Budget(file, len(raw)).charge("a tensor", count * dtype.itemsize)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if (last + 1) * dtype.itemsize > len(raw):
        raise LogitFileError(f"a tensor of shape {size} is larger than its bytes in the file", DAMAGED, file=file)
    flat = np.frombuffer(raw, dtype=dtype, count=len(raw) // dtype.itemsize)
    steps = [step * dtype.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(flat[offset:], size, steps, writeable=False)


def dtype_of(code: str, order: Order) -> np.dtype[Any]:
    """Return the NumPy type of a number type, in a byte order."""
    return np.dtype("u2" if code == BFLOAT16 else code).newbyteorder(order)
