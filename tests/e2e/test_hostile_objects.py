"""Objects that any tenant may create on a real API server: the scheduler and the controllers live, ordinary pods are
placed at once, and the author of an invalid object is told."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mooring.api import KubeObject
from mooring.api.coordination import Lease
from mooring.api.core import Namespace, ReplicationController, Service
from mooring.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.api.node import Node
from mooring.api.policy import PodDisruptionBudget, PriorityClass
from mooring.api.storage import CSIDriver, CSINode, StorageClass, VolumeAttachment
from mooring.api.volcano import PodGroup, Queue
from mooring.api.volcano_jobs import Command, VolcanoJob
from mooring.api.workloads import ReplicaSet, StatefulSet
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota
from mooring.plugins.coscheduling.pod_group import PodGroup as CommunityGroup
from mooring.plugins.node_resource_topology.zones import NodeResourceTopology
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Object, Process
from tests.e2e.controlplane.api import ApiFailure
from tests.e2e.mooring_process import MOORING, mooring_command
from tests.e2e.test_community import define
from tests.e2e.test_controllers import mooring, start_controller
from tests.hostile import AMOUNTS, DURATIONS, EXPRESSIONS, EXTREME_AMOUNTS, NUMBERS, TEXTS, Hostile

CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Reports
      - name: Coscheduling
      - name: CapacityScheduling
      - name: NodeResourceTopologyMatch
      disabled:
      - name: PrioritySort
"""
CONF: Final = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: sla}, {name: tdm}, {name: resourcequota}]
- plugins: [{name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}, {name: binpack}]
"""
PLUGIN: Final = """
from typing import Any

from mooring.framework import CustomResource, Lister, Plugin


class NodeReport(CustomResource, group="reports.example.com", version="v1"):
    class Spec:
        weight: int = 50
        extra: Any = None

    spec: Spec


