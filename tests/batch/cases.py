"""Small clusters for tests of batch sessions, as the objects of a case."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from mooring.api.codec import decode_object
from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup
from mooring.batch.actions import ACTIONS
from mooring.batch.cluster import BatchCluster
from mooring.batch.conf import read_conf
from mooring.batch.evaluate import _objects, evaluate, offline_cluster
from mooring.batch.job import JobInfo
from mooring.batch.plugins import PLUGINS as BUILTIN
from mooring.batch.resource import pod_request
from mooring.batch.run import open_session
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo

Object = dict[str, Any]
_numbers = itertools.count(1)
#: A class of devices, and their driver.
DRIVER = "gpu.example.com"
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
PLUGINS = ("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder", "binpack")


def conf(*tiers: tuple[str, ...], actions: str = "enqueue, allocate, backfill", **arguments: Any) -> str:
    """A configuration; ``arguments`` are YAML flow mappings by plugin."""
    lines = [f'actions: "{actions}"', "tiers:"]
    for tier in tiers or PLUGINS:
        lines.append("- plugins:")
        for name in tier:
            lines.append(f"  - name: {name}")
            given = arguments.get(name.replace("-", "_"))
            if given:
                lines.append(f"    arguments: {given}")
    return "\n".join(lines)


def metadata(name: str, namespace: str = "default", **rest: Any) -> Object:
    """Times and uids are distinct, and in the order in which objects are made."""
    number = next(_numbers)
    created = f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    return {"name": name, "namespace": namespace, "uid": f"uid-{number:06d}", "creationTimestamp": created, **rest}


def node(name: str, cpu: str = "4", *, labels: dict[str, str] | None = None, **more: str) -> Object:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110", **more}
    own = {"kubernetes.io/hostname": name, **(labels or {})}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata(name, "", labels=own), "status": status}


def queue(name: str, weight: int = 1, state: str = "Open", **spec: Any) -> Object:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata(name, "")}
    return {**head, "spec": {"weight": weight, "reclaimable": True, **spec}, "status": {"state": state}}


def group(name: str, least: int, *, queue: str = "default", phase: str = "Pending", **spec: Any) -> Object:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata(name)}
    return {**head, "spec": {"minMember": least, "queue": queue, **spec}, "status": {"phase": phase}}


def pod(name: str, gang: str, *, cpu: str = "1", on: str = "", phase: str = "", **spec: Any) -> Object:
    requests = {"cpu": cpu} if cpu else {}
    container = {"name": "app", "image": "app", "resources": {"requests": requests}}
    own = metadata(name, annotations={"scheduling.k8s.io/group-name": gang})
    whole = {"schedulerName": "volcano", "containers": [container], **spec, **({"nodeName": on} if on else {})}
    status = {"phase": phase or ("Running" if on else "Pending")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": whole, "status": status}


def gang(name: str, pods: int, least: int = -1, *, queue: str = "default", cpu: str = "1", **rest: Any) -> list[Object]:
    """A group and its pods, which wait."""
    members = [pod(f"{name}-task-{number}", name, cpu=cpu) for number in range(pods)]
    return [group(name, pods if least < 0 else least, queue=queue, **rest), *members]


def hyper_node(name: str, tier: int, *, nodes: Sequence[str] = (), within: Sequence[str] = (), **spec: Any) -> Object:
    """A domain of the network with nodes and smaller domains, by name; ``spec`` may have further members."""
    members = [{"type": "Node", "selector": {"exactMatch": {"name": each}}} for each in nodes]
    members += [{"type": "HyperNode", "selector": {"exactMatch": {"name": each}}} for each in within]
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": metadata(name, "")}
    return {**head, "spec": {"tier": tier, "members": [*members, *spec.pop("members", [])], **spec}}


def gpus(place: str, count: int) -> dict[str, Any]:
    """The devices of a node."""
    body = {
        "driver": DRIVER,
        "nodeName": place,
        "pool": {"name": place, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(count)],
    }
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**head, "metadata": {"name": f"slice-{place}"}, "spec": body}


def claim(name: str, count: int = 1, device: str = "") -> dict[str, Any]:
    """A claim; with a device of node a, an allocated one."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    result = {"request": "r", "driver": DRIVER, "pool": "a", "device": device}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata(name),
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {"allocation": {"devices": {"results": [result]}}} if device else {},
    }


def claiming(name: str, pods: int, least: int = -1, count: int = 1, **rest: Any) -> list[dict[str, Any]]:
    """A gang whose pods have a claim each."""
    made, claims = gang(name, pods, least, **rest), []
    for each in made[1:]:
        own = f"{each['metadata']['name']}-gpu"
        each["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": own}]
        claims.append(claim(own, count))
    return [*made, *claims]


def running(name: str, nodes: list[str], least: int = 1, *, queue: str = "default", cpu: str = "1") -> list[Object]:
    """A group whose pods run on nodes."""
    members = [pod(f"{name}-task-{number}", name, cpu=cpu, on=each) for number, each in enumerate(nodes)]
    return [group(name, least, queue=queue, phase="Running"), *members]


def decide(text: str, *objects: Object | list[Object]) -> dict[str, Any]:
    """What a session decides on some objects, beside a root and a default queue."""
    flat: list[Object] = [queue("root"), queue("default")]
    for each in objects:
        flat += each if isinstance(each, list) else [each]
    return evaluate({"conf": text, "objects": flat})


def opened(text: str, *objects: Any) -> tuple[BatchCluster, Session, list[Any]]:
    """A session with its plugins, before any action."""
    flat = [queue("root"), queue("default")]
    for each in objects:
        flat += each if isinstance(each, list) else [each]
    cluster = offline_cluster(list(_objects({"objects": flat})))
    cluster.kube.hides_unevicted = False  # as on a live cluster
    session = cluster.session(read_conf(text, actions=ACTIONS, plugins=BUILTIN))
    return cluster, session, [plugin for plugin, _ in open_session(session)]


def session_of(text: str, *objects: Any) -> Session:
    """A session with its plugins, before any action."""
    return opened(text, *objects)[1]


def tasks_of(session: Session) -> dict[str, TaskInfo]:
    """All tasks of the session's jobs by name."""
    return {task.name: task for job in session.jobs.values() for task in job.tasks.values()}


def jobs_of(session: Session) -> dict[str, JobInfo]:
    """The session's jobs by name."""
    return {job.name: job for job in session.jobs.values()}


def task(name: str = "job-task-0", gang: str = "job", **settings: Any) -> TaskInfo:
    """A task of a pod, in no session; ``settings`` are those of ``pod``, and annotations."""
    annotations = settings.pop("annotations", {})
    item = pod(name, gang, **settings)
    item["metadata"]["annotations"] |= annotations
    made = decode_object(item)
    assert isinstance(made, Pod)
    return TaskInfo(made, pod_request(made))


def job(least: int, *tasks: TaskInfo, priority: int = 0, **spec: Any) -> JobInfo:
    """A job with tasks, in no session; ``spec`` is that of ``group``."""
    made = decode_object(group("job", least, **spec))
    assert isinstance(made, PodGroup)
    result = JobInfo(made, queue=made.spec.queue, priority=priority)
    for each in tasks:
        result.add(each)
    return result


def annotated(item: Object, labels: dict[str, str] | None = None, **annotations: str) -> Object:
    """The object with annotations (``_`` stands for ``-``, ``__`` for ``/``) and labels."""
    named = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    item["metadata"].setdefault("annotations", {}).update(named)
    item["metadata"].setdefault("labels", {}).update(labels or {})
    return item
