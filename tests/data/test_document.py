"""A document parses its files once and then returns descriptions, sets and logits any number of times."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest

from smart_core.cli import main
from smart_core.data import Document, load
from smart_core.data.sandbox import Sandbox
from smart_core.errors import Fix, LogitFileError
from tests.conftest import ROOT
from tests.data.files import example, npy, npz

Z, Y = example()


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the files of every parse, in order."""
    names: list[list[str]] = []
    call = Sandbox.call

    def counted(self, task, arguments=None):
        if task == "open":
            names.append([name for name, *_ in arguments["files"]])
        return call(self, task, arguments)

    monkeypatch.setattr(Sandbox, "call", counted)
    return names


def test_every_use_shares_one_parse(parses):
    document = Document.open([("logits.npy", npy(Z)), ("labels.npy", npy(Y + 1))])
    first = document.load()
    assert [info.role for info in document.describe()] == ["logits", "labels"]
    assert document.load(val_fraction=0.25).content_hash != first.content_hash
    assert document.load().content_hash == first.content_hash
    assert document.load().notices == first.notices
    with pytest.raises(LogitFileError, match="outside 0 to 3"):
        document.load(labels_start_at=0)
    np.testing.assert_array_equal(document.logits()[""].logits, Z)
    np.testing.assert_array_equal(document.validation().part.labels, Y)
    assert parses == [["logits.npy", "labels.npy"]]


def test_load_parses_once(parses):
    content = npz(logits=Z, labels=Y)
    load(content, name="a.npz")
    assert parses == [["a.npz"]]


@pytest.mark.parametrize(
    "command", ["inspect FILE", "fit FILE --method ts --out CAL", "fit --val FILE --method ts --out CAL"]
)
def test_commands_parse_once(command: str, tmp_path: Path, parses):
    file = tmp_path / "val.npz"
    file.write_bytes(npz(val_logits=Z, val_labels=Y))
    assert main(command.replace("FILE", str(file)).replace("CAL", str(tmp_path / "c.safetensors")).split()) == 0
    assert parses == [["val.npz"]]


def test_the_document_and_load_agree():
    files = {"val": [("v.npz", npz(scores=Z, y=Y))], "test": [("t.npz", npz(scores=Z + 1, y=Y))]}
    document = Document.open(**files)
    assert document.load().content_hash == load(**files).content_hash
    assert document.name == load(**files).name


def test_an_error_carries_its_parts():
    with pytest.raises(LogitFileError) as caught:
        load(npz(a=Z, b=Z, c=Y), name="a.npz")
    error = caught.value
    assert (error.file, error.problem) == ("a.npz", "several arrays could be the logits: 'a', 'b'")
    assert error.fixes == (Fix("roles", "logits"),)
    assert str(error) == f"a.npz: {error.problem}; say which array holds the logits with roles=."
    assert error.sentence(lambda fix: f"choose the {fix.role}").endswith("; choose the logits.")
    assert error.sentence(lambda fix: None) == f"a.npz: {error.problem}."
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.fixes, again.file) == (str(error), error.fixes, error.file)


def test_the_fix_names_the_split_that_lacks_an_array():
    with pytest.raises(LogitFileError) as caught:
        load(npz(val_logits=Z, val_labels=Y, test_logits=Z), name="a.npz")
    assert Fix("roles", "test_labels") in caught.value.fixes


LAYERS = ("formats", "roles", "normalize", "document")


@pytest.mark.parametrize("layer", LAYERS[:-1])
def test_a_layer_imports_none_above_it(layer: str):
    above = tuple(f"smart_core.data.{name}" for name in (*LAYERS[LAYERS.index(layer) + 1 :], "split", "checks"))
    for path in (ROOT / "smart_core" / "data" / layer).glob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        imported = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        assert not [name for name in imported if name.startswith(above)], path