class Reports(Plugin):
    reports = Lister(NodeReport)

    def setup(self):
        self.by_weight = self.reports.index(lambda report: 100 // report.spec.weight)

    def score(self, state, pod, node):
        return 0
"""
VOLCANO, COMMUNITY = "/apis/scheduling.volcano.sh/v1beta1", "/apis/scheduling.x-k8s.io/v1alpha1"
#: Annotations that some part of Mooring reads.
ANNOTATIONS: Final = (
    "scheduling.k8s.io/group-name", "scheduling.volcano.sh/queue-name", "scheduling.volcano.sh/group-min-member",
    "volcano.sh/sla-waiting-time", "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable",
    "volcano.sh/preemptable", "volcano.sh/revocable-zone", "volcano.sh/task-priority", "volcano.sh/task-spec",
    "volcano.sh/task-topology-affinity", "volcano.sh/job-version", "volcano.sh/hierarchy",
    "volcano.sh/hierarchy-weights", "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier",
    "volcano.sh/oversubscription-cpu", "volcano.sh/oversubscription-memory",
)  # fmt: skip
#: kube-apiserver 1.36 computes for minutes when it compares these amounts.
STOPS_API_SERVER: Final = ("1e-2147483648", "1e2147483647")
#: The paths of kinds whose amounts the API server compares.
BUILT_IN: Final = ("/api/", "/apis/apps/", "/apis/policy/", "/apis/storage.k8s.io/", "/apis/resource.k8s.io/")
#: How many random objects of each custom kind are created.
RANDOM: Final = 25


class Tenant:
    """Creates objects, and counts which of them the API server accepts."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.answers: Counter[tuple[str, bool]] = Counter()

    def create(self, path: str, document: Object) -> bool:
        try:
            self.cluster.api.create(path, document)
            accepted = True
        except ApiFailure as failure:
            if failure.status not in {400, 409, 413, 422, 500}:
                raise
            accepted = False
        self.answers[path.rpartition("/")[2], accepted] += 1
        return accepted

    def collection(self, base: str, plural: str) -> str:
        return f"{base}/namespaces/{self.namespace}/{plural}"

    def random(self, kind: type[KubeObject], path: str, **fixed: Any) -> None:
        is_built_in = path.startswith(BUILT_IN)
        for seed in range(RANDOM):
            name = f"random-{seed}"
            document = Hostile(seed).document(kind, name, metadata={"name": name, "annotations": self._odd(seed)})
            document |= fixed
            if not (is_built_in and any(text in json.dumps(document) for text in STOPS_API_SERVER)):
                self.create(path, document)

    def _odd(self, seed: int) -> dict[str, str]:
        texts = (*NUMBERS, *DURATIONS, *TEXTS, *AMOUNTS)
        return {key: texts[(seed * 7 + place) % len(texts)] for place, key in enumerate(ANNOTATIONS)}

    def pod(self, number: int, text: str, scheduler: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": text, "memory": text}}}
        metadata = {"name": f"odd-{scheduler}-{number}", "annotations": self._odd(number)}
        spec = {"containers": [container], "schedulerName": scheduler}
        self.create(self.collection("/api/v1", "pods"), {"metadata": metadata, "spec": spec})

    def everything(self) -> None:
        """Create all hostile objects."""
        for number, text in enumerate(AMOUNTS):
            self._custom_amounts(number, text)
            if text in STOPS_API_SERVER:
                continue
            self._amounts(number, text)
            for scheduler in ("default-scheduler", "volcano"):
                self.pod(number, text, scheduler)
        self.random(PodGroup, self.collection(VOLCANO, "podgroups"))
        self.random(Queue, f"{VOLCANO}/queues")
        self.random(VolcanoJob, self.collection("/apis/batch.volcano.sh/v1alpha1", "jobs"))
        for number, (replicas, template) in enumerate(
            ((2**31 - 1, {"spec": {"containers": [{"name": "c"}]}}), (1, {}))
        ):
            job = {"tasks": [{"name": "t", "replicas": replicas, "template": template}]}
            jobs = self.collection("/apis/batch.volcano.sh/v1alpha1", "jobs")
            self.create(jobs, _named("Job", "batch.volcano.sh/v1alpha1", f"odd-{number}", job))
        self.random(ElasticQuota, self.collection(COMMUNITY, "elasticquotas"))
        self.random(CommunityGroup, self.collection(COMMUNITY, "podgroups"))
        self.random(NodeResourceTopology, "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies")
        self._built_in()
        self._devices()
        reports = self.collection("/apis/reports.example.com/v1", "nodereports")
        deep: Any = 1
        for _ in range(900):  # more breaks the encoder of this test
            deep = [deep]
        for number, spec in enumerate(({"weight": 0}, {"extra": deep}, {"weight": 2**63 - 1}, {"extra": "a" * 10**5})):
            self.create(reports, _named("NodeReport", "reports.example.com/v1", f"report-{number}", spec))

    def _built_in(self) -> None:
        """Create random objects of Kubernetes' own kinds. The API server rejects most, so a valid part is fixed."""
        labels, selector = {"app": "a"}, {"matchLabels": {"app": "a"}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        sets = {"selector": selector, "template": template}
        taint = {"key": "hostile", "effect": "NoSchedule"}
        apps, storage = "/apis/apps/v1", "/apis/storage.k8s.io/v1"
        self.random(Node, "/api/v1/nodes", spec={"taints": [taint]})
        self.random(Namespace, "/api/v1/namespaces", spec={})
        controllers = self.collection("/api/v1", "replicationcontrollers")
        self.random(ReplicationController, controllers, spec={"selector": labels, "template": template, "replicas": 0})
        self.random(Service, self.collection("/api/v1", "services"), spec={"ports": [{"port": 1}], "selector": labels})
        self.random(ReplicaSet, self.collection(apps, "replicasets"), spec={**sets, "replicas": 0})
        self.random(
            StatefulSet, self.collection(apps, "statefulsets"), spec={**sets, "replicas": 0, "serviceName": "a"}
        )
        budgets = self.collection("/apis/policy/v1", "poddisruptionbudgets")
        for number, text in enumerate(NUMBERS):
            budget = {"metadata": {"name": f"number-{number}"}, "spec": {"minAvailable": text, "selector": selector}}
            self.create(budgets, budget)
        self.random(PodDisruptionBudget, budgets)
        self.random(StorageClass, f"{storage}/storageclasses", provisioner="driver", volumeBindingMode="Immediate")
        self.random(CSINode, f"{storage}/csinodes")
        self.random(CSIDriver, f"{storage}/csidrivers")
        self.random(VolumeAttachment, f"{storage}/volumeattachments")
        self.random(PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses", globalDefault=False)
        self.random(Lease, self.collection("/apis/coordination.k8s.io/v1", "leases"))
        self.random(Command, self.collection("/apis/bus.volcano.sh/v1alpha1", "commands"))

    def _devices(self) -> None:
        """Create classes, slices and claims with hostile expressions, amounts and counts, and pods that use them."""
        group = "/apis/resource.k8s.io/v1"
        classes, slices = f"{group}/deviceclasses", f"{group}/resourceslices"
        claims = self.collection(group, "resourceclaims")
        for kind, path in ((DeviceClass, classes), (ResourceSlice, slices), (ResourceClaim, claims)):
            self.random(kind, path)
        one = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
        templates = self.collection(group, "resourceclaimtemplates")
        self.random(ResourceClaimTemplate, templates, spec={"spec": one})
        self.create(classes, {"metadata": {"name": "gpu"}, "spec": {}})
        for number in range(2):  # a generation that no later one exceeds, and slices that are missing
            pool = {"name": f"pool-{number}", "generation": 2**63 - 1, "resourceSliceCount": 1 + number}
            devices = [{"name": f"d-{i}", "capacity": {"memory": {"value": "1Gi"}}} for i in range(128)]
            spec = {"driver": "driver", "pool": pool, "nodeName": "node-0", "devices": devices}
            self.create(slices, {"metadata": {"name": f"devices-{number}"}, "spec": spec})
        amounts = [text for text in AMOUNTS if text not in STOPS_API_SERVER]
        requests: list[Object] = [{"selectors": [{"cel": {"expression": text}}]} for text in EXPRESSIONS]
        requests += [{"capacity": {"requests": {"memory": text}}} for text in amounts]
        requests += [{"count": count} for count in (33, 4_000, 2**63 - 1)]
        for number, request in enumerate(requests):
            name = f"devices-{number}"
            exactly = {"deviceClassName": "gpu", **request}
            claim = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
            if self.create(claims, {"metadata": {"name": name}, "spec": claim}):
                spec = {
                    "containers": [{"name": "c", "image": "i"}],
                    "resourceClaims": [{"name": "r", "resourceClaimName": name}],
                }
                self.create(self.collection("/api/v1", "pods"), {"metadata": {"name": name}, "spec": spec})

    def _custom_amounts(self, number: int, text: str) -> None:
        """Create custom resources with one amount everywhere."""
        name, some = f"amount-{number}", {"cpu": text, "memory": text, "storage": text, "nvidia.com/gpu": text}
        version = "scheduling.volcano.sh/v1beta1"
        spec: Object = {"minMember": 1, "minResources": some, "queue": "default"}
        self.create(self.collection(VOLCANO, "podgroups"), _named("PodGroup", version, name, spec))
        queue = {"weight": 1, "capability": some, "deserved": some}
        self.create(f"{VOLCANO}/queues", _named("Queue", version, name, queue))
        community = {"minMember": 1, "minResources": some}
        version = "scheduling.x-k8s.io/v1alpha1"
        self.create(self.collection(COMMUNITY, "podgroups"), _named("PodGroup", version, name, community))
        quota = {"min": some, "max": some}
        self.create(self.collection(COMMUNITY, "elasticquotas"), _named("ElasticQuota", version, name, quota))
        resources = [{"name": "cpu", "capacity": text, "allocatable": text, "available": text}]
        zones = {"zones": [{"name": "node-0", "type": "Node", "resources": resources}], "topologyPolicies": []}
        topology = {**_named("NodeResourceTopology", "topology.node.k8s.io/v1alpha2", name, {}), **zones}
        self.create("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies", topology)

    def _amounts(self, number: int, text: str) -> None:
        """Create objects that the API server parses itself, and a job, whose pods it parses."""
        name = f"amount-{number}"
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": text, "memory": text}}}
        task = {"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}
        jobs = self.collection("/apis/batch.volcano.sh/v1alpha1", "jobs")
        self.create(jobs, _named("Job", "batch.volcano.sh/v1alpha1", name, {"tasks": [task], "minAvailable": 1}))
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": text}}}
        self.create(self.collection("/api/v1", "persistentvolumeclaims"), {"metadata": {"name": name}, "spec": claim})
        volume = {"capacity": {"storage": text}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
        self.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume})
        capacity = {"metadata": {"name": name}, "storageClassName": "c", "capacity": text, "maximumVolumeSize": text}
        self.create(self.collection("/apis/storage.k8s.io/v1", "csistoragecapacities"), capacity)
        quota = {"metadata": {"name": name}, "spec": {"hard": {"count/none": text}}}
        self.create(self.collection("/api/v1", "resourcequotas"), quota)


def _named(kind: str, version: str, name: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def processes(cluster: Cluster, tmp_path: Path) -> tuple[Process, Process]:
    """Mooring with the community's plugins, a custom one and sessions; and its controllers."""
    for number in range(3):
        cluster.add_node(f"node-{number}", cpu="16")
    plugin, config, conf = tmp_path / "reports.py", tmp_path / "scheduler.yaml", tmp_path / "volcano.conf"
    for path, text in ((plugin, PLUGIN), (config, CONFIG), (conf, CONF)):
        path.write_text(text)
    define(cluster)
    command = [str(MOORING), "plugin", "manifests", str(plugin), "--crd"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    definition = yaml.safe_load(printed)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["extra"] = {"x-kubernetes-preserve-unknown-fields": True}
    cluster.define(yaml.safe_dump(definition))
    mooring(cluster, "batch", "install")
    flags = ("--config", str(config), "--scheduler-conf", str(conf), "--plugin", f"Reports={plugin}")
    run = mooring_command(cluster.plane, *flags, "--leader-elect=false", "--schedule-period=200ms", user="admin")
    scheduler = cluster.plane.run("mooring", run, wait=False)
    return scheduler, start_controller(cluster, user="admin")


def ordinary(cluster: Cluster, name: str) -> None:
    """Place an ordinary pod and an ordinary gang."""
    cluster.add_pod(name)
    spec = {"minMember": 2, "queue": "default"}
    path = f"{VOLCANO}/namespaces/{cluster.namespace}/podgroups"
    cluster.api.create(path, _named("PodGroup", "scheduling.volcano.sh/v1beta1", name, spec))
    members = [f"{name}-task-{number}" for number in range(2)]
    for member in members:
        metadata = {"annotations": {"scheduling.k8s.io/group-name": name}}
        cluster.add_pod(member, metadata=metadata, schedulerName="volcano")
    cluster.wait_bound(name, *members)


def test_no_object_of_a_tenant_stops_anything(cluster: Cluster, processes: tuple[Process, Process]) -> None:
    hostile, cluster.namespace = cluster.namespace, f"{cluster.namespace}-ordinary"
    cluster.add_namespace(cluster.namespace)
    ordinary(cluster, "before")
    tenant = Tenant(cluster, hostile)
    tenant.everything()
    print(sorted(tenant.answers.items()))
    assert sum(count for (_, accepted), count in tenant.answers.items() if accepted) > 150
    for plural in (
        "podgroups", "queues", "jobs", "commands", "elasticquotas", "nodereports", "pods", "persistentvolumeclaims",
        "nodes", "namespaces", "replicationcontrollers", "resourceclaimtemplates", "noderesourcetopologies",
        "services", "replicasets", "statefulsets", "poddisruptionbudgets", "storageclasses",
        "deviceclasses", "resourceslices", "resourceclaims",
    ):  # fmt: skip
        assert tenant.answers[plural, True], plural
    invalid = [number for number, text in enumerate(AMOUNTS) if text in {"1e1.5"}]
    ordinary(cluster, "after")
    for number in invalid:
        _is_told(cluster, hostile, f"amount-{number}")
    for process in processes:
        assert process.alive, process.log.read_text()[-3000:]
    log = processes[0].log.read_text()
    assert log.count('"an object cannot be applied and is ignored"') <= len(EXTREME_AMOUNTS)
    assert max(map(len, log.splitlines())) < 10_000
    assert "a session failed" not in log
    assert "a scheduling attempt failed" not in log
    assert '"reconcile failed"' not in processes[1].log.read_text()


def _is_told(cluster: Cluster, namespace: str, name: str) -> None:
    """An event about the group, the queue, the quota and the job, and conditions where the kind has them."""

    def told(version: str, kind: str, events: str) -> bool:
        found = cluster.api.items(f"/apis/events.k8s.io/v1/namespaces/{events}/events")
        about = [each for each in found if each["regarding"]["name"] == name and each["regarding"]["kind"] == kind]
        about = [each for each in about if each["regarding"]["apiVersion"].startswith(version)]
        return any("1e1.5" in each.get("note", "") for each in about)

    for version, kind, events in (
        ("scheduling.volcano.sh", "PodGroup", namespace),
        ("scheduling.volcano.sh", "Queue", "default"),
        ("batch.volcano.sh", "Job", namespace),
        ("scheduling.x-k8s.io", "ElasticQuota", namespace),
        ("scheduling.x-k8s.io", "PodGroup", namespace),
        ("topology.node.k8s.io", "NodeResourceTopology", "default"),
    ):
        cluster.api.wait_for(f"event about {version} {kind} {name}", lambda v=version, k=kind, e=events: told(v, k, e))
    group = cluster.api.get(f"{VOLCANO}/namespaces/{namespace}/podgroups/{name}")
    (condition,) = group["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Unschedulable", "True", "Invalid")
    job = cluster.api.get(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}")
    assert job["status"]["state"]["reason"] == "InvalidJob"
