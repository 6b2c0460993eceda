"""What a benchmark returns: sets by methods, and the statistics over sets."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from smart_core.calibrators import in_order, is_method, method_named
from smart_core.errors import CalibrationError
from smart_core.evaluation import METRICS, metric_named, metric_number
from smart_core.experiments import latex, paper
from smart_core.experiments.benchmark_records import Record, RecordFile
from smart_core.experiments.results import OverSeeds, Result
from smart_core.experiments.set_ranking import Ranking, rank_methods
from smart_core.formatting import join_words, percent, plural

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


@dataclass(frozen=True)
class SetInfo:
    """A data set of a benchmark and the properties that results are compared with."""

    classes: int
    validation: int
    test: int
    accuracy: float
    """Of the uncalibrated model on test."""
    overconfidence: float
    """Mean confidence minus accuracy of the uncalibrated model on test; negative if it is underconfident."""
    margin_spread: float
    """Standard deviation of the logit margin on test."""
    floor: float
    """95% quantile of the ECE that a perfectly calibrated model with the uncalibrated confidences would show."""
    splits: tuple[str, ...]
    """Content of each split, as `LogitSet.content_hash`."""

    def properties(self) -> dict[str, float]:
        """The fields but the splits."""
        return {name: value for name, value in asdict(self).items() if name != "splits"}


FEWEST_SETS = 5
"""Sets from which on a test over sets is reported: below, not even a method that wins on all of them is significant."""

NARROW = 4
"""Methods up to which the LaTeX table fits into one column of two."""

PROPERTIES = {
    "classes": "Classes",
    "validation": "Validation samples",
    "test": "Test samples",
    "accuracy": "Accuracy of the model",
    "overconfidence": "Mean confidence minus accuracy",
    "margin_spread": "Spread of the logit margin",
}
"""The numbers of a set that results can be plotted against."""


@dataclass(frozen=True)
class Cell:
    """One method on one set, over splits and seeds."""

    values: dict[str, list[float]]
    """Metric -> its value for each split and seed that has one."""
    seconds: float
    parameters: int
    reason: str = ""
    """Why there is no value."""
    key: str = ""
    """Of the record of the first fit, which the paired tests use."""

    def over_seeds(self, metric: str) -> OverSeeds:
        """Mean and spread over splits and seeds."""
        return OverSeeds.of(self.values.get(metric, []))


def cell_of(records: Mapping[str, Record]) -> Cell:
    """The cell of these records, by their keys: those of one method on one set, the first split and seed first."""
    good = {key: record for key, record in records.items() if not record.reason}
    if not good:
        return Cell({}, math.nan, 0, next(iter(records.values())).reason)
    values = {name: [each.metrics[name] for each in good.values() if name in each.metrics] for name in METRICS}
    seconds = float(np.mean([record.seconds for record in good.values()]))
    return Cell(values, seconds, next(iter(good.values())).parameters, key=next(iter(good)))


@dataclass(eq=False, repr=False)
class Benchmark(Result):
    """Sets by methods, with the statistics over sets."""

    keys = ("set", "method")
    sets: dict[str, SetInfo]
    methods: tuple[str, ...]
    cells: dict[str, dict[str, Cell]]
    """Set -> method -> its cell; a cell that was not reached yet is missing."""
    metric: str = "ece"
    complete: bool = True
    """False if the benchmark was cancelled: cells are missing."""
    tied: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict)
    """Metric -> set -> method -> whether the paired test, of the first seed on the first split and with Holm's
    correction over methods, cannot tell it from the best."""

    def __repr__(self) -> str:
        return f"Benchmark({len(self.sets)} sets, {len(self.methods)} methods)"

    @classmethod
    def of(cls, file: RecordFile, metric: str = "ece") -> Benchmark:
        """The benchmark that is in a file: every set, by name, with every method; nothing is fitted.

        Where a file has records with several numbers of bins, or of a method with several settings, those are taken of
        which there are most.

        >>> import smart_core as sc
        >>> file = RecordFile()
        >>> sets = {"simulated": sc.simulate_set(200, 200, 3, seed=0)}
        >>> done = sc.benchmark(sets, "vanilla,ts", records=file)
        >>> Benchmark.of(file).matrix().equals(done.matrix())
        True
        """
        metric_named(metric)
        known = {key: record for key, record in file.records.items() if is_method(record.method)}
        bins = _most(record.bins for record in known.values())
        known = {key: record for key, record in known.items() if record.bins == bins}
        ids = tuple(in_order(record.method for record in known.values()))
        for id in ids:
            settings = _most(_text(record.settings) for record in known.values() if record.method == id)
            known = {key: r for key, r in known.items() if r.method != id or _text(r.settings) == settings}
        at: dict[tuple[str, str], dict[str, Record]] = {}
        for key, record in sorted(known.items(), key=lambda item: item[1].seed):
            at.setdefault((record.data, record.method), {})[key] = record
        result = cls({}, ids, {}, metric)
        for _, about in sorted(file.sets.items(), key=lambda item: (str(item[1]["name"]), item[0])):
            fields = {name: value for name, value in about.items() if name != "name"}
            name = unused(str(about["name"]), result.sets)
            result.cells[name] = {}
            result.sets[name] = SetInfo(**{**fields, "splits": tuple(fields["splits"])})
            for id in ids:
                records = [at.get((data, id), {}) for data in result.sets[name].splits]
                if any(records):
                    result.cells[name][id] = cell_of({k: r for each in records for k, r in each.items()})
        result.complete = all(len(cells) == len(ids) for cells in result.cells.values())
        return result

    def view(self, sets: Iterable[str] | None = None, methods: Iterable[str] | None = None) -> Benchmark:
        """The same results with these sets and methods only, in this order."""
        names = list(self.sets) if sets is None else [name for name in sets if name in self.sets]
        ids = self.methods if methods is None else tuple(id for id in methods if id in self.methods)
        cells = {name: {id: self.cells[name][id] for id in ids if id in self.cells[name]} for name in names}
        return replace(self, sets={name: self.sets[name] for name in names}, methods=ids, cells=cells)

    def by(self, what: str, metric: str | None = None) -> Benchmark:
        """The same results with the sets in the order of a property, or of the metric of a method; unknown ones last.

        >>> list(paper_benchmark().by("smart").sets)[0]
        'CIFAR-10 / Wide-ResNet'
        """
        if what in PROPERTIES:
            values = {name: info.properties()[what] for name, info in self.sets.items()}
        else:
            values = self.matrix(metric)[what].to_dict()
        return self.view(sorted(values, key=lambda name: (math.isnan(values[name]), values[name])))

    def beside_paper(self, set_name: str, row: str, metric: str | None = None) -> Benchmark:
        """A set below a row of the paper's main table, with the methods of both."""
        printed = paper_benchmark(metric or self.metric)
        both = {f"the paper, {row}": (printed, row), set_name: (self, set_name)}
        ids = [id for id in printed.methods if id in self.methods]
        sets = {name: of.sets[own] for name, (of, own) in both.items()}
        cells = {name: {id: of.cells[own][id] for id in ids if id in of.cells[own]} for name, (of, own) in both.items()}
        return replace(self, sets=sets, methods=tuple(ids), cells=cells, metric=printed.metric)

    def matrix(self, metric: str | None = None) -> pd.DataFrame:
        """Sets by methods: means of a metric; NaN where there is none."""
        import pandas as pd

        name = metric or self.metric
        metric_named(name)
        rows = {
            set_name: {id: float(cells[id].over_seeds(name).mean) if id in cells else math.nan for id in self.methods}
            for set_name, cells in self.cells.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(self.methods))

    def improvement(self, metric: str = "nll") -> pd.DataFrame:
        """Post-hoc improvement: by how much a method lowers a metric, as a share of the uncalibrated model's value."""
        values = self.matrix(metric)
        if "vanilla" not in values:
            raise CalibrationError("The improvement is over the uncalibrated model; add the method vanilla.")
        return 1.0 - values.div(values["vanilla"], axis=0)

    def ranking(self, metric: str | None = None, methods: Sequence[str] | None = None) -> Ranking | None:
        """The methods that have a value on every finished set, ranked; None without two of them."""
        name = metric or self.metric
        finished = [one for one, cells in self.cells.items() if all(id in cells for id in methods or self.methods)]
        values = self.matrix(name).loc[finished, list(methods or self.methods)].dropna(axis=1)
        if values.shape[0] < 1 or values.shape[1] < 2:
            return None
        return rank_methods(values.to_numpy(), list(values), higher_is_better=METRICS[name].higher_is_better)

    def summary(self, metric: str | None = None) -> pd.DataFrame:
        """One row per method: mean rank and win rate with their 95% intervals, best first.

        Methods without a value on some finished set are left out.
        """
        import pandas as pd

        found = self.ranking(metric)
        columns = ["method", *(f"{of}{end}" for of in ("mean_rank", "win_rate") for end in ("", "_low", "_high"))]
        if found is None:
            return pd.DataFrame(columns=columns).set_index("method")
        parts = (found.mean_rank, *found.rank_interval.T, found.win_rate, *found.win_interval.T)
        frame = pd.DataFrame(dict(zip(columns, (found.methods, *parts), strict=True))).set_index("method")
        return frame.sort_values("mean_rank", kind="stable")

    def verdict(self, metric: str | None = None) -> str:
        """Which method ranks best over the sets, and whether that is more than chance; in a few sentences.

        >>> paper_benchmark().verdict().split(";")[0]
        'Over 26 data sets, SMART has the best mean rank by ECE (1.06 of 9 methods'
        """
        name = metric or self.metric
        found = self.ranking(name)
        if found is None:
            return "There is no ranking: it needs two methods with values on every set."
        order = np.argsort(found.mean_rank, kind="stable")
        labels, best = [method_named(id).label for id in found.methods], order[0]
        rank, won = found.mean_rank[best], percent(float(found.win_rate[best]), 0)
        head = (
            f"Over {plural(found.sets, 'data set')}, {labels[best]} has the best mean rank by {METRICS[name].label} "
            f"({rank:.2f} of {len(labels)} methods; {won} of comparisons won)."
        )
        if found.sets < FEWEST_SETS:
            return f"{head} {plural(found.sets, 'data set')}: too few for a claim over data sets."
        words = [head]
        if found.friedman_p is not None:
            different = "rank differently beyond chance" if found.friedman_p < 0.05 else "cannot be told apart"
            p_value = f"p {'< 0.0001' if found.friedman_p < 1e-4 else f'= {found.friedman_p:.2g}'}"
            words.append(f"The methods {different} (Friedman test with Iman and Davenport's F, {p_value}).")
        near = [labels[i] for i in order[1:] if found.mean_rank[i] - rank <= found.critical_difference]
        nemenyi = f"cannot tell it from {join_words(near)}" if near else "tells it from every other"
        return " ".join([*words, f"Nemenyi's test {nemenyi}."])

    def records(self) -> list[dict[str, Any]]:
        records = []
        for set_name, id, cell in self.filled():
            figures = {name: cell.over_seeds(name) for name in METRICS if name in cell.values}
            row: dict[str, Any] = {"set": set_name, "method": id, "available": not cell.reason}
            row |= {name: float(each.mean) for name, each in figures.items()}
            row |= {f"{name}_std": float(each.published_std) for name, each in figures.items()}
            row |= {"fit_seconds": cell.seconds, "parameters": cell.parameters, "reason": cell.reason}
            row["tied_with_best"] = self.is_tied(self.metric, set_name, id)
            records.append(row)
        return records

    def to_dict(self) -> dict[str, Any]:
        cells: dict[str, dict[str, Any]] = {name: {} for name in self.cells}
        for set_name, id, cell in self.filled():
            figures = {name: cell.over_seeds(name) for name in METRICS if name in cell.values}
            cells[set_name][id] = {
                **{name: {"mean": each.mean, "std": each.published_std} for name, each in figures.items()},
                **({"available": False, "reason": cell.reason} if cell.reason else {}),
                "fit_seconds": cell.seconds,
                "tied_with_best": self.is_tied(self.metric, set_name, id),
            }
        found = self.ranking()
        summary = {
            id: {
                "mean_rank": row.mean_rank,
                "win_rate": {"mean": row.win_rate, "low": row.win_rate_low, "high": row.win_rate_high},
            }
            for id, row in self.summary().iterrows()
        }
        return {
            "metric": self.metric,
            "complete": self.complete,
            "sets": {name: info.properties() for name, info in self.sets.items()},
            "cells": cells,
            "summary": summary,
            "critical_difference": found.critical_difference if found else None,
            "friedman_p": found.friedman_p if found else None,
        }

    def to_latex(self, metric: str | None = None) -> str:
        """The main table in the paper's layout: best bold, second underlined, tied with the best starred.

        Names such as `cifar10/resnet50`, a data set and a model, are two columns, where a data set has several models.
        """
        name = metric or self.metric
        values = self.matrix(name)
        ids = [id for id in self.methods if np.isfinite(values[id]).any()]
        spreads = {(one, id): float(cell.over_seeds(name).std) for one, id, cell in self.filled()}
        pairs = [[part.strip() for part in one.partition("/")[::2]] for one in values.index]
        models = Counter(data for data, model in pairs if model)
        two = len(models) < sum(models.values()) == len(pairs)
        body: list[str] = []
        for (one, means), (data, model) in zip(values[ids].iterrows(), pairs, strict=True):
            marks = marked(name, means)
            cells = []
            for id in ids:
                number = latex.figure(name, means[id], spreads.get((one, id), math.nan)) or r"\text{--}"
                mark = {1: r"\mathbf{%s}", 2: r"\underline{%s}"}.get(marks[id], "%s")
                tied = "^{*}" if self.is_tied(name, str(one), id) and marks[id] != 1 else ""
                cells.append(f"${mark % number}{tied}$")
            if name == "ece" and self._has_floor:
                cells.append(f"${metric_number(name, self.sets[str(one)].floor)}$")
            if not two:
                body.append(latex.row([latex.escaped(str(one)), *cells]))
                continue
            begins = models.pop(data, 0)
            if begins and body:
                body.append(r"\midrule")
            first = rf"\multirow{{{begins}}}{{*}}{{{latex.escaped(data)}}}" if begins else ""
            body.append(latex.row([first, latex.escaped(model), *cells]))
        labels = [latex.escaped(method_named(id).label) for id in ids]
        names = ["Dataset", "Model"] if two else ["Data"]
        header = [*names, *labels, *(["Floor"] if name == "ece" and self._has_floor else [])]
        caption = (
            rf"{latex.heading(name)}, measured on test; mean $\pm$ standard deviation over splits and seeds. The best "
            r"is bold, the second underlined"
        )
        caption += "; a star marks methods that a paired test cannot tell from the best." if name in self.tied else "."
        columns = "l" * len(names) + "c" * (len(header) - len(names))
        text = latex.table(caption, "tab:benchmark", columns, header, body, wide=len(ids) > NARROW)
        return rf"% needs \usepackage{{booktabs{', multirow' if two else ''}}}" + f"\n{text}"

    @property
    def _has_floor(self) -> bool:
        return any(math.isfinite(info.floor) for info in self.sets.values())

    def filled(self) -> Iterator[tuple[str, str, Cell]]:
        """Set, method and cell of all cells that were reached."""
        for set_name, cells in self.cells.items():
            for id in self.methods:
                if id in cells:
                    yield set_name, id, cells[id]

    def is_tied(self, metric: str, set_name: str, id: str) -> bool | None:
        """Whether a method cannot be told from the best of its set; None where no test was made."""
        return self.tied.get(metric, {}).get(set_name, {}).get(id)


