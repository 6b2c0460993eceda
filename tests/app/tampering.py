"""A workspace that was changed in one place, place by place: every value of its manifest and every array."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from operator import delitem, setitem
from typing import Any, NamedTuple

import numpy as np

import smart_core as sc
from pages.shared import datasets, workspace
from pages.shared.session import LeaderboardRow, LoadedDataset, Session, row_key, study_key
from pages.shared.studies import Study
from smart_core.calibrators import methods
from smart_core.data.logitset import Cure, Head, Notice
from smart_core.evaluation import METRICS
from tests.calibrators.problems import over_confident

ROWS = 120
SETTINGS = {"smart": {"epochs": 3}, "gc": {"partitions": 2, "steps": 2}}
VIEW = {"metric": "nll", "bins": "15", "seeds": "2"}


class Tampered(NamedTuple):
    """A changed file, and what was changed. It is made when it is asked for: most runs try a few of thousands."""

    where: str
    make: Callable[[], bytes]

    @property
    def content(self) -> bytes:
        return self.make()


def _data() -> sc.LogitSet:
    problem = over_confident(2 * ROWS, 3, seed=1)

    def part(rows: slice) -> sc.Part:
        distances = np.where(np.arange(ROWS) % 3 == 0, np.nan, np.linspace(0.1, 1, ROWS))
        groups = np.where(np.arange(ROWS) % 2 == 0, "fog", "snø")
        features = np.ascontiguousarray(problem.features[rows][:, :4])
        return sc.Part(problem.logits[rows], problem.labels[rows], features, distances, groups)

    head = Head(np.ascontiguousarray(problem.head[0][:, :4]), problem.head[1])
    notices = (Notice("split", "Split at random.", Cure("labels_start_at", 1, "Count from one")), Notice("x", "Odd."))
    return sc.LogitSet("mine", part(slice(0, ROWS)), part(slice(ROWS, None)), head, ("cat", "dog", "Straße"), notices)


@cache
def content() -> bytes:
    """A workspace with everything that pages draw."""
    data, here = _data(), Session()
    key = datasets.key_of(data)
    here.datasets[key] = LoadedDataset(data, "mine", {"whole": ["mine.npz"]}, {"labels_start_at": 0})
    here.settings["smart"] = SETTINGS["smart"]

    def keep(result: sc.experiments.MethodResult) -> None:
        here.rows[row_key(data, result.id)] = LeaderboardRow(result, dict(SETTINGS.get(result.id, {})), 2, 15)

    sc.compare(data, "vanilla,ts,smart,gc", 2, settings=SETTINGS, on_result=keep, cache=here.fits)
    for kind, (settings, result) in _studies(data).items():
        here.studies[study_key(data, f"{kind} {json.dumps(settings, sort_keys=True)}")] = Study(result, settings)
    return workspace.to_bytes(workspace.gather(here, {"data": key, **VIEW})[0])


@cache
def hostile(names: tuple[str, ...]) -> Tampered:
    """A workspace in which every name that a file can choose is one of these."""
    data, here = _data(), Session()
    groups = np.array(names)[np.arange(ROWS) % len(names)]
    data = replace(data, name=names[0], class_names=names[:3], test=replace(data.test, group=groups))
    key = datasets.key_of(data)
    options = {"labels_start_at": 0, "roles": {names[0]: names[1]}}
    here.datasets[key] = LoadedDataset(data, names[1], {"val": [names[0]], "test": list(names)}, options)

    def keep(result: sc.experiments.MethodResult) -> None:
        here.rows[row_key(data, result.id)] = LeaderboardRow(result, {}, 1, 15)

    sc.compare(data, "vanilla,ts", 1, on_result=keep, cache=here.fits)
    content = workspace.to_bytes(workspace.gather(here, {"data": key, **VIEW})[0])
    return Tampered("names", lambda: content)


def _studies(data: sc.LogitSet) -> dict[str, tuple[dict[str, Any], Any]]:
    """Kind -> settings and result."""
    quick, once = {"epochs": 2}, {"seeds": 1, "bins": 15}
    tables = sc.ablation(
        data, 1, methods="ts", objectives=["nll", "brier"], indicators=["margin"], settings={"smart": quick}
    )
    smart = sc.SMART(epochs=2, indicator="entropy").fit(data.validation.logits, data.validation.labels)
    grid = {"sigma": (0.05, 0.5), "delta": (0.001,), "seeds": 2, "bins": 15}
    return {
        "sensitivity": (grid, sc.sensitivity(data, grid["sigma"], grid["delta"], 2, settings=quick)),
        "objectives": (once, tables.objectives),
        "indicators": (once, tables.indicators),
        "efficiency": (once, sc.data_efficiency(data, "ts", [20, 60], 1)),
        "shift": ({**once, "methods": ["ts"], "others": []}, sc.shift(data, "ts", 1)),
        "traces": ({"epochs": 300}, sc.traces(data, ["nll", "softece"], epochs=3)),
        "smart on entropy": ({"seeds": 5}, [smart]),
    }


LONG = 30_000
WRONG: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 0.5, 1e-30, 1e29, 1e308, float("nan"), float("inf"), [], {}, [[]]),
    *("", "text", "\ud800", "x" * 201, "x" * LONG, {"$float": "nan"}, {"$float": "-inf"}, {"$tuple": []}),
    *({"$array": 0}, {"$calibrator": 3}, {"$evaluation": 1}),
)
"""What may stand in the place of a value."""


def manifests() -> Iterator[Tampered]:
    """The file with one value of its manifest replaced, left out or renamed; of values of one kind, the first."""
    members = _members()
    original = json.loads(members["manifest.json"])
    seen: set[str] = set()

    def changed(path: tuple[Any, ...], how: str, change: Callable[[Any, Any], None]) -> Tampered:
        def make() -> bytes:
            tree = json.loads(members["manifest.json"])
            change(_at(tree, path[:-1]), path[-1])
            return _zipped({**members, "manifest.json": json.dumps(tree).encode()})

        return Tampered(f"{'/'.join(map(_place, path))} {how}", make)

    for path in _places(original):
        kind = "/".join(map(_place, path))
        if kind in seen:
            continue
        seen.add(kind)
        for wrong in (*WRONG, *_variants(_at(original, path))):
            yield changed(
                path, f"= {json.dumps(wrong)[:40]}", lambda holder, name, value=wrong: setitem(holder, name, value)
            )
        if isinstance(path[-1], str):
            yield changed(path, "left out", lambda holder, name: delitem(holder, name))
            yield changed(path, "renamed", lambda holder, name: setitem(holder, "other", holder.pop(name)))


def with_value(path: tuple[Any, ...], value: Any) -> Tampered:
    """The file with one value of its manifest set; `#` stands for the key or the hash of the data set."""
    members = _members()
    tree = json.loads(members["manifest.json"])
    content_hash = tree["sets"][0]["content_hash"]
    steps = [
        step.replace("#", content_hash if "/" in step else content_hash[:12]) if isinstance(step, str) else step
        for step in path
    ]
    _at(tree, tuple(steps[:-1]))[steps[-1]] = value
    changed = {**members, "manifest.json": json.dumps(tree).encode()}
    return Tampered(str(path), lambda: _zipped(changed))


def _place(step: int | str) -> str:
    """A step of a path, without what tells values of one kind apart."""
    if isinstance(step, int) or step in METRICS or step in methods():
        return "*"
    return re.sub(r"[0-9a-f]{12,64}(/(vanilla|ts|smart|gc)$)?", "#", step)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, item in items:
        yield from _places(item, (*path, step))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def _variants(value: Any) -> list[Any]:
    """Values like the one that is there: of another length or order, or a little different."""
    if isinstance(value, list) and value:
        return [value[:-1], value + value, value[::-1]]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 2 * value + 3, float(value)]
    if isinstance(value, float):
        return [-value, 1e6 * value, value * 1e300]
    return [value + "x", value.upper()] if isinstance(value, str) else []


def arrays() -> Iterator[Tampered]:
    """The file with one array replaced; the hash of a data set is that of the replaced one, where it has one."""
    members = _members()
    seen: set[str] = set()
    for member, packed in members.items():
        if not member.endswith(".npz"):
            continue
        with np.load(io.BytesIO(packed)) as bundle:
            own = dict(bundle)
        for name, array in own.items():
            known = f"{re.sub('[0-9]+', '*', member)} {re.sub('[0-9]+', '*', name)} {array.dtype} {array.ndim}"
            if known in seen:
                continue
            seen.add(known)
            for how, wrong in _wrong_arrays(array).items():
                changed = {key: value for key, value in own.items() if key != name}
                changed |= {} if wrong is None else {name: wrong}
                yield Tampered(f"{member} {name} {how}", partial(_with_bundle, member, changed))


def _with_bundle(member: str, arrays: dict[str, Any]) -> bytes:
    """The file with other arrays in one of its bundles."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    files = {**_members(), member: stream.getvalue()}
    if member.startswith("sets/"):
        files["manifest.json"] = _rehashed(files["manifest.json"], arrays)
    return _zipped(files)


