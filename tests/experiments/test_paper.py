"""The paper's results: values typed by hand from its tables, and every number looked up in its source."""

from __future__ import annotations

import csv
import math
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from smart_core.calibrators import methods
from smart_core.errors import SmartError
from smart_core.evaluation import METRICS
from smart_core.experiments import paper
from smart_core.fitting.indicators import INDICATORS
from smart_core.fitting.objectives import OBJECTIVES
from tests.conftest import ROOT

CSV = ROOT / "smart_core" / "experiments" / "paper_tables.csv"

ROWS = {
    "comparison_ECE_full": 26 * 9,
    "adaece_comparison_updated": 26 * 6,
    "accuracy_comparison": 26 * 6,
    "SMART_ece_compare_with_training_time_methods": 8 * 12,
    "adaece_compare_with_training_time_methods": 8 * 12,
    "cece_compare_with_training_time_methods": 8 * 12,
    "nll_compare_with_training_time_methods": 8 * 12,
    "accuracy_compare_with_training_time_methods": 8 * 12,
    "additional_training_ece": 4 * 5,
    "imagenet_ece_losses": 2 * 3 * 6,
    "Ablation_study_for_alternative_input": 5 * 6,
    "imagenet_resnet_runtime": 5,
    "hyperparam_resnet50": 20,
    "hyperparam_vitb16": 20,
    "fig:margin_temperature_appendix": 2,
    "fig:hardness_margin": 1,
}

MAIN, ADA, ACCURACY = "comparison_ECE_full", "adaece_comparison_updated", "accuracy_comparison"
TRAINED = "{}_compare_with_training_time_methods"

# table, data set, model, variant, method, value and std as printed (None: no std)
TYPED = [
    (MAIN, "CIFAR-10", "ResNet-50", "", "vanilla", 4.34, None),
    (MAIN, "CIFAR-10", "ResNet-50", "", "smart", 0.76, 0.02),
    (MAIN, "CIFAR-10", "Wide-ResNet", "", "procal", 2.81, 0.11),
    (MAIN, "CIFAR-100", "ResNet-50", "", "ts", 5.61, 1.39),
    (MAIN, "CIFAR-100", "Wide-ResNet", "", "smart", 1.80, 0.10),
    (MAIN, "ImageNet-1K", "ResNet-50", "", "spline", 0.62, 0.18),
    (MAIN, "ImageNet-1K", "ViT-B/32", "", "smart", 0.71, 0.18),
    (MAIN, "ImageNet-1K", "ViT-B/16", "", "fc", 5.65, 0.06),
    (MAIN, "ImageNet-C", "DenseNet-121", "", "fc", 9.44, 0.31),
    (MAIN, "ImageNet-C", "Swin-B", "", "cts", 3.05, 0.01),
    (MAIN, "ImageNet-LT", "DenseNet-121", "", "spline", 0.79, 0.07),
    (MAIN, "ImageNet-LT", "Wide-ResNet", "", "pts", 1.21, 0.77),
    (MAIN, "ImageNet-S", "DenseNet-121", "", "fc", 22.67, 1.07),
    (MAIN, "ImageNet-S", "ViT-B/32", "", "gc", 6.23, 0.16),
    (ADA, "CIFAR-10", "ResNet-50", "", "pts", 0.83, 28.6),
    (ADA, "CIFAR-10", "ResNet-50", "", "smart", 0.99, 4.3),
    (ADA, "ImageNet-S", "DenseNet-121", "", "spline", 8.7, 1.92),
    (ADA, "ImageNet-S", "ViT-B/32", "", "smart", 1.07, 19.9),
    (ACCURACY, "CIFAR-10", "ResNet-50", "", "cts", 94.88, None),
    (ACCURACY, "ImageNet-C", "ViT-B/32", "", "pts", 24.56, None),
    (ACCURACY, "ImageNet-S", "DenseNet-121", "", "spline", 31.55, None),
    ("SMART_ece_compare_with_training_time_methods", "CIFAR-10", "ResNet-50", "trained on NLL", "smart", 0.75, None),
    (
        "SMART_ece_compare_with_training_time_methods",
        "CIFAR-100",
        "Wide-ResNet",
        "trained on FL-3",
        "vanilla",
        2.14,
        None,
    ),
    (TRAINED.format("adaece"), "CIFAR-10", "ResNet-110", "trained on LS-0.05", "smart", 3.66, None),
    (TRAINED.format("adaece"), "CIFAR-100", "ResNet-50", "trained on Brier", "vanilla", 6.54, None),
    (TRAINED.format("cece"), "CIFAR-100", "DenseNet-121", "trained on FLSD-53", "vanilla", 0.19, None),
    (TRAINED.format("cece"), "CIFAR-10", "Wide-ResNet", "trained on MMCE", "smart", 0.38, None),
    (TRAINED.format("nll"), "CIFAR-10", "ResNet-50", "trained on NLL", "vanilla", 41.2, None),
    (TRAINED.format("nll"), "CIFAR-100", "Wide-ResNet", "trained on FL-3", "smart", 75.8, None),
    (TRAINED.format("accuracy"), "CIFAR-100", "ResNet-110", "trained on Brier", "smart", 74.9, None),
    ("additional_training_ece", "ImageNet-1K", "ViT-B/16", "", "mdca", 10.79, None),
    ("additional_training_ece", "ImageNet-S", "ResNet-50", "", "dfl", 3.30, None),
    ("imagenet_ece_losses", "ImageNet-1K", "ResNet-50", "objective=ls", "ts", 14.33, None),
    ("imagenet_ece_losses", "ImageNet-1K", "ResNet-50", "objective=softece", "smart", 0.65, None),
    ("imagenet_ece_losses", "ImageNet-1K", "ViT-B/16", "objective=nll", "pts", 5.69, None),
    ("imagenet_ece_losses", "ImageNet-1K", "ViT-B/16", "objective=charbonnier", "smart", 0.48, None),
    ("Ablation_study_for_alternative_input", "ImageNet-1K", "Wide-ResNet", "indicator=max_logit", "smart", 0.57, None),
    (
        "Ablation_study_for_alternative_input",
        "ImageNet-1K",
        "ViT-B/16",
        "indicator=max_minus_mean",
        "smart",
        1.20,
        None,
    ),
    ("imagenet_resnet_runtime", "ImageNet-1K", "ResNet-50", "", "cts", 5457.55, 125.5),
    ("imagenet_resnet_runtime", "ImageNet-1K", "ResNet-50", "", "smart", 23.03, 0.41),
    ("hyperparam_resnet50", "ImageNet-1K", "ResNet-50", "sigma=0.10 delta=0.010", "smart", 3.11, None),
    ("hyperparam_vitb16", "ImageNet-1K", "ViT-B/16", "sigma=0.05 delta=0.001", "smart", 0.84, None),
    ("fig:margin_temperature_appendix", "ImageNet-1K", "ViT-B/16", "margin against T", "smart", -0.63, None),
]


