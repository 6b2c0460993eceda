"""A method is one file: the example of CONTRIBUTING.md, put into the package's folder, is known everywhere."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch

import smart_core as sc
from smart_core import calibrators
from smart_core.calibrators import Calibrator, get, load_calibrator, methods
from smart_core.cli import main
from smart_core.export import CalibratedLogits, as_module, numpy_source, onnx_bytes
from smart_core.figures.theme import palette, style
from tests.calibrators.problems import over_confident
from tests.conftest import ROOT


def example() -> str:
    """The file of the recipe "Add a method"."""
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = guide[guide.index("## Add a method") : guide.index("## Add a file format")]
    (code,) = re.findall(r"   ```python\n(.*?)   ```", recipe, flags=re.DOTALL)
    return dedent(code)


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Calibrator]]:
    (tmp_path / "grid.py").write_text(example(), encoding="utf-8")
    monkeypatch.setattr(calibrators, "__path__", [*calibrators.__path__, str(tmp_path)])
    methods.cache_clear()
    yield methods()["grid"]
    methods.cache_clear()
    del sys.modules["smart_core.calibrators.grid"], calibrators.grid
    vars(sc).pop("GridTS", None)


@pytest.fixture
def fitted(grid: type[Calibrator]) -> Calibrator:
    problem = over_confident(300, 4, seed=1)
    return get("grid", steps=20).fit(problem.logits, problem.labels)


LOGITS = over_confident(50, 4, seed=2).logits


def test_it_has_a_public_name_and_a_place_in_the_tables(grid: type[Calibrator]):
    assert sc.GridTS is grid
    assert "GridTS" in dir(sc)
    assert list(methods())[-1] == "grid"
    assert "grid" in calibrators.families()[grid.family]


def test_the_command_line_fits_it(grid: type[Calibrator], capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["methods"]) == 0
    assert grid.summary in capsys.readouterr().out
    assert main(["methods", "grid"]) == 0
    assert "Number of temperatures tried." in capsys.readouterr().out
    assert main(["compare", "sample:digits", "--methods", "ts,grid", "--seeds", "1"]) == 0
    assert re.search(r"^\W*Grid\b", capsys.readouterr().out, flags=re.MULTILINE)
    saved = tmp_path / "grid.safetensors"
    assert main(["fit", "sample:digits", "--method", "grid", "--set", "steps=9", "--out", str(saved)]) == 0
    assert load_calibrator(saved).settings_dict()["steps"] == 9


def test_the_pages_offer_it(grid: type[Calibrator]):
    from tests.app.driver import open_page

    app = open_page("compare")
    assert not app.exception
    assert grid.summary in app.checkbox(key="compare-grid").label


def test_charts_draw_it_in_its_own_style(grid: type[Calibrator]):
    assert palette()["grid"] == style("grid")
    assert (style("grid").label, style("grid").color, style("grid").symbol) == ("Grid", "#B3261E", "hourglass")


def test_every_exported_form_gives_its_probabilities(fitted: Calibrator):
    import onnxruntime

    expected = fitted.predict_proba(LOGITS)
    names: dict[str, object] = {"__name__": "exported"}
    exec(numpy_source(fitted), names)
    session = onnxruntime.InferenceSession(onnx_bytes(fitted), providers=["CPUExecutionProvider"])
    forms = {
        "NumPy": names["predict_proba"](LOGITS),
        "ONNX": session.run(None, {"logits": LOGITS})[0],
        "PyTorch": as_module(fitted)(torch.from_numpy(LOGITS)).numpy(),
        "scikit-learn": CalibratedLogits.of(fitted).predict_proba(LOGITS),
    }
    for form, rows in forms.items():
        np.testing.assert_allclose(rows, expected, atol=1e-6, err_msg=form)


def test_the_documentation_lists_it(grid: type[Calibrator]):
    line = f"| `grid` | Grid | yes |  | {grid.summary} |"
    assert line in calibrators.method_table()
    pytest.importorskip("pdoc", reason="the docs extra is not installed")
    contents = runpy.run_path(str(ROOT / "docs" / "build.py"))["contents"]
    assert line in contents({"smart_core": sc})
