"""The bundles in the folder: small, sound, as hard and as over-confident as stated, and what their scripts make."""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import pearsonr, rankdata, spearmanr

import sample_logits
import smart_core as sc
from benchmarks.refinement import PUBLISHED
from pages.shared import datasets
from sample_logits import digits, fashion_long_tail, stages, summary
from sample_logits.fashion import SAMPLE as FASHION
from sample_logits.losses import LOSSES
from sample_logits.make import SAMPLES
from smart_core.attacks import carlini_wagner_l2
from tests.calibrators.test_ts import scipy_temperature
from tests.conftest import ROOT

README = (sample_logits.FOLDER / "README.md").read_text(encoding="utf-8")
METHOD = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
BUNDLES = {path.stem: path for path in sorted(sample_logits.FOLDER.glob("*.npz"))}
MAIN = ("cifar10", "fashion", "digits")
OF_EACH_LOSS = {stages.bundle_name(FASHION, loss) for loss in LOSSES}
MANY_CLASSES = {"languages": 64, "letters": 26, "letters_boosting": 26}
CHOICES = "languages_choices"
LONG_TAIL = "fashion_long_tail"
WITHOUT_FEATURES = ("letters_boosting", CHOICES, *(OF_EACH_LOSS - {"fashion"}))
EXPECTED = {*MAIN, *(f"{name}_corrupted" for name in MAIN), *OF_EACH_LOSS, *MANY_CLASSES, CHOICES, LONG_TAIL}
LEAST_ACCURACY = {"cifar10": 0.85, "fashion": 0.91, "digits": 0.92}
MEGABYTE = 1_000_000


@cache
def shipped(name: str) -> dict[str, np.ndarray]:
    with np.load(BUNDLES[name]) as bundle:
        return {key: bundle[key] for key in bundle.files}


def accuracy(name: str) -> float:
    return float(np.mean(shipped(name)["test_logits"].argmax(axis=1) == shipped(name)["test_labels"]))


def right(part: sc.Part) -> float:
    return float(np.mean(part.logits.argmax(axis=1) == part.labels))


def confidence(name: str) -> np.ndarray:
    return softmax(shipped(name)["test_logits"].astype(np.float64), axis=1).max(axis=1)


def ece(name: str) -> float:
    """Fifteen equal bins (l, u], each weighed by its share: |sum of (confidence - correct)| / N."""
    correct = shipped(name)["test_logits"].argmax(axis=1) == shipped(name)["test_labels"]
    gap = confidence(name) - correct
    bins = np.ceil(15 * confidence(name)).astype(int)
    return sum(abs(gap[bins == number].sum()) for number in range(16)) / len(gap)


def rows_under(heading: str) -> dict[str, list[str]]:
    """The table under a heading of the README: first cell -> the others."""
    section = README.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("|")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[2:]}


def test_the_folder_holds_every_sample_and_is_small() -> None:
    assert set(BUNDLES) == EXPECTED
    assert all(any(name.startswith(sample) for sample in SAMPLES) for name in BUNDLES)
    files = [path for path in sample_logits.FOLDER.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) <= 30 * MEGABYTE
    assert digits.WEIGHTS.stat().st_size < MEGABYTE


@pytest.mark.parametrize("path", BUNDLES.values(), ids=BUNDLES)
def test_bundle_loads_without_a_notice_and_its_head_gives_its_logits(path: Path) -> None:
    data = sc.load(path)
    # some letters occur twice in the original data
    expected = {"duplicate_rows"} if path.stem.startswith("letters") else {"ragged_rows"}
    assert {notice.code for notice in data.notices} <= (expected if path.stem in (*MANY_CLASSES, CHOICES) else set())
    assert data.classes == MANY_CLASSES.get(path.stem, 10)
    if path.stem != CHOICES:
        assert data.class_names is not None
        assert len(data.class_names) == data.classes
    assert shipped(path.stem)["test_logits"].dtype == np.float32
    if path.stem in WITHOUT_FEATURES:
        return
    assert data.head is not None
    for part in (data.validation, data.test):
        assert part.features is not None
        rebuilt = part.features.astype(np.float64) @ data.head.weight.T.astype(np.float64) + data.head.bias
        # half precision keeps 11 bits of a feature
        terms = np.abs(part.features.astype(np.float64)) @ np.abs(data.head.weight.T)
        assert (np.abs(rebuilt - part.logits) <= 2**-11 * terms + 1e-4).all()


def test_choices_are_the_logits_of_some_languages_and_always_of_the_true_one() -> None:
    languages, choices = shipped("languages"), shipped(CHOICES)
    for part in ("val", "test"):
        rows, whole = choices[f"{part}_logits"], languages[f"{part}_logits"]
        counts = np.isfinite(rows).sum(axis=1)
        assert (counts.min(), counts.max()) == (2, 10)
        assert (np.isfinite(rows) == (np.arange(10) < counts[:, None])).all()
        answer = rows[np.arange(len(rows)), choices[f"{part}_labels"]]
        np.testing.assert_array_equal(answer, whole[np.arange(len(whole)), languages[f"{part}_labels"]])


