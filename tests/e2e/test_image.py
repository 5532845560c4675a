"""What the Dockerfile does, done here: an environment with Mooring and nothing else, from pinned versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mooring import __version__
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import free_port

ROOT: Final = Path(__file__).parents[2]


@pytest.mark.timeout(900)  # it downloads everything
def test_the_environment_of_the_image_schedules(cluster: Cluster, tmp_path: Path) -> None:
    target = tmp_path / "opt" / "mooring"
    subprocess.run([sys.executable, "scripts/image.py", str(target)], cwd=ROOT, check=True, timeout=800)
    python = target / "bin" / "python"
    listed = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()), sep='\\n')"
    # Not this checkout, but what was installed.
    shown = subprocess.run([python, "-Ic", listed], capture_output=True, text=True, check=True).stdout
    pinned = {_normal(line.split()[0]) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] > " "}
    installed = {_normal(line) for line in shown.split()}
    assert f"mooring-scheduler=={__version__}" in installed
    assert installed - pinned == {f"mooring-scheduler=={__version__}"}
    assert "aiohttp" in {each.partition("==")[0] for each in installed}
    assert not {"pip", "pytest", "hatchling"} & {each.partition("==")[0] for each in installed}

    cluster.add_node("node")
    cluster.add_pod("pod")
    address = ["--bind-address", "127.0.0.1", "--secure-port", str(free_port())]
    command = [str(python), "-I", str(target / "bin" / "mooring"), "run", *address]
    cluster.plane.run("image", [*command, "--kubeconfig", str(cluster.plane.kubeconfig("scheduler"))], wait=False)
    assert cluster.wait_bound("pod") == {"pod": "node"}


def _normal(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", requirement.partition("==")[0]).lower() + "==" + requirement.partition("==")[2]


def test_the_dockerfile_does_nothing_else() -> None:
    steps = [line.split(maxsplit=1) for line in (ROOT / "Dockerfile").read_text().splitlines() if line[:1].isupper()]
    assert [rest for word, rest in steps if word == "RUN"] == ["python scripts/image.py /opt/mooring"]
    assert ["USER", "65532:65532"] in steps
    copied = [name for word, rest in steps if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    kept = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")]
    assert sorted(copied) == sorted(kept)
