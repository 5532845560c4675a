"""`mooring.simulate`: what it accepts, and one kind of error for everything that is wrong."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring import SimulationError
from mooring.api.yaml_writer import documents_text, yaml_text
from mooring.config import default_config
from mooring.framework import Plugin
from mooring.testing import make_node, make_pod
from tests.simulation.manifests import node, pod
from tests.simulation.test_sessions import CONF, Magic, gang

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NODE_NUMBER = EXAMPLES / "plugins" / "nodenumber"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: mine, plugins: {multiPoint: {enabled: [{name: OnlyB}]}}}]
"""


class OnlyB(Plugin):
    """Wants one node only."""

    def filter(self, state: Any, pod: Any, node: Any) -> str | None:
        return None if node.name == "b" else "not b"


def nodes(result: mooring.SimulationResult) -> dict[str, str]:
    return {each["pod"]: each["node"] for each in result.placements}


# Manifests


def test_manifests_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "a.yaml").write_text(yaml_text(node("a")))
    (tmp_path / "folder" / "inner" / "deep.yaml").write_text(yaml_text(pod("deep")))
    (tmp_path / "p.yaml").write_text(yaml_text(pod("file")))
    made = [
        tmp_path / "folder",
        str(tmp_path / "p.yaml"),
        pod("dictionary"),
        yaml_text(pod("text")),
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "json"}, "spec": {"containers": [{"name": "c"}]}}',
        make_pod("object").req(cpu="1").obj(),
        {"apiVersion": "v1", "kind": "List", "items": [pod("listed")]},
    ]
    expected = dict.fromkeys(("file", "dictionary", "text", "json", "object", "listed"), "a")
    assert nodes(mooring.simulate(made)) == expected
    assert nodes(mooring.simulate(made, recursive=True)) == {"deep": "a", **expected}
    assert nodes(mooring.simulate(iter(made))) == expected


@pytest.mark.parametrize("alone", [documents_text([node("n"), pod("p")]), make_node("n").obj(), node("n")])
def test_manifests_without_a_list(alone: Any) -> None:
    assert mooring.simulate(alone).summary["nodes"] == 1


# Configuration and plugins


@pytest.mark.parametrize("form", ["text", "file", "path", "mapping"])
def test_the_configuration_in_every_form(tmp_path: Path, form: str) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(CONFIG)
    profile = {"schedulerName": "mine", "plugins": {"multiPoint": {"enabled": [{"name": "OnlyB"}]}}}
    mapping = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    config: Any = {"text": CONFIG, "file": str(file), "path": file, "mapping": mapping}[form]
    objects = [node("a"), node("b"), pod("p", schedulerName="mine")]
    assert nodes(mooring.simulate(objects, config=config, plugins=[OnlyB])) == {"p": "b"}


def test_a_configuration_object() -> None:
    assert nodes(mooring.simulate([node("a"), pod("p")], config=default_config())) == {"p": "a"}


@pytest.mark.parametrize(
    "plugins", [[NODE_NUMBER / "nodenumber.py"], [str(NODE_NUMBER)], [f"NodeNumber={NODE_NUMBER / 'nodenumber.py'}"]]
)
def test_plugins_from_files(plugins: list[Any]) -> None:
    objects = [*(node(f"node-{number}") for number in range(9)), pod("p-7")]
    assert nodes(mooring.simulate(objects, plugins=plugins)) == {"p-7": "node-7"}


def test_classes_need_no_configuration() -> None:
    assert nodes(mooring.simulate([node("a"), node("b"), pod("p")], plugins=[OnlyB])) == {"p": "b"}


def test_session_plugins_and_their_configuration() -> None:
    conf = CONF.replace("{name: conformance}", "{name: conformance}, {name: magic}")
    objects = [node("a"), node("b"), *gang("g", 2)]
    result = mooring.simulate(objects, plugins=[Magic], scheduler_conf=conf)
    assert set(nodes(result).values()) == {"b"}
    mine = mooring.simulate([node("a"), *gang("g", 2)], scheduler_names=["mine"])
    assert {each["message"] for each in mine.reasons} == {
        'no profile has the scheduler name "volcano" (there are default-scheduler, mine)'
    }


def test_a_class_that_was_defined_at_a_prompt() -> None:
    """In a notebook the module of a class has no file."""
    code = """
import mooring
from mooring.framework import Plugin
class Wrong(Plugin):
    def filer(self, state, pod, node): ...
class Right(Plugin):
    def filter(self, state, pod, node): return "no"
print(mooring.simulate(NODE, plugins=[Right]).summary["nodes"])
try:
    mooring.simulate(NODE, plugins=[Wrong])
except mooring.SimulationError as error:
    print(error)
"""
    command = [sys.executable, "-c", code.replace("NODE", repr(node("n")))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.splitlines()[0]) == ("", "1")
    assert "did you mean 'def filter(self, state, pod, node)'?" in done.stdout


async def test_it_works_in_a_running_loop_as_in_a_notebook() -> None:
    assert asyncio.get_running_loop().is_running()
    assert nodes(mooring.simulate([node("a"), pod("p")])) == {"p": "a"}
    with pytest.raises(SimulationError, match="must be greater than or equal to 0"):
        mooring.simulate([node("a", cpu="-1")])


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"manifests": "nowhere.yaml"}, "nowhere.yaml: no such file or folder"),
        ({"manifests": ["# nothing\n"]}, "manifests[0]: there is no Kubernetes object in the text"),
        ({"manifests": [node("a"), 7]}, "manifests[1]: int is no manifest; give a path, YAML text or a dictionary"),
        ({"manifests": {"kind": "Pod"}}, "manifests[0]: Pod: apiVersion: is required"),
        ({"manifests": [node("a", cpu="-1")]}, "manifests[0]: Node a: status.allocatable.cpu: Invalid value"),
        ({"manifests": {"kind": object()}}, "a manifest contains what is no plain data"),
        ({"manifests": node("a"), "config": "nowhere.yaml"}, "nowhere.yaml: cannot be read: No such file or directory"),
        ({"manifests": node("a"), "config": {"kind": "Pod"}}, "config"),
        ({"manifests": node("a"), "plugins": [int]}, "is not a plugin; derive a class from Plugin"),
        ({"manifests": node("a"), "plugins": [7]}, "plugins: 7 is no plugin; give a class, a file, a folder"),
        ({"manifests": node("a"), "plugins": ["nowhere.py"]}, "nowhere.py: no such file"),
        ({"manifests": node("a"), "scheduler_conf": "nowhere.conf"}, "nowhere.conf: no such file"),
        ({"manifests": node("a"), "scheduler_conf": "actions: alocate\n"}, 'there is no action "alocate"'),
        ({"manifests": node("a"), "scheduler_names": ["default-scheduler"]}, "both a profile and a scheduler name"),
    ],
)
def test_what_is_wrong_is_one_kind_of_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SimulationError, match=re.escape(message)):
        mooring.simulate(**arguments)
