"""What if: the effect of changes to a cluster, found by simulating it without and with them.

The first simulation finds what the scheduler does now about pods that are still pending. The changes are applied to its
result, so that only pods move that have to. A change of the configuration does not move running pods. Its effect is
therefore shown by placing all pods again, with the present and with the changed configuration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from mooring.api.affinity import Taint
from mooring.api.codec import to_dict
from mooring.api.core import ReplicationController
from mooring.api.meta import KubeObject, NamespacedObject
from mooring.api.node import INSTANCE_TYPES, Node, node_like
from mooring.api.pod import Pod
from mooring.api.storage import CSINode
from mooring.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from mooring.apiserver.documents import deep_copy
from mooring.config import SchedulerConfiguration
from mooring.config.model import EnabledPlugin, Profile
from mooring.simulation.outcome import Outcome, PodOutcome, State
from mooring.simulation.scenario import Scenario
from mooring.simulation.sources import Given, InputError, Source
from mooring.simulation.workloads import controller_of, key_of, uid_of

_replace = msgspec.structs.replace

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_MIRROR: Final = "kubernetes.io/config.mirror"
#: The names of kinds in `--scale`, as kubectl accepts them.
_SCALABLE: Final[dict[str, type[NamespacedObject]]] = {
    **dict.fromkeys(("deployment", "deployments", "deploy"), Deployment),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), ReplicaSet),
    **dict.fromkeys(("replicationcontroller", "replicationcontrollers", "rc"), ReplicationController),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), StatefulSet),
}
_OBJECTS: Final = Source("the cluster", b"", has_lines=False)

#: How many copies are simulated first.
_FIRST_COPIES: Final = 64

#: Group, kind, namespace and name.
_Identity = tuple[str, str, str, str]
#: Simulates a cluster.
Simulate = Callable[[Sequence[Given]], Outcome]


class Changes:
    """A copy of the objects of a cluster to which changes are applied. Every method raises InputError."""

    def __init__(self, given: Iterable[Given]) -> None:
        self.given = list(given)
        #: Pods that a drain deletes, because no controller creates them again.
        self.deleted: list[str] = []
        self.notes: list[str] = []

    def add_nodes(self, kind: str, count: int) -> None:
        """Add nodes like an existing one, which ``kind`` names by its name or by its instance type."""
        nodes = [each for each in self.given if isinstance(each.item, Node)]
        pattern = next((each for each in nodes if each.item.name == kind), None) or next(
            (each for each in nodes if kind in (each.item.metadata.labels.get(label) for label in INSTANCE_TYPES)), None
        )
        if pattern is None:
            types = sorted(
                {
                    each.item.metadata.labels[label]
                    for each in nodes
                    for label in INSTANCE_TYPES
                    if label in each.item.metadata.labels
                }
            )
            listed = f"instance types: {', '.join(types)}" if types else "no node has the label of an instance type"
            raise InputError(f"there is no node or instance type {kind!r} to copy; {listed}")
        assert isinstance(pattern.item, Node)
        drivers = next(
            (e for e in self.given if isinstance(e.item, CSINode) and e.item.name == pattern.item.name), None
        )
        taken = {each.item.name for each in nodes}
        free = (name for number in range(1, len(taken) + count + 1) if (name := f"{kind}-new-{number}") not in taken)
        for _ in range(count):
            name = next(free)
            self.given.append(_given(node_like(pattern.item, name, uid=uid_of("Node", "", name))))
            if drivers is not None and isinstance(drivers.item, CSINode):
                metadata = _replace(drivers.item.metadata, name=name, uid=uid_of("CSINode", "", name))
                self.given.append(_given(_replace(drivers.item, metadata=metadata)))

    def cordon(self, name: str) -> None:
        """Make a node unschedulable, as `kubectl cordon` does."""
        for number, each in enumerate(self.given):
            if isinstance(each.item, Node) and each.item.name == name:
                self.given[number] = _given(_cordoned(each.item))
                return
        raise InputError(f"there is no node {name!r}; `kubectl get nodes` lists the names")

    def drain(self, name: str) -> None:
        """Cordon a node and evict its pods, as `kubectl drain --ignore-daemonsets --force` does.

        Controllers create the pods again. They keep their names here, so that the result shows where they go.
        """
        self.cordon(name)
        kept: list[Given] = []
        for each in self.given:
            pod = each.item
            if not isinstance(pod, Pod) or pod.node_name != name or pod.is_finished or stays(pod):
                kept.append(each)
            elif controller_of(pod) is None:
                self.deleted.append(pod.key)
            else:
                kept.append(_given(unassigned(pod)))
        self.given = kept
        if self.deleted:
            self.notes.append(
                f"deleted by the drain, because no controller creates them again: {', '.join(self.deleted)}"
            )

    def scale(self, kind: str, name: str, replicas: int, *, namespace: str = "default") -> None:
        """Change the number of replicas of a workload, as `kubectl scale` does."""
        wanted = _SCALABLE.get(kind.lower())
        if wanted is None:
            raise InputError(
                f"cannot scale {kind!r}; give deployment, statefulset, replicaset or replicationcontroller"
            )
        found = self._workload(wanted, namespace, name)
        if (
            found is None
            and wanted is Deployment
            and (newest := self._newest_set(("Deployment", namespace, name))) is not None
        ):
            # A scheduler does not read Deployments, but their ReplicaSets.
            self._set_replicas(newest, replicas)
            self._remove_surplus(self.given[newest].item, replicas)
            return
        if found is None:
            raise InputError(f"there is no {wanted.__name__} {namespace}/{name}")
        self._set_replicas(found, replicas)
        owner = self.given[found].item
        assert isinstance(owner, NamespacedObject)
        if isinstance(owner, Deployment):
            newest = self._newest_set(key_of(owner))
            if newest is None:
                return
            self._set_replicas(newest, replicas)
            owner = self.given[newest].item
        self._remove_surplus(owner, replicas)

    def add(self, given: Iterable[Given]) -> None:
        """Add the objects of manifests. An object that exists is replaced."""
        for each in given:
            identity = _identity(each)
            self.given = [other for other in self.given if _identity(other) != identity]
            self.given.append(each)

    def _workload(self, kind: type[NamespacedObject], namespace: str, name: str) -> int | None:
        for number, each in enumerate(self.given):
            if isinstance(each.item, kind) and (each.item.namespace, each.item.name) == (namespace, name):
                return number
        return None

    def _newest_set(self, owner: object) -> int | None:
        """Return the newest ReplicaSet of a Deployment, which is the one that the Deployment scales."""
        sets = [
            number
            for number, each in enumerate(self.given)
            if isinstance(each.item, ReplicaSet) and controller_of(each.item) == owner
        ]
        return max(sets, key=lambda number: self.given[number].item.metadata.creation_timestamp or "", default=None)

    def _set_replicas(self, number: int, replicas: int) -> None:
        each = self.given[number]
        item: Any = each.item
        document = deep_copy(each.document)
        document.setdefault("spec", {})["replicas"] = replicas
        self.given[number] = Given(_replace(item, spec=_replace(item.spec, replicas=replicas)), each.source, document)

    def _remove_surplus(self, owner: Any, replicas: int) -> None:
        """Remove the pods that the controller of a workload deletes: pending ones first, then the youngest."""
        assert isinstance(owner, NamespacedObject)
        pods = [
            each.item
            for each in self.given
            if isinstance(each.item, Pod) and not each.item.is_finished and controller_of(each.item) == key_of(owner)
        ]
        if isinstance(owner, StatefulSet):
            pods.sort(key=lambda pod: _ordinal(pod.name))
        else:
            pods.sort(key=lambda pod: pod.metadata.creation_timestamp or "")
            pods.sort(key=lambda pod: not pod.node_name)
        surplus = {pod.key for pod in pods[replicas:]}
        self.given = [each for each in self.given if not (isinstance(each.item, Pod) and each.item.key in surplus)]


def settle(given: Iterable[Given], scenario: Scenario, outcome: Outcome) -> list[Given]:
    """Return the objects of a cluster after a simulation: pods on the nodes where it placed them."""
    states = {pod.key: pod for pod in outcome.pods}
    settled = [each for each in given if not isinstance(each.item, Pod)]
    present = {_identity(each) for each in settled}
    # What controllers create besides pods: ReplicaSets and claims.
    settled += [made for item in scenario.objects if _identity(made := _given(item)) not in present]
    settled += [_given(pod) for pod in scenario.finished]
    for each in scenario.pods:
        found = states.get(each.pod.key)
        if found is None or found.state is State.EVICTED:
            continue
        placed = found.state is State.PLACED and not each.pod.node_name
        settled.append(_given(_assigned(each.pod, found.node or "") if placed else each.pod))
    return settled


def unassign_all(given: Iterable[Given]) -> list[Given]:
    """Return the objects of a cluster with every pod off its node that could be placed elsewhere."""
    return [
        _given(unassigned(each.item))
        if isinstance(each.item, Pod) and each.item.node_name and not each.item.is_finished and not stays(each.item)
        else each
        for each in given
    ]


def given_objects(objects: Iterable[KubeObject]) -> list[Given]:
    """Return the objects of a cluster in the form of manifests."""
    return [_given(item) for item in objects]


def with_weight(config: SchedulerConfiguration, plugin: str, weight: int) -> SchedulerConfiguration:
    """Return a configuration in which a Score plugin has another weight. Raises InputError."""
    known = {each.name for profile in config.profiles for each in profile.plugins.get("score", ())}
    if plugin not in known:
        raise InputError(f"{plugin} is not enabled at score; enabled there: {', '.join(sorted(known))}")

    def changed(profile: Profile) -> Profile:
        score = tuple(
            EnabledPlugin(each.name, weight) if each.name == plugin else each for each in profile.plugins["score"]
        )
        return _replace(profile, plugins={**profile.plugins, "score": score})

    return _replace(config, profiles=tuple(map(changed, config.profiles)))


# The comparison


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A pod whose node, or whose state, differs between both simulations. A node is empty if there is none."""

    pod: str
    before: str
    after: str
    #: Why the pod has no node after the changes.
    message: str = ""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between the simulation of the present cluster and that of the changed one."""

    before: Outcome
    after: Outcome
    #: Pods with another node than before.
    moved: list[Move]
    #: Pods that had no node and get one, and new pods that get a node.
    scheduled: list[Move]
    #: Pods that lose their node or are new, and have no node.
    pending: list[Move]
    #: Pods that are evicted for others.
    evicted: list[Move]
    #: Pods that no longer exist.
    deleted: list[str]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON and YAML."""
        resources = sorted(
            {name for outcome in (self.before, self.after) for node in outcome.nodes for name in node.uses}
        )
        return {
            "summary": {
                "before": _totals(self.before),
                "after": _totals(self.after),
            },
            "utilization": {
                name: {
                    "before": round(100 * self.before.total(name).share, 1),
                    "after": round(100 * self.after.total(name).share, 1),
                }
                for name in resources
            },
            **{name: msgspec.to_builtins(getattr(self, name)) for name in ("moved", "scheduled", "pending", "evicted")},
            "deleted": self.deleted,
            "notes": self.notes,
        }