def marked(metric: str, values: pd.Series) -> dict[str, int]:
    """Method -> 1 for the best value of a set, 2 for the second, higher for others; equal values share a place.

    >>> import pandas as pd
    >>> marked("ece", pd.Series({"ts": 0.02, "smart": 0.01, "spline": 0.01}))
    {'ts': 2, 'smart': 1, 'spline': 1}
    """
    keys = values.map(METRICS[metric].sort_key)
    return {str(id): int(place) for id, place in keys.rank(method="dense").items()}


def unused(name: str, taken: Container[str]) -> str:
    """The name, with a number if it is taken."""
    numbered = (f"{name} ({number})" for number in count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def _most(values: Iterable[T]) -> T | None:
    """The value that occurs most often; the first of several."""
    return next((value for value, _ in Counter(values).most_common(1)), None)


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


PAPER_TABLES = {"ece": "comparison_ECE_full", "adaece": "adaece_comparison_updated", "accuracy": "accuracy_comparison"}
"""Metric -> the paper's table of it over all networks."""


def paper_benchmark(metric: str = "ece", *, training: bool = False) -> Benchmark:
    """The paper's main table of a metric (ECE, AdaECE or accuracy), so that its claims can be seen in the same views.

    With `training`, its table of models trained with other losses, before and after SMART. The paper prints means, so
    that there is one value per cell; nothing is known of ties and of most properties.

    >>> paper_benchmark().ranking().methods[0], len(paper_benchmark().sets)
    ('vanilla', 26)
    """
    label = f"{'SMART_' if metric == 'ece' else ''}{metric}_compare_with_training_time_methods"
    printed = paper.rows(table=label if training else PAPER_TABLES.get(metric, ""))
    if not printed:
        raise CalibrationError(f"The paper has no table of {metric_named(metric).label} over all of its networks.")
    cells: dict[str, dict[str, Cell]] = {}
    for row in printed:
        name = " / ".join(part for part in (row.dataset, row.model, row.variant) if part)
        cells.setdefault(name, {})[row.method] = Cell({metric: [row.value]}, math.nan, 0)
    unknown = SetInfo(0, 0, 0, math.nan, math.nan, math.nan, math.nan, splits=())
    return Benchmark(dict.fromkeys(cells, unknown), tuple(dict.fromkeys(row.method for row in printed)), cells, metric)


def paper_row_of(name: str) -> str | None:
    """The row of the paper's main table whose data set and model a name has, if there is one.

    >>> paper_row_of("resnet50_cifar10_ce"), paper_row_of("digits")
    ('CIFAR-10 / ResNet-50', None)
    """
    plain = _alphanumeric(name)
    found = [row for row in paper_benchmark().sets if all(_alphanumeric(part) in plain for part in row.split(" / "))]
    return max(found, key=len, default=None)


def _alphanumeric(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())