def _wrong_arrays(array: Any) -> dict[str, Any]:
    wrong: dict[str, Any] = {
        "removed": None,
        "shorter": array[:-1],
        "longer": np.concatenate([array, array]),
        "empty": array[:0],
        "one axis more": array[None],
        "flat": array.reshape(-1),
        "single": array.reshape(-1)[0],
        "transposed": array.T,
    }
    if array.dtype.kind == "U":
        texts = {"lone surrogate": "\ud800", "long": "x" * 900, "empty text": "", "a number": 0.0}
        return wrong | {how: np.full(array.shape, text) for how, text in texts.items()}
    wrong["text"] = np.full(array.shape, "x")
    wrong["other byte order"] = array.astype(array.dtype.newbyteorder())
    wrong |= {kind: array.astype(kind) for kind in ("f2", "f4", "f8", "i4", "u1", "?", "longdouble", "complex128")}
    for value in (0, 1, -1, 2, 0.5, 1e-30, 1e6, 3e38, np.nan, np.inf, -np.inf):
        with np.errstate(all="ignore"):
            filled = np.full(array.shape, value, array.dtype)
            first = np.concatenate([np.full(1, value, array.dtype), array.reshape(-1)[1:]]).reshape(array.shape)
        wrong |= {f"all {value}": filled, f"first {value}": first}
    return wrong


def _rehashed(manifest: bytes, bundle: dict[str, Any]) -> bytes:
    """The manifest with the content hash of other arrays, where they make a data set."""
    old = json.loads(manifest)["sets"][0]["content_hash"]
    own: dict[str, dict[str, Any]] = {"val": {}, "test": {}, "head": {}, "class": {}}
    for name, array in bundle.items():
        side, _, part = name.partition("_")
        own[side][part] = array
    try:
        head = Head(**own["head"]) if own["head"] else None
        names = tuple(own["class"]["names"].tolist()) if own["class"] else None
        new = sc.LogitSet("x", sc.Part(**own["val"]), sc.Part(**own["test"]), head, names).content_hash
    except Exception:
        return manifest
    return manifest.replace(old.encode(), new.encode()).replace(old[:12].encode(), new[:12].encode())


@cache
def _members() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, each in members.items():
            archive.writestr(name, each)
    return stream.getvalue()
