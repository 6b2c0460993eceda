"""The wheel brings engine, command line, dashboard and samples, and all of them work outside the repository."""

from __future__ import annotations

import signal
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import expect

import smart_core as sc
from tests.browser.conftest import Visit
from tests.calibrators.problems import over_confident
from tests.conftest import ROOT
from tests.install.conftest import Installed
from tests.robustness.sessions_server import free_port

APP = "smart_core/app"
PRIMARY = "rgb(194, 65, 12)"
"""The primary colour of the light theme."""


def test_the_wheel_holds_the_app_inside_the_package(installed: Installed):
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
        (metadata,) = [wheel.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"smart_core", "smart_calibration"}
    for part in ("pages", "sample_logits"):
        inside = {name.removeprefix(f"{APP}/") for name in names if name.startswith(f"{APP}/{part}/")}
        here = [path for path in (ROOT / part).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert inside == {path.relative_to(ROOT).as_posix() for path in here}
    assert {f"{APP}/{name}" for name in ("dashboard.py", "dashboard_server.py", ".streamlit/config.toml")} <= names
    assert "smart_core/py.typed" in names
    assert {f"smart_core/experiments/paper_{kind}.csv" for kind in ("tables", "tensions")} <= names
    assert {f"smart_core/report/page.{kind}" for kind in ("html", "css", "js")} <= names
    assert f"Version: {sc.__version__}\n" in metadata
    assert "License-Expression: Apache-2.0\n" in metadata


def test_nothing_but_the_package_lands_in_the_environment(installed: Installed):
    names = {path.name.split("-")[0] for path in installed.packages.iterdir()}
    assert names - {"__pycache__"} == {"smart_core", "smart_calibration", "packages_of_the_tests.pth"}
    code = "import importlib.util as u; print([n for n in ('pages', 'sample_logits', 'dashboard') if u.find_spec(n)])"
    assert installed.run(installed.python, "-c", code).stdout.strip() == "[]"
    where = installed.run(installed.python, "-c", "import smart_core; print(smart_core.__file__)").stdout.strip()
    assert Path(where) == installed.packages / "smart_core" / "__init__.py"


def test_the_command_line_works_in_a_foreign_folder(installed: Installed):
    helped = installed.run(installed.smart, "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "dashboard" in helped.stdout
    compared = installed.run(
        installed.smart, "compare", "sample:cifar10", "--methods", "vanilla,ts", "--seeds", "1", "--json", "result.json"
    )
    assert (compared.returncode, compared.stderr) == (0, "")
    assert "cifar10: fitted on 5000, evaluated on 10000" in compared.stdout
    assert (installed.folder / "result.json").is_file()


def test_the_dashboard_opens_a_given_file_and_the_samples(installed: Installed, visit: Callable[..., Visit]):
    problem = over_confident(600, 5, seed=3)
    np.savez(installed.folder / "my_model.npz", logits=problem.logits, labels=problem.labels)
    port = free_port()
    command = [installed.smart, "dashboard", "my_model.npz", "--port", str(port), "--no-browser"]
    with installed.serving(command, port) as server:
        given = visit(f"http://127.0.0.1:{port}/start")
        expect(given.page.get_by_role("heading", level=4).first).to_contain_text("my_model. Overconfident: the mean")
        # .streamlit/config.toml counts although the folder is another
        expect(given.page.locator(".st-key-start-diagnose button")).to_have_css("background-color", PRIMARY)
        given.clean()
        sample = visit(f"http://127.0.0.1:{port}/start?data=cifar10")
        expect(sample.page.get_by_role("heading", level=4).first).to_contain_text("CIFAR-10. Overconfident: the mean")
        sample.clean()
        server.send_signal(signal.SIGINT)
        output, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors
    assert f"Dashboard: http://127.0.0.1:{port}" in output
    assert "Traceback" not in errors