def tex() -> str:
    path = Path(os.environ.get("SMART_PAPER", ROOT.parent / "shared" / "paper" / "smart.tex"))
    if not path.exists():
        pytest.skip("the paper's source is missing: smart.tex (set SMART_PAPER to its path)")
    return path.read_text(encoding="utf-8")


def value(**names: str) -> float:
    (row,) = paper.rows(**names)
    return row.value


@pytest.mark.parametrize("typed", TYPED, ids=lambda typed: f"{typed[0]}-{typed[4]}-{typed[5]}")
def test_values_typed_by_hand(typed: tuple):
    table, dataset, model, variant, method, printed, spread = typed
    (row,) = paper.rows(table=table, dataset=dataset, model=model, variant=variant, method=method)
    assert float(row.printed) == printed
    scale = 1.0 if row.unit in ("s", "r") else 100.0
    assert row.value == pytest.approx(printed / scale)
    if spread is None:
        assert math.isnan(row.std)
    elif table == ADA:  # printed with a per-cent sign: relative to the value
        assert row.std == pytest.approx(printed / 100 * spread / 100)
    else:
        assert row.std == pytest.approx(spread / scale)


def test_every_table_is_complete():
    assert Counter(row.table for row in paper.rows()) == ROWS
    keys = [(row.table, row.dataset, row.model, row.variant, row.method, row.metric) for row in paper.rows()]
    assert len(set(keys)) == len(keys)


def test_names_are_those_of_the_engine():
    ours = set(methods())
    assert {row.method for row in paper.rows()} - ours == {"uwg", "dfl", "mdca"}
    assert {row.method for row in paper.rows(table=MAIN)} == {
        *("vanilla", "ts", "pts", "cts", "spline", "gc", "procal", "fc", "smart")
    }
    assert {row.metric for row in paper.rows()} - set(METRICS) == {"seconds", "pearson"}
    variants = [row.variant.split("=") for row in paper.rows() if row.variant.startswith(("objective=", "indicator="))]
    assert {name for kind, name in variants if kind == "objective"} == set(OBJECTIVES)
    assert {name for kind, name in variants if kind == "indicator"} == set(INDICATORS)


def test_rows_are_found_by_any_name():
    found = paper.rows(dataset="ImageNet", model="ResNet-50", metric="ece", table=MAIN)
    assert [row.method for row in found] == ["vanilla", "ts", "pts", "cts", "spline", "gc", "procal", "fc", "smart"]
    assert all(row.dataset == "ImageNet-1K" for row in found)
    assert paper.rows(dataset="MNIST") == ()


def test_models_are_listed_once():
    models = paper.models()
    assert len(models) == len(set(models)) == 26 + 4  # the main table's, and ResNet-110 and DenseNet-121 on CIFAR
    assert models[0] == ("CIFAR-10", "ResNet-50")
    assert ("CIFAR-100", "ResNet-110") in models


