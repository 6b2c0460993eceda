"""The container's files without Docker: what they name exists, they agree, and the commands they run work."""

from __future__ import annotations

import json
import re
import signal

import yaml

from tests.conftest import ROOT
from tests.install.conftest import Installed
from tests.robustness.sessions_server import free_port


def instructions() -> list[tuple[str, str]]:
    """Name and rest of each instruction of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def the(name: str) -> str:
    (rest,) = [rest for found, rest in instructions() if found == name]
    return rest


def test_it_runs_as_a_plain_user_from_the_lock():
    order = [name for name, _ in instructions()]
    assert order.index("USER") < order.index("CMD")
    assert the("USER") not in ("0", "root")
    runs = [rest for name, rest in instructions() if name == "RUN"]
    copied = {rest.split()[0] for name, rest in instructions() if name == "COPY"}
    (locked,) = [run for run in runs if "-r /tmp/requirements.txt" in run]
    assert copied == {".", "requirements.txt"}
    assert "--no-deps" in runs[runs.index(locked) + 1]
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    needed = {"smart_core", "pages", "sample_logits", "dashboard.py", "dashboard_server.py", ".streamlit"}
    needed |= {"pyproject.toml", "hatch_build.py"}
    assert not {"LICENSE", "README.md", *needed} & set(left_out)


def test_compose_publishes_the_port_on_this_machine_and_keeps_the_volume():
    content = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    (service,) = content["services"].values()
    assert service["build"] == "."
    (port,) = service["ports"]
    assert port == f"127.0.0.1:{the('EXPOSE')}:{the('EXPOSE')}"
    (volume,) = service["volumes"]
    name, _, target = volume.partition(":")
    assert target == the("VOLUME")
    assert name in content["volumes"]
    environment = {rest for found, rest in instructions() if found == "ENV"}
    assert environment == {f"SMART_DATA_FOLDER={target}", f"SMART_WORKSPACE_DIR={target}/.saved"}


def test_its_command_serves_its_health_check_sees_it_and_it_stops(installed: Installed):
    port = free_port()  # the one it exposes may be taken here

    def command(text: str) -> list[str]:
        program, *words = json.loads(text.replace(the("EXPOSE"), str(port)))
        return [str(installed.smart.with_name(program)), *words]

    check = command(the("HEALTHCHECK").partition("CMD ")[2])
    assert installed.run(*check).returncode != 0
    with installed.serving(command(the("CMD")), port) as server:
        assert installed.run(*check).returncode == 0
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors
    assert errors == ""
