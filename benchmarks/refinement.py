"""ECE and NLL of refinements, SMART and Refined SMART on every set at hand, beside the authors' own SVS and SMS.

    python -m benchmarks.refinement                # the table as Markdown, and docs/method.md with it
    SMART_REAL_DATA=folder python -m benchmarks.refinement

Sets are the bundled samples and the published logits of `SMART_REAL_DATA`, as far as they are there. A cell is the ECE
(15 bins) as a multiple of the noise floor of its own confidences, and the NLL as a multiple of temperature scaling's,
both on test, means of three seeds where the method is random.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import smart_core as sc
from benchmarks.peers import installed, quietly
from smart_core.calibrators import get, method_named
from smart_core.evaluation import Evaluation, evaluate
from smart_core.metrics import noise_floor

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "method.md"
START, END = "<!-- refinement: begin -->", "<!-- refinement: end -->"
SEEDS = 3
MOST_CLASSES = 100
"""Classes up to which maps of K x K numbers are fitted here."""

SAMPLES = (
    "cifar10", "fashion", "fashion_brier", "fashion_fl_3", "fashion_flsd_53", "fashion_ls_0_05", "fashion_mmce",
    "digits", "languages", "letters", "letters_boosting",
)  # fmt: skip
PUBLISHED: dict[str, Callable[[Path], sc.LogitSet]] = {
    "CIFAR-10 ResNet-50": lambda f: sc.load(
        val=f / "resnet50_cifar10_ce" / "val.pt", test=f / "resnet50_cifar10_ce" / "test.pt"
    ),
    "CIFAR-10 ResNet-20": lambda f: sc.load(f / "cifar10_resnet20_test.npz"),
    "CIFAR-100 WRN-16-4": lambda f: sc.load(f / "netcal_wideresnet-16-4-cifar-100.npz"),
    "CIFAR-100 RepVGG-A2": lambda f: sc.load(
        [f / "cifar100_repvgg_a2" / "scores.npy", f / "cifar100_repvgg_a2" / "targets.npy"]
    ),
    "ImageNet EfficientNet-Lite0": lambda f: sc.load(f / "imagenet5k_efficientnet_lite0.npz"),
    "CIFAR-10-LT DenseNet-40 \\*": lambda f: sc.load(f / "probs_densenet40_c10_LT_logits.p"),
    "CIFAR-10-LT WRN-28 \\*": lambda f: sc.load(f / "probs_resnet_wide28_c10_LT_logits.p"),
}
"""Name -> how it is read. A star: validation is long-tailed and test is not, so the two are not alike."""

METHODS = ("ts", "smart", "svs", "sms", "iop", "svs+smart", "refined")
PEERS = ("svs", "sms")
"""Calibrators of probmetrics."""

Cell = tuple[float, float]
"""ECE / floor and NLL."""


def sets() -> Iterator[tuple[str, sc.LogitSet]]:
    folder = Path(os.environ.get("SMART_REAL_DATA", ROOT.parent / "shared" / "data"))
    for name, load in PUBLISHED.items():
        if folder.is_dir():
            yield name, load(folder)
    for name in SAMPLES:
        yield f"`{name}`", sc.load(f"sample:{name}")


def cell(evaluation: Evaluation) -> Cell:
    return evaluation.metric("ece") / noise_floor("ece", evaluation).mean, evaluation.metric("nll")


def own(id: str, data: sc.LogitSet) -> Cell | None:
    if id == "sms" and data.classes > MOST_CLASSES:
        return None
    seeds = range(SEEDS if method_named(id).stochastic else 1)
    fits = [get(id, seed=seed).fit(data.validation.logits, data.validation.labels) for seed in seeds]
    cells = np.mean([cell(evaluate(fit, data.test)) for fit in fits], axis=0)
    return float(cells[0]), float(cells[1])


def peer(id: str, data: sc.LogitSet) -> Cell | None:
    """The authors' package on the same rows, from its probabilities."""
    from probmetrics.calibrators import get_calibrator

    if id == "sms" and data.classes > MOST_CLASSES:
        return None
    model = sc.Vanilla().fit(data.validation.logits, data.validation.labels)
    fitted = get_calibrator(id)
    with quietly():
        fitted.fit(model.predict_proba(data.validation.logits), np.asarray(data.validation.labels))
        rows = fitted.predict_proba(model.predict_proba(data.test.logits))
    logs = np.log(np.maximum(rows, np.finfo(np.float32).tiny)).astype(np.float32)
    part = sc.Part(logs, data.test.labels)
    return cell(evaluate(sc.Vanilla().fit(logs, data.test.labels), part))


def row(data: sc.LogitSet) -> dict[str, Cell | None]:
    found = {method_named(id).label: own(id, data) for id in METHODS}
    found |= {f"probmetrics {id.upper()}": peer(id, data) for id in PEERS}
    ts = found["TS"]
    assert ts is not None
    return {name: each and (each[0], each[1] / ts[1]) for name, each in found.items()}


def written(each: Cell | None) -> str:
    return "" if each is None else f"{each[0]:.2f} / {each[1]:.3f}"


def mean(cells: list[Cell | None]) -> Cell | None:
    """Geometric means; None if a set lacks the method."""
    known = [each for each in cells if each is not None]
    if len(known) < len(cells):
        return None
    ece, nll = np.exp(np.log(np.array(known)).mean(axis=0))
    return float(ece), float(nll)


def table(rows: dict[str, tuple[sc.LogitSet, dict[str, Cell | None]]]) -> str:
    names = list(next(iter(rows.values()))[1])
    lines = [["set", "K", "N", *names], ["---"] * (3 + len(names))]
    for name, (data, cells) in rows.items():
        lines.append([name, str(data.classes), f"{len(data.validation):,}", *map(written, cells.values())])
    few = {name: cells for name, (data, cells) in rows.items() if data.classes <= MOST_CLASSES}
    every = {name: cells for name, (_, cells) in rows.items()}
    for words, chosen in ((f"geometric mean, up to {MOST_CLASSES} classes", few), ("geometric mean, all", every)):
        lines.append([words, "", "", *(written(mean([cells[name] for cells in chosen.values()])) for name in names)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    rows = {}
    with installed():
        for name, data in sets():
            rows[name] = (data, row(data))
            print(name, *map(written, rows[name][1].values()), sep="  ", file=sys.stderr, flush=True)
    text = table(rows)
    print(text)
    document = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = document.partition(START)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