def compare(before: Outcome, after: Outcome, notes: Iterable[str] = ()) -> Comparison:
    """Return the difference between two outcomes."""
    old = {pod.key: pod for pod in before.pods}
    moved: list[Move] = []
    scheduled: list[Move] = []
    pending: list[Move] = []
    evicted: list[Move] = []
    for pod in after.pods:
        former = old.pop(pod.key, None)
        was, now = _node(former), _node(pod)
        if pod.state is State.EVICTED:
            if former is None or former.state is not State.EVICTED:
                by = f"evicted for {pod.evicted_by}" if pod.evicted_by else pod.message
                evicted.append(Move(pod=pod.key, before=pod.node or was, after="", message=by))
        elif now and was and now != was:
            moved.append(Move(pod=pod.key, before=was, after=now))
        elif now and not was:
            scheduled.append(Move(pod=pod.key, before="", after=now))
        elif not now and (was or former is None):
            pending.append(Move(pod=pod.key, before=was, after="", message=pod.message))
    return Comparison(
        before=before,
        after=after,
        moved=moved,
        scheduled=scheduled,
        pending=pending,
        evicted=evicted,
        deleted=sorted(key for key, pod in old.items() if pod.state is not State.EVICTED),
        notes=list(dict.fromkeys((*notes, *after.notes))),
    )