@pytest.mark.parametrize("name", MAIN)
def test_model_is_good_enough_and_too_sure(name: str) -> None:
    assert accuracy(name) >= LEAST_ACCURACY[name]
    assert confidence(name).mean() > accuracy(name)


@pytest.mark.parametrize("name", MAIN)
def test_distances_are_known_for_a_thousand_images(name: str) -> None:
    distance = shipped(name)["test_cw_l2"]
    known = distance[np.isfinite(distance)]
    assert len(distance) == len(shipped(name)["test_labels"])
    assert len(known) >= (len(distance) if name == "digits" else 1000)
    assert (known > 0).all()


@pytest.mark.parametrize("name", [name for name in BUNDLES if name.endswith("_corrupted")])
def test_corrupted_bundle_has_equal_groups_of_at_least_8_types_at_2_severities(name: str) -> None:
    groups = sc.load(BUNDLES[name]).test.groups()
    edges = groups.pop("edges", None)
    assert (edges is not None) == (name == "fashion_corrupted")
    kinds = {group.rsplit(" ", 1)[0] for group in groups}
    assert len(kinds) >= 8
    assert edges is None or len(edges) == len(next(iter(groups.values())))
    assert len(groups) == 2 * len(kinds)
    assert len({len(part.labels) for part in groups.values()}) == 1
    mild, strong = (np.mean([right(part) for group, part in groups.items() if group.endswith(end)]) for end in "35")
    assert accuracy(name.removesuffix("_corrupted")) > mild > strong


def test_long_tail_is_in_validation_and_not_in_test() -> None:
    counts = np.bincount(shipped(LONG_TAIL)["val_labels"]).tolist()
    assert counts == list(fashion_long_tail.SAMPLE.held_out_per_class)
    assert counts[0] == 100 * counts[-1]
    assert np.bincount(shipped(LONG_TAIL)["test_labels"]).tolist() == [1000] * 10


def test_dashboard_opens_on_the_set_on_which_one_temperature_leaves_the_largest_gap() -> None:
    assert next(iter(datasets.samples())) == summary.opening()


@pytest.mark.parametrize("name", ["digits", "fashion_ls_0_05"])
def test_readme_states_what_one_temperature_leaves(name: str) -> None:
    """By quantile groups of the margin, cut as in the definition, and SciPy's temperature."""
    logits, labels = shipped(name)["val_logits"].astype(np.float64), shipped(name)["val_labels"]
    temperature = scipy_temperature(logits, labels)
    top = np.sort(logits, axis=1)
    gap = softmax(logits / temperature, axis=1).max(axis=1) - (logits.argmax(axis=1) == labels)
    groups = np.array_split(gap[np.argsort(top[:, -1] - top[:, -2], kind="stable")], 6)
    stated, largest, _ = rows_under("One temperature")[name]
    assert float(stated) == pytest.approx(temperature, abs=0.0051)
    # a margin that lies on an edge may be in either group
    assert abs(float(largest)) == pytest.approx(100 * max(abs(group.mean()) for group in groups), abs=0.3)


@pytest.mark.parametrize("name", BUNDLES)
def test_readme_states_size_accuracy_confidence_and_ece(name: str) -> None:
    validation, test, right, sure, error, _ = rows_under("Figures")[name]
    sizes = [f"{len(shipped(name)[f'{split}_labels']):,}" for split in ("val", "test")]
    assert [validation, test] == sizes
    stated = [float(cell) for cell in (right, sure, error)]
    assert stated == pytest.approx([100 * accuracy(name), 100 * confidence(name).mean(), 100 * ece(name)], abs=0.0051)


@pytest.mark.parametrize("name", MAIN)
def test_readme_states_the_correlation_of_margin_and_distance(name: str) -> None:
    attacked, failed, median, pearson, spearman = rows_under("Margin and distance")[name]
    top = np.sort(shipped(name)["test_logits"], axis=1)
    margin, distance = top[:, -1] - top[:, -2], shipped(name)["test_cw_l2"]
    known = np.isfinite(distance)
    assert int(attacked.replace(",", "")) - int(failed) == known.sum()
    assert float(median) == pytest.approx(np.median(distance[known]), abs=5.1e-4)
    for cell, coefficient in ((pearson, pearsonr), (spearman, spearmanr)):
        value, low, high = (float(number) for number in re.findall(r"-?\d\.\d+", cell))
        assert value == pytest.approx(coefficient(margin[known], distance[known])[0], abs=5.1e-4)
        assert low < value < high


@pytest.mark.parametrize("name", MAIN)
def test_readme_has_every_method_on_every_main_set(name: str) -> None:
    rows = rows_under(f"Methods on {name}")
    assert set(rows) == {method.label for method in sc.calibrators.methods().values()}
    assert float(rows["Vanilla"][0]) == pytest.approx(100 * ece(name), abs=0.0051)
    assert [cells[-1] for cells in rows.values()].count("best") == 1


