"""Damage to sound files: bytes cut off, flipped, taken out, repeated, overwritten, mixed up or mislabelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np

from tests.data.test_formats import FILES
from tests.robustness.arrays import RICH_FILES
from tests.robustness.case import Case

SOUND: dict[str, bytes] = {**FILES, **RICH_FILES}
"""Small bundles in every format that is read, written by the formats' own libraries."""

EXTENSIONS = (
    "npz",
    "npy",
    "pt",
    "safetensors",
    "csv",
    "tsv",
    "parquet",
    "feather",
    "mat",
    "pkl",
    "h5",
    "json",
    "bin",
    "",
)


def truncated(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut anywhere, as often near one of the ends as in the midst: there the headers and directories are."""
    size = len(content)
    place = (
        int(rng.integers(0, min(64, size))),
        int(rng.integers(0, size)),
        size - int(rng.integers(1, min(64, size))),
    )
    return content[: place[int(rng.integers(3))]]


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """A few bits turned, half of the time in the first 200 bytes."""
    damaged = bytearray(content)
    reach = min(200, len(content)) if rng.random() < 0.5 else len(content)
    for place in rng.integers(0, reach, int(rng.integers(1, 9))):
        damaged[place] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def _run(content: bytes, rng: np.random.Generator) -> tuple[int, int]:
    start = int(rng.integers(0, len(content)))
    return start, min(len(content), start + int(2 ** rng.uniform(0, 10)))


def deleted(content: bytes, rng: np.random.Generator) -> bytes:
    """A run of up to 1 kB taken out."""
    start, end = _run(content, rng)
    return content[:start] + content[end:]


def duplicated(content: bytes, rng: np.random.Generator) -> bytes:
    """A run of up to 1 kB repeated."""
    start, end = _run(content, rng)
    return content[:end] * 1 + content[start:end] * int(rng.integers(1, 40)) + content[end:]


def overwritten(content: bytes, rng: np.random.Generator) -> bytes:
    """A run set to zeros, to ones or to noise."""
    start, end = _run(content, rng)
    fill = (bytes(end - start), b"\xff" * (end - start), rng.bytes(end - start))[int(rng.integers(3))]
    return content[:start] + fill + content[end:]


def lying_number(content: bytes, rng: np.random.Generator) -> bytes:
    """Four or eight bytes made a large number: what a length or an offset would be."""
    width = int(rng.choice([4, 8]))
    start = int(rng.integers(0, max(1, len(content) - width)))
    value = int(rng.choice([2**31 - 1, 2**31, 2**32 - 1, 10**9, 2**30]))
    return content[:start] + value.to_bytes(width, "little") + content[start + width :]


def spliced(content: bytes, rng: np.random.Generator) -> bytes:
    """The beginning of one file and the end of another."""
    other = SOUND[sorted(SOUND)[int(rng.integers(len(SOUND)))]]
    return content[: int(rng.integers(1, len(content)))] + other[int(rng.integers(0, len(other))) :]


def padded(content: bytes, rng: np.random.Generator) -> bytes:
    """Noise before or after a sound file."""
    noise = rng.bytes(int(rng.integers(1, 2000)))
    return noise + content if rng.random() < 0.5 else content + noise


MUTATIONS: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "truncated": truncated,
    "bits flipped": flipped,
    "run deleted": deleted,
    "run duplicated": duplicated,
    "run overwritten": overwritten,
    "lying number": lying_number,
    "spliced": spliced,
    "padded": padded,
}


def mutated(seed: int, *endings: str) -> Iterator[Case]:
    """Endless: every mutation of every sound file, round after round, each with a random stream of its own.

    With `endings`, only of files whose names end so.
    """
    chosen = [(place, name) for place, name in enumerate(sorted(SOUND)) if name.endswith(endings or "")]
    for round in count():
        for place, name in chosen:
            for number, kind in enumerate(MUTATIONS):
                yield Case(name, kind, _maker(kind, name, (seed, round, place, number)))
        for place, name in chosen:
            wrong = EXTENSIONS[(place + round) % len(EXTENSIONS)]
            yield Case(f"{name.rsplit('.', 1)[0]}.{wrong}", "other extension", lambda _, name=name: SOUND[name])


def _maker(kind: str, name: str, stream: tuple[int, ...]) -> Callable[[object], bytes]:
    return lambda _: MUTATIONS[kind](SOUND[name], np.random.default_rng(stream))
