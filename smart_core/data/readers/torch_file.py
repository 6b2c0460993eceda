"""pt and pth: tensors and plain containers, read by the restricted interpreter straight into NumPy.

Each tensor is held against the bytes of its storage, wherever (CPU or GPU) it was saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import numpy as np

from smart_core.data.found import BFLOAT16, Contents, Leaf, check_claim, flatten, refuse
from smart_core.data.logitset import Array, Notice
from smart_core.data.readers.archive import open_zip
from smart_core.data.source import Source
from smart_core.data.unpickle import Name
from smart_core.data.unpickle_numpy import unpickle

_STORAGES = {
    **{"DoubleStorage": "f8", "FloatStorage": "f4", "HalfStorage": "f2", "BFloat16Storage": BFLOAT16},
    **{
        "LongStorage": "i8",
        "IntStorage": "i4",
        "ShortStorage": "i2",
        "CharStorage": "i1",
        "ByteStorage": "u1",
    },
    "BoolStorage": "?",
}
_UNTYPED = {"uint16": "u2", "uint32": "u4", "uint64": "u8"}


@dataclass(frozen=True, eq=False)
class Storage:
    """The flat numbers under one or more tensors; `code` is None until a tensor names the type."""

    raw: bytes
    code: str | None
    order: Literal["<", ">"]


def read_torch_zip(source: Source) -> Contents:
    """The tensors of a file that torch.save wrote."""
    archive = open_zip(source.name, source.data)
    names = archive.namelist()
    prefix = next(name for name in names if name.endswith("data.pkl")).removesuffix("data.pkl")
    order: Literal["<", ">"] = (
        ">" if f"{prefix}byteorder" in names and archive.read(f"{prefix}byteorder") == b"big" else "<"
    )
    devices: set[str] = set()
    storages: dict[str, Storage] = {}

    def storage_of(reference: Any) -> Storage:
        kind, name, key, device, _ = reference
        if kind != "storage" or not isinstance(name, Name) or not isinstance(device, str):
            raise TypeError("a reference that is not a storage")
        devices.add(device)
        if key not in storages:
            storages[key] = Storage(archive.read(f"{prefix}data/{key}"), _STORAGES.get(name.name), order)
        return storages[key]

    def rebuild(storage: Any, offset: int, size: Any, stride: Any, *_: Any, code: str | None = None) -> Leaf:
        code = code or storage.code
        if not isinstance(storage, Storage) or code is None:
            raise TypeError("a tensor of a kind that holds no plain numbers")
        return Leaf(strided(source.name, storage, code, offset, size, stride), code)

    def rebuild_v3(
        storage: Any, offset: int, size: Any, stride: Any, grad: Any, hooks: Any, kind: Any, *_: Any
    ) -> Leaf:
        return rebuild(storage, offset, size, stride, code=_UNTYPED[kind.name])

    def keep(data: Any, *_: Any) -> Any:
        return data

    table: dict[tuple[str, str], Any] = {
        ("torch._utils", "_rebuild_tensor_v2"): rebuild,
        ("torch._utils", "_rebuild_tensor_v3"): rebuild_v3,
        ("torch._utils", "_rebuild_parameter"): keep,
        ("torch", "Size"): keep,
        ("torch.storage", "UntypedStorage"): None,
        **{("torch", name): None for name in (*_STORAGES, *_UNTYPED)},
    }
    found = unpickle(source.name, archive.read(f"{prefix}data.pkl"), table, storage_of)
    return Contents(found, _device_notice(source.name, devices))


def strided(file: str, storage: Storage, code: str, offset: Any, size: Any, stride: Any) -> Array:
    """The tensor as a view of its storage, if every element it can reach lies inside."""
    dtype = np.dtype("u2" if code == BFLOAT16 else code).newbyteorder(storage.order)
    numbers = [offset, *size, *stride]
    if len(size) != len(stride) or any(not isinstance(n, int) or n < 0 for n in numbers):
        raise TypeError("a tensor with an impossible shape")
    count = int(np.prod(size, dtype=object))
    if count == 0:
        return np.empty(size, dtype=dtype)
    check_claim(file, "a tensor", count * dtype.itemsize, len(storage.raw))
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if (last + 1) * dtype.itemsize > len(storage.raw):
        raise refuse(file, f"a tensor of shape {size} is larger than its bytes in the file", "save it again")
    flat = np.frombuffer(storage.raw, dtype=dtype, count=len(storage.raw) // dtype.itemsize)
    steps = [step * dtype.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(flat[offset:], size, steps, writeable=False)


def read_torch_legacy(source: Source) -> Contents:
    """Files from before PyTorch 1.6, through torch.load restricted to tensors."""
    import torch

    try:
        tree = torch.load(BytesIO(source.data), map_location="cpu", weights_only=True)
    except Exception as error:
        cure = "save the logits and labels alone with torch.save"
        raise refuse(source.name, "is an old PyTorch file that is damaged or holds more than tensors", cure) from error

    def unwrap(node: Any) -> Any:
        if not isinstance(node, torch.Tensor):
            return node
        check_claim(source.name, "a tensor", node.nelement() * node.element_size(), len(source.data))
        if node.dtype is torch.bfloat16:
            return Leaf(node.detach().view(torch.int16).numpy().view(np.uint16), BFLOAT16)
        return node.detach().numpy()

    return Contents(flatten(source.name, tree, len(source.data), unwrap))


def _device_notice(file: str, devices: set[str]) -> list[Notice]:
    other = sorted(device for device in devices if device != "cpu")
    return [Notice("device", f"{file}: saved from {', '.join(other)}, read on the CPU.")] if other else []
