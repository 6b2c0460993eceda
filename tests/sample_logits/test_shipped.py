"""The bundles in the folder: small, sound, as hard and as over-confident as stated, and what their scripts make."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import pearsonr, spearmanr

import sample_logits
import smart_core as sc
from sample_logits import digits, stages, summary
from sample_logits.fashion import SAMPLE as FASHION
from sample_logits.losses import LOSSES
from sample_logits.make import SAMPLES
from smart_core.attacks import carlini_wagner_l2

README = (sample_logits.FOLDER / "README.md").read_text(encoding="utf-8")
BUNDLES = {path.stem: path for path in sorted(sample_logits.FOLDER.glob("*.npz"))}
MAIN = ("cifar10", "fashion", "digits")
OF_EACH_LOSS = {stages.bundle_name(FASHION, loss) for loss in LOSSES}
MANY_CLASSES = {"languages": 64, "letters": 26, "letters_boosting": 26}
CHOICES = "languages_choices"
WITHOUT_FEATURES = ("letters_boosting", CHOICES)
EXPECTED = {*MAIN, *(f"{name}_corrupted" for name in MAIN), *OF_EACH_LOSS, *MANY_CLASSES, CHOICES}
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
    kinds = {group.rsplit(" ", 1)[0] for group in groups}
    assert len(kinds) >= 8
    assert len(groups) == 2 * len(kinds)
    assert len({len(part.labels) for part in groups.values()}) == 1
    mild, strong = (np.mean([right(part) for group, part in groups.items() if group.endswith(end)]) for end in "35")
    assert accuracy(name.removesuffix("_corrupted")) > mild > strong


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
