"""Calibrate a PyTorch model: collect logits, fit SMART on validation, use it at inference.

A small network learns scikit-learn's digits from few images, so it is too sure of the rest. Run it with

    python examples/pytorch_model.py --out /tmp/digits

and look at the same logits in the dashboard: `smart dashboard /tmp/digits/digits.npz`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import smart_core as sc


def loaders() -> dict[str, DataLoader]:
    """Training, validation and test images. A calibrator must never see the rows that the model was trained on."""
    images, labels = load_digits(return_X_y=True)
    train_x, rest_x, train_y, rest_y = train_test_split(images, labels, train_size=200, stratify=labels, random_state=0)
    val_x, test_x, val_y, test_y = train_test_split(rest_x, rest_y, test_size=0.5, stratify=rest_y, random_state=0)

    def loader(x: np.ndarray, y: np.ndarray, shuffle: bool = False) -> DataLoader:
        pixels = torch.tensor(x / 16.0, dtype=torch.float32)
        return DataLoader(TensorDataset(pixels, torch.tensor(y)), batch_size=64, shuffle=shuffle)

    return {
        "train": loader(train_x, train_y, shuffle=True),
        "val": loader(val_x, val_y),
        "test": loader(test_x, test_y),
    }


def train(model: nn.Module, loader: DataLoader, epochs: int = 60) -> None:
    """Cross entropy, long after the training images are all right: what makes networks overconfident."""
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(epochs):
        for images, labels in loader:
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimiser.step()


@torch.no_grad()
def collect(model: nn.Module, loader: DataLoader) -> tuple[Tensor, Tensor]:
    """Logits and labels, row by row: the model's outputs before any softmax."""
    model.eval()
    batches = [(model(images), labels) for images, labels in loader]
    logits, labels = zip(*batches, strict=True)
    return torch.cat(logits), torch.cat(labels)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network, calibrate it, and use it.")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the bundle and the calibrator")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    # 1. A model.
    torch.manual_seed(0)
    data = loaders()
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    train(model, data["train"])

    # 2. Its logits, kept as one bundle that the command line and the dashboard read too.
    val_logits, val_labels = collect(model, data["val"])
    test_logits, test_labels = collect(model, data["test"])
    bundle = out / "digits.npz"
    np.savez(bundle, val_logits=val_logits, val_labels=val_labels, test_logits=test_logits, test_labels=test_labels)

    # 3. Is the model calibrated, and does SMART help? Fitted on validation, judged on test.
    table = sc.compare(sc.load(bundle), methods="vanilla,ts,smart", seeds=1).to_frame()
    print((100 * table[["ece", "ece_low", "ece_high", "accuracy"]]).round(2).to_string())

    # 4. Fit once, keep the calibrator beside the model's weights.
    smart = sc.SMART(seed=0).fit(val_logits, val_labels)
    smart.save(out / "smart.safetensors")

    # 5. At inference: logits in, calibrated probabilities out. Tensors in, tensors out.
    calibrator = sc.load_calibrator(out / "smart.safetensors")
    images, labels = next(iter(data["test"]))
    with torch.no_grad():
        logits = model(images)
    probabilities = calibrator.predict_proba(logits)
    before, after = torch.softmax(logits, dim=1).amax(dim=1).mean(), probabilities.amax(dim=1).mean()
    right = (probabilities.argmax(dim=1) == labels).float().mean()
    print(f"One batch: mean confidence {before:.3f} before, {after:.3f} after; {right:.3f} are right.")


if __name__ == "__main__":
    main()