def benchmarked() -> dict[str, dict[str, float]]:
    """Set -> method -> mean ECE over seeds, as the file of finished fits has them."""
    content = json.loads(summary.RESULTS.read_text(encoding="utf-8"))
    fits: dict[str, dict[str, list[float]]] = {}
    for record in content["records"].values():
        if record["metrics"]:
            name = content["sets"][record["data"]]["name"]
            fits.setdefault(name, {}).setdefault(record["method"], []).append(record["metrics"]["ece"])
    return {name: {id: float(np.mean(each)) for id, each in methods.items()} for name, methods in fits.items()}


def test_benchmark_is_of_the_shipped_bundles_and_of_the_published_sets() -> None:
    content = json.loads(summary.RESULTS.read_text(encoding="utf-8"))
    shipped = {name: sc.load(path).content_hash for name, path in BUNDLES.items()}
    done = {about["name"]: hash for hash, about in content["sets"].items()}
    assert shipped.items() <= done.items()
    assert {*done} - {*shipped} == {name.removesuffix(" \\*") for name in PUBLISHED}


@pytest.mark.parametrize("published", [False, True])
def test_tables_state_the_fits_of_the_benchmark(published: bool) -> None:
    """Of the bundles in the README; docs/method.md ranks over all sets and has the figures of the published ones."""
    text, heading = (METHOD, "samples and published sets") if published else (README, "all samples")
    found, labels = benchmarked(), {id: method.label for id, method in sc.calibrators.methods().items()}
    cells: dict[tuple[str, str], str] = {}
    ranks: dict[str, str] = {}
    for table in text.split(f"## All methods on {heading}\n")[1].split("\n## ")[0].split("\n\n"):
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line]
        if not lines or lines[0][1] == "mean rank":
            ranks |= {label: rank for label, rank, *_ in lines[2:]}
        else:
            for label, *row in lines[2:]:
                cells |= {(name.strip("`"), label): cell for name, cell in zip(lines[0][1:], row, strict=True) if cell}
    wanted = {
        (name, labels[id]): ece
        for name, methods in found.items()
        for id, ece in methods.items()
        if (name in BUNDLES) != published
    }
    assert {pair: float(cell.strip("*")) for pair, cell in cells.items()} == pytest.approx(
        {pair: 100 * ece for pair, ece in wanted.items()}, abs=0.0051
    )
    sets = [methods for name, methods in found.items() if name != CHOICES and (published or name in BUNDLES)]
    everywhere = [id for id in labels if all(id in methods for methods in sets)]
    means = np.mean([rankdata([methods[id] for id in everywhere]) for methods in sets], axis=0)
    assert {label: float(rank) for label, rank in ranks.items()} == pytest.approx(
        {labels[id]: float(rank) for id, rank in zip(everywhere, means, strict=True)}, abs=0.0051
    )


def test_digits_weights_give_the_shipped_logits() -> None:
    with torch.no_grad():
        for part in ("val", "test"):
            logits = digits.trained()(digits.images(part)).numpy()
            np.testing.assert_allclose(logits, shipped("digits")[f"{part}_logits"], atol=1e-4)


def test_digits_can_be_attacked_live_with_the_shipped_distances() -> None:
    near = np.argsort(shipped("digits")["test_cw_l2"])[:4]
    found = carlini_wagner_l2(digits.trained(), digits.images("test")[near]).l2
    np.testing.assert_allclose(found, shipped("digits")["test_cw_l2"][near], rtol=0.1, atol=1e-3)


def test_digits_is_split_by_class_and_no_image_is_in_two_parts() -> None:
    data = digits.load()
    train = {image.tobytes() for image in data.train_images}
    assert not train & {image.tobytes() for image in data.test_images}
    assert len(data.train_images) + len(data.test_images) == 1797
    for part in ("val", "test"):
        assert np.bincount(shipped("digits")[f"{part}_labels"]).tolist() == [72] * 10


def test_digits_can_be_trained_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training differs in its last bits between machines, so the model is compared by how it behaves."""
    monkeypatch.setenv("SMART_SAMPLES_CACHE", str(tmp_path))
    model = stages.fit(digits.SAMPLE, digits.load(), lambda words: None)
    made = stages.clean(digits.SAMPLE, digits.load(), model)
    assert set(made) | {"test_cw_l2"} == set(shipped("digits"))
    np.testing.assert_array_equal(made["test_labels"], shipped("digits")["test_labels"])
    anew = np.mean(made["test_logits"].argmax(axis=1) == made["test_labels"])
    assert anew == pytest.approx(accuracy("digits"), abs=0.03)


def test_summary_prints_the_tables_asked_for_and_knows_their_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(summary, "TABLES", {"figures": lambda: "| figures |", "digits": lambda: "| digits |"})
    for asked, printed in ([["digits"], "| digits |\n\n"], [[], "| figures |\n\n| digits |\n\n"]):
        monkeypatch.setattr(sys, "argv", ["summary", *asked])
        summary.main()
        assert capsys.readouterr().out == printed
    monkeypatch.setattr(sys, "argv", ["summary", "digits", "imagenet"])
    with pytest.raises(SystemExit):
        summary.main()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "there is no table imagenet; the tables are figures, digits." in captured.err
