"""The figures of a benchmark draw its own numbers."""

from __future__ import annotations

import numpy as np
import pytest

from smart_core.experiments.benchmark_result import Benchmark, Cell, SetInfo, paper_benchmark
from smart_core.figures import benchmark_matrix, critical_difference_diagram, property_scatter, win_matrix


@pytest.fixture(scope="module")
def result() -> Benchmark:
    values = {"a": (0.05, 0.02, 0.01), "b": (0.06, 0.01, 0.02), "<b>c</b>": (0.04, 0.03, 0.01)}
    methods = ("vanilla", "ts", "smart")
    cells = {
        name: {id: Cell({"ece": [value]}, 0.1, 1) for id, value in zip(methods, row, strict=True)}
        for name, row in values.items()
    }
    del cells["b"]["smart"]
    cells["b"]["smart"] = Cell({}, np.nan, 0, "needs features")
    sets = {name: SetInfo(10 * place, 100, 200, 0.9, 0.05, 3.0, 0.01, ()) for place, name in enumerate(values, 1)}
    return Benchmark(sets, methods, cells, tied={"ece": {"a": {"vanilla": False, "ts": True, "smart": True}}})


def written(figure) -> list[str]:
    return [note.text for note in figure.layout.annotations]


def test_the_matrix_marks_best_second_and_tied(result):
    chart = benchmark_matrix(result)
    assert written(chart.figure) == [
        *("5.00", "<u>2.00</u>*", "<b>1.00</b>"),
        *("<u>6.00</u>", "<b>1.00</b>", "–"),
        *("4.00", "<u>3.00</u>", "<b>1.00</b>"),
    ]
    heat = chart.figure.data[0]
    assert heat.z[0] == pytest.approx([np.log(4), np.log(2), 0.0])
    assert np.isnan(heat.z[1][2])
    assert "<b>c" not in chart.figure.layout.yaxis.ticktext[2]
    hovers = chart.figure.data[1].customdata
    assert "tied with the best" in hovers[1]
    assert "needs features" in hovers[5]
    assert len(chart.table) == 9


def test_ranks_and_wins_of_the_papers_table():
    ranking = paper_benchmark().ranking()
    chart = critical_difference_diagram(ranking)
    ranks = [trace.x[0] for trace in chart.figure.data if trace.mode == "markers" and trace.x[0] is not None]
    assert ranks == sorted(ranks)
    assert chart.table["method"][0] == "smart"
    wins = win_matrix(ranking)
    shares = wins.table.set_index(["method", "beats"])["share"]
    assert shares["smart", "ts"] + shares["ts", "smart"] == pytest.approx(1.0)
    assert shares["smart", "vanilla"] == 1.0


def test_the_scatter_divides_by_the_model(result):
    chart = property_scatter(result, "classes", ["ts"])
    assert list(chart.figure.data[0].y) == pytest.approx([0.4, 1 / 6, 0.75])
    assert list(chart.figure.data[0].x) == [10, 20, 30]
    absolute = property_scatter(result, "classes", ["ts"], relative=False)
    assert list(absolute.figure.data[0].y) == pytest.approx([0.02, 0.01, 0.03])
