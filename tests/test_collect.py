"""Models run over loaders: what is collected equals a plain loop, survives a stop, and serves every method."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import smart_core as sc
from smart_core.cli import main
from smart_core.errors import CollectError
from smart_core.experiments.running import unavailable
from tests.conftest import ROOT

CLASSES = 5


class TimmStyle(nn.Module):
    """The layout of timm's models: `forward_features`, `forward_head`, and a classifier that can be asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.head_drop = nn.Dropout(0.5)
        self.fc = nn.Linear(8, CLASSES)

    def get_classifier(self) -> nn.Module:
        return self.fc

    def forward_features(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.stem(x)))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        pooled = self.head_drop(self.global_pool(x).flatten(1))
        return pooled if pre_logits else self.fc(pooled)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))


class Columns(Dataset):
    """A data set whose items are mappings, as Hugging Face's are."""

    def __init__(self, **columns: Tensor) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["labels"])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[index] for name, column in self.columns.items()}


def image_loader(rows: int, seed: int = 0, side: int = 6, **options) -> DataLoader:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(rows, 3, side, side, generator=generator)
    labels = torch.randint(CLASSES, (rows,), generator=generator)
    return DataLoader(TensorDataset(images, labels), batch_size=16, **options)


def token_loader(rows: int, **extra: Tensor) -> DataLoader:
    generator = torch.Generator().manual_seed(rows)
    ids = torch.randint(5, 50, (rows, 7), generator=generator)
    mask = (torch.arange(7) < torch.randint(3, 8, (rows, 1), generator=generator)).long()
    labels = torch.randint(CLASSES, (rows,), generator=generator)
    columns = {"input_ids": ids.where(mask == 1, torch.zeros_like(ids)), "attention_mask": mask, "labels": labels}
    return DataLoader(Columns(**columns, **extra), batch_size=16)


def plain_loop(model: nn.Module, loader: DataLoader) -> np.ndarray:
    model.eval()
    rows = []
    with torch.no_grad():
        for batch in loader:
            if isinstance(batch, dict):
                rows.append(model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits)
            else:
                rows.append(model(batch[0]))
    return torch.cat(rows).numpy()


@pytest.fixture(scope="module")
def timm_style() -> nn.Module:
    torch.manual_seed(0)
    return TimmStyle()


@pytest.fixture(scope="module")
def bert() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        num_labels=CLASSES, id2label={k: f"topic {k}" for k in range(CLASSES)},
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def test_an_image_model(timm_style):
    timm_style.train()
    loaders = {"val": image_loader(100), "test": image_loader(70, seed=1)}
    data = sc.collect(timm_style, loaders, device="cpu")
    assert timm_style.training
    np.testing.assert_allclose(data.validation.logits, plain_loop(timm_style, loaders["val"]), atol=1e-6)
    np.testing.assert_allclose(data.test.logits, plain_loop(timm_style, loaders["test"]), atol=1e-6)
    np.testing.assert_array_equal(data.test.labels, loaders["test"].dataset.tensors[1])
    again = data.test.features @ data.head.weight.T + data.head.bias
    np.testing.assert_allclose(again, data.test.logits, atol=1e-5)


def test_a_language_model(bert):
    loaders = token_loader(90, row=torch.arange(90)), token_loader(60)
    data = sc.collect(bert, loaders, device="cpu")
    np.testing.assert_allclose(data.validation.logits, plain_loop(bert, loaders[0]), atol=1e-6)
    np.testing.assert_allclose(data.test.logits, plain_loop(bert, loaders[1]), atol=1e-6)
    assert data.class_names == tuple(f"topic {k}" for k in range(CLASSES))
    np.testing.assert_allclose(data.test.features @ data.head.weight.T + data.head.bias, data.test.logits, atol=1e-5)


def test_a_decoder_whose_layer_reads_every_token():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=16, num_labels=CLASSES, pad_token_id=0
    )
    model = transformers.GPT2ForSequenceClassification(config)
    loader = token_loader(80)
    data = sc.collect(model, (loader, loader), device="cpu")
    np.testing.assert_allclose(data.test.logits, plain_loop(model, loader), atol=1e-6)
    np.testing.assert_allclose(data.test.features @ data.head.weight.T + data.head.bias, data.test.logits, atol=1e-5)


