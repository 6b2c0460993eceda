"""Letter recognition, 20,000 capital letters described by 16 numbers: a small network and gradient boosting."""

from __future__ import annotations

import lzma
import struct
from collections.abc import Iterator
from string import ascii_uppercase

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from torch import nn

from sample_logits import fetch
from sample_logits.bundles import Arrays
from sample_logits.training import Say

PACKAGE = "r-cran-mlbench"
FILE = "usr/lib/R/site-library/mlbench/data/LetterRecognition.rda"
CHECKSUM = "967a1a3e10b548d7269cbe50182bcecd6365cc58ea07638bbc34c51f17f34f1d"
ROWS, NUMBERS = 20_000, 16
TRAIN, VALIDATION = 8_000, 4_000
FEATURES = 64
EPOCHS, BATCH, RATE = 60, 128, 2e-3

INTEGERS, DOUBLES = 13, 14
"""R's types of vectors, in the last byte of the word before their length."""


def load() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The 16 numbers of each letter, and which letter it is.

    The file is R's serialised data frame. Its vectors of 20,000 values, one after another, are the letters as integers
    from 1, then the 16 columns as doubles; the checksum says that it is this very file.
    """
    content = lzma.decompress(fetch.require_sha256(fetch.debian_package(PACKAGE) / FILE, CHECKSUM).read_bytes())
    length, columns, place = struct.pack(">i", ROWS), [], 0
    while len(columns) <= NUMBERS:
        place = content.index(length, place) + 4
        kind, size = content[place - 5], {INTEGERS: 4, DOUBLES: 8}
        if kind in size:
            columns.append(np.frombuffer(content, f">{'i4' if kind == INTEGERS else 'f8'}", ROWS, place))
            place += size[kind] * ROWS
    return np.stack(columns[1:], axis=1).astype(np.float32), columns[0].astype(np.int64) - 1


def bundles(say: Say = print) -> Iterator[tuple[str, Arrays]]:
    """Split with seed 0, train both models, extract."""
    numbers, letters = load()
    order = np.random.default_rng(0).permutation(ROWS)
    parts = {"train": order[:TRAIN], "val": order[TRAIN : TRAIN + VALIDATION], "test": order[TRAIN + VALIDATION :]}
    names = {"class_names": np.array(list(ascii_uppercase))}
    labels = {f"{name}_labels": letters[parts[name]].astype(np.uint8) for name in ("val", "test")}
    scaled = (numbers - numbers[parts["train"]].mean(axis=0)) / numbers[parts["train"]].std(axis=0)
    yield "letters", names | labels | network(scaled, letters, parts, say)
    yield "letters_boosting", names | labels | boosting(numbers, letters, parts, say)


def network(
    numbers: NDArray[np.float32], letters: NDArray[np.int64], parts: dict[str, NDArray[np.int64]], say: Say
) -> Arrays:
    """Two relu layers and a linear head, trained far beyond the best validation loss, as many are."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(NUMBERS, 128), nn.ReLU(), nn.Linear(128, FEATURES), nn.ReLU())
    head = nn.Linear(FEATURES, len(ascii_uppercase))
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], RATE)
    rows, targets = torch.from_numpy(numbers[parts["train"]]), torch.from_numpy(letters[parts["train"]])
    for epoch in range(EPOCHS):
        for batch in torch.randperm(TRAIN, generator=torch.Generator().manual_seed(epoch)).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(head(body(rows[batch])), targets[batch]).backward()
            optimiser.step()
    say(f"network: {EPOCHS} epochs")
    made: Arrays = {"head_weight": head.weight.detach().numpy(), "head_bias": head.bias.detach().numpy()}
    with torch.no_grad():
        for name in ("val", "test"):
            features = body(torch.from_numpy(numbers[parts[name]]))
            made[f"{name}_logits"], made[f"{name}_features"] = head(features).numpy(), features.numpy().astype("f2")
    return made


def boosting(
    numbers: NDArray[np.float32], letters: NDArray[np.int64], parts: dict[str, NDArray[np.int64]], say: Say
) -> Arrays:
    """scikit-learn's gradient boosting; its raw scores are the logits."""
    model = HistGradientBoostingClassifier(max_iter=120, learning_rate=0.1, random_state=0)
    model.fit(numbers[parts["train"]], letters[parts["train"]])
    say(f"boosting: {model.n_iter_} rounds")
    scores = {name: model.decision_function(numbers[parts[name]]).astype(np.float32) for name in ("val", "test")}
    return {f"{name}_logits": rows for name, rows in scores.items()}
