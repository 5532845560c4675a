"""The objects that operators create for gangs (examples/integrations) are scheduled as gangs, without a cluster."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.api.yaml_writer import documents_text
from mooring.cli.main import main
from tests.docs.commands import ROOT
from tests.simulation.manifests import node

FOLDER = ROOT / "examples/integrations"
#: Each file with its pods. Those of Kueue are no gangs.
GANGS = {
    "argo/job.yaml": 3,
    "argo/pods.yaml": 3,
    "jobset/coscheduling.yaml": 4,
    "jobset/native.yaml": 4,
    "jobset/volcano.yaml": 4,
    "kuberay/coscheduling.yaml": 3,
    "kuberay/native.yaml": 3,
    "kuberay/volcano.yaml": 3,
    "leaderworkerset/volcano.yaml": 3,
    "mpi-operator/coscheduling.yaml": 3,
    "mpi-operator/volcano.yaml": 3,
    "spark/coscheduling.yaml": 3,
    "spark/volcano.yaml": 3,
    "trainer/coscheduling.yaml": 4,
    "trainer/volcano.yaml": 4,
}
OTHERS = {"kueue/job.yaml", "kueue/pods.yaml"}
Object = dict[str, Any]


def documents(name: str) -> list[Object]:
    """The objects of a file, in the order in which they are created."""
    return [each for each in yaml.safe_load_all((FOLDER / name).read_text()) if each]


def states(*objects: Object) -> dict[str, int]:
    """Simulate, and count the pods by their state."""
    options = ["--config", str(FOLDER / "scheduler.yaml"), "--emulated-version=1.37", "-o", "json"]
    command = ["simulate", "-f", "-", *options, "--feature-gates=GenericWorkload=true"]
    result = CliRunner().invoke(main, command, input=documents_text(objects))
    assert result.exit_code == 0, result.output
    return Counter(each["state"] for each in json.loads(result.stdout)["pods"])


def test_every_file_is_in_a_table() -> None:
    found = {str(each.relative_to(FOLDER)) for each in FOLDER.glob("*/*.yaml")}
    assert found == GANGS.keys() | OTHERS


@pytest.mark.parametrize("name", GANGS)
def test_a_gang_is_placed_as_a_whole_or_not_at_all(name: str) -> None:
    objects = documents(name)
    pods = GANGS[name]
    assert states(node("large", cpu="32", memory="64Gi"), *objects) == {"placed": pods}
    # One pod would fit.
    assert states(node("small", cpu="2", memory="64Gi"), *objects) == {"pending": pods}


@pytest.mark.parametrize("name", [name for name in GANGS if name.endswith("/coscheduling.yaml")])
def test_each_group_of_coscheduling_names_the_scheduler_of_the_profile(name: str) -> None:
    config = yaml.safe_load((FOLDER / "scheduler.yaml").read_text())
    names = {each["schedulerName"] for each in config["profiles"]}
    templates = [each["spec"].get("template", each)["spec"] for each in documents(name) if each["kind"] != "PodGroup"]
    assert {each["schedulerName"] for each in templates} <= names


def test_a_job_behind_kueue_runs_on_the_nodes_of_its_flavor() -> None:
    (job,) = documents("kueue/job.yaml")
    labels = {"cloud.provider.com/node-group": "spot"}
    other = node("other", cpu="32")
    spot = node("spot", cpu="32", labels=labels)
    assert states(other, job) == {"pending": 3}
    assert states(other, spot, job) == {"placed": 3}
    job["spec"]["suspend"] = True
    assert states(other, spot, job) == {}


def test_gates_of_kueue_hold_pods() -> None:
    labels = {"cloud.provider.com/node-group": "spot", "kubernetes.io/hostname": "node-1"}
    objects = [node("node-1", cpu="32", labels=labels), *documents("kueue/pods.yaml")]
    assert states(*objects) == {"placed": 2, "gated": 1}
