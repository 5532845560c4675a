"""`mooring plugin manifests`: what follows from a plugin's declarations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main

GALLERY = Path(__file__).parent.parent.parent / "examples" / "plugins"
FIT = str(GALLERY / "node_crd_resource_fit" / "node_crd_resource_fit.py")
LOAD = str(GALLERY / "load_aware")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plugin", "manifests", *arguments])


def documents(*arguments: str) -> list[Any]:
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return list(yaml.safe_load_all(result.stdout))


def kinds(found: list[Any]) -> list[str]:
    return [each["kind"] for each in found]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([FIT], ["CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "ConfigMap"]),
        ([FIT, "--crd"], ["CustomResourceDefinition"]),
        ([FIT, "--rbac"], ["ClusterRole", "ClusterRoleBinding"]),
        ([FIT, "--sample"], ["ClusterScopedResource"]),
        ([FIT, "--config"], ["KubeSchedulerConfiguration"]),
        ([LOAD], ["ClusterRole", "ClusterRoleBinding", "ConfigMap"]),
    ],
)
def test_parts(arguments: list[str], expected: list[str]) -> None:
    assert kinds(documents(*arguments)) == expected


def test_the_role_allows_what_was_declared() -> None:
    role, binding = documents(FIT, "--rbac", "-n", "apps", "--service-account", "second")
    rule = {"apiGroups": ["scheduling.sigs.k8s.io"], "resources": ["clusterscopedresources"]}
    assert role["rules"] == [{**rule, "verbs": ["get", "list", "watch"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "second", "namespace": "apps"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_the_configuration_is_one_that_runs(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(run(LOAD, "--config").stdout)
    arguments = ["config", "view", str(config), "--plugins-dir", LOAD, "--allow-writable-plugins"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    in_map = documents(LOAD)[-1]["data"]["scheduler.yaml"]
    assert yaml.safe_load(in_map) == yaml.safe_load(config.read_text())


def test_samples_are_comments_unless_asked_for() -> None:
    text = run(FIT).stdout
    comments = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    assert f"mooring plugin manifests {FIT} --sample" in comments[0]
    assert yaml.safe_load("\n".join(comments[1:])) == documents(FIT, "--sample")[0]


def test_json_and_values() -> None:
    whole = json.loads(run(FIT, "-o", "json").stdout)
    assert whole["kind"] == "List"
    assert kinds(whole["items"])[0] == "CustomResourceDefinition"
    values = documents(LOAD, "-o", "values")[0]
    assert values["plugins"] == {"enabled": ["LoadAware"]}
    assert values["pluginConfig"][0]["args"]["intervalSeconds"] == 15
    assert values["rbac"]["extraRules"][0]["apiGroups"] == ["metrics.k8s.io"]


def test_values_of_one_part() -> None:
    """Charts take the rights from here, and may have a configuration of their own."""
    rule = {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get", "list"]}
    assert documents(LOAD, "--rbac", "-o", "values") == [{"rbac": {"extraRules": [rule]}}]
    assert documents(LOAD, "--config", "-o", "values")[0].keys() == {"plugins", "pluginConfig"}
    refused = run(FIT, "--crd", "-o", "values")
    assert refused.exit_code == 2
    assert "-o values does not support --crd" in refused.stderr


def test_nothing_declared() -> None:
    result = run(LOAD, "--crd")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "note: LoadAware declares no custom resource\n"


BROKEN = """
from mooring.framework import CustomResource, Lister, Plugin

class Odd(CustomResource, group="example.com", version="v1"{keywords}):
    spec: {type}

class Reads(Plugin):
    odd = Lister(Odd)

    def score(self, state, pod, node):
        return 0
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BROKEN.format(keywords="", type="bytes"), "{file}: Odd.spec: a custom resource cannot contain Bytes"),
        (
            BROKEN.format(keywords=', scope="Node"', type="str"),
            "{file}:4: DeclarationError: Odd: scope 'Node' is unknown",
        ),
        (BROKEN.format(keywords=', columns={"A": "b"}', type="str"), "there is no field 'b'"),
        ("x = 1\n", "{file}: contains no plugin"),
        (None, "{file}: no such file"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(tmp_path: Path, body: str | None, message: str) -> None:
    file = tmp_path / "plugin.py"
    if body is not None:
        file.write_text(body)
    result = run(str(file))
    assert result.exit_code == 1
    assert message.format(file=file) in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "definitions"),
    [
        ("Coscheduling", ["podgroups.scheduling.x-k8s.io"]),
        ("CapacityScheduling", ["elasticquotas.scheduling.x-k8s.io"]),
        ("NodeResourceTopologyMatch", ["noderesourcetopologies.topology.node.k8s.io"]),
        ("NodeResourcesAllocatable", []),
    ],
)
def test_built_in_plugins_by_name(name: str, definitions: list[str], tmp_path: Path) -> None:
    """Their definitions, and a configuration that runs."""
    found = documents(name)
    assert [each["metadata"]["name"] for each in found if each["kind"] == "CustomResourceDefinition"] == definitions
    config = tmp_path / "scheduler.yaml"
    config.write_text(run(name, "--config").stdout)
    result = CliRunner().invoke(main, ["config", "view", str(config)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert name in result.stdout


def test_the_definition_of_pod_groups() -> None:
    (definition,) = documents("Coscheduling", "--crd")
    version = definition["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert definition["spec"]["names"]["shortNames"] == ["pg", "pgs"]
    assert version["subresources"] == {"status": {}}
    assert spec["minMember"]["minimum"] == 1
    assert spec["minResources"]["additionalProperties"]["x-kubernetes-int-or-string"] is True
