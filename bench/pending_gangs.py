"""Pending gangs for `bench.suggestions`: of batch sessions, of `scheduling.k8s.io` and of Coscheduling, by cause."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bench.batch.gangs import CONF
from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.actions import ACTIONS
from mooring.batch.cluster import BatchCluster
from mooring.batch.conf import BatchConf, read_conf
from mooring.batch.kube_plugins import RELEASE as BATCH_RELEASE
from mooring.batch.plugins import PLUGINS
from mooring.batch.run import open_session, run_actions
from mooring.config import SchedulerConfiguration, load_config
from mooring.framework.handle import Handle
from mooring.live.batch.session_gang import SessionSetup, group_of, session_gang
from mooring.releases import release_named, with_gates
from mooring.scheduler.engine import Engine
from mooring.scheduler.gang_suggestions import SECONDS, GangChange, GangSearch, GangSuggestion
from mooring.scheduler.suggestions import suggest

Kind = Literal["session", "tree", "native", "coscheduling"]
_RELEASE: Final = with_gates(release_named("1.37"), {"GenericWorkload": True})[0]
_TREE: Final = CONF.replace("{name: proportion}", "{name: capacity, enableHierarchy: true}")
_PROFILES: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}
- schedulerName: coscheduling
  plugins:
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}
    multiPoint: {enabled: [{name: Coscheduling}]}
"""
_HOST: Final = "kubernetes.io/hostname"


class Gang(NamedTuple):
    """A pending gang: the objects that a cluster needs in addition, the first pending pod, and its minimum."""

    kind: Kind
    objects: tuple[KubeObject, ...]
    pod: Pod
    minimum: int


# Objects


def _object(version: str, kind: str, name: str, spec: dict[str, Any], **more: Any) -> KubeObject:
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **more.pop("meta", {})}
    made = decode_object({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, **more})
    assert isinstance(made, KubeObject)
    return made


def _queue(name: str, *, state: str = "Open", **spec: Any) -> KubeObject:
    given = {"weight": 1, "reclaimable": True, **spec}
    return _object("scheduling.volcano.sh/v1beta1", "Queue", name, given, status={"state": state})


_QUEUES: Final = (_queue("root"), _queue("default", parent="root"), _queue("spare", parent="root"))


def _pod(name: str, kind: Kind, gang: str, cpu: str, **spec: Any) -> Pod:
    meta: dict[str, Any] = {"namespace": "default"}
    given: dict[str, Any] = {"schedulerName": "default-scheduler", **spec}
    if kind in ("session", "tree"):
        meta["annotations"] = {"scheduling.k8s.io/group-name": gang}
        given["schedulerName"] = "volcano"
    elif kind == "native":
        given["schedulingGroup"] = {"podGroupName": gang}
    else:
        meta["labels"] = {"scheduling.x-k8s.io/pod-group": gang}
        given["schedulerName"] = "coscheduling"
    given["containers"] = [{"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]
    phase = "Running" if "nodeName" in spec else "Pending"
    made = _object("v1", "Pod", name, given, meta=meta, status={"phase": phase})
    assert isinstance(made, Pod)
    return made


def _group(name: str, kind: Kind, minimum: int, cpu: int, queue: str, phase: str = "Pending") -> KubeObject:
    meta = {"namespace": "default"}
    if kind == "native":
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        return _object("scheduling.k8s.io/v1beta1", "PodGroup", name, spec, meta=meta)
    if kind == "coscheduling":
        from mooring.plugins.coscheduling.pod_group import PodGroup

        head = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **meta}
        return msgspec.convert({"metadata": head, "spec": {"minMember": minimum}}, PodGroup)
    spec = {"minMember": minimum, "queue": queue, "minResources": {"cpu": str(minimum * cpu)}}
    return _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, spec, meta=meta, status={"phase": phase})


