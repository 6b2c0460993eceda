"""The figures of the theory draw what was computed; alt text and table agree."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from smart_core.errors import CalibrationError
from smart_core.figures.theory_certificate import certificate_chart
from smart_core.figures.theory_margin import feasible_chart, target_chart
from smart_core.figures.theory_playground import recovery_chart, true_error_chart
from smart_core.figures.theory_probe import path_chart, slice_chart
from smart_core.theory.certificate import certificate
from smart_core.theory.margin_bounds import bound_slopes, random_study
from smart_core.theory.nll_probe import Plateau, growth, local_terms, nll_derivative, scaling_path
from smart_core.theory.playground import Playground, unfitted
from tests.metrics.samples import forecasts
from tests.theory.rows import rows


def named(figure, start: str):  # type: ignore[no-untyped-def]
    return [trace for trace in figure.data if (trace.name or "").startswith(start)]


def played() -> Playground:
    blank = unfitted("linear", 3, rows=300)
    error = np.array([[[0.08, 0.08], [0.08, 0.08]], [[0.06, 0.04], [0.02, np.nan]]])
    return replace(
        blank,
        methods=("vanilla", "smart"),
        sizes=(100, 400),
        error=error,
        conditional=error / 2,
        smart={400: np.stack([blank.truth * 1.1, blank.truth * 0.9])},
        ts={400: 1.5},
    )


@pytest.mark.parametrize("dark", [False, True])
def test_target_rows_and_bounds(dark: bool) -> None:
    study = random_study(rows=80)
    chart = target_chart(study, dark=dark)
    (points,) = named(chart.figure, "samples")
    np.testing.assert_array_equal(points.y, study.temperature)
    low, high = bound_slopes(0.8, 10)
    for name, slope in (("lower bound", low), ("upper bound", high)):
        (line,) = named(chart.figure, name)
        np.testing.assert_allclose(np.asarray(line.y) / line.x, slope)
    assert "no samples lie outside" in chart.alt
    assert (chart.table["T"] <= chart.table["upper bound"]).all()
    other = target_chart(study, "max logit", source="<b>mine</b>", dark=dark)
    assert not named(other.figure, "lower")
    assert "of <b>mine</b>" in other.alt
    assert list(other.table.columns) == ["max logit", "T"]


def test_rows_outside_the_bounds_are_counted_and_a_low_target_has_no_upper_bound() -> None:
    study = random_study(rows=50)
    study.temperature[0] *= 50
    assert "1 sample lies outside" in target_chart(study).alt
    assert not named(target_chart(random_study(0.3, rows=50)).figure, "upper")
    with pytest.raises(CalibrationError, match="choose a higher one"):
        target_chart(random_study(0.05, rows=5))


def test_feasible_temperatures() -> None:
    chart = feasible_chart(0.8, 10, margin=2.0)
    (mark,) = named(chart.figure, "margin 2")
    np.testing.assert_allclose(mark.y, [2 / math.log(36), 2 / math.log(4)])
    half = feasible_chart(0.3, 10, margin=2.0)
    assert "no upper bound" in half.alt
    assert np.isinf(half.table["upper bound"]).all()
    with pytest.raises(CalibrationError, match=r"reaches 0\.05"):
        feasible_chart(0.05, 10)


def test_certificate_bars_add_up_and_a_violation_is_named() -> None:
    p, a = forecasts(200, shift=-0.1)
    found = {"vanilla": certificate(p, a), "ts": certificate(p**1.2, a)}
    chart = certificate_chart(found)
    sums: dict[str, float] = {}
    for trace in chart.figure.data:
        if trace.type == "bar":
            for name, value in zip(trace.y, trace.x, strict=True):
                sums[name] = sums.get(name, 0.0) + value
    for id, label in (("vanilla", "Vanilla"), ("ts", "TS")):
        c = found[id]
        assert sums[f"{label}, theorem"] == pytest.approx(c.h + 2 * c.b)
        assert sums[f"{label}, bin means"] == pytest.approx(c.bin_mean + c.eps_agg + 3 * c.b)
    (marks,) = named(chart.figure, "smCE")
    np.testing.assert_allclose(marks.x, [found["vanilla"].smce] * 2 + [found["ts"].smce] * 2)
    assert chart.table["holds"].all()
    assert chart.alt.endswith("Every inequality holds.")
    broken = certificate_chart({"ts": replace(found["ts"], smce=5.0)})
    assert "Violated: TS: smCE" in broken.alt
    assert not broken.table["holds"].all()
    with pytest.raises(CalibrationError, match="needs at least one"):
        certificate_chart({})


def test_the_bars_of_the_whole_range_are_the_derivatives() -> None:
    z, y = rows(300, 4, seed=3)
    terms = local_terms(z, y, 1.1)
    probe = Plateau.against(0.6, 0.8, 0.1)
    chart = slice_chart(terms, 0.0, 100.0, probe)
    everything = terms.within(0.0, 100.0)
    nll, rise = (trace for trace in chart.figure.data if trace.type == "bar")
    assert sum(nll.y) == pytest.approx(nll_derivative(terms, everything).value)
    assert sum(rise.y) == pytest.approx(growth(terms, everything, probe).value)
    (shade,) = slice_chart(terms, 0.5, 1.5, probe).figure.layout.shapes
    assert (shade.x0, shade.x1) == (0.5, 1.5)
    assert "300 of 300 samples" in chart.alt


def test_the_path_starts_at_nothing_and_touches_its_tangent() -> None:
    z, y = rows(200, 3, seed=5)
    terms = local_terms(z, y, 1.0)
    chosen, probe = terms.within(0.0, 2.0), Plateau.against(0.5, 0.7, 0.1)
    path = scaling_path(z, y, 1.0, chosen, probe, (0.99, 1.0, 1.01))
    chart = path_chart(path, nll_derivative(terms, chosen).value, growth(terms, chosen, probe).value)
    (nll,), tangents = named(chart.figure, "NLL"), named(chart.figure, "tangent")
    assert nll.y[1] == 0
    np.testing.assert_allclose(tangents[0].y, nll.y, atol=1e-4)
    np.testing.assert_array_equal(chart.table["smCE"], path.smce)


@pytest.mark.parametrize("dark", [False, True])
def test_the_true_law_and_its_estimates_are_drawn(dark: bool) -> None:
    result = played()
    chart = recovery_chart(result, dark=dark)
    (truth,) = named(chart.figure, "the truth")
    np.testing.assert_array_equal(truth.y, result.truth)
    assert len(named(chart.figure, "SMART")) == 2
    assert "SMART fitted on 400 samples (2 seeds) is off by 10.0" in chart.alt
    assert "TS uses 1.50 for all" in chart.alt
    assert list(chart.table.columns) == ["margin", "true T", "SMART, seed 0", "SMART, seed 1", "TS"]
    blank = recovery_chart(unfitted("linear", 3, rows=300), dark=dark)
    assert not named(blank.figure, "SMART")
    assert "SMART" not in blank.alt


def test_true_errors_by_size() -> None:
    chart = true_error_chart(played())
    (line,) = named(chart.figure, "SMART")
    np.testing.assert_allclose(line.y, [0.05, 0.02])
    np.testing.assert_allclose(line.error_y.array, [0.01, 0.0])
    assert len(chart.table) == 7
    assert "SMART 5.0% with 100 samples and 2.0% with 400 samples" in chart.alt
    half = true_error_chart(played(), conditional=True)
    np.testing.assert_allclose(named(half.figure, "SMART")[0].y, [0.025, 0.01])
    assert "nothing computed yet" in true_error_chart(replace(played(), error=np.full((2, 2, 2), np.nan))).alt
