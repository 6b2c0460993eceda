"""Which files of a folder, or arrays of an HDF5 file, belong together: by their names alone.

An experiment is what one model gives on one data set. Its name is what remains of a path without the words that say a
split, a role or a shard: `cifar10/resnet50/probas_cal` and `cifar10/resnet50/labels_test` both belong to
`cifar10/resnet50`, `vit_val_logits.npy` to `vit`, `predictions_3.pt` to the folder itself.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from smart_core.data.roles.names import role_of, split_of, without_role_and_split, words

Path = tuple[str, ...]

_RANK_FIRST = re.compile(r"^(?:rank|shard|part|chunk|batch|worker|gpu|node)[_.\-]?(\d{1,9})[_.\-](.+)$")
"""The number of a piece in front of its name: `rank0_logits`, `shard-02-labels`."""
_SHARD = re.compile(r"(?:^|[_.\-])(rank|shard|part|chunk|batch|worker|gpu|node)?[_.\-]?(\d{1,9})(?:[_\-]of[_\-]\d+)?$")
"""The number at the end of a name: `logits_00`, `predictions_rank3`, `shard_2`, `data-00000-of-00008`."""
_RUNS = {
    *("seed", "run", "model", "epoch", "checkpoint", "ckpt", "step", "iter", "exp", "experiment", "trial", "version"),
    *("v", "resnet", "vgg", "densenet", "b", "l", "h"),
}
"""Words before a number that names another model or run, not a piece of one."""
_PART = re.compile(r"^part-(\d{1,9})(?:-.*)?$")
"""Spark's names: `part-00000-1c2d...-c000.snappy`."""
_SAMPLES = re.compile(r"^samples_(.+?)(?:_\d{4}-\d\d-\d\dT[\d\-.:]+)?$")
"""Samples logged by lm-evaluation-harness: the task, and when."""
_PLAIN = {
    *("true", "ground", "id", "pred", "hat", "raw", "all", "array", "arrays", "data", "dataset", "table", "tensors"),
    *("bundle", "indices", "index", "part", "batch", "rank", "shard", "chunk", "worker", "gpu", "node"),
}
"""Words that do not name an experiment."""
_BESIDE = {"labels", "features", "head_weight", "head_bias", "cw_l2", "group", "class_names", "split"}
"""Roles of arrays that make no experiment without scores."""


def shard_of(stem: str) -> tuple[str, int | None]:
    """Return a file's name without the number of a shard, and that number.

    >>> shard_of("logits_03"), shard_of("part-00002-1c2d.snappy"), shard_of("resnet50")
    (('logits', 3), ('part', 2), ('resnet50', None))
    """
    if found := _PART.match(stem):
        return "part", int(found[1])
    if found := _RANK_FIRST.match(stem):
        return found[2], int(found[1])
    found = _SHARD.search(stem)
    name = found and (stem[: found.start()] or found[1])
    if found and name and not _RUNS & {*words(name)[-1:]}:
        return name, int(found[2])
    return stem, None


def experiments(paths: Sequence[Path], bundles: bool) -> dict[str, list[int]]:
    """Return the positions of the paths of each experiment, by its name.

    `bundles` says that a path may stand for a whole set, as a file does and an array does not. What has no scores, such
    as labels that several models share, belongs to every experiment in or below its folder.
    """
    items = [_item(path) for path in paths]
    keys = [(folder, rest) for folder, rest, _ in items]
    scores = [role not in _BESIDE and (role is not None or bundles) for _, _, role in items]
    if not any(scores):
        keys = [(folder, "") for folder, _, _ in items]
        scores = [True] * len(items)
    places: dict[tuple[Path, str], list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    found = dict.fromkeys(key for key, own in zip(keys, scores, strict=True) if own)
    shared: dict[Path, list[int]] = defaultdict(list)
    for key in places.keys() - found.keys():
        shared[key[0]] += places[key]
    in_folder = Counter(folder for folder, _ in found)
    named = {}
    for folder, rest in found:
        own = places[folder, rest]
        name = "/".join(part for part in (*folder, rest if in_folder[folder] > 1 or not folder else "") if part)
        if not name and len(found) > 1:  # beside others, one whose names say no more than a role is called by that
            name = shard_of(paths[next(place for place in own if scores[place])][-1])[0]
        named[name] = sorted([*own, *(place for n in range(len(folder) + 1) for place in shared.get(folder[:n], ()))])
    return named


def _item(path: Path) -> tuple[Path, str, str | None]:
    """Return the folder and the name of an experiment that a path belongs to, and its role."""
    *folders, last = path
    folder = tuple(name for name in folders if not _says_only_what(name))
    if found := _SAMPLES.match(last):
        return folder, found[1], "logits"
    stem, _ = shard_of(last)
    rest = "_".join(word for word in without_role_and_split(stem).split("_") if word not in _PLAIN)
    return folder, rest if not rest or role_of(stem) or split_of(stem) else stem, role_of(stem)


def _says_only_what(name: str) -> bool:
    """Whether the name of a folder or group only says a split or a role."""
    return bool(words(name)) and not without_role_and_split(name)


def matching(asked: str, groups: Mapping[str, object] | Sequence[str]) -> str | None:
    """Return the group that is asked for: by its name, or by the end of its name if no other ends so."""
    asked = asked.strip("/")
    if asked in groups:
        return asked
    ending = [name for name in groups if name.endswith(f"/{asked}")]
    return ending[0] if len(ending) == 1 else None


def without_experiment(path: Path) -> Path:
    """Return an array's path without the names of the groups that make up its experiment."""
    *folders, last = path
    return (*(name for name in folders if _says_only_what(name)), last)
