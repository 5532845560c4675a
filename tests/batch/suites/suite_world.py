"""The cases of Volcano's test suites, without an API server: a case is a cluster and steps, which submit jobs and check
which of their pods run.

Sessions, their cache and the objects of jobs are Mooring's own. This module only does what an API server and kubelets
do: pods that sessions bind run at once, and pods that they evict are gone at once and created anew for their job.
Upstream's sizes depend on its cluster; here each case has its own nodes.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.codec import decode_object
from mooring.api.hyper_nodes import HyperNode
from mooring.api.meta import KubeObject, ObjectMeta, format_time
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.volcano import PodGroup, Queue
from mooring.api.volcano_jobs import VolcanoJob
from mooring.batch.actions import ACTIONS
from mooring.batch.conf import read_conf
from mooring.batch.plugins import PLUGINS
from mooring.batch.queue import standing_queues
from mooring.cluster.embedded import fake_node
from mooring.config import default_config
from mooring.controllers.jobs.job_admission import validation_errors, with_defaults
from mooring.controllers.jobs.job_objects import group_for, pod_document
from mooring.scheduler.engine import Engine
from mooring.simulation.admission import Admission
from mooring.simulation.device_claims import SimulatedClaimWriter
from mooring.simulation.session_settings import SessionSettings
from mooring.simulation.sessions import Sessions

_replace = msgspec.structs.replace
#: The configuration of Volcano's continuous integration; ACTIONS, QUEUES and MORE are replaced.
_CONF: Final = """
actions: "ACTIONS"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}, {name: sla}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - QUEUES
  - {name: nodeorder}
  - {name: binpack}
  - {name: network-topology-aware}