def test_an_image_classifier_of_transformers():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4,
        num_labels=CLASSES,
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    generator = torch.Generator().manual_seed(0)
    columns = {"pixel_values": torch.randn(40, 3, 8, 8, generator=generator), "labels": torch.arange(40) % CLASSES}

    def batches(rows):
        return transformers.BatchFeature({name: torch.stack([row[name] for row in rows]) for name in rows[0]})

    loader = DataLoader(Columns(**columns), batch_size=16, collate_fn=batches)
    data = sc.collect(model, loader, device="cpu")
    assert (data.head.weight.shape, data.class_names) == ((CLASSES, 16), None)
    with torch.no_grad():
        wanted = model.eval()(pixel_values=columns["pixel_values"]).logits.numpy()
    found = np.concatenate([data.validation.logits, data.test.logits])
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(wanted, axis=0), atol=1e-6)


@pytest.fixture(scope="module")
def torchvision():
    """The package, also where its compiled operators are for another build of PyTorch: no classifier calls them."""
    missing = [name for name in ("timm", "torchvision") if find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    try:
        return import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return import_module("torchvision")


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("torchvision", "resnet18"),
        ("torchvision", "mobilenet_v3_small"),
        ("torchvision", "squeezenet1_1"),
        ("timm", "resnet10t"),
        ("timm", "vit_tiny_patch16_224"),
        ("timm", "convnext_atto"),
    ],
)
def test_models_of_torchvision_and_timm(package, name, torchvision):
    torch.manual_seed(0)
    options = {"img_size": 64} if name.startswith("vit") else {}
    make = import_module("timm").create_model if package == "timm" else torchvision.models.get_model
    model = make(name, num_classes=CLASSES, **options)
    loaders = image_loader(10, side=64), image_loader(7, seed=1, side=64)
    data = sc.collect(model, loaders, device="cpu")
    np.testing.assert_allclose(data.test.logits, plain_loop(model, loaders[1]), atol=1e-6)
    if name == "squeezenet1_1":  # its last layer is a convolution
        assert (data.head, data.test.features) == (None, None)
    else:
        again = data.test.features @ data.head.weight.T + data.head.bias
        np.testing.assert_allclose(again, data.test.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["timm_style", "bert"])
def test_no_method_is_unavailable(kind, request, tmp_path):
    model = request.getfixturevalue(kind)
    loader = image_loader if kind == "timm_style" else token_loader
    data = sc.collect(model, (loader(100), loader(70)), device="cpu", out=tmp_path / "bundle.npz")
    reasons = {id: unavailable(id, data) for id in sc.calibrators.methods()}
    assert {reason for reason in reasons.values() if reason} <= {"needs two classes"}
    read = sc.load(tmp_path / "bundle.npz")
    assert read.content_hash == data.content_hash
    assert not (tmp_path / "bundle.npz.partial").exists()
    few = sc.compare(read, "vanilla,ts,fc,gc,procal", seeds=1)
    assert set(few.available) == {"vanilla", "ts", "gc", "procal", "fc"}


def test_features_by_name_and_without(timm_style):
    loader = image_loader(40)
    named = sc.collect(timm_style, loader, features="stem", device="cpu")
    assert (named.test.features.shape[1], named.head) == (3 * 6 * 6, None)
    assert sc.collect(timm_style, loader, features=None, device="cpu").test.features is None
    with pytest.raises(CollectError, match="no module 'neck'; its linear layers are fc"):
        sc.collect(timm_style, loader, features="neck", device="cpu")


