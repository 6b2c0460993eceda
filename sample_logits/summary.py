"""The figures of the bundles, as the tables of this folder's README: `python -m sample_logits.summary`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import smart_core as sc
from sample_logits import FOLDER, path
from smart_core.analysis.correlation import Correlation, correlate
from smart_core.analysis.margin_groups import MarginGroup, after_temperature_scaling
from smart_core.cli.benchmark import stored
from smart_core.data.logitset import LogitSet, Part
from smart_core.experiments.benchmark_records import RecordFile
from smart_core.experiments.benchmark_result import Benchmark
from smart_core.metrics import Samples, ece, noise_floor

MAIN = ("cifar10", "fashion", "digits")
"""The sets with distances, on which every method is compared."""

RESULTS = FOLDER / "benchmark.json"
"""Finished fits of `smart benchmark`: every method on every bundle and on seven published sets, three seeds."""


RAGGED = "languages_choices"
"""The bundle whose rows lack classes, which half of the methods refuse; a ranking with it could not have them."""


def opening() -> str:
    """The set that the dashboard opens on: the one on which temperature scaling leaves the largest gap.

    The gap is that of a margin group on validation, where temperature scaling is fitted; test has no say in the choice.
    """
    return max((file.stem for file in sorted(FOLDER.glob("*.npz"))), key=lambda name: abs(_left(name).gap))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sample_logits.summary", description=__doc__)
    known = ", ".join(TABLES)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"which tables to print, all by default: {known}")
    wanted = parser.parse_args().tables or list(TABLES)
    for name in wanted:
        if name not in TABLES:
            parser.error(f"there is no table {name}; the tables are {known}.")
    for name in wanted:
        print(TABLES[name](), end="\n\n", flush=True)


def figures() -> str:
    """One row a bundle: size, accuracy, mean confidence and ECE of the test part, and the floor of that ECE."""
    header = ("bundle", "validation", "test", "accuracy", "mean confidence", "ECE", "ECE floor")
    return _table(header, [_figures(file.stem) for file in sorted(FOLDER.glob("*.npz"))])


def gaps() -> str:
    """One row a bundle: the margin group with the largest gap after temperature scaling, both on validation."""
    header = ("bundle", "temperature", "largest gap", "where")
    rows = [_gaps(file.stem) for file in sorted(FOLDER.glob("*.npz"))]
    return f"{_table(header, rows)}\n\nThe dashboard opens on `{opening()}`."


def distances() -> str:
    """One row a main set: the correlation of margin and distance over the attacked images."""
    header = ("set", "attacked", "failed", "median distance", "Pearson r", "Spearman")
    return _table(header, [_distances(name) for name in MAIN if path(name).exists()])


def methods(name: str) -> str:
    """The leaderboard of one set, all methods over five seeds."""
    result = sc.compare(sc.load(path(name)), methods="all", seeds=5).to_dict()
    header = ("method", "ECE, measured", "noise floor", "ECE, true, 95%", "AdaECE", "NLL", "accuracy", "by ECE")
    return _table(header, [_method(id, row, result["best"]) for id, row in result["methods"].items()])


def ranking(published: bool = False) -> str:
    """One row a method, from the finished fits in `RESULTS`: how it ranks by ECE over the bundles, or over all sets.

    `RAGGED` is left out.
    """
    result = _of_sets(lambda name: name != RAGGED and (published or path(name).exists()))
    found = sorted(result["summary"].items(), key=lambda item: item[1]["mean_rank"])
    header = ("method", "mean rank", "comparisons won, 95%", "best or tied with it", "seconds a fit, median")
    return _table(header, [_rank(id, row, result["cells"]) for id, row in found])


def cells(published: bool = False) -> str:
    """One row a method, one column a bundle or published set: the ECE, with * for the best and those tied with it."""
    result = _of_sets(lambda name: path(name).exists() != published)["cells"]
    names = sorted(result)
    fashion = [name for name in names if name.startswith("fashion")]  # one table of all would be too wide
    tables = []
    for columns in filter(None, (fashion, [name for name in names if name not in fashion])):
        rows = [
            [method.label, *(_cell(result[name].get(id, {})) for name in columns)]
            for id, method in sc.calibrators.methods().items()
        ]
        header = ("method", *(f"`{name}`" if path(name).exists() else name for name in columns))
        tables.append(_table(header, [row for row in rows if any(row[1:])]))
    return "\n\n".join(tables)


def published() -> str:
    """The two tables of docs/method.md: the ranking over all sets, and the ECE on those that are not bundled."""
    return f"{ranking(published=True)}\n\n{cells(published=True)}"


TABLES: dict[str, Callable[[], str]] = {
    "figures": figures,
    "gaps": gaps,
    "ranking": ranking,
    "cells": cells,
    "published": published,
    "distances": distances,
    **{name: partial(methods, name) for name in MAIN},
}


def margin_and_distance(part: Part) -> Correlation:
    """Over the samples with a distance."""
    if part.cw_l2 is None:
        raise ValueError("The bundle has no distances.")
    top = np.partition(part.logits, -2, axis=1)[:, -2:]
    return correlate(top[:, 1] - top[:, 0], part.cw_l2)


def _figures(name: str) -> list[str]:
    data: LogitSet = sc.load(path(name))
    confidence, correct = _confidence(data.test), data.test.logits.argmax(axis=1) == data.test.labels
    shares = (correct.mean(), confidence.mean(), ece(confidence, correct), noise_floor("ece", Samples(confidence)).q95)
    return [name, f"{len(data.validation):,}", f"{len(data.test):,}", *(f"{100 * share:.2f}" for share in shares)]


@cache
def _left(name: str) -> MarginGroup:
    validation = sc.load(path(name)).validation
    groups = after_temperature_scaling(validation, validation)
    return max((group for group in groups if group.n), key=lambda group: abs(group.gap))


def _gaps(name: str) -> list[str]:
    temperature, left = float(sc.TS().fit_part(sc.load(path(name)).validation).temperature_), _left(name)
    return [name, f"{temperature:.2f}", f"{100 * left.gap:+.1f}", left.sentence]


@cache
def _benchmark() -> Benchmark:
    return stored(RecordFile.open(RESULTS), "ece")


def _of_sets(wanted: Callable[[str], bool]) -> dict[str, Any]:
    return _benchmark().view(filter(wanted, _benchmark().sets)).to_dict()


def _rank(id: str, row: dict[str, Any], sets: dict[str, dict[str, Any]]) -> list[str]:
    won, tied = row["win_rate"], sum(cells[id]["tied_with_best"] for cells in sets.values())
    return [
        sc.calibrators.methods()[id].label,
        f"{row['mean_rank']:.2f}",
        f"{100 * won['mean']:.0f} ({100 * won['low']:.0f} to {100 * won['high']:.0f})",
        f"{tied} of {len(sets)}",
        f"{np.median([cells[id]['fit_seconds'] for cells in sets.values()]):.2g}",
    ]


def _cell(cell: dict[str, Any]) -> str:
    return f"{100 * cell['ece']['mean']:.2f}{'*' * cell['tied_with_best']}" if "ece" in cell else ""


def _distances(name: str) -> list[str]:
    part = sc.load(path(name)).test
    found, attacked = margin_and_distance(part), _attacked(name, len(part))
    return [
        name,
        f"{attacked:,}",
        str(attacked - found.used),
        f"{np.nanmedian(part.cw_l2):.3f}",
        f"{found.pearson:.3f} ({found.pearson_low:.3f} to {found.pearson_high:.3f})",
        f"{found.spearman:.3f} ({found.spearman_low:.3f} to {found.spearman_high:.3f})",
    ]


def _method(id: str, row: dict[str, Any], best: str) -> list[str]:
    if not row["available"]:
        return [sc.calibrators.methods()[id].label, row["reason"], *[""] * 6]
    by = row["metrics"]
    return [
        row["label"],
        _spread(by["ece"], 100, 2),
        f"{100 * row['floor']['ece']['q95']:.2f}",
        f"{100 * by['ece']['low']:.2f} to {100 * by['ece']['high']:.2f}",
        _spread(by["adaece"], 100, 2),
        _spread(by["nll"], 1, 4),
        f"{100 * by['accuracy']['mean']:.2f}",
        "best" if id == best else "tied" if row["tied_with_best"] else "",
    ]


def _attacked(name: str, rows: int) -> int:
    return min(rows, import_module(f"sample_logits.{name}").SAMPLE.attacked)


def _confidence(part: Part) -> NDArray[np.float64]:
    return softmax(part.logits.astype(np.float64), axis=1).max(axis=1)


def _spread(figures: dict[str, float], scale: float, digits: int) -> str:
    spread = f" ± {scale * figures['std']:.{digits}f}" if figures["std"] > 0 else ""
    return f"{scale * figures['mean']:.{digits}f}{spread}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