def gang(
    name: str,
    kind: Kind = "session",
    *,
    size: int = 4,
    missing: int = 0,
    cpu: int = 1,
    queue: str = "default",
    queues: tuple[KubeObject, ...] = (),
    grouped: bool = True,
    more: tuple[KubeObject, ...] = (),
    **spec: Any,
) -> Gang:
    """Return a pending gang of ``size`` pods, of which ``missing`` do not exist."""
    pods = [_pod(f"{name}-{number}", kind, name, str(cpu), **spec) for number in range(size - missing)]
    groups = (_group(name, kind, size, cpu, queue),) if grouped else ()
    return Gang(kind, (*_QUEUES, *queues, *more, *groups, *pods), pods[0], size)


def _running(name: str, node: str, *, queue: str = "default", size: int = 2, cpu: int = 2) -> tuple[KubeObject, ...]:
    pods = (_pod(f"{name}-{number}", "session", name, str(cpu), nodeName=node) for number in range(size))
    return (_group(name, "session", size, cpu, queue, "Running"), *pods)


def _on(*nodes: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": _HOST, "operator": "In", "values": list(nodes)}]}]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": wanted}}


def _limited(name: str, cpu: int, **spec: Any) -> tuple[KubeObject, ...]:
    return (_queue(f"q-{name}", capability={"cpu": str(cpu)}, parent="root", **spec),)


_GATES: Final = [{"name": "example.com/quota"}]

#: Cause -> a gang that is pending for it.
GANGS: dict[str, Callable[[str, random.Random], Gang]] = {
    "gang: cpu": lambda name, rng: gang(name, size=rng.randint(2, 8), cpu=30),
    "gang: some fit": lambda name, rng: gang(name, size=rng.randint(12, 16), cpu=3, **_on("node-2", "node-8")),
    "gang: selector": lambda name, _: gang(name, nodeSelector={"disk": "nvme"}),
    "gang: taint": lambda name, rng: gang(name, size=2, **_on(f"node-{3 + 7 * rng.randint(0, 2)}")),
    "gang: cordoned": lambda name, _: gang(name, size=2, **_on("node-5", "node-16")),
    "gang: another runs": lambda name, rng: gang(
        name, size=2, cpu=2, more=_running(f"old-{name}", "node-2", size=rng.randint(3, 4), cpu=3), **_on("node-2")
    ),
    "gang: pods": lambda name, rng: gang(name, size=5, missing=rng.randint(1, 4)),
    "gang: gates": lambda name, _: gang(name, size=3, schedulingGates=_GATES),
    "gang: gates and cpu": lambda name, _: gang(name, size=3, cpu=30, schedulingGates=_GATES),
    "queue: missing": lambda name, _: gang(name, queue=f"none-{name}"),
    "queue: closed": lambda name, _: gang(name, queue="shut", queues=(_queue("shut", state="Closed"),)),
    "queue: capability": lambda name, rng: gang(
        name, size=4, cpu=2, queue=f"q-{name}", queues=_limited(name, rng.randint(1, 7))
    ),
    "queue: full": lambda name, _: gang(
        name,
        size=2,
        cpu=2,
        queue=f"q-{name}",
        queues=_limited(name, 5),
        more=_running(f"old-{name}", "node-2", queue=f"q-{name}"),
    ),
    "queue: capability and cpu": lambda name, _: gang(
        name, size=2, cpu=30, queue=f"q-{name}", queues=_limited(name, 20)
    ),
    "queue: tree": lambda name, rng: gang(
        name, "tree", size=4, cpu=2, queue=f"q-{name}", queues=_limited(name, rng.randint(1, 7))
    ),
    "queue: parent": lambda name, _: gang(
        name,
        "tree",
        size=4,
        cpu=2,
        queue=f"leaf-{name}",
        queues=(*_limited(name, 5), _queue(f"leaf-{name}", parent=f"q-{name}", capability={"cpu": "6"})),
    ),
    "group: missing": lambda name, _: gang(name, "native", grouped=False),
    "group: pods": lambda name, rng: gang(name, "native", size=5, missing=rng.randint(1, 4)),
    "group: cpu": lambda name, rng: gang(name, "native", size=rng.randint(2, 6), cpu=30),
    "group: some fit": lambda name, rng: gang(
        name, "native", size=rng.randint(12, 16), cpu=3, **_on("node-2", "node-8")
    ),
    "coscheduling: pods": lambda name, rng: gang(name, "coscheduling", size=5, missing=rng.randint(1, 4)),
    "coscheduling: cpu": lambda name, rng: gang(name, "coscheduling", size=rng.randint(2, 6), cpu=30),
    "coscheduling: some fit": lambda name, rng: gang(
        name, "coscheduling", size=rng.randint(12, 16), cpu=3, **_on("node-2", "node-8")
    ),
}


