"""The LaTeX tables: compiled where pdflatex is installed, otherwise parsed."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from smart_core.experiments.benchmark_result import Benchmark, Cell, SetInfo, paper_benchmark

DOCUMENT = r"""\documentclass[twocolumn]{article}
\usepackage{amsmath, booktabs, multirow}
\begin{document}
%s
\end{document}
"""
HOSTILE = [r"50 % of_it & more $x^2$ {a} #1 ~ \input{x}", "[9] *star* <i>", 'naïve | "quoted"', "ViT-B/16"]


def made_up(names: list[str], methods: tuple[str, ...] = ("vanilla", "ts", "smart")) -> Benchmark:
    values = dict(zip(methods, (0.05, 0.02, 0.0104), strict=True))
    cells = {
        name: {id: Cell({"ece": [value, value + 0.001]}, 0.1, 1) for id, value in values.items()} for name in names
    }
    cells[names[-1]]["ts"] = Cell({}, math.nan, 0, "failed")
    info = SetInfo(10, 100, 200, 0.9, 0.05, 3.0, 0.01, ())
    return Benchmark(dict.fromkeys(names, info), methods, cells, tied={"ece": {names[0]: {"ts": True}}})


TABLES = {
    "paper": paper_benchmark("ece"),
    "paper's accuracy": paper_benchmark("accuracy"),
    "training losses": paper_benchmark("ece", training=True),
    "hostile names": made_up(HOSTILE),
    "models of data sets": made_up(["cifar10/resnet50", "cifar10/vit_b", "svhn/resnet50"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_can_be_pasted(name: str, tmp_path: Path) -> None:
    result = TABLES[name]
    text = result.to_latex()
    check_rows(text)
    pdflatex = shutil.which("pdflatex")
    if pdflatex is None or not has_packages():
        return
    (tmp_path / "table.tex").write_text(DOCUMENT % text, encoding="utf-8")
    options = ["-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape"]
    done = subprocess.run([pdflatex, *options, "table.tex"], cwd=tmp_path, capture_output=True, timeout=120)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert (tmp_path / "table.pdf").stat().st_size > 1000
    if name.startswith("paper"):
        assert "Overfull" not in log, log


def has_packages() -> bool:
    """Whether the packages of the tables are there too: some distributions have them apart."""
    found = subprocess.run(["kpsewhich", "multirow.sty", "booktabs.sty"], capture_output=True, timeout=60)
    return found.returncode == 0


def check_rows(text: str) -> None:
    """Braces, math and environments are closed, and every row has as many cells as there are columns."""
    plain = re.sub(r"(?m)^%.*$", "", text)
    plain = re.sub(r"\\[\\{}$&%#_]", lambda found: "" if found[0] != r"\\" else found[0], plain)
    assert plain.count("{") == plain.count("}")
    assert plain.count("$") % 2 == 0
    opened, closed = (re.findall(rf"\\{word}{{(.+?)}}", plain) for word in ("begin", "end"))
    assert opened == closed[::-1]
    columns = re.search(r"\\begin{tabular}{([lc]+)}", plain)
    assert columns is not None
    rows = [line for line in plain.splitlines() if line.endswith(r"\\")]
    assert {row.count("&") + 1 for row in rows} == {len(columns[1])}


def test_the_papers_layout() -> None:
    """Data sets span the rows of their models, with a rule between them, as in the paper's main table."""
    lines = TABLES["paper"].to_latex().splitlines()
    assert lines[0] == r"% needs \usepackage{booktabs, multirow}"
    assert r"\begin{table*}[t]" in lines
    (first,) = [line for line in lines if line.startswith(r"\multirow{6}{*}{ImageNet-1K}")]
    assert lines[lines.index(first) - 1] == r"\midrule"
    assert first.split(" & ")[1:4] == ["ResNet-50", "$3.65$", "$2.17$"]
    assert r"$\mathbf{0.52}$" in first
    assert r"$\underline{0.62}$" in first
    plain = TABLES["hostile names"].to_latex()
    assert "multirow" not in plain
    assert r"ViT-B/16 &" in plain
    assert r"$2.05 \pm 0.07^{*}$" in plain or r"\underline{2.05 \pm 0.07}^{*}" in plain
