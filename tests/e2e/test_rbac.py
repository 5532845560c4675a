"""Mooring under exactly the roles that `mooring rbac` prints, as a service account, on an API server that keeps a log.

The log has every request and how it was decided: nothing that Mooring does may be forbidden, and what was allowed
without ever being used has to be known here, with the reason.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mooring.controllers.definitions import DEFINITIONS
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ApiFailure, ControlPlane, Object, User, free_port
from tests.e2e.endpoints import ask, is_ready
from tests.e2e.mooring_process import MOORING, mooring_command

#: Where the service account of each test is.
GRANTED, BARE, LOCKS = "granted", "bare", "locks"
#: (API group, resource with its subresource, verb)
Permission = tuple[str, str, str]
_DEVICES: Final = "resource.k8s.io"
_CLAIMS: Final = "pods with claims or devices, see test_devices_live.py"
#: What is allowed though this test never sees it used, and when it is used.
CONDITIONAL: Final[dict[Permission, str]] = {
    ("", "pods", "get"): "the answer to a bind was lost, so the pod itself is asked",
    **{(_DEVICES, "resourceclaims", verb): _CLAIMS for verb in ("create", "delete", "get", "patch")},
    **{
        (_DEVICES, f"resourceclaims/{part}", verb): _CLAIMS
        for part in ("binding", "status")
        for verb in ("patch", "update")
    },
    **{(_DEVICES, resource, "get"): "the rule for reading" for resource in ("deviceclasses", "resourceslices")},
    **{(_DEVICES, "devicetaintrules", verb): "a server of 1.37" for verb in ("get", "watch")},
}
#: Streamed lists are watches; a server that does not stream is asked for pages.
PAGED: Final = "list"


@pytest.fixture(scope="module")
def audited(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Path]]:
    """A control plane with controllers, and the log of what the service account asked of it."""
    folder = tmp_path_factory.mktemp("audit")
    policy, log = folder / "policy.yaml", folder / "audit.log"
    rules = [
        {"level": "Metadata", "users": [account(GRANTED), account(BARE)], "omitStages": ["RequestReceived"]},
        {"level": "None"},
    ]
    policy.write_text(yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking"]
    for plane in running(ControlPlane(controller_manager=True, kwok=True, apiserver_flags=flags)):
        yield plane, log


def test_the_roles_that_we_ship_are_enough_and_no_more(audited: tuple[ControlPlane, Path]) -> None:
    plane, log = audited
    cluster = Cluster(plane)
    try:
        printed = rbac("-n", GRANTED)
        grant(cluster, GRANTED, printed)
        port = free_port()
        command = mooring_command(plane, user="robot", port=port)
        process = plane.run("mooring", command, ready=lambda: is_ready(port))
        live_through(cluster, port)
        process.stop()
        asked = [json.loads(line) for line in log.read_text().splitlines()]
        assert [each for each in asked if is_forbidden(each)] == []
        used, allowed = {permission(each) for each in asked if "objectRef" in each}, granted(printed)
        assert used <= allowed, "something else allowed this"
        unused = {each for each in allowed - used if each[2] != PAGED}
        assert unused == set(CONDITIONAL), "\n".join(map(" ".join, sorted(unused)))
        assert "Traceback" not in process.log.read_text()
    finally:
        cluster.clean_up()


def test_sessions_lock_nodes_with_the_roles_for_their_configuration(
    audited: tuple[ControlPlane, Path], tmp_path: Path
) -> None:
    plane, _ = audited
    cluster = Cluster(plane)
    conf = tmp_path / "volcano-scheduler.conf"
    arguments = "deviceshare.VGPUEnable: true, deviceshare.NodeLockEnable: true"
    plugins = f"[{{name: gang}}, {{name: predicates}}, {{name: deviceshare, arguments: {{{arguments}}}}}]"
    conf.write_text(f'actions: "allocate"\ntiers:\n- plugins: {plugins}\n')
    try:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(DEFINITIONS))
        grant(cluster, LOCKS, rbac("-n", LOCKS, "--name", LOCKS, "--scheduler-conf", str(conf)))
        add_gpus(cluster, "gpus")
        group = {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": "default"}}
        groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{cluster.namespace}/podgroups"
        cluster.api.wait_for("definitions", lambda: is_served(cluster, groups))
        cluster.api.create(groups, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **group})
        container = {"name": "c", "image": "i", "resources": {"limits": {"volcano.sh/vgpu-memory": "4000"}}}
        pod = {"schedulerName": "volcano", "containers": [container]}
        metadata = {"name": "share", "annotations": {"scheduling.k8s.io/group-name": "g"}}
        cluster.api.create(f"/api/v1/namespaces/{cluster.namespace}/pods", {"metadata": metadata, "spec": pod})
        flags = (f"--scheduler-conf={conf}", "--leader-elect=false")
        process = plane.run("mooring-locks", mooring_command(plane, *flags, user="robot"), wait=False)
        cluster.wait_bound("share")
        assert "hamivgpu" in cluster.api.get("/api/v1/nodes/gpus")["metadata"]["annotations"]
        process.stop()
        assert "orbidden" not in process.log.read_text()
    finally:
        cluster.clean_up()


def is_served(cluster: Cluster, path: str) -> bool:
    """Whether a new kind can be used; until then the server answers with an error."""
    try:
        return cluster.api.get(path) is not None
    except ApiFailure:
        return False


def add_gpus(cluster: Cluster, name: str) -> None:
    """Add a node with a GPU for four pods, as Volcano's device plugin registers it."""
    node = cluster.add_node(name)
    amounts = {
        f"volcano.sh/vgpu-{part}": count for part, count in (("number", "4"), ("memory", "8000"), ("cores", "100"))
    }
    offered = {**node["status"]["allocatable"], **amounts}
    register = {"volcano.sh/node-vgpu-register": "GPU-0,4,8000,NVIDIA-T4,true,hami-core:"}
    cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": register}})
    cluster.api.patch(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": offered, "capacity": offered}})


def test_nothing_works_without_the_roles(audited: tuple[ControlPlane, Path]) -> None:
    """The log does tell what is forbidden, and so does Mooring."""
    plane, log = audited
    cluster = Cluster(plane)
    try:
        grant(cluster, BARE, [])
        process = plane.run("mooring-alone", mooring_command(plane, "--leader-elect=false", user="robot"), wait=False)
        before = log.stat().st_size if log.exists() else 0

        def refused() -> set[Permission]:
            lines = log.read_text()[before:].splitlines()
            return {permission(each) for each in map(json.loads, lines) if is_forbidden(each)}

        cluster.api.wait_for(
            "refusal", lambda: ("", "nodes", "watch") in refused() or ("", "nodes", "list") in refused()
        )
        text = cluster.api.wait_for(
            "line about it", lambda: [line for line in process.tail().splitlines() if "forbidden" in line]
        )
        assert account(BARE) in text[0]
        assert "Traceback" not in process.log.read_text()
    finally:
        cluster.clean_up()


def rbac(*arguments: str) -> list[Object]:
    """What the command prints."""
    done = subprocess.run([str(MOORING), "rbac", *arguments], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def account(home: str) -> str:
    """What the API server calls the service account of a namespace."""
    return f"system:serviceaccount:{home}:mooring"


def grant(cluster: Cluster, home: str, roles: list[Object]) -> None:
    """Make the service account, apply the roles as a user would, and make it the user `robot`."""
    plane = cluster.plane
    cluster.add_namespace(home)
    plane.kubectl("create", "serviceaccount", "mooring", namespace=home)
    if roles:
        plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(roles))
    token = plane.kubectl("create", "token", "mooring", namespace=home).strip()
    plane.users["robot"] = User("robot", account(home), token=token)


def live_through(cluster: Cluster, port: int) -> None:
    """Everything that a scheduler does on a usual day."""
    api, space = cluster.api, f"/api/v1/namespaces/{cluster.namespace}"
    for number in range(3):
        cluster.add_node(f"node-{number}", cpu="2")
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    # Binds, a pod that fits nowhere and fails again, which makes a series of its event.
    for number in range(3):
        cluster.add_pod(f"low-{number}", cpu="1500m")
    cluster.add_pod("big", cpu="40")
    cluster.wait_bound("low-0", "low-1", "low-2")
    cluster.wait_unschedulable("big")
    # Large enough to be worth an attempt, and not for it.
    cluster.add_node("another", cpu="64", taints=[{"key": "k", "effect": "NoSchedule"}])
    api.wait_for("series of events", lambda: fail_again(cluster, "another"))
    # Preemption.
    cluster.add_pod("high", cpu="1500m", priorityClassName="urgent")
    cluster.wait_bound("high")
    assert api.wait_for("eviction's event", lambda: cluster.events("Preempted"))
    # A volume that is there, and one that has to be made.
    add_class(cluster, "local", "kubernetes.io/no-provisioner")
    add_volume(cluster, "disk", "local")
    add_class(cluster, "made", "example.com/maker")
    for name in ("local", "made"):
        claim = volume_spec("1Gi", name, request=True)
        api.create(f"{space}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})
        cluster.add_pod(f"with-{name}", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])
    provision(cluster, "made")
    cluster.wait_bound("with-local", "with-made", timeout=90)
    assert (
        len(api.wait_for("events of binds", lambda: [e for e in [cluster.events("Scheduled")] if len(e) >= 6])[0]) >= 6
    )
    # Leader election: made, and renewed.
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    version = api.get(lease)["metadata"]["resourceVersion"]
    api.wait_for("renewal", lambda: api.get(lease)["metadata"]["resourceVersion"] != version)
    # Who asks is looked up.
    assert ask(port, "/metrics", token=cluster.plane.users["admin"].token).status == 200
    assert ask(port, "/metrics", token=cluster.plane.users["nobody"].token).status == 403


def fail_again(cluster: Cluster, node: str) -> list[Object]:
    """Make a node grow, so that pods are tried once more, and look for series of failures.

    The pod's version is part of an event, so a series begins once the pod's condition stays as it is.
    """
    size = int(cluster.api.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]["cpu"])
    grown = {"allocatable": {"cpu": str(size + 1)}, "capacity": {"cpu": str(size + 1)}}
    cluster.api.patch(f"/api/v1/nodes/{node}/status", {"status": grown})
    return [each for each in cluster.events("FailedScheduling") if each.get("series")]


