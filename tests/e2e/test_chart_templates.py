"""The chart without a cluster: it lints, its values are checked and described, and it renders as it is written down.

`python -m tests.e2e.test_chart_templates` writes the snapshots anew, for review.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mooring import __version__
from mooring.api.volcano import QUEUE_GATE
from mooring.config import default_config
from mooring.live.rbac_manifests import Grantee, manifests, plugin_rules
from mooring.scheduler.profiles import enabled_classes
from tests.e2e.controlplane import Object
from tests.e2e.helm import CHART, VALUES, Helm, HelmError, of_kind

SNAPSHOTS: Final = Path(__file__).parent / "chart_snapshots"
_CONF: Final = """
batch:
  enabled: true
  conf: |
    tiers:
    - plugins:
      - {name: deviceshare, arguments: {deviceshare.NodeLockEnable: ENABLED, deviceshare.KnownGeometriesCMName: mine}}
"""
_IDS: Final = [path.name.removesuffix("-values.yaml") for path in VALUES]


@pytest.fixture
def helm(helm_built: None, tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def rendered(helm: Helm, values: Path) -> str:
    return helm("template", "mooring", CHART, "--namespace", "mooring", "--values", values)


@pytest.mark.parametrize("values", VALUES, ids=_IDS)
def test_it_renders_as_written_down(helm: Helm, values: Path) -> None:
    wanted = SNAPSHOTS / values.name.replace("-values", "")
    assert rendered(helm, values) == wanted.read_text(), "python -m tests.e2e.test_chart_templates writes it anew"


@pytest.mark.parametrize("values", VALUES, ids=_IDS)
def test_it_lints(helm: Helm, values: Path) -> None:
    said = helm("lint", "--strict", CHART, "--values", values)
    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[" not in said, said


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("scheduler: {replicas: 2}", "replicas"),
        ("plugins: {enabled: [{weight: 3}]}", "plugins"),
        ("pluginSettings: [{name: A, sha256: abc}]", "sha256"),
        ("pluginFiles: {../evil.py: ''}", "evil.py"),
        ("configExtra: {profiles: []}", "configExtra"),
        ("scheduler: {replicaCount: 2, leaderElect: false}", "2 schedulers need a lease"),
        (
            "scheduler: {activeActive: {enabled: true}}\nbatch: {enabled: true}",
            "cannot be combined with batch sessions",
        ),
        ("scheduler: {activeActive: {enabled: true, leaseDuration: soon}}", "leaseDuration"),
        ("config: 'profiles: []'", "no KubeSchedulerConfiguration in it"),
        ("config: 'kind: KubeSchedulerConfiguration\n\n  x: ]'", "config: "),
        ("serviceMonitor: {enabled: true}\nservice: {enabled: false}", "needs service.enabled"),
        ("serviceMonitor: {enabled: true}\npodMonitor: {enabled: true}", "enable one of them"),
        ("imagePullSecrets: [name]", "imagePullSecrets"),
        ("rbac: {whatIfClients: [{name: autoscaler}]}", "whatIfClients"),
        (
            "rbac: {whatIfClients: [{kind: User, name: autoscaler}]}\nendpoints: {dashboard: false}",
            "the what-if service needs endpoints.dashboard",
        ),
        ("tmpSizeLimit: much", "tmpSizeLimit"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, values: str, message: str) -> None:
    with pytest.raises(HelmError, match=re.escape(message)):
        render(helm, values)


def render(helm: Helm, values: str, **more: str) -> list[Object]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(values)
        file.flush()
        return helm.template("--values", file.name, **more)


def configuration(objects: list[Object], scheduler: str = "mooring") -> dict[str, Any]:
    text = of_kind(objects, "ConfigMap", f"{scheduler}-config")["data"]["scheduler-config.yaml"]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def rules(objects: list[Object]) -> list[Object]:
    found: list[Object] = of_kind(objects, "ClusterRole", "mooring-mooring")["rules"]
    return found


def template(objects: list[Object]) -> Object:
    found: Object = of_kind(objects, "Deployment", "mooring")["spec"]["template"]
    return found


def test_roles_are_those_of_mooring_rbac(helm: Helm) -> None:
    ours = helm.template()
    grantee = Grantee(service_account="mooring", namespace="mooring", name="mooring-mooring")
    extra = plugin_rules(enabled_classes(default_config(), {}))
    theirs = manifests(default_config(), grantee, extra=extra)
    assert _rules(rules(ours)) == _rules(theirs[0]["rules"])
    binding = of_kind(ours, "ClusterRoleBinding")
    assert (binding["roleRef"], binding["subjects"]) == (theirs[1]["roleRef"], theirs[1]["subjects"])
    (lease, lookup) = [each for each in ours if each["kind"] == "Role"][::-1]
    assert _rules(lease["rules"] + lookup["rules"]) == _rules(
        [
            {**rule, "resourceNames": ["mooring" if name == "kube-scheduler" else name for name in names]}
            if (names := rule.get("resourceNames"))
            else rule
            for each in theirs
            if each["kind"] == "Role"
            for rule in each["rules"]
        ]
    )


@pytest.mark.parametrize(("value", "role"), [("dashboardUsers", "dashboard"), ("whatIfClients", "what-if")])
def test_roles_of_clients_are_those_of_mooring_rbac(helm: Helm, value: str, role: str) -> None:
    subject = {"kind": "ServiceAccount", "name": "autoscaler", "namespace": "kube-system"}
    ours = render(helm, yaml.safe_dump({"rbac": {value: [subject]}}))
    grantee = Grantee(name="mooring-mooring")
    theirs = manifests(default_config(), grantee, dashboard=role == "dashboard", what_if=role == "what-if")[-1]
    name = f"mooring-mooring-{role}"
    assert theirs["metadata"]["name"] == name
    assert of_kind(ours, "ClusterRole", name)["rules"] == theirs["rules"]
    binding = of_kind(ours, "ClusterRoleBinding", name)
    assert (binding["roleRef"]["name"], binding["subjects"]) == (name, [subject])


def _rules(found: list[Object]) -> set[str]:
    return {json.dumps(rule, sort_keys=True) for rule in found}


@pytest.mark.parametrize(
    ("values", "resource", "verb", "allowed"),
    [
        ("plugins: {disabled: [DefaultPreemption]}", "pods", "delete", False),
        ("plugins: {disabled: ['*'], enabled: [DefaultPreemption]}", "pods", "delete", True),
        ("plugins: {disabled: ['*'], enabled: [DefaultPreemption]}", "persistentvolumes", "patch", False),
        ("profiles: [{schedulerName: a}, {plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}}]",
         "persistentvolumes", "patch", True),
        ("batch: {enabled: true}", "podgroups/status", "patch", True),
        ("batch: {enabled: false}", "podgroups/status", "patch", False),
        (_CONF.replace("ENABLED", "true"), "nodes", "patch", True),
        (_CONF.replace("ENABLED", "'T'"), "nodes", "patch", True),
        (_CONF.replace("ENABLED", "1"), "nodes", "patch", False),
        (_CONF.replace("deviceshare,", "binpack,").replace("ENABLED", "true"), "nodes", "patch", False),
        ("batch: {enabled: true}", "nodes", "patch", False),
        ("rbac: {extraRules: [{apiGroups: [x.io], resources: [things], verbs: [get]}]}", "things", "get", True),
    ],
)  # fmt: skip
def test_roles_follow_from_the_configuration(helm: Helm, values: str, resource: str, verb: str, allowed: bool) -> None:
    found = rules(render(helm, values))
    assert any(resource in rule["resources"] and verb in rule["verbs"] for rule in found) is allowed


def test_the_config_map_of_devices_may_have_another_name(helm: Helm) -> None:
    found = rules(render(helm, _CONF))
    assert [rule["resourceNames"] for rule in found if rule["resources"] == ["configmaps"]] == [
        ["volcano-vgpu-device-config"],
        ["mine"],
    ]


@pytest.mark.parametrize("enabled", [True, False])
def test_members_of_an_active_active_group_may_delete_leases(helm: Helm, enabled: bool) -> None:
    made = render(helm, f"scheduler: {{activeActive: {{enabled: {str(enabled).lower()}}}}}")
    (role,) = (each for each in made if each["kind"] == "Role" and each["metadata"]["name"].endswith("-lease"))
    assert any("delete" in rule["verbs"] for rule in role["rules"]) is enabled


def test_names_of_built_in_plugins_may_begin_small_and_others_are_left_alone(helm: Helm) -> None:
    made = configuration(
        render(helm, "plugins: {enabled: [nodeResourcesFit, magic, {name: imageLocality, weight: 3}]}")
    )
    assert made["profiles"][0]["plugins"]["multiPoint"]["enabled"] == [
        {"name": "NodeResourcesFit"},
        {"name": "magic"},
        {"name": "ImageLocality", "weight": 3},
    ]


def test_what_is_reloaded_makes_no_new_pods(helm: Helm) -> None:
    before = template(render(helm, ""))
    for live in (
        "plugins: {enabled: [NodeNumber]}",
        "pluginConfig: [{name: NodeResourcesFit, args: {}}]",
        "pluginFiles: {a.py: 'x = 1'}",
        "pluginSettings: [{name: A}]",
        "rbac: {extraRules: [{apiGroups: [x.io], resources: [things], verbs: [get]}]}",
    ):
        assert template(render(helm, live)) == before, live
    plain = template(render(helm, "reload: false"))
    assert template(render(helm, "reload: false\npluginFiles: {a.py: 'x = 1'}")) != plain
    for needs_new in (
        "scheduler: {leaderElect: false}",
        "configExtra: {clientConnection: {qps: 9}}",
        "endpoints: {port: 1}",
    ):
        assert template(render(helm, needs_new)) != before, needs_new


def test_releases_do_not_meet(helm: Helm) -> None:
    """Two in one namespace, and two of one name in two namespaces."""
    makes = [("a", "one"), ("b", "one"), ("a", "two")]
    names = [
        {
            (
                each["kind"],
                each["metadata"].get("namespace", namespace if _inside(each) else ""),
                each["metadata"]["name"],
            )
            for each in helm.template(release=release, namespace=namespace)
        }
        for release, namespace in makes
    ]
    assert all(names)
    assert not names[0] & names[1]
    assert not names[0] & names[2]


def _inside(each: Object) -> bool:
    return not each["kind"].startswith("Cluster")


def test_files_arrive_byte_by_byte(helm: Helm, tmp_path: Path) -> None:
    """Or their hashes would not be the pinned ones."""
    for text in ("x = 1\n", "x = 1", "\n\nx = 1\n\n", "x = '\u00e4 <'\n\ty: {{ x }}  \n\nz\n", "  x\n"):
        file = tmp_path / "a.py"
        file.write_text(text)
        made = of_kind(helm.template("--set-file", f"pluginFiles.a\\.py={file}"), "ConfigMap", "mooring-plugins")
        assert made["data"] == {"a.py": text}


@pytest.mark.parametrize(
    ("values", "image"),
    [
        # As the release workflow tags it.
        ("", f"mooring:v{__version__}"),
        ("scheduler: {image: scheduler-plugins/kube-scheduler:v0.34.7}", f"mooring:v{__version__}"),
        ("scheduler: {image: team/own-mooring:3}", "team/own-mooring:3"),
        ("image: {registry: 'example:5000/x', tag: dev}", "example:5000/x/mooring:dev"),
        (f"image: {{digest: 'sha256:{'a' * 64}'}}", f"mooring@sha256:{'a' * 64}"),
    ],
)
def test_which_image_is_run(helm: Helm, values: str, image: str) -> None:
    assert template(render(helm, values))["spec"]["containers"][0]["image"] == image


def test_pods_are_hardened(helm: Helm) -> None:
    made = helm.template()
    spec = template(made)["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert of_kind(made, "ServiceAccount", "mooring")["automountServiceAccountToken"] is False
    assert all(mount.get("readOnly") or mount["mountPath"] == "/tmp" for mount in spec["containers"][0]["volumeMounts"])
    made = render(helm, "batch: {enabled: true}")
    for deployment in (each for each in made if each["kind"] == "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        assert spec["priorityClassName"] == "system-cluster-critical"
        assert "memory" in spec["containers"][0]["resources"]["limits"]
        assert {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}} in spec["volumes"]
    assert of_kind(made, "NetworkPolicy", "mooring")["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_the_controller_serves_the_webhook_that_the_configurations_name(helm: Helm) -> None:
    made = render(helm, "{batch: {enabled: true}, admission: {enabled: true, policies: true, failurePolicy: Ignore}}")
    deployment = of_kind(made, "Deployment", "mooring-controller")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    (paths,) = (each.partition("=")[2].split(",") for each in arguments if each.startswith("--enabled-admission="))
    (name,) = (each.partition("=")[2] for each in arguments if each.startswith("--webhook-configuration="))
    hooks = [
        hook
        for kind in ("Mutating", "Validating")
        for hook in of_kind(made, f"{kind}WebhookConfiguration", name)["webhooks"]
    ]
    services = [each["clientConfig"]["service"] for each in hooks]
    assert sorted(each["path"] for each in services) == sorted(paths)
    assert {(each["name"], each["port"]) for each in services} == {("mooring-controller", 10260)}
    assert {each["failurePolicy"] for each in hooks} == {"Ignore"}
    assert of_kind(made, "Service", "mooring-controller")
    assert sum(each["kind"] == "ValidatingAdmissionPolicy" for each in made) == 5
    # By default, only the policies, which need no connection from the API server to a pod.
    kinds = [each["kind"] for each in render(helm, "batch: {enabled: true}")]
    assert not [each for each in kinds if "Webhook" in each]
    assert kinds.count("ValidatingAdmissionPolicyBinding") == 5
    assert "ValidatingAdmissionPolicy" not in [each["kind"] for each in helm.template()]


@pytest.mark.parametrize(
    "values",
    [
        "{batch: {enabled: true, queueGates: true}, admission: {enabled: true}}",
        "custom: {scheduler_feature_gates: 'SchedulingGatesQueueAdmission=true', admission_enable: true}",
        "custom: {admission_feature_gates: 'A=false, SchedulingGatesQueueAdmission=True', admission_enable: true}",
    ],
)
def test_scheduling_gates_of_queues(helm: Helm, values: str) -> None:
    """The webhook adds them to pods that request one, and the scheduler may remove them."""
    gates = "--feature-gates=SchedulingGatesQueueAdmission=true"
    patching = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
    plain = render(helm, "{batch: {enabled: true}, admission: {enabled: true}}")
    for made, wanted in ((render(helm, values), True), (plain, False)):
        deployments = [each for each in made if each["kind"] == "Deployment"]
        arguments = [each["spec"]["template"]["spec"]["containers"][0]["args"] for each in deployments]
        assert [gates in each for each in arguments] == [wanted, wanted]
        (hooks,) = (each["webhooks"] for each in made if each["kind"] == "MutatingWebhookConfiguration")
        pods = [each for each in hooks if each["rules"][0]["resources"] == ["pods"]]
        assert [QUEUE_GATE in each["matchConditions"][0]["expression"] for each in pods] == ([True] if wanted else [])
        roles = [each for each in made if each["kind"] == "ClusterRole" and patching in each["rules"]]
        assert bool(roles) is wanted
    # A webhook for all pods stays one.
    both = "{batch: {enabled: true, queueGates: true}, admission: {enabled: true, paths: [/pods/mutate]}}"
    (hook,) = next(each["webhooks"] for each in render(helm, both) if each["kind"] == "MutatingWebhookConfiguration")
    assert "matchConditions" not in hook


@pytest.mark.parametrize("values", VALUES, ids=_IDS)
def test_every_object_of_a_namespace_names_it(helm: Helm, values: Path) -> None:
    """So that `helm template | kubectl apply` puts it there."""
    cluster_wide = ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "MutatingWebhookConfiguration",
                    "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy",
                    "ValidatingAdmissionPolicyBinding")  # fmt: skip
    for each in helm.template("--values", values, namespace="somewhere"):
        if each["kind"] not in cluster_wide:
            assert each["metadata"].get("namespace") in ("somewhere", "kube-system"), each["metadata"]["name"]


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("[/bin/kube-scheduler]", ["mooring", "run"]),
        ("/bin/kube-scheduler", ["mooring", "run"]),
        ("[]", ["mooring", "run"]),
        ("[python, -m, mine]", ["python", "-m", "mine"]),
        ("/opt/mine", ["/opt/mine"]),
    ],
)
def test_which_command_is_run(helm: Helm, command: str, run: list[str]) -> None:
    """as-a-second-scheduler has a list since 0.34, and had a string before."""
    made = template(render(helm, f"scheduler: {{command: {command}}}"))
    assert made["spec"]["containers"][0]["command"] == run


def test_the_values_of_volcano_mean_the_same(helm: Helm) -> None:
    made = helm.template("--values", CHART / "ci" / "volcano-values.yaml")
    scheduler, controller = (of_kind(made, "Deployment", name) for name in ("mooring", "mooring-controller"))
    pod = scheduler["spec"]["template"]["spec"]
    assert scheduler["metadata"]["labels"]["tier"] == "control-plane"
    assert scheduler["spec"]["template"]["metadata"]["labels"]["team"] == "batch"
    assert pod["imagePullSecrets"] == [{"name": "registry-credentials"}]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert [each["key"] for each in pod["tolerations"]] == ["node-role.kubernetes.io/control-plane"]
    assert pod["securityContext"]["seLinuxOptions"] == {"level": "s0:c123,c456"}
    container = pod["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "2", "memory": "1Gi"}}
    assert {"--v=3", "--schedule-period=1s", "--scheduler-name=volcano"} <= set(container["args"])
    assert (container["image"], container["imagePullPolicy"]) == (f"mooring:v{__version__}", "Always")
    arguments = controller["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--v=4", "--kube-api-qps=50", "--kube-api-burst=100", "--leader-elect=false"} <= set(arguments)
    assert configuration(made)["clientConnection"] == {"qps": 2000, "burst": 2000}
    conf = of_kind(made, "ConfigMap", "mooring-scheduler-configmap")["data"]["volcano-scheduler.conf"]
    assert "enablePreemptable: false" in conf


def test_monitoring_selects_the_job_of_the_release(helm: Helm) -> None:
    kinds = ("serviceMonitor", "prometheusRule", "dashboard")
    made = render(helm, "\n".join(["nameOverride: own", *(f"{each}: {{enabled: true}}" for each in kinds)]))
    monitor = of_kind(made, "ServiceMonitor")
    services = [each["metadata"]["labels"] for each in made if each["kind"] == "Service"]
    assert {labels[monitor["spec"]["jobLabel"]] for labels in services} == {"own"}
    texts = [
        json.dumps(of_kind(made, "PrometheusRule")),
        *of_kind(made, "ConfigMap", "mooring-own-dashboard")["data"].values(),
    ]
    for text in texts:
        assert 'job=\\"own\\"' in text
        assert 'job=\\"mooring\\"' not in text


def test_the_controller_has_a_service(helm: Helm) -> None:
    made = render(helm, "batch: {enabled: true}")
    service = of_kind(made, "Service", "mooring-controller")
    pod = of_kind(made, "Deployment", "mooring-controller")["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["ports"] == [{"name": "https", "port": 10260, "targetPort": "https"}]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        SNAPSHOTS.mkdir(exist_ok=True)
        for each in VALUES:
            (SNAPSHOTS / each.name.replace("-values", "")).write_text(rendered(Helm(Path(folder)), each))
