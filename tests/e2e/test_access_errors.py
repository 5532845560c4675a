"""What Mooring reports if a real API server forbids requests or rejects an expired client certificate."""

from __future__ import annotations

import base64
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.certificates import Certificate, make_certificate
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane
from tests.e2e.mooring_process import MOORING


@pytest.fixture(scope="module")
def expired() -> Certificate:
    return make_certificate(days=0)


@pytest.fixture(scope="module")
def plane(built: None, expired: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    authority = tmp_path_factory.mktemp("ca") / "ca.crt"
    authority.write_text(expired.authority)
    yield from running(ControlPlane(apiserver_flags=[f"--client-ca-file={authority}"]))


def kubeconfig(plane: ControlPlane, path: Path, user: dict[str, Any]) -> Path:
    """Write the administrator's kubeconfig with other credentials."""
    document = yaml.safe_load(plane.kubeconfig().read_text())
    document["users"][0]["user"] = {**(document["users"][0]["user"] if "as" in user else {}), **user}
    path.write_text(yaml.safe_dump(document))
    return path


def problems(path: Path, *command: str) -> list[str]:
    """Run a command for some seconds and return its warnings and errors."""
    words = [str(MOORING), *command, "--kubeconfig", str(path), "--secure-port=0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        found = [next(line for line in lines if line[0] in "WE")]
        time.sleep(2)  # whatever else is reported comes within this time
        process.send_signal(signal.SIGINT)
        found += [line for line in lines if line[0] in "WE"]
    return found


@pytest.mark.parametrize(("command", "remedy"), [("run", "mooring rbac"), ("controller", "mooring rbac --controller")])
def test_missing_permissions_are_one_line(plane: ControlPlane, tmp_path: Path, command: str, remedy: str) -> None:
    lines = problems(kubeconfig(plane, tmp_path / "kubeconfig", {"as": "somebody"}), command)
    (line,) = [line for line in lines if "ermission" in line or "orbidden" in line]
    assert f"`{remedy}` prints the roles" in line
    assert "leases.coordination.k8s.io" in line
    if command == "run":
        assert {"nodes", "pods", "services"} < set(re.findall(r"[\w.]+", line))


def test_an_expired_client_certificate_is_called_expired(
    plane: ControlPlane, expired: Certificate, tmp_path: Path
) -> None:
    pair = {"client-certificate-data": expired.certificate, "client-key-data": expired.key}
    user = {name: base64.b64encode(text.encode()).decode() for name, text in pair.items()}
    file = kubeconfig(plane, tmp_path / "kubeconfig", user)
    (line,) = problems(file, "run")
    assert '"The API server does not accept the credentials; retrying"' in line
    assert f"{file}: the client certificate expired on " in line
    words = [str(MOORING), "queue", "list", "--kubeconfig", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert f"{file}: the client certificate expired on " in done.stderr
