"""The paper's own results, table by table, in the units of the engine.

`paper_tables.csv` holds them as printed; `table` is the label of the table or figure in the paper. Shares become
fractions and the NLL, which the paper multiplies by 100, nats. `paper_tensions.csv` lists where the paper disagrees
with itself.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

from smart_core.errors import SmartError
from smart_core.experiments.results import SeedTable
from smart_core.experiments.sensitivity import Sensitivity
from smart_core.formatting import join_words

Table = TypeVar("Table", bound=SeedTable)

DEFAULT = (0.05, 1e-3)
"""The paper's sigma and delta."""

LABELS = """
SMART_ece_compare_with_training_time_methods additional_training_ece imagenet_ece_losses
Ablation_study_for_alternative_input imagenet_resnet_runtime comparison_ECE_full accuracy_comparison
adaece_comparison_updated accuracy_compare_with_training_time_methods adaece_compare_with_training_time_methods
cece_compare_with_training_time_methods nll_compare_with_training_time_methods hyperparam_resnet50 hyperparam_vitb16
"""
NUMBERS = {label: number for number, label in enumerate(LABELS.split(), start=2)}
"""Label of a table -> its number in the paper."""

PLACES = {
    "subsec:margin_motivation": "Section 3.2",
    "thm:Charbonnier_controls_smce": "Theorem 3.1",
    "subsec:confidence-relation": "Appendix A.1",
    "subsec:hyperparameter_sensitivity": "Appendix J.2",
}
"""Label of a section or theorem -> where it is in the paper."""

ALIASES = {"ImageNet": "ImageNet-1K", "ImageNet-Sketch": "ImageNet-S"}
"""The paper's other names of a data set -> the one used here."""

RELATIVE_STD = "%, std in % of the value"
"""AdaECE's spreads carry a per-cent sign of their own. The paper does not say of what; read as per cent of the value
they are of the size of ECE's spreads, read as absolute ones they would exceed the value up to 57 times."""

SCALES = {"%": 0.01, RELATIVE_STD: 0.01, "x100": 0.01, "s": 1.0, "r": 1.0}
"""Unit of a printed number -> the factor that turns it into the engine's."""


@dataclass(frozen=True)
class PaperValue:
    """One number of the paper."""

    table: str
    """Label of the table or figure that it stands in."""
    dataset: str
    model: str
    variant: str
    """Other conditions: `trained on NLL`, `objective=mse`, `indicator=entropy`, `sigma=0.05 delta=0.001`."""
    method: str
    """The id of the method here; `uwg`, `dfl` and `mdca` are training-time methods, which are not here."""
    metric: str
    """The name of the metric here; `seconds` and `pearson` are not metrics."""
    value: float
    """In the engine's units: fractions, nats, seconds."""
    std: float
    """Over runs, in the same units; NaN where the paper prints none."""
    printed: str
    """The value as the paper prints it."""
    unit: str
    """Of the printed value: a key of `SCALES`."""


class Model(NamedTuple):
    """A trained network that the paper reports on."""

    dataset: str
    model: str


@dataclass(frozen=True)
class Tension:
    """Two statements of the paper that do not fit together."""

    text: str
    tables: tuple[str, ...]
    """Labels of the tables and sections that it rests on."""

    def __str__(self) -> str:
        return f"{self.text} ({join_words([table_name(label) for label in self.tables])})"


@dataclass(eq=False)
class PaperGrid(Sensitivity):
    """A sensitivity table of the paper: the ECE alone, and means only, as if from one seed."""

    table: str = ""
    """Label of the table in the paper."""


def rows(**fields: str) -> tuple[PaperValue, ...]:
    """The paper's numbers whose fields have these values, in its order.

    Without `table` one setting may come back several times: the paper reports it in several tables.

    >>> [row.printed for row in rows(table="hyperparam_resnet50", variant="sigma=0.05 delta=0.001")]
    ['0.61']
    """
    wanted = fields | ({"dataset": ALIASES.get(fields["dataset"], fields["dataset"])} if "dataset" in fields else {})
    return tuple(row for row in _all() if all(getattr(row, name) == value for name, value in wanted.items()))


def table_name(label: str) -> str:
    """The name of a table, section or theorem as the paper prints it.

    >>> table_name("hyperparam_resnet50")
    'Table 14'
    """
    return f"Table {NUMBERS[label]}" if label in NUMBERS else PLACES.get(label, label)


def models() -> tuple[Model, ...]:
    """Every data set and network with a number in a table, each once, in the paper's order."""
    return tuple(dict.fromkeys(Model(row.dataset, row.model) for row in _all() if row.model))


def sensitivity_grid(dataset: str = "ImageNet", model: str = "ResNet-50") -> PaperGrid:
    """The paper's ECE over sigma and delta for one of its two networks."""
    cells = [row for row in rows(dataset=dataset, model=model, method="smart") if row.variant.startswith("sigma=")]
    at = {tuple(float(part.split("=")[1]) for part in row.variant.split()): row.value for row in cells}
    grid = _filled(PaperGrid, "sigma", "delta", at, f"sensitivity table for {dataset} {model}")
    grid.table = cells[0].table
    return grid


def objectives(model: str = "ResNet-50") -> SeedTable:
    """The paper's ECE of TS, PTS and SMART under six objectives, as our own ablation gives it."""
    found = rows(table="imagenet_ece_losses", model=model)
    at = {(row.method, row.variant.removeprefix("objective=")): row.value for row in found}
    return _filled(SeedTable, "method", "objective", at, f"table of objectives for {model}")


def indicators() -> SeedTable:
    """The paper's ECE of SMART reading six indicators, networks in rows."""
    found = rows(table="Ablation_study_for_alternative_input")
    at = {(row.model, row.variant.removeprefix("indicator=")): row.value for row in found}
    return _filled(SeedTable, "model", "indicator", at, "table of indicators")


def _filled(
    kind: type[Table], row_name: str, column_name: str, at: Mapping[tuple[Any, ...], float], what: str
) -> Table:
    """A table of the ECE by (row, column)."""
    if not at:
        raise SmartError(f"The paper has no {what}; it has ResNet-50 and ViT-B/16 on ImageNet.")
    names, columns = (tuple(dict.fromkeys(place[axis] for place in at)) for axis in (0, 1))
    table = kind.empty(row_name, column_name, names, columns, 1, ("ece",))
    for (name, column), value in at.items():
        table.metrics["ece"][names.index(name), columns.index(column), 0] = value
    return table


def read(name: str) -> Iterable[dict[str, Any]]:
    """The rows of a CSV file beside this module."""
    text = files("smart_core.experiments").joinpath(name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


@cache
def _all() -> tuple[PaperValue, ...]:
    return tuple(_value(row) for row in read("paper_tables.csv"))


def _value(row: dict[str, Any]) -> PaperValue:
    unit = row["unit"]
    value = float(row["value"]) * SCALES[unit]
    std = math.nan
    if row["std"]:
        std = float(row["std"]) * (value / 100.0 if unit == RELATIVE_STD else SCALES[unit])
    return PaperValue(**{**row, "value": value, "std": std, "printed": row["value"]})


TENSIONS = tuple(Tension(row["text"], tuple(row["tables"].split())) for row in read("paper_tensions.csv"))
"""Where the paper contradicts itself, to be shown beside its claims."""