MORE
"""
ALL_ACTIONS: Final = "enqueue, allocate, backfill, reclaim, preempt"
WITHOUT_ENQUEUE: Final = "allocate, backfill, reclaim, preempt"
PRIORITIES: Final = {"low": 10, "middle": 50, "high": 100}
#: The labels of pods that may be evicted.
PREEMPTABLE: Final = {"volcano.sh/preemptable": "true"}
_START: Final = 1_800_000_000.0
#: Sessions until which nothing may change any more.
_MOST_SESSIONS: Final = 60


def conf(actions: str = ALL_ACTIONS, queues: str = "{name: proportion}", more: str = "") -> str:
    """Return the configuration, with another plugin for queues or with arguments of actions."""
    return _CONF.replace("ACTIONS", actions).replace("QUEUES", queues).replace("MORE", more)


class SuiteWorld:
    """The cluster of one case."""

    def __init__(self, case: Case) -> None:
        self.now = _START
        self._numbers = itertools.count(1)
        self._jobs: dict[str, VolcanoJob] = {}
        self.pods: dict[str, Pod] = {}
        writer = SimulatedClaimWriter()
        self.engine = Engine(default_config(), clock=lambda: self.now, rng=random.Random(0), claims=writer)
        writer.engine = self.engine
        settings = SessionSettings(
            read_conf(case.conf, actions=ACTIONS, plugins=PLUGINS), ("volcano",), PLUGINS, ACTIONS, {}, frozenset()
        )
        self._sessions = Sessions(
            settings,
            self.engine.cache,
            clock=lambda: self.now,
            rng=random.Random(0),
            claims=writer,
            health=self.engine.guards.health,
            warn=lambda event, **_: None,
        )
        classes = [PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in PRIORITIES.items()]
        self._admission = Admission(classes)
        queues = {name: _queue(name, spec) for name, spec in case.queues.items()}
        capacity = {"cpu": case.cores, "memory": "64Gi", "pods": "110"}
        nodes = [decode_object(fake_node(f"n{number}", "zone", capacity)) for number in range(case.nodes)]
        for item in (*classes, *(standing_queues("default") | queues).values(), *nodes, *case.objects):
            assert isinstance(item, KubeObject)
            self.engine.put(item)

    # What users do

    def submit(self, document: Mapping[str, Any]) -> None:
        """Create a job as the API server would accept it."""
        metadata = {"namespace": "default", "uid": f"uid-{next(self._numbers)}", **document["metadata"]}
        made = msgspec.convert({**document, "metadata": metadata}, VolcanoJob)
        found = with_defaults(made, scheduler_name="volcano", queue="default")
        assert not validation_errors(found)
        self._jobs[found.name] = found
        self.engine.put(self._dated(group_for(found, PRIORITIES)))

    def put_pod(self, document: dict[str, Any]) -> None:
        """Create a pod, or replace it."""
        self._admission.complete(document)
        document.setdefault("status", {"phase": "Pending"})
        pod = self._dated(msgspec.convert(document, Pod))
        self.pods[pod.name] = pod
        self.engine.put(pod)

    def delete_pod(self, name: str) -> None:
        """Delete a pod."""
        self.engine.remove(self.pods.pop(name))

    def delete_job(self, name: str) -> None:
        """Delete a job with its objects."""
        found = self._jobs.pop(name)
        for pod in [each for each in self.pods if each.startswith(f"{name}-")]:
            self.delete_pod(pod)
        self.engine.remove(self._group_of(found))

    def _dated(self, item: Any) -> Any:
        """Return an object with a uid and a creation time, a second after the previous one."""
        number = next(self._numbers)
        self.now += 1.0
        uid, created = item.metadata.uid or f"uid-{number}", format_time(self.now)
        return _replace(item, metadata=_replace(item.metadata, uid=uid, creation_timestamp=created))

    # What the cluster does

    def settle(self) -> None:
        """Run sessions and the job controller until nothing changes."""
        last: object = None
        for _ in range(_MOST_SESSIONS):
            created = self._create_pods()
            result = self._sessions.run()
            for pod in result.bound:
                running = _replace(pod, status=_replace(pod.status, phase="Running"))
                self.pods[pod.name] = running
                self.engine.put(running)
            for pod, _ in result.evicted:
                self.delete_pod(pod.name)
            phases = {key: group.status.phase for key, group in self._sessions.groups().items()}
            if not (created or result.bound or result.evicted) and phases == last:
                return
            last = phases
            self.now += 1.0
        raise AssertionError(f"the cluster still changes after {_MOST_SESSIONS} sessions")

    def _create_pods(self) -> bool:
        """Create the missing pods of the jobs that are admitted to their queue."""
        created = False
        for found in self._jobs.values():
            if self._group_of(found).status.phase == "Pending":
                continue
            for each in found.spec.tasks:
                for index in range(each.replicas):
                    document = pod_document(found, each, index)
                    if document["metadata"]["name"] not in self.pods:
                        self.put_pod(document)
                        created = True
        return created

    def _group_of(self, found: VolcanoJob) -> PodGroup:
        return self._sessions.groups()[f"default/{found.name}-{found.uid}"]

    # What tests ask

    def running(self, name: str) -> dict[str, str]:
        """Return the running pods of a job or of one of its tasks (``job-task``), with their nodes."""
        mine = (pod for pod in self.pods.values() if pod.name.startswith(f"{name}-"))
        return {pod.name: pod.node_name for pod in mine if pod.node_name}

    def created(self, name: str) -> int:
        """Return the number of pods of a job, also without a node."""
        return sum(pod.startswith(f"{name}-") for pod in self.pods)

    def phase(self, name: str) -> str:
        """Return the phase of the group of a job."""
        return self._group_of(self._jobs[name]).status.phase

    def condition(self, name: str) -> str:
        """Return the reason of the group's last condition of type Unschedulable."""
        found = [each for each in self._group_of(self._jobs[name]).status.conditions if each.type == "Unschedulable"]
        return found[-1].reason if found else ""


Step = Callable[[SuiteWorld], None]


@dataclasses.dataclass(frozen=True)
class Case:
    """Steps, and the cluster in which they run."""

    steps: Sequence[Step]
    nodes: int = 4
    cores: str = "1"
    conf: str = dataclasses.field(default_factory=conf)
    #: Queue -> its spec.
    queues: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    objects: Sequence[KubeObject] = ()


def play(case: Case) -> SuiteWorld:
    """Run the steps of a case, in order."""
    world = SuiteWorld(case)
    for step in case.steps:
        step(world)
    return world


def _queue(name: str, spec: Mapping[str, Any]) -> Queue:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"weight": 1, **spec}}, Queue)


# Steps


def task(name: str, pods: int, cpu: str = "1", *, of_task: Mapping[str, Any] | None = None, **spec: Any) -> Any:
    """Return a task of a job. ``of_task`` has more of its fields, and ``spec`` more fields of its pods."""
    metadata = {"labels": dict(spec.pop("labels", {}))}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
    container |= spec.pop("container", {})
    template = {"metadata": metadata, "spec": {"containers": [container], **spec}}
    return {"name": name, "replicas": pods, "template": template, **(of_task or {})}