def test_one_logit_and_autocast(timm_style):
    torch.manual_seed(0)
    binary = nn.Sequential(nn.Flatten(), nn.Linear(108, 4), nn.ReLU(), nn.Linear(4, 1))
    images = torch.randn(40, 3, 6, 6)
    loader = DataLoader(TensorDataset(images, torch.arange(40) % 2), batch_size=8)
    data = sc.collect(binary, (loader, loader), device="cpu")
    with torch.no_grad():
        np.testing.assert_allclose(data.test.logits[:, 1], binary(images)[:, 0].numpy(), atol=1e-6)
    assert data.head.weight.shape == (2, 4)
    exact = sc.collect(timm_style, image_loader(40), device="cpu")
    coarse = sc.collect(timm_style, image_loader(40), device="cpu", autocast="bf16")
    assert 0 < np.abs(exact.test.logits - coarse.test.logits).max() < 0.05
    with pytest.raises(CollectError, match="autocast must be bf16 or fp16, not 'int8'"):
        sc.collect(timm_style, image_loader(40), autocast="int8")


def test_scikit_learn():
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    for model in (LogisticRegression(max_iter=500), RandomForestClassifier(20, random_state=0)):
        model.fit(X[::3], names[::3])
        data = sc.from_sklearn(model, X[1::3], names[1::3], X[2::3], names[2::3])
        assert data.class_names == ("setosa", "versicolor", "virginica")
        probabilities = sc.Vanilla().fit_part(data.validation).predict_proba(data.test.logits)
        np.testing.assert_allclose(probabilities, model.predict_proba(X[2::3]), atol=1e-6)
        assert data.test.accuracy == pytest.approx(model.score(X[2::3], names[2::3]))
    margins = LinearSVC().fit(X[::3], y[::3])
    data = sc.from_sklearn(margins, X[1::3], y[1::3], X[2::3], y[2::3])
    np.testing.assert_allclose(data.test.logits, margins.decision_function(X[2::3]), rtol=1e-6)
    two = LogisticRegression().fit(X[::3], y[::3] == 2)
    data = sc.from_sklearn(two, X[1::3], y[1::3] == 2, X[2::3], y[2::3] == 2)
    np.testing.assert_allclose(data.test.logits[:, 1], two.decision_function(X[2::3]), rtol=1e-5)
    with pytest.raises(CollectError, match="labels that the estimator does not know, such as 7"):
        sc.from_sklearn(margins, X[1::3], y[1::3] + 7, X[2::3], y[2::3])
    with pytest.raises(CollectError, match="neither predict_proba nor decision_function"):
        sc.from_sklearn(object(), X, y, X, y)


@pytest.mark.parametrize("classes", [2, 3])
def test_boosters(classes):
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + rng.normal(0, 0.5, 300), [0.0, 1.0][: classes - 1])
    val, test = (X[100:200], y[100:200]), (X[200:], y[200:])
    quick = {"n_estimators": 5, "n_jobs": 1}
    boosted = [
        xgboost.XGBClassifier(**quick, max_depth=2).fit(X[:100], y[:100]),
        lightgbm.LGBMClassifier(**quick, num_leaves=4, verbose=-1).fit(X[:100], y[:100]),
    ]
    for model in boosted:
        wanted = model.predict_proba(test[0])
        booster = model.get_booster() if hasattr(model, "get_booster") else model.booster_
        for each in (model, booster):
            data = sc.from_sklearn(each, *val, *test)
            probabilities = sc.Vanilla().fit_part(data.validation).predict_proba(data.test.logits)
            np.testing.assert_allclose(probabilities, wanted, atol=2e-6)


def test_predictions_of_a_trainer():
    pytest.importorskip("transformers")
    from transformers.trainer_utils import PredictionOutput

    rng = np.random.default_rng(0)
    logits, labels, hidden = rng.normal(size=(50, 4)), rng.integers(0, 4, 50), rng.normal(size=(50, 7, 3))
    plain = PredictionOutput(logits, labels, {"test_loss": 1.0})
    nested = PredictionOutput((logits, hidden), labels, None)
    data = sc.from_predictions(plain, nested, class_names="abcd")
    np.testing.assert_allclose(data.test.logits, logits.astype(np.float32))
    np.testing.assert_array_equal(data.validation.labels, labels)
    assert data.class_names == tuple("abcd")
    with pytest.raises(CollectError, match="have no labels"):
        sc.from_predictions(PredictionOutput(logits, None, None), plain)


class Stopped(Exception):
    """The end of a run in the middle."""


def stopping(loader: DataLoader, after: int):
    for number, batch in enumerate(loader):
        if number == after:
            raise Stopped
        yield batch


