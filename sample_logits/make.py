"""Train a sample's model anew and write its bundle: `python -m sample_logits.make digits`."""

from __future__ import annotations

import argparse
from importlib import import_module

import numpy as np
import torch

from sample_logits import FOLDER, path


def samples() -> list[str]:
    """Names of the samples: the modules of this package that can make one."""
    return sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in {"__init__", "make"})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sample_logits.make", description=__doc__)
    parser.add_argument("names", nargs="+", choices=samples(), help="which samples to make")
    for name in parser.parse_args().names:
        # one thread and one order of summation: the same bits on the same machine
        torch.set_num_threads(1)
        arrays = import_module(f"sample_logits.{name}").arrays()
        np.savez_compressed(path(name), **arrays)
        print(f"{path(name)}: {path(name).stat().st_size / 1000:.0f} kB")
        for split in ("val", "test"):
            hits = arrays[f"{split}_logits"].argmax(axis=1) == arrays[f"{split}_labels"]
            print(f"  {split}: {len(hits)} rows, accuracy {hits.mean():.4f}")


if __name__ == "__main__":
    main()
