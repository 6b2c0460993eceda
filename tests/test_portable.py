"""The runner of `make test-portable`: it knows when a library does not follow, and what was skipped is counted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import portable
from tests.conftest import ROOT, real_data, summarise_missing

TOLD = {
    "torch": "DEFAULT",
    "numba": ["generic", ""],
    "numpy": [],
    "openblas": ["Katmai"],
    "threads": [1],
    "libm": "one",
}
"""What the libraries say of themselves where they follow the first variant."""


def test_a_setting_that_is_not_followed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    name, *_ = portable.VARIANTS
    aloud = "SGEMM 5ms CNR:COMPATIBLE Dyn:1\nonednn_verbose,v1,info,cpu,isa:Intel SSE4.1\n"
    assert portable.refusals(name, TOLD, aloud) == []
    silent = ["mkl does not say CNR:COMPATIBLE", "onednn does not say isa:Intel SSE4.1"]
    assert portable.refusals(name, TOLD, "") == silent
    for key, value in {"torch": "AVX2", "numba": ["znver3", ""], "numpy": ["X86_V3"], "openblas": ["Haswell"]}.items():
        (words,) = portable.refusals(name, {**TOLD, key: value})
        assert words.startswith(f"{key} is {value}, not ")
    assert portable.refusals(name, {**TOLD, "threads": [2]}) == ["threads is [2], not [1]"]
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.36"))
    same = {**TOLD, "libm": portable.libm()}
    assert portable.refusals(name, same, aloud) == ["the C library's exp is still the same"]


def test_no_test_runs_where_a_setting_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(iter(portable.VARIANTS))
    monkeypatch.setenv(portable.VARIANT, name)
    monkeypatch.setattr(portable, "in_effect", lambda: TOLD)
    portable.pytest_configure(SimpleNamespace())
    monkeypatch.setattr(portable, "in_effect", lambda: {**TOLD, "torch": "AVX512"})
    with pytest.raises(pytest.UsageError, match="torch is AVX512, not DEFAULT"):
        portable.pytest_configure(SimpleNamespace())


def test_what_it_runs_is_there() -> None:
    for path in portable.SHORT:
        assert (ROOT / path).is_file(), path
    for ignored in portable.NUMERIC[1:]:
        assert (ROOT / ignored.removeprefix("--ignore=")).is_dir(), ignored


def test_skipped_for_want_of_real_logits_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMART_REAL_DATA", str(tmp_path))
    with pytest.raises(pytest.skip.Exception) as skipped:
        real_data("resnet50_cifar10_ce")
    reasons = [("tests/x.py", 1, f"Skipped: {skipped.value}")] * 31 + [("tests/y.py", 1, "Skipped: there is no make")]
    lines: list[str] = []
    reports = [SimpleNamespace(longrepr=reason) for reason in reasons]
    summarise_missing(SimpleNamespace(stats={"skipped": reports}, write_line=lines.append))
    assert lines == ["real logits: 31 tests skipped, set SMART_REAL_DATA to run them"]
