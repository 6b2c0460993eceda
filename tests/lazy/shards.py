"""Shards of one set of logits in every format that is read by rows, for the tests beside this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import feather, parquet
from safetensors.torch import save_file

from tests.calibrators.problems import over_confident

ROWS, CLASSES = 1500, 7
PROBLEM = over_confident(ROWS, CLASSES, seed=3)
LOGITS = np.ascontiguousarray(PROBLEM.logits, dtype=np.float32)
LABELS = np.asarray(PROBLEM.labels, dtype=np.int64)
CUTS = [slice(0, 400), slice(400, 401), slice(401, 1100), slice(1100, ROWS)]


def npy(path: Path, z: np.ndarray, y: np.ndarray, dtype: str = "<f4") -> None:
    np.save(path.with_suffix(".npy"), z.astype(dtype))


def safetensors(path: Path, z: np.ndarray, y: np.ndarray) -> None:
    save_file({"labels": torch.from_numpy(y), "logits": torch.from_numpy(z)}, path.with_suffix(".safetensors"))


def table(z: np.ndarray, y: np.ndarray, wide: bool) -> pa.Table:
    if wide:
        columns = {f"logit_{k}": pa.array(z[:, k]) for k in range(z.shape[1])}
    else:
        columns = {"logits": pa.FixedSizeListArray.from_arrays(pa.array(z.reshape(-1)), z.shape[1])}
    return pa.table({**columns, "label": pa.array(y), "domain_name": pa.array([f"d{k % 3}" for k in y])})


def parquet_lists(path: Path, z: np.ndarray, y: np.ndarray) -> None:
    parquet.write_table(table(z, y, wide=False), path.with_suffix(".parquet"), row_group_size=130)


def parquet_columns(path: Path, z: np.ndarray, y: np.ndarray) -> None:
    parquet.write_table(table(z, y, wide=True), path.with_suffix(".parquet"), row_group_size=64)


def arrow(path: Path, z: np.ndarray, y: np.ndarray) -> None:
    feather.write_feather(table(z, y, wide=True), path.with_suffix(".arrow"), chunksize=90, compression="lz4")


def hdf5(path: Path, z: np.ndarray, y: np.ndarray) -> None:
    import h5py

    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file.create_dataset("logits", data=z, chunks=(max(1, len(z) // 3), z.shape[1]), compression="gzip")
        file["labels"] = y


def zarr(path: Path, z: np.ndarray, y: np.ndarray) -> None:
    import zarr as library

    store = library.open_group(str(path.with_suffix(".zarr")), mode="w")
    store.create_array("logits", data=z, chunks=(100, z.shape[1]))
    store.create_array("labels", data=y)


WRITERS: dict[str, Callable[[Path, np.ndarray, np.ndarray], None]] = {
    "npy": npy,
    "safetensors": safetensors,
    "parquet lists": parquet_lists,
    "parquet columns": parquet_columns,
    "arrow": arrow,
    "hdf5": hdf5,
    "zarr": zarr,
}


def write(folder: Path, writer: Callable[[Path, np.ndarray, np.ndarray], None] = npy) -> Path:
    """Four shards of unequal length; npy gets its labels in a file beside them."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(CUTS):
        writer(folder / f"logits_{number}", LOGITS[rows], LABELS[rows])
    if writer is npy:
        np.save(folder / "labels.npy", LABELS)
    return folder