def add_class(cluster: Cluster, name: str, provisioner: str) -> None:
    mode = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.api.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": name}, **mode})


def volume_spec(size: str, storage_class: str, *, request: bool = False) -> Object:
    amount = {"resources": {"requests": {"storage": size}}} if request else {"capacity": {"storage": size}}
    return {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, **amount}


def add_volume(cluster: Cluster, name: str, storage_class: str, **more: Any) -> None:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-0", "node-1", "node-2"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    spec = {**volume_spec("1Gi", storage_class), "local": {"path": "/disk"}, "nodeAffinity": affinity, **more}
    cluster.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})


def provision(cluster: Cluster, name: str) -> None:
    """Play the provisioner: make the volume once the scheduler has chosen a node for it."""
    path = f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims/{name}"

    def chosen() -> Object | None:
        claim: Object = cluster.api.get(path)
        return claim if "volume.kubernetes.io/selected-node" in claim["metadata"].get("annotations", {}) else None

    claim = cluster.api.wait_for("node for the volume", chosen)
    owner = {
        "name": name,
        "namespace": cluster.namespace,
        "uid": claim["metadata"]["uid"],
        "kind": "PersistentVolumeClaim",
    }
    add_volume(cluster, "made-1", name, claimRef={"apiVersion": "v1", **owner})


def is_forbidden(entry: Object) -> bool:
    decision = entry.get("annotations", {}).get("authorization.k8s.io/decision")
    return decision == "forbid" or entry.get("responseStatus", {}).get("code") in (401, 403)


def permission(entry: Object) -> Permission:
    place = entry["objectRef"]
    below = f"/{place['subresource']}" if "subresource" in place else ""
    return place.get("apiGroup", ""), place["resource"] + below, entry["verb"]


def granted(roles: Iterable[Object]) -> set[Permission]:
    """What the roles allow; of resources with names, all of the names are ours."""
    return {
        (group, resource, verb)
        for role in roles
        for rule in role.get("rules", ())
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }
