"""A workspace is restored bit for bit, completely or not at all, and a hostile one does no harm."""

from __future__ import annotations

import io
import json
import os
import resource
import time
import zipfile
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import smart_core as sc
from smart_core.calibrators import get
from smart_core.calibrators.base import Calibrator
from smart_core.data.logitset import Cure, Head, Notice
from smart_core.data.saving import save_bundle
from smart_core.errors import WorkspaceError
from smart_core.evaluation import Evaluation, evaluate
from smart_core.experiments import SeedTable, Sensitivity, Shift, compare
from smart_core.experiments.method_result import fit_key
from smart_core.export.workspace import FitRecord, Workspace, load_workspace, save_workspace
from smart_core.export.workspace_schema import SCHEMA
from tests.calibrators.fits import ALL
from tests.calibrators.problems import over_confident
from tests.data.files import npz

QUICK = {"smart": {"epochs": 30}, "gc": {"partitions": 2}}


@pytest.fixture(scope="module")
def data() -> sc.LogitSet:
    """A set with everything that a set may have."""
    problem = over_confident(500, 4, seed=1)
    rng = np.random.default_rng(0)

    def part(rows: slice) -> sc.Part:
        count = len(problem.labels[rows])
        distances = np.where(rng.random(count) < 0.5, np.nan, rng.random(count))
        groups = np.where(np.arange(count) % 2 == 0, "fog 3", "snø")
        return sc.Part(problem.logits[rows], problem.labels[rows], problem.features[rows], distances, groups)

    return sc.LogitSet(
        'a "set" / 1',
        part(slice(0, 250)),
        part(slice(250, None)),
        Head(*problem.head),
        ("cat", "dog", "Straße", "d"),
        (Notice("split", "Split at random."), Notice("x", "Odd.", Cure("one_based", True, "Count from one"))),
    )


@pytest.fixture(scope="module")
def fits(data: sc.LogitSet) -> dict[str, FitRecord]:
    """Every method once, SMART with its trace."""
    made = {}
    for id in ALL:
        calibrator = get(id, seed=2, **QUICK.get(id, {}))
        validation = data.validation
        calibrator.fit(
            validation.logits, validation.labels, features=validation.features, head=data.head, trace=id == "smart"
        )
        key = fit_key(data, id, QUICK.get(id), 2)
        made[key] = FitRecord(calibrator, 0.1 + len(made), evaluate(calibrator, data.test))
    return made


@pytest.fixture(scope="module")
def board(data: sc.LogitSet) -> tuple[Any, dict[str, Any]]:
    cache: dict[str, Any] = {}
    return compare(data, "vanilla,ts,smart", 2, settings=QUICK | {"gc": {}}, cache=cache), cache


def saved(workspace: Workspace) -> bytes:
    stream = io.BytesIO()
    save_workspace(stream, workspace)
    return stream.getvalue()


def assert_same_bits(first: np.ndarray, second: np.ndarray) -> None:
    assert (first.dtype, first.shape) == (second.dtype, second.shape)
    assert first.tobytes() == second.tobytes()


def assert_same_evaluation(first: Evaluation, second: Evaluation) -> None:
    for field in fields(Evaluation):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if isinstance(one, np.ndarray):
            assert_same_bits(one, other)
            assert other.flags.writeable == one.flags.writeable
        elif one is None:
            assert other is None
        else:
            assert vars(one).keys() == vars(other).keys()
            for name, value in vars(one).items():
                if isinstance(value, np.ndarray):
                    assert_same_bits(value, getattr(other, name))
                else:
                    assert getattr(other, name) == value


def test_data_sets_come_back(data: sc.LogitSet):
    plain = sc.LogitSet(
        "plain", sc.Part(data.test.logits, data.test.labels), sc.Part(data.test.logits, data.test.labels)
    )
    back = load_workspace(saved(Workspace(sets=[data, plain]))).sets
    assert [one.name for one in back] == [data.name, "plain"]
    assert [one.content_hash for one in back] == [data.content_hash, plain.content_hash]
    for mine, other in ((data.validation, back[0].validation), (data.test, back[0].test)):
        assert [name for name, _ in other.arrays()] == [name for name, _ in mine.arrays()]
        for (_, one), (_, two) in zip(mine.arrays(), other.arrays(), strict=True):
            assert_same_bits(one, two)
            assert not two.flags.writeable
    assert back[0].notices == data.notices
    assert back[0].class_names == data.class_names
    assert_same_bits(back[0].head.weight, data.head.weight)
    assert back[1].head is None
    assert back[1].class_names is None


