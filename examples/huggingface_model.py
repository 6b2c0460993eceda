"""Calibrate a text classifier of the Hugging Face Hub on your own labelled texts.

    python examples/huggingface_model.py distilbert-base-uncased-finetuned-sst-2-english --texts reviews.csv
    python examples/huggingface_model.py --tiny

The CSV file has the columns `text` and `label`; a label is a class index or a class name of the model. With `--tiny` a
very small model with random weights judges made-up reviews: nothing is downloaded, and its answers are guesses.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import smart_core as sc

try:
    import transformers
except ImportError:
    sys.exit("This example needs transformers: install it with pip install transformers.")


def tiny() -> tuple[Any, Any, pd.DataFrame]:
    """A model with random weights, a tokenizer that knows these words, and reviews made of them."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    things = ["film", "book", "meal", "hotel", "song", "game", "coat", "lamp", "show", "play"]
    verbs = ["was", "seemed", "looked", "felt", "became", "remained"]
    opinions = {"good": 1, "fine": 1, "great": 1, "bright": 1, "bad": 0, "dull": 0, "poor": 0, "weak": 0}
    reviews = [(f"the {a} {b} {c}", opinions[c]) for a, b, c in product(things, verbs, opinions)]
    words = ["[PAD]", "[UNK]", "the", *things, *verbs, *opinions]
    vocabulary = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=vocabulary, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16
    )
    torch.manual_seed(0)
    config = transformers.DistilBertConfig(
        vocab_size=len(words),
        dim=16,
        hidden_dim=32,
        n_layers=1,
        n_heads=2,
        max_position_embeddings=16,
        initializer_range=1.0,  # large weights: a guess that is sure of itself
        id2label={0: "negative", 1: "positive"},
    )
    model = transformers.DistilBertForSequenceClassification(config)
    return model, tokenizer, pd.DataFrame(reviews, columns=["text", "label"])


@torch.no_grad()
def collect(model: Any, tokenizer: Any, texts: list[str], batch: int = 64) -> np.ndarray:
    """The logits of each text, (N, K)."""
    model.eval()
    rows = []
    for start in range(0, len(texts), batch):
        tokens = tokenizer(texts[start : start + batch], padding=True, truncation=True, return_tensors="pt")
        rows.append(model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).logits)
    return torch.cat(rows).float().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibrate a text classifier of the Hugging Face Hub.")
    parser.add_argument("model", nargs="?", help="name on the Hub, or a folder with the model")
    parser.add_argument("--texts", type=Path, help="CSV file with the columns text and label")
    parser.add_argument("--tiny", action="store_true", help="a tiny random model on made-up texts; no network")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the bundle and the calibrator")
    options = parser.parse_args()
    if not options.tiny and (options.model is None or options.texts is None):
        parser.error("give a model and --texts, or --tiny")
    options.out.mkdir(parents=True, exist_ok=True)

    # 1. A model, its tokenizer, and labelled texts that it was not trained on.
    if options.tiny:
        model, tokenizer, table = tiny()
    else:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(options.model)
        tokenizer = transformers.AutoTokenizer.from_pretrained(options.model)
        table = pd.read_csv(options.texts)
    names = [model.config.id2label[index] for index in range(model.config.num_labels)]
    labels = [names.index(label) if label in names else int(label) for label in table["label"]]

    # 2. Its logits as a bundle; load splits it at random, stratified by label: half to fit, half to judge.
    logits = collect(model, tokenizer, table["text"].tolist())
    bundle = options.out / "texts.npz"
    np.savez(bundle, logits=logits, labels=labels, class_names=names)
    data = sc.load(bundle, val_fraction=0.5, split_seed=0)

    # 3. Does it need calibration, and which method does it?
    frame = sc.compare(data, methods="vanilla,ts,smart", seeds=1).to_frame()
    print((100 * frame[["ece", "ece_low", "ece_high", "accuracy"]]).round(2).to_string())

    # 4. The calibrator is one small file that is applied to the model's logits wherever it runs.
    smart = sc.SMART(seed=0).fit(data.validation.logits, data.validation.labels)
    smart.save(options.out / "smart.safetensors")
    calibrator = sc.load_calibrator(options.out / "smart.safetensors")
    for text in table["text"].head(3):
        row = collect(model, tokenizer, [text])
        before = torch.softmax(torch.from_numpy(row), dim=1).max()
        after = calibrator.predict_proba(row)[0]
        print(f"{text!r}: {names[after.argmax()]}, {before:.3f} sure before, {after.max():.3f} after")


if __name__ == "__main__":
    main()