# Decisions


@cache
def configuration() -> SchedulerConfiguration:
    """Return the profiles of engines with gangs."""
    found: SchedulerConfiguration = load_config(_PROFILES, source="gangs.yaml", release=_RELEASE)
    return found


@cache
def _conf(kind: Kind) -> BatchConf:
    return read_conf(_TREE if kind == "tree" else CONF, actions=ACTIONS, plugins=PLUGINS)


def gang_engine(objects: list[KubeObject]) -> Engine:
    """Return an engine with the objects of a cluster, which also schedules gangs."""
    engine = Engine(configuration(), rng=random.Random(0))
    for item in objects:
        engine.put(item)
    return engine


def session_cluster(engine: Engine) -> BatchCluster:
    """Return the cluster of an engine for batch sessions."""
    handle = Handle(table=engine.cache.table, objects=engine.cache.objects, rng=random.Random(0), release=BATCH_RELEASE)
    return BatchCluster(handle)


def suggest_for(engine: Engine, cluster: BatchCluster, found: Gang, *, seconds: float = SECONDS) -> list[Any]:
    """Return the suggestions for a gang whose objects the engine has."""
    if found.kind in ("native", "coscheduling"):
        return list(suggest(engine, found.pod, seconds=seconds))
    known = session_gang(cluster, SessionSetup(_conf(found.kind)), group_of(found.pod))
    return [] if known is None else GangSearch(known, seconds=seconds).run()


def gang_starts(objects: list[KubeObject], found: Gang) -> bool:
    """Return whether a gang starts on a cluster."""
    engine = gang_engine(objects)
    key = group_of(found.pod)
    if found.kind in ("native", "coscheduling"):
        for _ in range(200):
            if not engine.ready:
                break
            engine.schedule_one()
        placed = sum(uid.startswith(f"uid-{_name(found)}") for uid in engine.cache.assumed)
        return placed >= 1 and placed >= _minimum(objects, found)
    session = session_cluster(engine).session(_conf(found.kind))
    open_session(session)
    run_actions(session)
    return sum(task.job == key for task in session.bindings) >= 1


def _name(found: Gang) -> str:
    return found.pod.name.rpartition("-")[0]


def _minimum(objects: list[KubeObject], found: Gang) -> int:
    group: Any = next(each for each in objects if each.kind == "PodGroup" and each.name == _name(found))
    return int(group.spec.min_count if found.kind == "native" else group.min_member)


def changed(objects: list[KubeObject], change: GangChange) -> list[KubeObject]:
    """Return the objects of a cluster with a change of a suggestion."""
    gone = {pod.uid for pod in change.victims}
    given = (*change.nodes, *change.pods, *change.queues, *(() if change.group is None else (change.group,)))
    new = {(type(item), item.uid or item.name): item for item in given}
    kept = [
        new.pop((type(item), item.uid or item.name), item)
        for item in objects
        if not (isinstance(item, Pod) and item.uid in gone)
    ]
    added = sorted(new.values(), key=lambda item: not isinstance(item, Node))
    return list(itertools.chain(kept, added))


def gang_works(objects: list[KubeObject], found: Gang, suggestion: GangSuggestion) -> bool:
    """Apply a suggestion to a new cluster, and return whether the gang starts there."""
    return gang_starts(changed([*objects, *found.objects], suggestion.change), found)
