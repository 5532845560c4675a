"""The objects that operators create (examples/integrations) on a real API server, with their owners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from mooring.kube.api_resources import plural_of
from mooring.releases import release_named
from tests.docs.test_integrations import FOLDER, GANGS, OTHERS, documents
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane, Object, free_port
from tests.e2e.controlplane.parts import KUBERNETES
from tests.e2e.endpoints import is_ready
from tests.e2e.mooring_process import mooring_command
from tests.e2e.test_community import printed
from tests.e2e.test_controllers import mooring, start_controller

NATIVE = "kuberay/native.yaml"
_SPOT = {"cloud.provider.com/node-group": "spot"}


def collection(cluster: Cluster, version: str, kind: str) -> str:
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{cluster.namespace}/{plural_of(kind)}"


def definition(version: str, kind: str) -> Object:
    """A definition that accepts every object of the kind, in place of the operator's own."""
    group, _, name = version.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": kind, "plural": plural_of(kind), "singular": kind.lower()}
    served = {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names['plural']}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
    }


class Operators:
    """Creates what the operators create, in the same order; all objects belong to their real owners."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._uids: dict[tuple[str, str], str] = {}
        self._defined: set[str] = set()

    def run(self, name: str) -> list[Object]:
        """Create the objects of a file, and return them."""
        return [self._create(each) for each in documents(name)]

    def _create(self, document: Object) -> Object:
        references = document["metadata"].get("ownerReferences", [])
        # The controller of StatefulSets would create pods of its own.
        kept = [each for each in references if each["kind"] != "StatefulSet"]
        document["metadata"]["ownerReferences"] = [{**each, "uid": self._uid(each)} for each in kept]
        made: Object = self._cluster.api.create(
            collection(self._cluster, document["apiVersion"], document["kind"]), document
        )
        self._uids[document["kind"], made["metadata"]["name"]] = made["metadata"]["uid"]
        return made

    def _uid(self, reference: Object) -> str:
        key = reference["kind"], reference["name"]
        if key not in self._uids:
            self._define(reference["apiVersion"], reference["kind"])
            owner = {key: reference[key] for key in ("apiVersion", "kind")}
            self._create({**owner, "metadata": {"name": reference["name"]}})
        return self._uids[key]

    def _define(self, version: str, kind: str) -> None:
        if kind in self._defined:
            return
        self._cluster.define(yaml.safe_dump(definition(version, kind)))
        self._defined.add(kind)


def test_gangs_of_operators_start_as_a_whole(full_cluster: Cluster) -> None:
    cluster = full_cluster
    cluster.add_node("small", cpu="1500m", labels=_SPOT)
    mooring(cluster, "batch", "install")
    cluster.define(printed("plugin", "manifests", "Coscheduling", "--crd"))
    start_controller(cluster, user="admin")
    port = free_port()
    flags = ("--config", str(FOLDER / "scheduler.yaml"), "--scheduler-name", "volcano", "--leader-elect=false")
    command = mooring_command(cluster.plane, *flags, user="admin", port=port)
    cluster.plane.run("mooring", command, ready=lambda: is_ready(port))
    operators = Operators(cluster)
    gangs = {name: count for name, count in GANGS.items() if not name.endswith("/native.yaml")}
    for name in gangs:
        operators.run(name)
    # The pods of Volcano's Job are created when it is admitted to its queue.
    created = sum(gangs.values()) - gangs["argo/job.yaml"]
    cluster.api.wait_for("the pods", lambda: len(cluster.pods()) == created, 60)
    for pod in ("tuning-head", "serving-head"):
        cluster.wait_unschedulable(pod)
    # The PodGroup of Spark allows a driver alone, but its resources must fit.
    assert cluster.placements() == {}
    # Room for everything at once: which pods come first, and when those of Jobs end, is a matter of timing.
    cluster.add_node("node-1", cpu="96", memory="128Gi", labels=_SPOT)
    for name in sorted(OTHERS):
        operators.run(name)
    count = sum(gangs.values()) + 6
    cluster.api.wait_for("the other pods", lambda: len(cluster.pods()) == count, 60)
    names = {each["metadata"]["name"] for each in cluster.pods()}
    placed = cluster.wait_bound(*sorted(names - {"group-2"}))
    # Kueue has not removed its gates.
    assert "group-2" not in placed
    assert placed["group-0"] == "node-1"


@pytest.fixture(scope="module")
def native_plane(built: None) -> Iterator[ControlPlane]:
    """A control plane that serves PodGroups of Kubernetes itself."""
    flags = ["--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"]
    yield from running(ControlPlane(apiserver_flags=flags))


@pytest.mark.skipif(release_named(KUBERNETES).version == "1.36", reason="needs PodGroups of v1beta1")
def test_kuberay_with_native_groups(native_plane: ControlPlane) -> None:
    cluster = Cluster(native_plane)
    try:
        cluster.add_node("small", cpu="3")
        port = free_port()
        flags = ("--leader-elect=false", "--emulated-version=1.37", "--feature-gates=GenericWorkload=true")
        command: Any = mooring_command(native_plane, *flags, port=port)
        native_plane.run("mooring", command, ready=lambda: is_ready(port))
        Operators(cluster).run(NATIVE)
        cluster.wait_unschedulable("actors-head")
        assert cluster.placements() == {}
        cluster.add_node("large", cpu="8")
        pods = [each["metadata"]["name"] for each in documents(NATIVE) if each["kind"] == "Pod"]
        cluster.wait_bound(*pods)
    finally:
        cluster.clean_up()
