"""`mooring rbac`: the least that must be allowed, as it follows from the configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.config import default_config
from mooring.live.rbac_manifests import Rule, cluster_rules

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def rbac(*arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["rbac", *arguments])
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


def allowed(objects: list[dict[str, Any]], kind: str = "ClusterRole") -> set[tuple[str, str, str]]:
    """(resource, verb, name) of everything that roles of a kind allow."""
    return {
        (f"{resource}.{group}".rstrip("."), verb, name)
        for each in objects
        if each["kind"] == kind
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def test_what_the_default_configuration_needs() -> None:
    found = rbac()
    kinds = [each["kind"] for each in found]
    assert kinds == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    writes = {entry[:2] for entry in allowed(found) if entry[1] not in ("get", "list", "watch")}
    assert writes == {
        ("pods", "delete"),
        ("pods/binding", "create"),
        ("pods/status", "patch"),
        ("persistentvolumes", "patch"),
        ("persistentvolumeclaims", "patch"),
        ("events.events.k8s.io", "create"),
        ("events.events.k8s.io", "patch"),
        ("tokenreviews.authentication.k8s.io", "create"),
        ("subjectaccessreviews.authorization.k8s.io", "create"),
        ("resourceclaims.resource.k8s.io", "create"),
        ("resourceclaims.resource.k8s.io", "delete"),
        ("resourceclaims.resource.k8s.io", "patch"),
        ("resourceclaims/binding.resource.k8s.io", "patch"),
        ("resourceclaims/binding.resource.k8s.io", "update"),
        ("resourceclaims/status.resource.k8s.io", "patch"),
        ("resourceclaims/status.resource.k8s.io", "update"),
    }
    assert allowed(found, "Role") == {
        ("leases.coordination.k8s.io", "create", ""),
        ("leases.coordination.k8s.io", "get", "kube-scheduler"),
        ("leases.coordination.k8s.io", "update", "kube-scheduler"),
        ("configmaps", "get", "extension-apiserver-authentication"),
    }


@pytest.mark.parametrize(
    ("config", "arguments", "missing"),
    [
        ("leaderElection: {leaderElect: false}\n", (), "leases.coordination.k8s.io"),
        ("", ("--no-serve",), "configmaps"),
        ("", ("--no-serve",), "tokenreviews.authentication.k8s.io"),
        (
            "profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]\n",
            (),
            "pods delete",
        ),
        ("profiles: [{plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}}]\n", (), "persistentvolumes patch"),
    ],
)
def test_what_is_not_needed_is_not_asked_for(
    tmp_path: Path, config: str, arguments: tuple[str, ...], missing: str
) -> None:
    (tmp_path / "config.yaml").write_text(HEAD + config)
    found = rbac("--config", str(tmp_path / "config.yaml"), *arguments)
    entries = allowed(found) | allowed(found, "Role")
    assert missing not in {entry[0] for entry in entries} | {f"{entry[0]} {entry[1]}" for entry in entries}


def test_names_are_the_users_choice(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(HEAD + "leaderElection: {resourceNamespace: batch}\n")
    found = rbac(
        "--config", str(tmp_path / "config.yaml"), "--lease-name", "my-scheduler", "--namespace", "shop",
        "--service-account", "sched", "--name", "second", "--viewer",
    )  # fmt: skip
    assert ("leases.coordination.k8s.io", "update", "my-scheduler") in allowed(found, "Role")
    roles = [each["metadata"] for each in found if each["kind"] == "Role"]
    assert roles == [{"name": "second", "namespace": "batch"}, {"name": "second", "namespace": "kube-system"}]
    subjects = [each["subjects"] for each in found if "subjects" in each]
    assert subjects == [[{"kind": "ServiceAccount", "name": "sched", "namespace": "shop"}]] * 3
    assert found[-1]["rules"][0]["nonResourceURLs"][:2] == ["/configz", "/decisions"]


def test_annotations_and_what_if_need_their_flags() -> None:
    assert not any(entry[:2] == ("pods", "patch") for entry in allowed(rbac()))
    assert any(entry[:2] == ("pods", "patch") for entry in allowed(rbac("--annotations")))
    role = rbac("--what-if")[-1]
    assert role["metadata"] == {"name": "mooring-what-if"}
    assert role["rules"] == [{"nonResourceURLs": ["/what-if", "/what-if/*"], "verbs": ["get", "post", "delete"]}]


def test_json_is_one_list() -> None:
    done = CliRunner().invoke(main, ["rbac", "-o", "json"])
    assert json.loads(done.output)["kind"] == "List"


def test_a_faulty_configuration_ends_it() -> None:
    done = CliRunner().invoke(main, ["rbac", "--config", "nowhere.yaml"])
    assert (done.exit_code, done.output) == (1, "nowhere.yaml: no such file\n")


def test_rules_of_plugins_are_added() -> None:
    extra = Rule(("example.com",), ("reports",), ("list", "watch"))
    assert cluster_rules(default_config(), extra=[extra])[-1].document() == {
        "apiGroups": ["example.com"],
        "resources": ["reports"],
        "verbs": ["list", "watch"],
    }


def test_a_user_instead_of_a_service_account() -> None:
    subjects = [each["subjects"] for each in rbac("--user", "system:kube-scheduler") if "subjects" in each]
    wanted = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    assert subjects == [[wanted]] * 2


def test_batch_sessions_need_volcanos_resources(tmp_path: Path) -> None:
    assert not [entry for entry in allowed(rbac()) if entry[0].endswith("volcano.sh")]
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + "profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]\n")
    found = allowed(rbac("--batch", "--config", str(config)))
    assert {
        ("queues.scheduling.volcano.sh", "create", ""),
        ("queues.scheduling.volcano.sh", "watch", ""),
        ("podgroups/status.scheduling.volcano.sh", "patch", ""),
        ("pods", "delete", ""),
    } <= found


def test_admission_of_the_controller_writes_its_configurations_and_its_certificate() -> None:
    without, with_it = rbac("--controller"), rbac("--controller", "--admission")
    kind = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    assert (kind, "patch", "mooring-admission") in allowed(with_it) - allowed(without)
    roles = allowed(with_it, "Role") - allowed(without, "Role")
    assert ("secrets", "update", "mooring-controller-certificate") in roles


def conf(tmp_path: Path, plugin: str) -> str:
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(f"actions: allocate\ntiers:\n- plugins: [{{name: gang}}, {plugin}]\n")
    return str(file)


@pytest.mark.parametrize(
    ("plugin", "locks"),
    [
        ("{name: deviceshare, arguments: {deviceshare.NodeLockEnable: true}}", True),
        ("{name: deviceshare, arguments: {deviceshare.NodeLockEnable: 'True'}}", True),
        ("{name: deviceshare, arguments: {deviceshare.NodeLockEnable: 1}}", False),
        ("{name: deviceshare}", False),
        ("{name: binpack, arguments: {deviceshare.NodeLockEnable: true}}", False),
    ],
)
def test_locks_of_nodes_need_patch(tmp_path: Path, plugin: str, locks: bool) -> None:
    found = allowed(rbac("--scheduler-conf", conf(tmp_path, plugin)))
    verbs = {verb for resource, verb, _ in found if resource == "nodes"}
    assert verbs == ({"get", "list", "patch", "watch"} if locks else {"list", "watch"})
    assert ("podgroups.scheduling.volcano.sh", "patch", "") in found


@pytest.mark.parametrize("enabled", [True, False])
def test_reports_of_mindcluster_are_listed(tmp_path: Path, enabled: bool) -> None:
    plugin = f"{{name: deviceshare, arguments: {{deviceshare.AscendMindClusterVNPUEnable: {str(enabled).lower()}}}}}"
    found = allowed(rbac("--scheduler-conf", conf(tmp_path, plugin)))
    assert (("configmaps", "list", "") in found) == enabled


def test_the_config_map_of_devices_may_have_another_name(tmp_path: Path) -> None:
    plugin = "{name: deviceshare, arguments: {deviceshare.KnownGeometriesCMName: mine}}"
    found = allowed(rbac("--scheduler-conf", conf(tmp_path, plugin)))
    assert ("configmaps", "get", "mine") in found


def test_a_faulty_configuration_of_sessions_ends_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["rbac", "--scheduler-conf", conf(tmp_path, "]")])
    assert done.exit_code == 1
    assert "volcano-scheduler.conf:" in done.output


def test_scheduling_gates_of_queues_need_a_permission() -> None:
    patching = {("pods", "patch", "")}
    assert not patching & allowed(rbac("--batch"))
    assert patching <= allowed(rbac("--batch", "--queue-gates"))
