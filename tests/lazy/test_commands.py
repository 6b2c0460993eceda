"""The command line on shards: compare, fit, apply with its resumption, inspect, benchmark and a bad shard."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import smart_core as sc
from smart_core.cli import main
from tests.lazy.shards import LABELS, LOGITS, ROWS, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("shards") / "resnet")


def test_compare_on_shards(folder: Path, tmp_path: Path):
    command = [
        "compare",
        str(folder / "logits_*.npy"),
        "--labels",
        str(folder / "labels.npy"),
        "--methods",
        "vanilla,ts",
    ]
    assert (
        main([*command, "--scheduler", "threads", "--scheduler-workers", "2", "--json", str(tmp_path / "out.json")])
        == 0
    )
    found = json.loads((tmp_path / "out.json").read_text())
    whole = sc.compare(sc.data.from_arrays(logits=LOGITS, labels=LABELS), "vanilla,ts")
    assert found["methods"]["ts"]["metrics"]["ece"]["mean"] == pytest.approx(whole.results["ts"].mean("ece"), abs=1e-6)
    assert found["data"]["test"] == ROWS // 2


def test_inspect_and_benchmark_take_shards(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(folder), "--scheduler", "threads"]) == 0
    assert "750" in capsys.readouterr().out
    out = tmp_path / "results.json"
    command = ["benchmark", f"shards={folder}", "--scheduler", "threads", "--methods", "vanilla,ts", "--out", str(out)]
    assert main(command) == 0
    assert "2 fits made, 0 found" in capsys.readouterr().out
    assert main(command) == 0
    assert "0 fits made, 2 found" in capsys.readouterr().out


def test_fit_then_apply_writes_a_file_per_shard_and_goes_on(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    saved, out = tmp_path / "ts.safetensors", tmp_path / "calibrated"
    assert main(["fit", str(folder), "--scheduler", "threads", "--method", "ts", "--out", str(saved)]) == 0
    command = ["apply", str(saved), str(folder / "logits_*.npy"), "--out", f"{out}/"]
    for share in ("1/2", "2/2"):
        assert main([*command, "--shard", share]) == 0
    expected = sc.load_calibrator(saved).predict_proba(LOGITS)
    pieces = [np.load(out / f"logits_{number}.npy") for number in range(4)]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)

    written = {path: path.stat().st_mtime_ns for path in out.glob("*.npy")}
    (out / "logits_1.npy").unlink()
    os.utime(out / "logits_3.npy", ns=(0, 0))  # older than its source
    assert main(command) == 0
    assert "2 files written" in capsys.readouterr().out
    assert (out / "logits_0.npy").stat().st_mtime_ns == written[out / "logits_0.npy"]
    np.testing.assert_array_equal(np.load(out / "logits_3.npy"), pieces[3])

    assert main(["fit", str(folder), "--scheduler", "threads", "--method", "vanilla", "--out", str(saved)]) == 0
    assert main(command) == 2
    assert "holds the output of another calibrator" in capsys.readouterr().err


def test_apply_keeps_what_is_finished_when_a_shard_is_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    made, saved, out = write(tmp_path / "made"), tmp_path / "ts.safetensors", tmp_path / "calibrated"
    sc.TS().fit(LOGITS, LABELS).save(saved)
    good = (made / "logits_2.npy").read_bytes()
    (made / "logits_2.npy").write_bytes(good[:-8] + b"\xff" * 8)
    command = ["apply", str(saved), str(made / "logits_*.npy"), "--out", f"{out}/", "--top-label"]
    assert main([*command, "--scheduler", "threads", "--scheduler-workers", "1"]) == 2
    said = capsys.readouterr().err
    assert "logits_2.npy: holds NaN or infinity in row 698" in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in out.glob("*.npz"))[:2] == ["logits_0.npz", "logits_1.npz"]
    assert not (out / "logits_2.npz").exists()
    (made / "logits_2.npy").write_bytes(good)
    assert main(command) == 0
    found = np.load(out / "logits_2.npz")
    expected = sc.load_calibrator(saved).predict_proba(LOGITS[401:1100])
    np.testing.assert_array_equal(found["confidence"], expected.max(axis=1))
    np.testing.assert_array_equal(found["prediction"], expected.argmax(axis=1))


def test_options_for_whole_files_are_refused_on_shards(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["compare", str(folder), "--scheduler", "threads", "--transposed"]) == 2
    assert "not for shards" in capsys.readouterr().err
