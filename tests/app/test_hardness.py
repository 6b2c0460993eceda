"""The hardness page without a browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sample_logits
from tests.app.driver import buttons, charts, click, load_own_file, open_page, run_code, session_of, text_of


def file() -> tuple[np.ndarray, np.ndarray]:
    """Margin and distance of the digits' test rows."""
    with np.load(sample_logits.path("digits")) as bundle:
        top = np.sort(bundle["test_logits"].astype(np.float64), axis=1)
        return top[:, -1] - top[:, -2], bundle["test_cw_l2"].astype(np.float64)


def points(chart: dict) -> np.ndarray:
    """Distances drawn as points, by row."""
    drawn = [trace for trace in chart["data"] if trace.get("mode") == "markers" and "customdata" in trace]
    rows = np.concatenate([np.asarray(trace["customdata"]) for trace in drawn])
    return np.concatenate([np.asarray(trace["y"], dtype=float) for trace in drawn])[np.argsort(rows)]


def test_the_correlation_is_that_of_the_file() -> None:
    app = open_page("hardness")
    margin, distance = file()
    known = np.isfinite(distance)
    r = np.corrcoef(margin[known], distance[known])[0, 1]
    assert f"increases with the margin: Pearson's r is {r:.2f} (" in text_of(app)
    assert f"over {known.sum():,} samples" in text_of(app)
    assert "r = 0.68" in text_of(app)
    np.testing.assert_allclose(points(charts(app)[0]), distance[known])
    _, printed = run_code(app)
    assert f"pearson={r:.4f}"[:-1] in printed


def test_another_indicator() -> None:
    app = open_page("hardness")
    app.selectbox(key="hardness-indicator").set_value("entropy").run()
    assert "decreases with the entropy" in text_of(app)


def test_without_distances_the_command_is_shown(tmp_path: Path) -> None:
    app = load_own_file(open_page("hardness"), tmp_path)
    assert "test_cw_l2" in text_of(app)
    assert any("smart attack --model" in block.value for block in app.code)
    assert buttons(app) == {"open", "next-page"}
    app.button(key="open").click().run()
    app.run()
    assert app.selectbox(key="data").value in ("cifar10", "digits", "fashion")
    assert "Pearson's r is" in text_of(app)


def test_distances_with_missing_values(tmp_path: Path) -> None:
    _, distance = file()
    distance[:20] = np.nan
    app = load_own_file(open_page("hardness"), tmp_path, test_cw_l2=distance)
    assert f"Not drawn: {np.isnan(distance).sum()} without a distance" in text_of(app)
    # only the digits network can be attacked here
    assert "run-attack" not in buttons(app)


def test_an_attack_finds_the_distances_of_the_file() -> None:
    app = open_page("hardness")
    app.slider(key="attack-count").set_value(40).run()
    click(app, "run-attack")
    _, distance = file()
    assert "40 images attacked here, 0 without success." in text_of(app)
    assert "Not drawn: 680 not attacked." in text_of(app)
    found = points(charts(app)[0])
    assert len(found) == 40
    # the same attack on the same network: rounding on another machine may end a search elsewhere
    assert np.median(np.abs(found / distance[:40] - 1)) < 0.01
    (study,) = session_of(app).studies.values()
    assert study.result[1].sum() == 40
    app.segmented_control(key="attack-source").set_value("from the file").run()
    assert len(points(charts(app)[0])) == np.isfinite(distance).sum()


@pytest.mark.parametrize("sample", ["digits_corrupted"])
def test_a_sample_without_distances(sample: str) -> None:
    assert "This data set has no distances." in text_of(open_page("hardness", sample))