def test_a_stored_set_is_a_bundle(data: sc.LogitSet):
    with zipfile.ZipFile(io.BytesIO(saved(Workspace(sets=[data])))) as archive:
        bundle = archive.read("sets/0.npz")
    assert sc.load(bundle, name="a.npz").content_hash == data.content_hash


def test_fits_come_back_bit_for_bit(data: sc.LogitSet, fits: dict[str, FitRecord]):
    back = load_workspace(saved(Workspace(sets=[data], fits=fits))).fits
    assert list(back) == list(fits)
    for key, (calibrator, seconds, evaluation) in fits.items():
        other = back[key]
        assert type(other.calibrator) is type(calibrator)
        assert other.seconds == seconds
        assert other.calibrator.settings_dict() == calibrator.settings_dict()
        assert other.calibrator.notices_ == calibrator.notices_
        assert_same_evaluation(evaluation, other.evaluation)
        rows = [c.predict_proba(data.test.logits, features=data.test.features) for c in (calibrator, other.calibrator)]
        assert_same_bits(*rows)
        assert_same_evaluation(evaluation, evaluate(other.calibrator, data.test))
    traces = {c.id: (c.trace_, back[key].calibrator.trace_) for key, (c, _, _) in fits.items()}
    before, after = traces["smart"]
    assert len(before) == 30
    assert after.values == before.values
    assert traces["ts"] == (None, None)


def test_a_comparison_comes_back_and_its_fits_are_not_made_again(data, board, monkeypatch: pytest.MonkeyPatch):
    comparison, cache = board
    back = load_workspace(saved(Workspace({}, [data], cache, {"compare": comparison})))
    restored = back.studies["compare"]
    assert restored.to_json() == comparison.to_json()
    pd.testing.assert_frame_equal(restored.to_frame(), comparison.to_frame(), check_exact=True)
    assert restored.data is back.sets[0]
    for method, row in comparison.results.items():
        other = restored.results[method]
        assert other.values == row.values
        assert other.intervals == row.intervals
        assert other.floor == row.floor
        for name, floor in row.floor.items():
            assert_same_bits(floor.values, other.floor[name].values)
        for one, two in zip(row.evaluations, other.evaluations, strict=True):
            assert_same_evaluation(one, two)
    # what was one object is one object again
    shared = {id(record.calibrator) for record in back.fits.values()}
    assert {id(c) for row in restored.results.values() for c in row.calibrators} == shared

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(Calibrator, "fit", refuse)
    again = compare(back.sets[0], "vanilla,ts,smart", 2, settings=QUICK | {"gc": {}}, cache=dict(back.fits))
    timeless = [{**json.loads(one.to_json())["methods"]["smart"], "fit_seconds": 0} for one in (again, comparison)]
    assert timeless[0] == timeless[1]


def test_studies_of_every_kind_come_back(data: sc.LogitSet):
    quick = {"epochs": 2}
    table = SeedTable.empty("method", "size", ("ts", "pts"), (50, 100), 2)
    table.metrics["ece"][0, 1] = [0.1 + 0.2, 1e-300]
    table.reasons[1, 0, 1] = "too few samples"
    table.complete = False
    studies = {
        "sensitivity": sc.sensitivity(data, [0.05], [0.001, 0.1], 1, settings=quick),
        "ablation": sc.ablation(
            data, 1, methods="ts", objectives=["nll"], indicators=["margin"], settings={"smart": quick}
        ),
        "shift": sc.shift(data, "ts", 1),
        "traces": sc.traces(data, ["nll"], epochs=2),
        "runtime": sc.runtime(data, "vanilla", 1),
        "table": table,
    }
    back = load_workspace(saved(Workspace(studies=studies))).studies
    assert list(back) == list(studies)
    for name, study in studies.items():
        assert type(back[name]) is type(study)
        assert back[name].to_json() == study.to_json()
        pd.testing.assert_frame_equal(back[name].to_frame(), study.to_frame(), check_exact=True)
    assert isinstance(back["sensitivity"], Sensitivity)
    assert isinstance(back["shift"], Shift)
    assert back["table"].reasons == {(1, 0, 1): "too few samples"}
    assert back["table"].rows == ("ts", "pts")
    assert_same_bits(back["table"].metrics["ece"], table.metrics["ece"])


def test_plain_studies_and_the_view(board):
    _, cache = board
    row = {"settings": {"sigma": 0.1}, "seeds": 5, "$odd": None, "rows": [1, (2.5, "x")], "values": np.arange(3)}
    study = {
        "row": row,
        3: np.float32(0.1),
        "nan": float("nan"),
        "inf": -float("inf"),
        "fit": next(iter(cache.values()))[0],
    }
    view = {"page": "compare", "bins": 15, "wide": True, "nothing": None, "list": [1, {"a": 2}], "ünïcode": "\n"}
    view |= {"$mark": [0.5] * 20, "many": [0.25] * 20}
    back = load_workspace(saved(Workspace(view, studies={"own": study})))
    assert back.view == view
    own = back.studies["own"]
    assert own[3] == float(np.float32(0.1))
    assert np.isnan(own["nan"])
    assert own["inf"] == -np.inf
    assert_same_bits(own["row"].pop("values"), np.arange(3))
    assert own["row"] == {"settings": {"sigma": 0.1}, "seeds": 5, "$odd": None, "rows": [1, (2.5, "x")]}
    assert own["fit"].id == "vanilla"


def test_an_empty_workspace_and_equal_bytes(data):
    empty = load_workspace(saved(Workspace()))
    assert (empty.view, empty.sets, empty.fits, empty.studies) == ({}, [], {}, {})
    workspace = Workspace({"a": 1}, [data], studies={"t": {"x": np.arange(4.0)}})
    assert saved(workspace) == saved(workspace)
    again = load_workspace(saved(workspace))
    assert saved(again) == saved(workspace)


def test_a_file_is_written_completely_or_not_at_all(data, fits, tmp_path: Path):
    path = tmp_path / "session.smart"
    save_workspace(path, Workspace({"first": True}, [data]))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))  # what a full disk does to a write
    try:
        with pytest.raises(WorkspaceError, match=r"session\.smart cannot be written: File too large\.$"):
            save_workspace(path, Workspace({"first": False}, [data], fits))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["session.smart"]
    assert load_workspace(path).view == {"first": True}
    save_workspace(path, Workspace({"first": False}))
    assert load_workspace(str(path)).view == {"first": False}
    assert path.stat().st_mode & 0o777 == 0o644
    with pytest.raises(WorkspaceError, match="cannot be written: No such file"):
        save_workspace(tmp_path / "absent" / "a.smart", Workspace())


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_files_are_written_with_the_umask_of_the_user(data, tmp_path: Path, umask: int, mode: int):
    before = os.umask(umask)
    try:
        save_bundle(data, tmp_path / "a.npz")
        save_workspace(tmp_path / "a.smart", Workspace())
        save_workspace(tmp_path / "a.smart", Workspace({"second": True}))
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {"a.smart": mode, "a.npz": mode}


def test_values_that_cannot_be_saved_are_reported_before_anything_is_written(data, board, tmp_path: Path):
    comparison, _ = board
    path = tmp_path / "a.smart"
    for workspace, words in (
        (Workspace({"page": object()}), "'page' is not plain JSON"),
        (Workspace({"page": float("nan")}), "'page' is not plain JSON"),
        (Workspace(studies={"mine": {"a": [object()]}}), "'mine' holds a object"),
        (Workspace(studies={"mine": np.array([object()])}), "'mine' holds a ndarray"),
        (Workspace(studies={"compare": comparison}), "not in the workspace; add it"),
        (Workspace({"a": "\ud800"}), "cannot be encoded"),
        (Workspace(sets=[sc.LogitSet("\udcff", data.validation, data.test)]), "cannot be encoded"),
    ):
        with pytest.raises(WorkspaceError, match=words):
            save_workspace(path, workspace)
    assert list(tmp_path.iterdir()) == []


# -- damaged and hostile files ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content(data, fits, board) -> bytes:
    comparison, cache = board
    return saved(Workspace({"page": "x"}, [data], cache, {"compare": comparison, "t": {"a": np.arange(5)}}))


def refused(source: Any, words: str = "") -> None:
    start = time.perf_counter()
    with pytest.raises(WorkspaceError, match=words) as caught:
        load_workspace(source)
    assert time.perf_counter() - start < 20
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    assert not str(caught.value).endswith("..")


def edited(content: bytes, **members: Any) -> bytes:
    """The archive with some members replaced, by bytes or by a function of the old bytes; None leaves one out."""
    stream = io.BytesIO()
    names = {
        name.replace("/", "__").replace(".", "_"): name for name in zipfile.ZipFile(io.BytesIO(content)).namelist()
    }
    assert members.keys() <= names.keys() | {"new"}
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w") as new:
        for key, name in names.items():
            change = members.get(key, lambda same: same)
            if change is not None:
                new.writestr(name, change(old.read(name)) if callable(change) else change)
        for name, added in members.get("new", {}).items():
            new.writestr(name, added)
    return stream.getvalue()


def manifest(**changes: Any):
    def change(old: bytes) -> bytes:
        return json.dumps({**json.loads(old), **changes}).encode()

    return change


def test_the_editing_helper_alone_changes_nothing(content):
    assert load_workspace(edited(content)).view == {"page": "x"}


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.999])
def test_truncated(content, share: float):
    refused(content[: int(len(content) * share)], "not a workspace, or not a whole one")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=5))
def test_flipped_bytes_are_refused_or_harmless(content, places):
    spoiled = bytearray(content)
    for share, value in places:
        spoiled[int(share * len(spoiled))] = value
    sentence, view = "", None
    try:
        view = load_workspace(bytes(spoiled)).view
    except WorkspaceError as error:
        sentence = str(error)
    assert (view == {"page": "x"}) != bool(sentence)
    assert "\n" not in sentence


def test_other_files(tmp_path: Path):
    refused(b"", "not a workspace")
    refused(b"noise" * 100, "not a workspace")
    refused(npz(a=np.zeros(3)), "not a workspace, or not a whole one")
    refused(tmp_path / "absent.smart", "absent.smart cannot be read: No such file")
    refused(tmp_path, "is not a file")