def job(
    name: str,
    pods: int = 1,
    cpu: str = "1",
    *,
    least: int | None = None,
    queue: str = "default",
    priority: str = "",
    tasks: Sequence[Mapping[str, Any]] = (),
    topology: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    **of_task: Any,
) -> Step:
    """Submit a job of one task, or of the given tasks. ``least`` is its minAvailable, by default all pods."""
    chosen = [dict(each) for each in tasks] or [task("t", pods, cpu, **of_task)]
    spec: dict[str, Any] = {"queue": queue, "tasks": chosen}
    spec["minAvailable"] = sum(each["replicas"] for each in chosen) if least is None else least
    if priority:
        spec["priorityClassName"] = priority
    if topology is not None:
        spec["networkTopology"] = topology
    document = {"metadata": {"name": name, "annotations": dict(annotations or {})}, "spec": spec}
    return lambda world: world.submit(document)


def pod(name: str, node: str, cpu: str) -> Step:
    """Run a pod of another scheduler on a node."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": node, "schedulerName": "default-scheduler", "containers": [container]}
    return lambda world: world.put_pod({"metadata": {"name": name}, "spec": dict(spec), "status": {"phase": "Running"}})


def later(seconds: float) -> Step:
    """Let time pass."""

    def step(world: SuiteWorld) -> None:
        world.settle()
        world.now += seconds

    return step


def kill(name: str) -> Step:
    """Delete a pod."""
    return lambda world: world.delete_pod(name)


def delete(name: str) -> Step:
    """Delete a job."""
    return lambda world: world.delete_job(name)


def runs(**wanted: int) -> Step:
    """Check how many pods of each job run when nothing changes any more. A `_` in a name stands for `-`."""

    def step(world: SuiteWorld) -> None:
        world.settle()
        found = {name: len(world.running(name.replace("_", "-"))) for name in wanted}
        assert found == wanted, f"running pods: {found}, wanted: {wanted}"

    return step


def phases(**wanted: str) -> Step:
    """Check the phases of the groups of jobs."""

    def step(world: SuiteWorld) -> None:
        world.settle()
        found = {name: world.phase(name.replace("_", "-")) for name in wanted}
        assert found == wanted, f"phases: {found}, wanted: {wanted}"

    return step


def on_nodes(name: str, *wanted: str) -> Step:
    """Check that the pods of a job use exactly these nodes."""

    def step(world: SuiteWorld) -> None:
        found = sorted(set(world.running(name).values()))
        assert found == sorted(wanted), f"nodes of {name}: {found}"

    return step


def within(name: str, *allowed: str) -> Step:
    """Check that the pods of a job use only these nodes."""

    def step(world: SuiteWorld) -> None:
        found = set(world.running(name).values())
        assert found <= set(allowed), f"nodes of {name}: {sorted(found)}"

    return step


def ungate(name: str) -> Step:
    """Remove the scheduling gates of the pods of a job."""

    def step(world: SuiteWorld) -> None:
        for each in [pod for pod in world.pods.values() if pod.name.startswith(f"{name}-")]:
            changed = _replace(each, spec=_replace(each.spec, scheduling_gates=()))
            world.pods[each.name] = changed
            world.engine.put(changed)

    return step


def hyper_nodes(*tiers: Mapping[str, Sequence[str]]) -> list[HyperNode]:
    """Return HyperNodes, tier by tier: name -> nodes (in the first tier) or HyperNodes."""
    found = []
    for tier, each in enumerate(tiers, start=1):
        for name, members in each.items():
            kind = "Node" if tier == 1 else "HyperNode"
            chosen = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
            document = {"metadata": {"name": name}, "spec": {"tier": tier, "members": chosen}}
            found.append(msgspec.convert(document, HyperNode))
    return found


def hard(tier: int) -> dict[str, Any]:
    """Return the constraint to one domain of at most this tier."""
    return {"mode": "hard", "highestTierAllowed": tier}


def partitions(count: int, size: int, topology: Mapping[str, Any] | None = None, least: int = 0) -> dict[str, Any]:
    """Return the fields of a task whose pods are divided into partitions."""
    policy: dict[str, Any] = {"totalPartitions": count, "partitionSize": size}
    if topology is not None:
        policy["networkTopology"] = topology
    if least:
        policy["minPartitions"] = least
    return {"partitionPolicy": policy}


def change_nodes(change: Callable[[Node], Node]) -> Step:
    """Change all nodes."""

    def step(world: SuiteWorld) -> None:
        for info in list(world.engine.cache.table.nodes):
            world.engine.put(change(info.node))

    return step
