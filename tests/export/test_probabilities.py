"""Probabilities in files: the same numbers as in memory, written chunk by chunk, and whole or not at all."""

from __future__ import annotations

import io
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import smart_core as sc
from smart_core import device
from smart_core.calibrators import get
from smart_core.errors import Cancelled, ExportError
from smart_core.export.probabilities import save_probabilities
from smart_core.progress import Run
from tests.calibrators.problems import over_confident


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch):
    """So that a few hundred rows already come in many pieces."""
    monkeypatch.setattr(device, "CHUNK_ELEMENTS", 300)


@pytest.fixture(scope="module")
def part() -> sc.Part:
    problem = over_confident(400, 5, seed=3)
    return sc.Part(problem.logits, problem.labels, problem.features)


@pytest.fixture(scope="module", params=["ts", "gc"])
def calibrator(request, part: sc.Part):
    settings = {"partitions": 2} if request.param == "gc" else {}
    return get(request.param, **settings).fit(part.logits, part.labels, features=part.features)


def expected(calibrator, part: sc.Part) -> np.ndarray:
    return calibrator.predict_proba(part.logits, features=part.features)


def test_npz_has_the_matrix_and_loads_as_a_set(calibrator, part, tmp_path):
    path = tmp_path / "out.npz"
    save_probabilities(calibrator, part, path)
    with np.load(path) as found:
        assert set(found.files) == {"probs", "labels"}
        assert found["probs"].dtype == np.float32
        np.testing.assert_array_equal(found["probs"], expected(calibrator, part))
        np.testing.assert_array_equal(found["labels"], part.labels)
    loaded = sc.load(path)
    assert len(loaded.validation) + len(loaded.test) == len(part)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables(calibrator, part, ending: str, full: bool, tmp_path):
    path = tmp_path / f"out.{ending}"
    save_probabilities(calibrator, part, path, full=full)
    frame = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    rows = expected(calibrator, part)
    names = ["confidence", "prediction", "label", "correct", *(f"prob_{k}" for k in range(5 if full else 0))]
    assert list(frame.columns) == names
    np.testing.assert_array_equal(frame["confidence"].to_numpy(np.float32), rows.max(axis=1))
    np.testing.assert_array_equal(frame["prediction"], rows.argmax(axis=1))
    np.testing.assert_array_equal(frame["label"], part.labels)
    np.testing.assert_array_equal(frame["correct"].to_numpy(bool), rows.argmax(axis=1) == part.labels)
    if full:
        np.testing.assert_array_equal(frame.iloc[:, 4:].to_numpy(np.float32), rows)


def test_npz_of_columns_and_an_open_file(calibrator, part):
    stream = io.BytesIO()
    save_probabilities(calibrator, part, stream, format="npz", full=False)
    stream.seek(0)
    with np.load(stream) as found:
        assert set(found.files) == {"confidence", "prediction", "labels", "correct"}
        np.testing.assert_array_equal(found["confidence"], expected(calibrator, part).max(axis=1))
    for ending in ("csv", "parquet"):
        stream = io.BytesIO()
        save_probabilities(calibrator, part, stream, format=ending)
        assert not stream.closed
        assert len(stream.getvalue()) > 1000


def test_no_matrix_of_the_whole_set_is_ever_made(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device, "CHUNK_ELEMENTS", 1 << 16)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 100)).astype(np.float32)
    large = sc.Part(logits, rng.integers(0, 100, 20_000))
    ts = get("ts").fit(logits[:500], large.labels[:500])
    for ending in ("npz", "csv", "parquet"):
        tracemalloc.start()
        try:
            save_probabilities(ts, large, tmp_path / f"a.{ending}", full=ending != "csv")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < logits.nbytes / 2  # the float32 matrix alone would be twice that


def test_cancelled_or_failing_it_leaves_the_old_file(calibrator, part, tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    token = threading.Event()

    def stop(fraction: float, words: str) -> None:
        token.set()

    with pytest.raises(Cancelled):
        save_probabilities(calibrator, part, path, run=Run(stop, token))
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]


def test_wrong_use_is_one_sentence(calibrator, part, tmp_path: Path):
    with pytest.raises(ExportError, match="npz, csv, parquet, not as 'xlsx'"):
        save_probabilities(calibrator, part, tmp_path / "a.xlsx")
    with pytest.raises(ExportError, match=r"a\.csv cannot be written: No such file"):
        save_probabilities(calibrator, part, tmp_path / "absent" / "a.csv")
    with pytest.raises(ExportError, match="name one of these"):
        save_probabilities(calibrator, part, io.BytesIO())
