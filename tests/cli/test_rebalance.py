"""`mooring rebalance` on manifests: its tables and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.api.codec import to_dict
from mooring.api.yaml_writer import documents_text
from mooring.cli.main import main
from mooring.testing import make_node, make_pod


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two nodes with 3 of 4 cores in use, and a pod that needs 2."""
    objects = [
        *(make_node(name).capacity(cpu="4", memory="8Gi", pods="10").obj() for name in "ab"),
        make_pod("small").req(cpu="1").owner("ReplicaSet", "s").node("a").obj(),
        make_pod("large").req(cpu="2").node("a").obj(),
        make_pod("other").req(cpu="3").node("b").obj(),
        make_pod("waiting").req(cpu="2").obj(),
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(documents_text([to_dict(each) for each in objects]))
    return str(file)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rebalance", "--seconds", "1", "--cool-down", "0", *arguments])


def test_the_tables(cluster: str) -> None:
    found = run("-f", cluster)
    assert found.exit_code == 0, found.output
    assert found.stdout == (
        "1 move would make room for 1 pod. Fragmentation: 18.75% now, 0.00% then. "
        "Nothing was changed; --execute carries out a plan.\n\n"
        "PENDING\n"
        "POD OR GANG      PODS  PRIORITY  RESULT\n"
        "default/waiting     1         0  has room after the moves\n\n"
        "MOVES\n"
        "STEP  POD            FROM  TO\n"
        "   1  default/small  a     b\n\n"
        "THEN PLACED\n"
        "AFTER STEP  POD              NODE\n"
        "         1  default/waiting  a\n"
    )


def test_json(cluster: str) -> None:
    found = json.loads(run("-f", cluster, "-o", "json").stdout)
    assert [goal["result"] for goal in found["goals"]] == ["planned"]
    assert found["moves"] == [{"pod": "default/small", "source": "a", "target": "b", "priority": 0, "step": 1}]


def test_what_cannot_be_done(cluster: str) -> None:
    assert run("-f", cluster, "--moves", "0").stdout.startswith("No moves make room for a pending pod. ")
    assert run("-f", cluster, "--consolidate").stdout == "There is nothing to do.\n"
    assert "--execute works on a running cluster; leave -f out" in run("-f", cluster, "--execute").stderr
    missing = run("-f", "missing.yaml")
    assert missing.exit_code == 1
    assert "missing.yaml" in missing.stderr
