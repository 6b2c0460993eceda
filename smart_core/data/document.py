"""From files or arrays to a checked `LogitSet`: `Document`, `load` and `from_arrays`; nothing checks it again."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from smart_core.data import sandbox
from smart_core.data.file_groups import matching
from smart_core.data.formats.raw import BFLOAT16, RawArray, RawFile, stem_of
from smart_core.data.logitset import Array, LogitSet
from smart_core.data.normalize.parts import Unlabelled
from smart_core.data.opened_files import OpenedFiles, choose_group
from smart_core.data.parsed import ArrayInfo, Labelled, ParsedDocument
from smart_core.data.roles.assign import Roles
from smart_core.data.source import GivenFile, Sources, by_experiment, collect
from smart_core.data.split import check_split
from smart_core.data.tasks import TOO_LARGE, answer, decode, encode, sources_of
from smart_core.errors import LogitFileError
from smart_core.formatting import printable, quoted

SAVE_AGAIN = "save the arrays again, as npz"


class Document:
    """One or more files, parsed once. Every method works on the same raw arrays and parses nothing again.

    The files are parsed, and the roles of their arrays found, in a sandboxed process that ends with the document (see
    `sandbox`); it returns checked arrays. Any problem raises `LogitFileError`.

    >>> from smart_core.data import Document
    >>> document = Document.open("sample:digits")
    >>> [(array.key, array.role) for array in document.describe()][:2]
    [('val_logits', 'val_logits'), ('val_labels', 'val_labels')]
    >>> document.load()
    LogitSet('digits', 10 classes, 720 + 720 samples)
    """

    def __init__(self, files: list[GivenFile], name: str | None, isolated: bool) -> None:
        self._experiments, self._asked_name, self._isolated = by_experiment(files), name, isolated
        self._given = files
        """The files that are opened: all, or those of one experiment in a folder."""
        self._sandbox: sandbox.Sandbox | None = None
        self._opened: OpenedFiles | None = None
        self._inner: list[str] = []
        """The experiments inside the files that are opened."""
        self._folder_group: str | None = None
        if len(self._experiments) == 1:
            self._open(*self._experiments)

    @classmethod
    def open(
        cls,
        source: Sources | None = None,
        *,
        val: Sources | None = None,
        test: Sources | None = None,
        name: str | None = None,
        isolated: bool = True,
    ) -> Document:
        """Parse the files; the arguments are those of `load`. Folders of several experiments are only listed."""
        return cls(collect(source, val, test, name), name, isolated and sandbox.available())

    @property
    def groups(self) -> list[str]:
        """The experiments in the files, of which `group` chooses one; empty if there is only one."""
        return list(self._experiments) if len(self._experiments) > 1 else self._inner

    @property
    def name(self) -> str:
        """The name of the set that is loaded from the files."""
        return self.name_of(None)

    def name_of(self, group: str | None) -> str:
        """Return the name of the set of one experiment."""
        return self._ask("name", group)

    def describe(self, roles: Roles | None = None, group: str | None = None) -> list[ArrayInfo]:
        """List every array with the role it would have: what a form needs to ask for `roles`."""
        return self._ask("describe", group, roles=roles)

    def load(
        self,
        *,
        val_fraction: float = 0.5,
        split_seed: int = 0,
        roles: Roles | None = None,
        values: Literal["logits", "probabilities"] | None = None,
        labels_start_at: Literal[0, 1] | None = None,
        transposed: bool | None = None,
        group: str | None = None,
    ) -> LogitSet:
        """Return the files as a `LogitSet`; the options are those of `smart_core.load`."""
        check_split(val_fraction, split_seed)
        return self._ask(
            "load",
            group,
            val_fraction=float(val_fraction),
            split_seed=int(split_seed),
            roles=roles,
            values=values,
            labels_start_at=labels_start_at,
            transposed=transposed,
        )

    def is_validation_only(self, roles: Roles | None = None, group: str | None = None) -> bool:
        """Return whether the files say that they are a validation part, so that a fit need not split them."""
        return self._ask("is_validation_only", group, roles=roles)

    def validation(
        self,
        *,
        roles: Roles | None = None,
        values: Literal["logits", "probabilities"] | None = None,
        labels_start_at: Literal[0, 1] | None = None,
        transposed: bool | None = None,
        group: str | None = None,
    ) -> Labelled:
        """Return the validation part; the files need not hold any other. The options are those of `smart_core.load`."""
        guesses = {"values": values, "labels_start_at": labels_start_at, "transposed": transposed}
        return self._ask("validation", group, roles=roles, **guesses)

    def logits(
        self,
        *,
        classes: int | None = None,
        roles: Roles | None = None,
        values: Literal["logits", "probabilities"] | None = None,
        transposed: bool | None = None,
        group: str | None = None,
    ) -> dict[str, Unlabelled]:
        """Return the logits by split: "" for files without a split, "val_" and "test_" for files with both.

        The options are those of `smart_core.load`. Labels are not needed; if there are any, they only distinguish rows
        from columns, as does `classes`, the number of classes of the calibrator.
        """
        return self._ask("logits", group, classes=classes, roles=roles, values=values, transposed=transposed)

    def arrays(self, group: str | None = None) -> dict[str, Array]:
        """Return every array that can be used, by its key."""
        return self._ask("arrays", group)

    def _ask(self, task: str, group: str | None, **arguments: Any) -> Any:
        group = self._entered(group)
        if self._opened is not None:
            with self._memory_errors():
                return answer(self._opened, task, group, **arguments)
        try:
            tree = encode({"group": group, **arguments}, [])
        except TypeError:  # an option of a type that no option has
            raise LogitFileError(f"The options {', '.join(arguments)} must be text, numbers or None.") from None
        if self._sandbox is not None and self._sandbox.expired():
            self._sandbox.close()
            self._sandbox = None
        if self._sandbox is None:
            self._parse()
        return self._call(task, tree)

    def _entered(self, group: str | None) -> str | None:
        """Open the folder of a group; return what remains of its name, the group inside the files."""
        if group is not None and not isinstance(group, str):
            raise LogitFileError("The option group must be text or None.")
        if len(self._experiments) == 1:
            return group
        folder = self._given[0].folder
        if group is None:
            raise choose_group(self.groups, folder)
        outer, inner = matching(group, self._experiments), None
        if outer is None:
            outer = next((name for name in self._experiments if group.startswith(f"{name}/")), None)
            inner = group[len(outer) + 1 :] if outer is not None else None
        if outer is None:
            problem = f"holds no group '{printable(group)}'"
            raise LogitFileError(problem, f"the groups are {quoted(self.groups, 6)}", file=folder)
        if outer != self._folder_group:
            self._open(outer)
        return inner

    @contextmanager
    def _memory_errors(self) -> Iterator[None]:
        try:
            yield
        except MemoryError as error:
            raise LogitFileError(*TOO_LARGE, file=self._given[0].name) from error

    def _open(self, group: str) -> None:
        """Parse the files of one experiment."""
        self._given, self._folder_group = self._experiments[group], group
        if self._isolated:
            self._parse()
            return
        with self._memory_errors():
            contents = [file.read() for file in self._given]
            self._opened = OpenedFiles(sources_of(contents, self._described()), self._set_name())
            self._inner = self._opened.groups

    def _parse(self) -> None:
        """Pass the files to a new sandbox, which parses them."""
        if self._sandbox is not None:
            self._sandbox.close()
        try:
            self._sandbox = sandbox.Sandbox(_contents(self._given))
        except OSError as error:
            raise LogitFileError(f"cannot be opened ({error.strerror})", file=self._given[0].name) from error
        weakref.finalize(self, self._sandbox.close)
        self._inner = self._call("open", {"files": self._described(), "name": self._set_name()})

    def _described(self) -> list[list[Any]]:
        return [[given.name, given.split, given.folder, list(given.path), given.store] for given in self._given]

    def _set_name(self) -> str | None:
        """Return the name that the caller gave, or the folder's or the experiment's."""
        if self._asked_name:
            return stem_of(self._asked_name)
        first = self._given[0]
        return self._folder_group or first.folder.removesuffix(".zarr") if first.path else None

    def _call(self, task: str, tree: Any) -> Any:
        assert self._sandbox is not None
        try:
            answer, arrays = self._sandbox.call(task, tree)
        except sandbox.SandboxError as error:
            self._sandbox.close()
            self._sandbox = None
            raise LogitFileError(f"could not be read: {error.reason}", SAVE_AGAIN, file=self._given[0].name) from None
        if "error" in answer:
            problem, fixes, file = answer["error"]
            raise LogitFileError(problem, *decode(fixes, []), file=file or self._given[0].name)
        return decode(answer["value"], arrays)


def _contents(files: Sequence[GivenFile]) -> Iterator[bytes | int]:
    """The content of each file, or a descriptor that is closed when the next one is asked for."""
    for file in files:
        opened = file.open()
        try:
            yield opened
        finally:
            if isinstance(opened, int):
                os.close(opened)


def load(
    source: Sources | None = None,
    *,
    val: Sources | None = None,
    test: Sources | None = None,
    name: str | None = None,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    roles: Roles | None = None,
    values: Literal["logits", "probabilities"] | None = None,
    labels_start_at: Literal[0, 1] | None = None,
    transposed: bool | None = None,
    group: str | None = None,
    isolated: bool = True,
) -> LogitSet:
    """Read logits and labels from a bundle, a pair of files, a folder, or `val=` and `test=` files.

    A source is a path, a folder, a pattern such as `"logits_*.npy"`, `"sample:NAME"` for a bundled sample, bytes (with
    `name=`), an open file, a (name, bytes) pair, or a list of these. Numbered files are joined in their order. A set
    without a split is split at random, stratified by label. Any problem raises `LogitFileError`.

    Without the options below, names, shapes and values decide, and each decision leaves a notice in `notices`. The
    `cure` of a notice is the option that decides otherwise.

    Parameters
    ----------
    roles
        Which array is what, {"val_logits": "a", "val_labels": "b", ...}. The roles are logits, labels, features, cw_l2
        and group (for one split with val_ or test_ before), split, head_weight, head_bias and class_names. The arrays
        are named by the keys that `Document.describe` lists, or "file:key" if two files share a key. None instead of an
        array leaves the role out. The other roles are found by name and shape.
    values
        "logits" or "probabilities" (or percentages); by default rows that sum to 1 are probabilities, rows that sum to
        100 percentages.
    labels_start_at
        0 or 1; by default 1 if the labels run up to the number of classes and none is 0.
    transposed
        Whether columns are samples; by default they are if only then the number of samples is that of the labels.
    group
        Which experiment, if the files hold several: the path of a group of an HDF5 file or zarr store, or of a folder
        per model. `Document.groups` lists them.
    isolated
        Whether the files are parsed in a process of their own, with hard limits on memory and time. If False, they are
        parsed in this one, without limits: no file runs code, but a hostile one can fill the memory or crash Python.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> import smart_core as sc
    >>> file = io.BytesIO()
    >>> np.savez(file, logits=np.tile([[2.0, 0.5, -1.0], [0.0, 1.0, 3.0]], (5, 1)), labels=[1, 3] * 5)
    >>> data = sc.load(file, name="model.npz", val_fraction=0.4)
    >>> data
    LogitSet('model', 3 classes, 4 + 6 samples)
    >>> data.validation.labels
    array([0, 2, 0, 2])
    >>> print(data.notices[0])
    model.npz: labels run from 1 to 3 for 3 classes; 1 was subtracted.
    """
    return Document.open(source, val=val, test=test, name=name, isolated=isolated).load(
        val_fraction=val_fraction,
        split_seed=split_seed,
        roles=roles,
        values=values,
        labels_start_at=labels_start_at,
        transposed=transposed,
        group=group,
    )


def load_call(files: Mapping[str, Sequence[str]], options: Mapping[str, Any]) -> str:
    """Return the Python call that loads files, given by `whole`, `val` and `test`, with these options.

    Names and options become literals, so text from elsewhere is never shown as code.

    >>> load_call({"val": ["v.npz"], "test": ["logits.npy", "labels.npy"]}, {"labels_start_at": 0})
    'sc.load(val="v.npz", test=["logits.npy", "labels.npy"], labels_start_at=0)'
    """
    arguments = []
    for part, names in files.items():
        # JSON escapes characters that change how a line is shown
        literals = [json.dumps(name, ensure_ascii=False) if name.isprintable() else repr(name) for name in names]
        value = literals[0] if len(literals) == 1 else f"[{', '.join(literals)}]"
        arguments += [value if part == "whole" else f"{part}={value}"] if literals else []
    arguments += [f"{name}={value!r}" for name, value in options.items()]
    return f"sc.load({', '.join(arguments)})"


def from_arrays(
    name: str = "arrays",
    *,
    val_fraction: float = 0.5,
    split_seed: int = 0,
    values: Literal["logits", "probabilities"] | None = None,
    labels_start_at: Literal[0, 1] | None = None,
    transposed: bool | None = None,
    **arrays: Any,
) -> LogitSet:
    """Return a `LogitSet` of arrays in memory, named as in a bundle, with the checks and options of `load`.

    NumPy arrays, torch tensors on any device, pandas columns and lists are converted and copied.

    >>> from smart_core.data import from_arrays
    >>> from_arrays(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 1.0], [1.0, 2.0]], labels=[0, 1, 0, 1])
    LogitSet('arrays', 2 classes, 2 + 2 samples)
    """
    raw = [_from_memory(name, key, value) for key, value in arrays.items() if value is not None]
    return ParsedDocument((RawFile(name, raw),), name).load(
        val_fraction=val_fraction,
        split_seed=split_seed,
        values=values,
        labels_start_at=labels_start_at,
        transposed=transposed,
    )


def _from_memory(name: str, key: str, value: Any) -> RawArray:
    """Return a copy of a NumPy array, a torch tensor, a pandas column, a list, ..."""
    unusable = RawArray(name, (key,), None, "")
    if np.ma.is_masked(value):  # NumPy would ignore the mask
        raise unusable.error("has masked entries", "fill them", "drop their rows")
    try:
        if hasattr(value, "detach") and hasattr(value, "resolve_neg"):  # a tensor, perhaps on another device
            import torch

            value = value.detach().cpu().resolve_conj().resolve_neg()
            if value.dtype is torch.bfloat16:
                bits = np.array(value.contiguous().view(torch.int16).numpy()).view(np.uint16)
                return RawArray.of(name, (key,), bits, BFLOAT16)
            value = value.numpy()
        return RawArray.of(name, (key,), np.array(value))
    except Exception as error:  # the object may do anything when it is converted
        problem = f"is a {type(value).__name__} that cannot be made an array"
        raise unusable.error(problem, "give numbers or text in rows of equal length") from error
