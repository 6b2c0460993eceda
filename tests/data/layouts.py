"""The predictions that people have, in the layouts in which they have them, and in others with other names and orders.

Every layout holds the same samples and predictions, so each must give the same accuracy.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from tests.data.containers import hdf5, json_lines, lm_eval_sample, zarr_store, zipped_store
from tests.data.files import npy, npz, torch_bytes

RNG = np.random.default_rng(7)
ROWS, CLASSES = 240, 4
TRUE = RNG.integers(0, CLASSES, ROWS)
Z = RNG.normal(size=(ROWS, CLASSES)).astype(np.float32)
Z[np.arange(ROWS), TRUE] += 2
P = np.exp(Z.astype(np.float64)) / np.exp(Z.astype(np.float64)).sum(axis=1, keepdims=True)
PREDICTED = Z.argmax(axis=1)
CONFIDENCE = P.max(axis=1)
HIT = PREDICTED == TRUE
ACCURACY = float(HIT.mean())
NAMES, LETTERS = np.array(["cat", "dog", "owl", "eel"]), np.array(list("ABCD"))
V, T = slice(0, 100), slice(100, None)
PIECES = slice(0, 90), slice(90, 150), slice(150, None)


@dataclass(frozen=True, eq=False)
class Layout:
    """Files by name, or by path where they are a folder; the experiment to choose, if there are several."""

    files: Mapping[str, bytes]
    kind: str = "logits"
    group: str | None = None
    folder: bool = False


def csv(sep: str = ",", **columns: Any) -> bytes:
    return pd.DataFrame(columns).to_csv(index=False, sep=sep).encode()


def parquet(**columns: Any) -> bytes:
    stream = io.BytesIO()
    pd.DataFrame(columns).to_parquet(stream)
    return stream.getvalue()


def records(**columns: Any) -> list[dict[str, Any]]:
    lists = [np.asarray(column).tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def sure(name: str, content: bytes) -> Layout:
    return Layout({name: content}, "confidence")


def scores(name: str, content: bytes) -> Layout:
    return Layout({name: content})


def asked() -> list[dict[str, Any]]:
    return [lm_eval_sample(i, int(y), z) for i, (y, z) in enumerate(zip(TRUE, Z, strict=True))]


def by_rank() -> dict[str, bytes]:
    """As the `BasePredictionWriter` of PyTorch Lightning is documented to save them: indices in a list per loader."""
    order, files = RNG.permutation(ROWS), {}
    for rank in (0, 1):
        own = order[rank::2]
        batches = [own[start : start + 16] for start in range(0, len(own), 16)]
        files[f"predictions_{rank}.pt"] = torch_bytes([torch.from_numpy(Z[rows]) for rows in batches])
        files[f"batch_indices_{rank}.pt"] = torch_bytes([[rows.tolist() for rows in batches]])
    return {**files, "labels.npy": npy(TRUE)}


def experiments() -> dict[str, Any]:
    arrays = {}
    for number, name in enumerate(("cifar10/resnet", "cifar10/vit")):
        rolled, labels = np.roll(P, number, axis=1), (TRUE + number) % CLASSES
        arrays |= {f"{name}/probas_cal": rolled[V], f"{name}/labels_cal": labels[V]}
        arrays |= {f"{name}/probas_test": rolled[T], f"{name}/labels_test": labels[T]}
    return arrays


RANKED = np.argsort(-P, axis=1)
IMAGES = np.array([f"n{i:05d}.JPEG" for i in range(ROWS)])
LAYOUTS: dict[str, Layout] = {
    "labels and confidence": sure(
        "imagenet.csv", csv(image=IMAGES, true_label=TRUE, pred_label=PREDICTED, confidence=CONFIDENCE)
    ),
    "labels and confidence, other names": sure(
        "a.csv", csv(**{"Confidence (%)": 100 * CONFIDENCE, "Predicted Class": NAMES[PREDICTED], "Actual": NAMES[TRUE]})
    ),
    "answers of a judge": sure(
        "judge.jsonl", json_lines(records(gold=LETTERS[TRUE], model_answer=LETTERS[PREDICTED], confidence=CONFIDENCE))
    ),
    "confidence and correct": sure("a.csv", csv(confidence=CONFIDENCE, correct=HIT.astype(int))),
    "confidence and correct, other names": sure(
        "a.tsv", csv("\t", id=IMAGES, is_correct=np.where(HIT, "yes", "No"), verbalized_confidence=CONFIDENCE)
    ),
    "detections": sure(
        "detections.jsonl",
        json_lines([{"image_id": i, "bbox": [1.5, 2.0, 3.0, 4.0 + i], "score": c, "is_tp": int(h)}
                    for i, (c, h) in enumerate(zip(CONFIDENCE.tolist(), HIT, strict=True))])
    ),
    "the likeliest three classes": sure(
        "top.csv", csv(file=IMAGES, label=37 * TRUE, **{f"pred_{r + 1}": 37 * RANKED[:, r] for r in range(3)},
                       **{f"prob_{r + 1}": np.take_along_axis(P, RANKED, axis=1)[:, r] for r in range(3)})
    ),
    "an HDF5 benchmark": Layout({"benchmark.h5": hdf5(experiments())}, group="cifar10/vit"),
    "an HDF5 file": scores("a.h5", hdf5({"logits": Z, "targets": TRUE})),
    "logged samples": scores("samples_arc_easy_2024-05-01T10-00-00.1.jsonl", json_lines(asked())),
    "logged samples of two tasks": Layout(
        {
            **{f"llama/samples_{task}_2024-05-01T10-00-00.1.jsonl": json_lines(asked()) for task in ("arc", "boolq")},
            "llama/results_2024-05-01T10-00-00.1.json": b'{"results": {}, "configs": {}}',
        },
        group="llama/arc",
        folder=True,
    ),
    "a zarr store": scores("a.zarr.zip", zipped_store(zarr_store({"logits": Z, "labels": TRUE}))),
    "compressed text": sure("a.csv.gz", gzip.compress(csv(y_true=TRUE, y_pred=PREDICTED, prob=CONFIDENCE))),
    "compressed records": scores(
        "a.jsonl.zst", pa.compress(json_lines(records(probs=P, label=TRUE)), "zstd", asbytes=True)
    ),
    "numbered arrays": Layout(
        {f"{name}_{i:02d}.npy": npy(array[rows]) for i, rows in enumerate(PIECES)
         for name, array in (("logits", Z), ("labels", TRUE))},
        folder=True,
    ),
    "arrays with the rank in front": Layout(
        {f"rank{i}_{name}.pt": torch_bytes(torch.from_numpy(array[rows])) for i, rows in enumerate(PIECES)
         for name, array in (("logits", Z), ("labels", TRUE))},
        folder=True,
    ),
    "tables of Spark": Layout(
        {f"part-0000{i}-1a2b-c000.snappy.parquet": parquet(probs=list(P[rows]), label=TRUE[rows])
         for i, rows in enumerate(PIECES)},
        folder=True,
    ),
    "predictions of ranks": Layout(by_rank(), folder=True),
    "a dict of np.save": scores("a.npy", npy(np.array({"logits": Z, "labels": TRUE}, dtype=object))),
    "a record per sample": scores(
        "results.pkl",
        pickle.dumps([{"pred_scores": p, "gt_label": np.array([y])} for p, y in zip(P, TRUE, strict=True)]),
    ),
}  # fmt: skip
"""What a file looks like -> the files."""

NAMED = [
    ("target", "prediction", "score"),
    ("gt", "pred", "conf"),
    ("label", "predicted", "probability"),
    ("true class", "predicted class", "Confidence (%)"),
    ("actual", "predicted", "confidence"),
    ("answer", "model_answer", "confidence"),
    ("gold", "pred", "prob"),
    ("gold", "label", "score"),
    ("gold_label", "predicted_label", "score"),
    ("expected", "predicted", "confidence"),
    ("correct_answer", "answer", "confidence"),
    ("label_id", "pred_id", "prob"),
    ("label", "top1", "top1_prob"),
    ("ground_truth", "prediction_label", "prediction_score"),
    ("ground_truth", "prediction", "top1_conf"),
    ("y_true", "y_pred", "y_conf"),
]
"""Names of the true label, the predicted label and the confidence."""
TOLD = [
    ("confidence_score", "correct"),
    ("model_confidence", "is_correct"),
    ("certainty", "hit"),
    ("conf", "accuracy"),
    ("score", "tp"),
    ("p", "matched"),
    ("confidence", "result"),
    ("self_reported_confidence", "is_match"),
    ("conf", "label == prediction"),
    ("unheard_of", "correct"),
]
"""Names of the confidence and of the outcome."""
OUTCOMES = [
    (1, 0),
    (True, False),
    ("yes", "no"),
    ("Y", "N"),
    ("PASS", "FAIL"),
    ("Correct", "Incorrect"),
    ("TP", "FP"),
    (1.0, 0.0),
]
"""What is written where a prediction is right, and where it is wrong."""
SCORES: dict[str, tuple[str, bytes]] = {
    "choices by letter": ("a.jsonl", json_lines([
        {"id": i, "logprobs": dict(zip("ABCD", np.log(p).tolist(), strict=True)), "answer": "ABCD"[y]}
        for i, (p, y) in enumerate(zip(P, TRUE, strict=True))])),
    "probabilities by letter": ("a.json", json.dumps([
        {"options": dict(zip("ABCD", NAMES.tolist(), strict=True)), "answer": "ABCD"[y],
         "probabilities": dict(zip("ABCD", p.tolist(), strict=True))}
        for p, y in zip(P, TRUE, strict=True)]).encode()),
    "P(class)": ("a.csv", csv(**{f"P({name})": P[:, k] for k, name in enumerate(NAMES)}, truth=NAMES[TRUE])),
    "columns named after classes": ("a.csv", csv(gold=LETTERS[TRUE], **{c: P[:, k] for k, c in enumerate(LETTERS)})),
    "prob_class beside the prediction": ("a.csv", csv(
        **{f"prob_{name}": P[:, k] for k, name in enumerate(NAMES)}, y_true=NAMES[TRUE], y_pred=NAMES[PREDICTED])),
    "pipes": ("a.txt", csv("|", **{f"logit_{k}": Z[:, k] for k in range(CLASSES)}, label=TRUE)),
    "percentages": ("a.csv", csv(**{f"prob_{k}": 100 * P[:, k] for k in range(CLASSES)}, label=TRUE)),
    "Trainer.predict": ("a.npz", npz(predictions=Z, label_ids=TRUE)),
    "a list of records in JSON": ("a.json", json.dumps({
        "model": "m", "predictions": [{"probs": p.tolist(), "label": int(y)} for p, y in zip(P, TRUE, strict=True)],
    }).encode()),
    "a list of records of each split": ("a.json", json.dumps({
        side: [{"logits": z.tolist(), "label": int(y)} for z, y in zip(Z[rows], TRUE[rows], strict=True)]
        for side, rows in (("validation", V), ("test", T))}).encode()),
    "tensors per sample": ("a.pt", torch_bytes(
        [{"logits": torch.from_numpy(z), "label": int(y)} for z, y in zip(Z, TRUE, strict=True)])),
    "batches": ("a.pt", torch_bytes([(torch.from_numpy(Z[i : i + 50]), torch.from_numpy(TRUE[i : i + 50]))
                                     for i in range(0, ROWS, 50)])),
    "groups two deep": ("a.h5", hdf5({f"cifar10/vit/{side}/{name}": array[rows]
                                      for side, rows in (("val", V), ("test", T))
                                      for name, array in (("logits", Z), ("labels", TRUE))})),
    "lists of batches": ("a.pt", torch_bytes(
        {name: [torch.from_numpy(array[i : i + 64]) for i in range(0, ROWS, 64)]
         for name, array in (("logits", Z), ("labels", TRUE))})),
    "a pair of lists of batches": ("a.pt", torch_bytes(
        tuple([torch.from_numpy(array[i : i + 64]) for i in range(0, ROWS, 64)] for array in (Z, TRUE)))),
    "lists of rows": ("a.pkl", pickle.dumps({"logits": list(Z), "labels": list(TRUE)})),
    "a pair per sample": ("a.pkl", pickle.dumps([(z, int(y)) for z, y in zip(Z, TRUE, strict=True)])),
    "lists in cells": ("a.csv", csv(label=TRUE, logits=[str(z.tolist()) for z in Z])),
    "lists in cells, as NumPy writes them": ("a.csv", csv(label=TRUE, probs=[str(p) for p in P])),
    "labels by letter": ("a.jsonl", json_lines(
        [{"logprobs": np.log(p).tolist(), "answer": c} for p, c in zip(P, LETTERS[TRUE].tolist(), strict=True)])),
    "a pipeline of transformers": ("a.jsonl", json_lines(
        [{"scores": [{"label": NAMES[k], "score": float(p[k])} for k in order], "label": name}
         for p, order, name in zip(P, RANKED, NAMES[TRUE].tolist(), strict=True)])),
    "xz": ("a.csv.xz", lzma.compress(csv(**{f"{k}": Z[:, k] for k in range(CLASSES)}, label=TRUE))),
}  # fmt: skip
"""What is odd about a file of scores -> its name and content."""