def test_sensitivity_grids():
    grid = paper.sensitivity_grid("ImageNet", "ResNet-50")
    assert (grid.sigmas, grid.deltas) == ((0.01, 0.05, 0.1, 0.5, 1.0), (0.001, 0.01, 0.1, 1.0))
    np.testing.assert_allclose(100 * grid.mean()[2], [0.66, 3.11, 0.71, 0.72])
    np.testing.assert_allclose(100 * grid.mean()[:, 3], [0.67, 0.66, 0.72, 1.26, 2.51])
    assert np.isnan(grid.std()).all()
    other = paper.sensitivity_grid("ImageNet-1K", "ViT-B/16")
    np.testing.assert_allclose(100 * other.mean()[1], [0.84, 0.80, 0.89, 0.86])
    with pytest.raises(SmartError, match="no sensitivity table for CIFAR-10 ResNet-50"):
        paper.sensitivity_grid("CIFAR-10", "ResNet-50")


def test_ablations_have_the_shape_of_our_own():
    table = paper.objectives("ViT-B/16")
    assert (table.rows, table.columns) == (("ts", "pts", "smart"), tuple(OBJECTIVES))
    np.testing.assert_allclose(100 * table.mean()[1], [5.69, 3.22, 2.40, 2.57, 1.15, 0.77])
    indicators = paper.indicators()
    assert indicators.rows[3] == "Swin-B"
    assert 100 * indicators.mean()[3, indicators.columns.index("margin")] == pytest.approx(0.46)
    with pytest.raises(SmartError, match="no table of objectives for Swin-B"):
        paper.objectives("Swin-B")


def lowest_counts(table: str) -> tuple[int, int]:
    """On how many networks SMART alone is lowest, and on how many it shares the lowest value."""
    alone = tied = 0
    for dataset, model in {(row.dataset, row.model) for row in paper.rows(table=table)}:
        values = {row.method: row.value for row in paper.rows(table=table, dataset=dataset, model=model)}
        others = min(found for id, found in values.items() if id != "smart")
        alone += values["smart"] < others
        tied += values["smart"] == others
    return alone, tied


def test_tensions_hold_in_the_tables():
    said = " ".join(str(tension) for tension in paper.TENSIONS)
    assert len(paper.TENSIONS) >= 5
    assert lowest_counts(ADA) == (19, 1)
    assert lowest_counts(MAIN) == (24, 1)
    assert "24 of 26 networks; its table shows 19 of 26" in said
    for grid, model, reads, headline in (
        ("hyperparam_resnet50", "ResNet-50", 0.61, 0.52),
        ("hyperparam_vitb16", "ViT-B/16", 0.84, 0.48),
    ):
        assert 100 * value(table=grid, variant="sigma=0.05 delta=0.001") == pytest.approx(reads)
        assert 100 * value(table=MAIN, dataset="ImageNet", model=model, method="smart") == pytest.approx(headline)
        assert f"{reads}%" in said
        assert f"{headline}%" in said
    small = [grid.mean()[:3].max() for grid in (paper.sensitivity_grid(), paper.sensitivity_grid(model="ViT-B/16"))]
    assert [f"{100 * most:.2f}%" in said for most in small] == [True, True]
    for dataset, model in (("CIFAR-10", "Wide-ResNet"), ("CIFAR-100", "ResNet-50"), ("CIFAR-100", "Wide-ResNet")):
        found = paper.rows(dataset=dataset, model=model, method="smart", metric="ece")
        for row in found:
            if row.table == MAIN or row.variant == "trained on NLL":
                assert row.printed in said


def test_tensions_name_tables_that_exist():
    text = tex()
    for tension in paper.TENSIONS:
        for name in tension.tables:
            assert re.search(r"\\label\{(tab:|table:)?" + re.escape(name) + r"\}", text), name


def environment(text: str, label: str) -> str:
    """The table or figure that holds the label."""
    at = re.search(r"\\label\{(tab:|table:)?" + re.escape(label) + r"\}", text)
    assert at, label
    starts = [m.start() for m in re.finditer(r"\\begin\{(table|figure)\*?\}", text) if m.start() < at.start()]
    stop = re.compile(r"\\end\{(table|figure)\*?\}").search(text, at.end())
    assert starts
    assert stop
    return text[starts[-1] : stop.end()]


def test_every_number_is_in_its_table_of_the_paper():
    text = tex()
    with CSV.open(encoding="utf-8") as handle:
        records = list(csv.DictReader(handle))
    assert len(records) == sum(ROWS.values())
    for table in ROWS:
        # the margin's correlation with the distance is said in the text, not in the figure
        held = text if table == "fig:hardness_margin" else environment(text, table)
        printed = Counter(re.findall(r"(?<![\d.])-?\d+\.\d+|(?<![\d.])-?\d+(?![\d.])", held))
        ours = Counter(
            number for row in records if row["table"] == table for number in (row["value"], row["std"]) if number
        )
        assert not ours - printed, table


def test_every_table_has_the_number_that_the_paper_prints() -> None:
    labels = {row.table for row in paper.rows() if not row.table.startswith("fig:")} - {"table"}
    assert labels == set(paper.NUMBERS)
    assert sorted(paper.NUMBERS.values()) == list(range(2, 16))  # the full Table 7 stands for Table 1
    assert paper.table_name("comparison_ECE_full") == "Table 7"