@pytest.mark.parametrize("values", [b"[],", b'{"a":[]},', b"0.5,", b'"\xc3\xa9",'])
def test_a_manifest_that_would_fill_memory(content, values: bytes):
    """Some kilobytes that unpack to tens of millions of values, which never become objects of this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    many = values * ((30 << 20) // len(values))
    start = b'{"format": "smart-workspace", "version": 1, "view": {"a": ['
    deflated = io.BytesIO()
    with zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", start + many[:-1] + b"]}}")
    del many
    assert len(deflated.getvalue()) < 300_000
    with pytest.raises(WorkspaceError, match=r"does not fit in the memory|more values|computing time"):
        load_workspace(deflated.getvalue())  # its reader may take 4 s of computing time, however busy the machine is
    refused(edited(content, manifest_json=b" " * (33 << 20)), "too long")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


@pytest.mark.parametrize("kind", [kind for kind in SCHEMA if is_dataclass(kind)])
def test_every_field_of_a_class_has_a_rule(kind: type):
    """The parts and the head of a data set are checked together, by the rule that ties its fields together."""
    together = {"validation", "test", "head"} if kind is sc.LogitSet else set()
    assert {item.name for item in fields(kind) if item.init} == SCHEMA[kind].keys() | together


def test_manifests_with_wrong_claims(content):
    refused(edited(content, manifest_json=b"{"), "damaged")
    refused(edited(content, manifest_json=b"[1]"), "not a workspace")
    refused(edited(content, manifest_json=b"[" * 200_000), "damaged")
    refused(edited(content, manifest_json=manifest(format="other")), "not a workspace")
    refused(edited(content, manifest_json=manifest(version=99)), "newer version")
    refused(edited(content, manifest_json=manifest(version="x")), "damaged")
    refused(edited(content, manifest_json=manifest(arrays=10**9)), "damaged")
    refused(edited(content, manifest_json=manifest(fits={"k": {"calibrator": 0}})), "damaged")
    refused(edited(content, manifest_json=manifest(evaluations=[])), "not there")
    for tree in (
        {"$array": 10**6},
        {"$array": -1},
        {"$array": "0"},
        {"$set": True},
        {"$unknown": 1},
        {"$tuple": [], "$map": []},
        {"$map": [[{"$array": 0}, 1]]},
        {"$object": "os.system", "fields": {"command": "true"}},
        {"$object": "SeedTable", "fields": {}},
        {"$object": "SeedTable", "fields": {"row_name": 1, "x": 2}},
        {"$object": "Ablation", "fields": {"objectives": "a", "indicators": "b"}},
    ):
        refused(edited(content, manifest_json=manifest(studies={"bad": tree})), "damaged")


def test_parts_that_are_missing_or_not_what_was_saved(content, data):
    refused(edited(content, calibrators__0_safetensors=None), "damaged")
    refused(edited(content, calibrators__0_safetensors=b"x" * 50), "not a calibrator")
    refused(edited(content, arrays_npz=None), "damaged")
    refused(edited(content, sets__0_npz=npz(val_logits=np.zeros((3, 2), np.float32))), "damaged")
    bundle = {f"{side}_{name}": array for side in ("val", "test") for name, array in data.test.arrays()}
    refused(edited(content, sets__0_npz=npz(**bundle)), "not the one that was saved")
    spoiled = np.array(data.test.logits)
    spoiled[0, 0] = np.nan
    side = {"logits": spoiled, "labels": data.test.labels}
    hashed = sc.LogitSet("n", sc.Part(**side), sc.Part(**side)).content_hash
    refused(
        edited(
            content,
            sets__0_npz=npz(**{f"{s}_{k}": v for s in ("val", "test") for k, v in side.items()}),
            manifest_json=manifest(sets=[{"name": "n", "content_hash": hashed, "notices": []}]),
        ),
        "NaN or infinity",
    )
    vectors = {f.name: np.zeros(5) for f in fields(Evaluation) if f.name != "cells"}
    refused(edited(content, evaluations__0_npz=npz(**vectors)), "Evaluation.prediction must be an array")
    vectors |= {"prediction": np.zeros(5, np.int64), "correct": np.zeros(5, bool), "confidence": np.zeros(4)}
    refused(edited(content, evaluations__0_npz=npz(**vectors)), "values of Evaluation contradict each other")


def test_pickles_and_bombs(content, tmp_path: Path):
    class Trap:
        def __reduce__(self):
            return (Path(tmp_path / "sprung").touch, ())

    stream = io.BytesIO()
    np.savez(stream, **{"0": np.array([Trap()], dtype=object)})
    refused(edited(content, arrays_npz=stream.getvalue()), "damaged")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (200 << 20,)})
        archive.writestr("0.npy", header.getvalue() + b"\0" * (100 << 20))
    refused(edited(content, arrays_npz=stream.getvalue()), "does not fit in the memory")
    deflated = io.BytesIO()
    with zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("manifest.json", "arrays.npz"):
            archive.writestr(name, zipfile.ZipFile(io.BytesIO(content)).read(name))
    refused(deflated.getvalue(), "packed twice")
    assert list(tmp_path.iterdir()) == []


def test_unknown_members_are_never_read(content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    strange = {"../evil.txt": b"x", str(tmp_path / "evil.txt"): b"x", "sets/99.npz": b"x", "a.py": b"raise SystemExit"}
    assert load_workspace(edited(content, new=strange)).view == {"page": "x"}
    assert list(tmp_path.iterdir()) == []
    assert not (tmp_path.parent / "evil.txt").exists()
