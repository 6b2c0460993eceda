"""Files that say whose they are: the session's number stands in the file's name and in a class's name."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from smart_core.data.simulate import simulate

CLASSES = 10
ROWS = 1200

BIG_CLASSES = 100
BIG_BLOCK = 10_000


def word(number: int) -> str:
    """The marker of a session."""
    return f"zq{number:03d}marker"


def marked(folder: Path, number: int, turn: int) -> Path:
    """A small bundle of the session's own, another one at each turn."""
    drawn = simulate(ROWS, CLASSES, seed=1000 * number + turn)
    half = ROWS // 2
    path = folder / f"{word(number)}-{turn}.npz"
    np.savez(
        path,
        val_logits=drawn.logits[:half],
        val_labels=drawn.labels[:half],
        test_logits=drawn.logits[half:],
        test_labels=drawn.labels[half:],
        class_names=np.array([word(number), *(f"class {place}" for place in range(1, CLASSES))]),
    )
    return path


def big(folder: Path, number: int, megabytes: int) -> Path:
    """A bundle of about this size, written block by block: half of its rows for validation."""
    rows = megabytes * 1_000_000 // (4 * BIG_CLASSES) // 2
    path = folder / f"{word(number)}-big.npz"
    generator = np.random.default_rng(number)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as bundle:
        for side in ("val", "test"):
            labels = generator.integers(0, BIG_CLASSES, rows)
            with bundle.open(f"{side}_labels.npy", "w") as member:
                np.lib.format.write_array(member, labels)
            with bundle.open(f"{side}_logits.npy", "w", force_zip64=True) as member:
                header = {"descr": "<f4", "fortran_order": False, "shape": (rows, BIG_CLASSES)}
                np.lib.format.write_array_header_1_0(member, header)
                for start in range(0, rows, BIG_BLOCK):
                    size = min(BIG_BLOCK, rows - start)
                    member.write(generator.standard_normal((size, BIG_CLASSES), dtype=np.float32).tobytes())
    return path
