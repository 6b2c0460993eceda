"""Calibrate a scikit-learn classifier: probabilities to logits, compare methods, keep the estimator.

Naive Bayes counts every pixel as independent evidence, so its probabilities are close to 0 and 1 even where it errs.

    python examples/sklearn_model.py --out /tmp/digits
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import MultinomialNB

import smart_core as sc
from smart_core.export import CalibratedLogits


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibrate a scikit-learn classifier.")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the bundle")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    # 1. A classifier, and rows that it has not seen: half to calibrate, half to judge.
    images, labels = load_digits(return_X_y=True)
    train_x, rest_x, train_y, rest_y = train_test_split(images, labels, train_size=400, stratify=labels, random_state=0)
    val_x, test_x, val_y, test_y = train_test_split(rest_x, rest_y, test_size=0.5, stratify=rest_y, random_state=0)
    model = MultinomialNB().fit(train_x, train_y)

    # 2. Log-probabilities serve as logits: their softmax is what predict_proba gives. Where a classifier has
    #    predict_proba alone, np.log(np.clip(probabilities, 1e-12, None)) does the same.
    val_logits, test_logits = model.predict_log_proba(val_x), model.predict_log_proba(test_x)
    bundle = out / "naive_bayes.npz"
    np.savez(bundle, val_logits=val_logits, val_labels=val_y, test_logits=test_logits, test_labels=test_y)

    # 3. Which method repairs it, and is the difference real? "tied" cannot be told from the best.
    comparison = sc.compare(sc.load(bundle), methods="vanilla,ts,isotonic,beta,smart", seeds=2)
    table = comparison.to_frame()
    print((100 * table[["ece", "ece_low", "ece_high", "accuracy"]]).round(2).join(table["tied_with_best"]).to_string())

    # 4. Any method as a scikit-learn estimator of logits, for pipelines, searches and cross-validation.
    calibrated = CalibratedLogits("smart").fit(val_logits, val_y)
    probabilities = calibrated.predict_proba(test_logits)
    accuracy = calibrated.score(test_logits, test_y)
    before, after = np.exp(test_logits).max(axis=1).mean(), probabilities.max(axis=1).mean()
    print(f"Mean confidence {before:.3f} before, {after:.3f} after; accuracy {accuracy:.3f}.")


if __name__ == "__main__":
    main()