# How many fit


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """How many copies of a set of objects fit in a cluster."""

    #: The number of copies whose pods were all placed.
    copies: int
    #: The number of placed pods of these copies by node.
    nodes: dict[str, int]
    #: Why the next copy does not fit; empty if the limit was reached.
    message: str
    limit: int


def fit(given: Sequence[Given], added: Sequence[Given], simulate: Simulate, *, limit: int) -> Fit:
    """Return how many copies of the objects in ``added`` fit, at most ``limit``.

    Copies are queued one after the other. The first one counts that has a pending pod or evicts another pod. The number
    of simulated copies doubles until one of them does not fit.
    """
    taken = {_identity(each) for each in given}
    simulated = min(_FIRST_COPIES, limit)
    while True:
        copies = [_copy(added, number, taken) for number in range(simulated)]
        copy_of = {_identity(each)[1:]: number for number, copy in enumerate(copies) for each in copy}
        outcome = simulate([*given, *(each for copy in copies for each in copy)])
        failed, message = _first_failure(outcome, copy_of, simulated)
        if failed < simulated or simulated == limit:
            break
        simulated = min(2 * simulated, limit)
    nodes = Counter(_node(pod) for pod in outcome.pods if _copy_number(pod, copy_of, simulated) < failed)
    return Fit(copies=failed, nodes=dict(sorted(nodes.items())), message=message, limit=limit)


