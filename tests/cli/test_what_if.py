"""`mooring what-if`: its options, its tables, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.api.yaml_writer import documents_text
from mooring.cli.main import main
from tests.simulation.manifests import node, pod
from tests.simulation.test_what_if import deployment


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(documents_text([node("a", cpu="4"), node("b", cpu="4"), deployment("web", 4)]))
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["what-if", *arguments])


def test_the_tables(cluster: str) -> None:
    found = run("-f", cluster, "--drain", "a")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("2 pods move.\n\nCLUSTER\n")
    assert "cpu requested  50.0%  50.0%\n" in found.stdout
    assert "MOVED\nPOD" in found.stdout
    assert run("-f", cluster).stdout.startswith("Nothing changes.\n")


def test_json(cluster: str) -> None:
    found = json.loads(run("-f", cluster, "--scale", "deployment/web=9", "-o", "json").stdout)
    assert found["summary"]["after"] == {"nodes": 2, "pods": 9, "onNodes": 8, "pending": 1, "evicted": 0}
    assert [each["message"][:39] for each in found["pending"]] == ["0/2 nodes are available: 2 Insufficient"]
    assert found["utilization"]["cpu"] == {"before": 50.0, "after": 100.0}


def test_a_changed_configuration_is_compared_on_all_pods(cluster: str) -> None:
    found = run("-f", cluster, "--weight", "ImageLocality=50")
    assert found.exit_code == 0, found.output
    assert "note: the configuration changes, so all pods were placed again" in found.stderr


def test_how_many_fit(cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(documents_text([pod("more", cpu="1")]))
    found = run("-f", cluster, "--fit", str(file))
    assert found.stdout.startswith("4 copies fit. The next copy does not fit: 0/2 nodes are available: 2 Insufficient")
    assert run("-f", cluster, "--add", str(file), "--until-full").stdout == found.stdout
    assert run("-f", cluster, "--fit", "-f", str(file)).stdout == found.stdout
    assert run("--add", "-f", str(file), "-f", cluster, "--until-full").stdout == found.stdout
    assert run("-f", cluster, "--fit", str(file), "--limit", "2").stdout.startswith(
        "2 copies fit. Stopped at --limit 2."
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--drain", "x"], 1, "there is no node 'x'"),
        (["--scale", "web=3"], 1, "--scale web=3: give KIND/NAME=COUNT"),
        (["--scale", "deployment/web"], 2, "--scale deployment/web: give KIND/NAME=COUNT"),
        (["--add-nodes", "a=-1"], 2, "--add-nodes a=-1: give TYPE=COUNT"),
        (["--weight", "NodeName=1"], 1, "NodeName is not enabled at score"),
        (["--until-full"], 2, "--until-full repeats the manifests of --add"),
        (["--fit", "missing.yaml"], 1, "missing.yaml: no such file or folder"),
    ],
)
def test_errors(cluster: str, arguments: list[str], code: int, message: str) -> None:
    found = run("-f", cluster, *arguments)
    assert found.exit_code == code
    assert message in found.stderr
    assert "Traceback" not in found.stderr
