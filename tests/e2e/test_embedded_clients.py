"""Clients of Kubernetes with the embedded cluster, and the table of them in the documentation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.controlplane.parts import CONTROLLER_RUNTIME, HELM, KUBERNETES, binary
from tests.e2e.embedded.process import EmbeddedProcess

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "embedded-cluster.md"
PYTHON_CLIENTS: Final = ("kr8s", "lightkube", "kopf", "kubernetes")
_SECONDS: Final = 120.0
_ROW: Final = re.compile(r"^\| \[?([a-z0-9A-Z-]+)\]?(?:\([^)]*\))? \| ([0-9.]+) \| (.*) \| (passed) \|$", re.MULTILINE)


def documented() -> dict[str, tuple[str, str]]:
    """The version of each client in the table, and what was exercised."""
    return {name: (number, steps) for name, number, steps, _ in _ROW.findall(PAGE.read_text())}


def check(client: str, number: str, printed: str) -> None:
    """The table says what happened."""
    steps = ", ".join(printed.split("\n")).strip(", ")
    assert documented().get(client) == (number, steps), f"| {client} | {number} | {steps} | passed |"


@pytest.mark.parametrize("client", PYTHON_CLIENTS)
def test_python_clients(built: None, client: str) -> None:
    with EmbeddedProcess(nodes=3) as embedded:
        command = [sys.executable, "-W", "ignore", "-m", "tests.e2e.embedded.clients", client, str(embedded.kubeconfig)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in embedded.log
    check(client, version(client), done.stdout)


def test_controller_runtime(operator_built: None) -> None:
    """An operator in Go with a cache, leader election, finalizers and owned objects."""
    with EmbeddedProcess(nodes=3) as embedded:
        env = os.environ | {"KUBECONFIG": str(embedded.kubeconfig)}
        done = subprocess.run(
            [binary("operator")], env=env, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in embedded.log
    check("controller-runtime", CONTROLLER_RUNTIME, done.stdout)


def test_the_table_names_the_versions_of_kubectl_and_helm() -> None:
    """Other modules test them."""
    found = documented()
    assert found["kubectl"][0] == KUBERNETES
    assert found["helm"][0] == HELM
    assert set(found) == {*PYTHON_CLIENTS, "controller-runtime", "kubectl", "helm"}