def _first_failure(outcome: Outcome, copy_of: dict[tuple[str, str, str], int], end: int) -> tuple[int, str]:
    """Return the number of the first copy that does not fit, and why; ``end`` if all fit."""
    first, message = end, ""
    for pod in outcome.pods:
        number = _copy_number(pod, copy_of, end)
        if number < first and (pod.state is not State.PLACED or pod.victims):
            first = number
            message = f"it would evict {', '.join(pod.victims)}" if pod.victims else pod.message
    return first, message


def _copy_number(pod: PodOutcome, copy_of: dict[tuple[str, str, str], int], end: int) -> int:
    """Return the number of the copy that a pod belongs to; ``end`` for other pods."""
    workload = pod.workload
    owner = ("Pod", pod.namespace, pod.name) if workload is None else (workload.kind, workload.namespace, workload.name)
    return copy_of.get(owner, end)


def _copy(given: Sequence[Given], number: int, taken: set[_Identity]) -> list[Given]:
    """Return a copy of objects under free names. The first copy keeps the names that are free."""
    return [each if not number and _identity(each) not in taken else _renamed(each, number, taken) for each in given]


def _renamed(given: Given, number: int, taken: set[_Identity]) -> Given:
    group, kind, namespace, former = _identity(given)
    name = f"{former}-copy-{number}"
    while (group, kind, namespace, name) in taken:
        name = f"{name}-copy"
    document = deep_copy(given.document)
    document.setdefault("metadata", {})["name"] = name
    document["metadata"].pop("uid", None)
    item: Any = given.item
    metadata = _replace(item.metadata, name=name, uid="")
    return Given(_replace(item, metadata=metadata), given.source, document)


# Objects


def _given(item: Any) -> Given:
    return Given(item, _OBJECTS, to_dict(item))


def _identity(given: Given) -> _Identity:
    """Return the group, kind, namespace and name of an object."""
    item = given.item
    namespace = item.namespace if isinstance(item, NamespacedObject) else ""
    return item.api_version.rpartition("/")[0], item.kind, namespace, item.metadata.name


def _cordoned(node: Node) -> Node:
    taints = [taint for taint in node.spec.taints if taint.key != _UNSCHEDULABLE]
    taints.append(Taint(key=_UNSCHEDULABLE, effect="NoSchedule"))
    return _replace(node, spec=_replace(node.spec, unschedulable=True, taints=tuple(taints)))


def stays(pod: Pod) -> bool:
    """Return whether a drain leaves a pod on its node: a pod of a DaemonSet, or a static pod."""
    owner = controller_of(pod)
    return _MIRROR in pod.annotations or (owner is not None and owner[0] in ("DaemonSet", "Node"))


def unassigned(pod: Pod) -> Pod:
    """Return a pod as its controller creates it again, without a node."""
    status = _replace(pod.status, phase="Pending", nominated_node_name="", start_time=None)
    return _replace(pod, spec=_replace(pod.spec, node_name=""), status=status)


def _assigned(pod: Pod, node: str) -> Pod:
    status = _replace(pod.status, phase="Running", nominated_node_name="")
    return _replace(pod, spec=_replace(pod.spec, node_name=node), status=status)


def _ordinal(name: str) -> int:
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() and len(tail) < 12 else 0


def _node(pod: PodOutcome | None) -> str:
    return pod.node or "" if pod is not None and pod.state in (State.RUNNING, State.PLACED) else ""


def _totals(outcome: Outcome) -> dict[str, int]:
    return {
        "nodes": len(outcome.nodes),
        "pods": len(outcome.pods),
        "onNodes": outcome.count(State.RUNNING, State.PLACED),
        "pending": outcome.count(State.PENDING, State.GATED),
        "evicted": outcome.count(State.EVICTED),
    }


#: Kinds of workloads, which a what-if needs besides what decisions depend on.
WORKLOADS: Final[tuple[type[NamespacedObject], ...]] = (
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    ReplicationController,
)