def test_a_stopped_run_goes_on(timm_style, tmp_path):
    whole, out = tmp_path / "whole.npz", tmp_path / "parts.npz"
    val, test = image_loader(100), image_loader(70, seed=1)
    sc.collect(timm_style, (val, test), device="cpu", out=whole)
    for first, second in ((stopping(val, 3), test), (val, stopping(test, 2))):
        with pytest.raises(Stopped):
            sc.collect(timm_style, (first, second), device="cpu", out=out)
        assert not out.exists()
    run = []
    hook = timm_style.register_forward_hook(lambda *given: run.append(1))
    sc.collect(timm_style, (val, test), device="cpu", out=out)
    hook.remove()
    assert len(run) == len(test) - 2  # nothing is computed twice
    assert out.read_bytes() == whole.read_bytes()


def test_a_stopped_run_with_other_rows_or_weights(tmp_path):
    torch.manual_seed(0)
    model, out = TimmStyle(), tmp_path / "a.npz"
    val, test = image_loader(100), image_loader(70, seed=1)
    with pytest.raises(Stopped):
        sc.collect(model, (stopping(val, 3), test), device="cpu", out=out)
    with pytest.raises(CollectError, match="other rows than before the stop; load without shuffling"):
        sc.collect(model, (image_loader(100, seed=5), test), device="cpu", out=out)
    with torch.no_grad():
        model.fc.bias += 1.0
    data = sc.collect(model, (val, test), device="cpu", out=out)  # other weights: from the beginning
    np.testing.assert_allclose(data.validation.logits, plain_loop(model, val), atol=1e-6)


@pytest.mark.parametrize(
    ("model", "loader", "words"),
    [
        (nn.Linear(4, 3), [torch.zeros(2, 4)], "A batch is a Tensor"),
        (nn.Linear(4, 3), [{"x": torch.zeros(2, 4)}], "no labels among x; give them as one of labels, label"),
        (nn.Linear(4, 3), [], "A loader is empty"),
        (nn.Linear(4, 3), [(torch.zeros(2, 4), torch.zeros(3).long())], "3 labels, and the model gives 2 rows"),
        (nn.Identity(), [(torch.zeros(2, 4, 5), torch.zeros(2).long())], "logits of shape 2 x 4 x 5"),
        (nn.Linear(4, 3), {"a": [], "b": []}, "named a, b; name them val and test"),
        (lambda x: x, [], "The model is a function"),
    ],
)
def test_wrong_use_is_one_sentence(model, loader, words):
    with pytest.raises(CollectError, match=words):
        sc.collect(model, loader, device="cpu")


MODULE = '''
import os, time
import torch
from tests.test_collect import TimmStyle, image_loader

def model():
    torch.manual_seed(0)
    return TimmStyle()

class Slow:
    """A loader that takes its time, so that a run can be stopped in the middle."""

    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        for batch in self.loader:
            time.sleep(float(os.environ.get("PAUSE", "0")))
            yield batch

def loaders():
    return Slow(image_loader(160)), Slow(image_loader(96, seed=1))
'''


def test_the_command_line_resumes_after_a_kill(tmp_path, monkeypatch, capsys):
    (tmp_path / "to_collect.py").write_text(MODULE)
    arguments = ["collect", "--model", "to_collect:model", "--data", "to_collect:loaders", "--device", "cpu", "--out"]
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    command = [sys.executable, "-m", "smart_core", *arguments, "killed.npz"]
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, "PAUSE": "0.3"})
    state = tmp_path / "killed.npz.partial" / "val" / "state.json"
    deadline = time.monotonic() + 120
    while not (state.exists() and '"batches": 2' in state.read_text()):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed.npz").exists()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main([*arguments, "whole.npz"]) == 0
    assert main([*arguments, "killed.npz", "--json", "-"]) == 0
    assert '"features": 8' in capsys.readouterr().out
    assert Path("killed.npz").read_bytes() == Path("whole.npz").read_bytes()
    assert main(["collect", "--model", "to_collect:nothing", "--data", "to_collect:loaders", "--out", "a.npz"]) == 2
    assert "has no function or class called nothing" in capsys.readouterr().err
