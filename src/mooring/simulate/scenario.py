"""Scenarios: the nodes, pods and other objects that a simulation starts with, built from manifests.

Manifests get defaults, pass admission, and workloads are expanded into pods, as in a real cluster. Objects that come
from a cluster stay unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from mooring.api.codec import Unknown, fit, to_dict
from mooring.api.core import Namespace
from mooring.api.decode_errors import ConversionError
from mooring.api.meta import KubeObject, NamespacedObject, ObjectMeta, parse_time
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.quantity import value
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.workloads import ReplicaSet
from mooring.apiserver.admission import default_storage_class
from mooring.apiserver.workloads import ephemeral_claims
from mooring.framework.custom_resources import CustomResource
from mooring.framework.declarations import CustomKinds
from mooring.simulate.admission import Admission, AdmissionError
from mooring.simulate.sources import Given
from mooring.simulate.workloads import KINDS, Expander, claim_of, controller_of, key_of, uid_of

_replace = msgspec.structs.replace

#: The time of a simulation, unless there is a later one in the manifests.
BEGINNING: Final = "2026-01-01T00:00:00Z"
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_BOUND: Final = "pv.kubernetes.io/bind-completed"


class Workload(msgspec.Struct, frozen=True, order=True):
    """The workload that a pod belongs to, as the manifests name it."""

    kind: str
    namespace: str
    name: str


class ScenarioPod(msgspec.Struct, frozen=True):
    """A pod with its workload; None for a pod without one."""

    pod: Pod
    workload: Workload | None = None


class Scenario(msgspec.Struct, frozen=True):
    """The start of a simulation."""

    nodes: list[Node]
    #: All objects but nodes and pods.
    objects: list[KubeObject]
    #: In the order in which they are queued; those with a node are running.
    pods: list[ScenarioPod]
    #: Notes for the user.
    notes: list[str]
    #: Seconds since the epoch.
    start: float


def build(given: Sequence[Given], *, seed: int = 0, kinds: CustomKinds | None = None) -> Scenario:
    """Build a scenario from manifests; ``kinds`` are those that plugins declare. Raises ManifestError or InputError."""
    kinds = kinds or {}
    _refuse_twins(given)
    nodes = [_node(each.item) for each in given if isinstance(each.item, Node)]
    admission = Admission(each.item for each in given if isinstance(each.item, PriorityClass))
    written = {id(each): _admitted(each, admission) for each in given if isinstance(each.item, Pod)}
    _refuse_shared_uids(given, written)
    expander = Expander(
        admission=admission,
        nodes=nodes,
        pods=[pod for pod in written.values() if not pod.is_finished],
        replica_sets=[each.item for each in given if isinstance(each.item, ReplicaSet)],
        seed=seed,
    )
    parents = {key_of(o): controller_of(o) for o in (each.item for each in given) if isinstance(o, NamespacedObject)}
    pods: list[ScenarioPod] = []
    objects: list[KubeObject] = []
    for each in given:
        if (pod := written.get(id(each))) is not None:
            pods.append(ScenarioPod(pod, _workload(pod, parents)))
        elif isinstance(each.item, KINDS):
            made = expander.expand(each)
            parents |= {key_of(o): controller_of(o) for o in made.objects if isinstance(o, ReplicaSet)}
            pods += [ScenarioPod(pod, _workload(pod, parents)) for pod in made.pods]
            objects += [each.item, *made.objects]
        elif isinstance(each.item, KubeObject) and not isinstance(each.item, Node):
            objects.append(each.item)
        elif isinstance(each.item, Unknown):
            objects += [_fitted(each, kind) for kind in kinds.get((each.item.api_version, each.item.kind), ())]
    pods = [each for each in pods if not each.pod.is_finished]
    objects = _completed(objects, [each.pod for each in pods])
    return Scenario(nodes, objects, pods, _notes(given, nodes, [each.pod for each in pods], kinds), _start(given))


# Pods


def _admitted(given: Given, admission: Admission) -> Pod:
    assert isinstance(given.item, Pod)
    try:
        pod = admission.admit(given.item)
    except AdmissionError as error:
        raise given.fault(error.problem, *error.steps, remedy=error.remedy) from None
    uid = pod.uid or uid_of("Pod", pod.namespace, pod.name)
    return _replace(pod, metadata=_replace(pod.metadata, uid=uid))


_Parents = dict[tuple[str, str, str], tuple[str, str, str] | None]


def _workload(pod: Pod, parents: _Parents) -> Workload | None:
    """Return the topmost controller of a pod in the manifests."""
    found = controller_of(pod)
    seen = set()
    while found is not None and (above := parents.get(found)) is not None and above not in seen:
        seen.add(found)
        found = above
    return None if found is None else Workload(*found)


def _refuse_twins(given: Sequence[Given]) -> None:
    seen: dict[tuple[str, str, str], Given] = {}
    for each in given:
        item = each.item
        key = (f"{item.api_version.rpartition('/')[0]}/{item.kind}", item.namespace, item.name)
        first = seen.setdefault(key, each)
        if first is not each and item.name:
            where = "twice" if first.source == each.source else f"here and in {first.source.name}"
            raise each.fault(f"given {where}", remedy="leave one of them out, or give it another name")


def _refuse_shared_uids(given: Sequence[Given], written: dict[int, Pod]) -> None:
    seen: dict[str, Pod] = {}
    for each in given:
        pod = written.get(id(each))
        if pod is None:
            continue
        first = seen.setdefault(pod.uid, pod)
        if first is not pod:
            problem = f"{pod.uid!r} is the uid of pod {first.key} too"
            raise each.fault(problem, "metadata", "uid", remedy="leave metadata.uid out of copied pods")


# Other objects


def _node(node: Node) -> Node:
    if node.status.capacity and not node.status.allocatable:
        return _replace(node, status=_replace(node.status, allocatable=node.status.capacity))
    return node


def _fitted(given: Given, kind: type[CustomResource]) -> CustomResource:
    """Return an object of a kind that a plugin declares."""
    assert isinstance(given.item, Unknown)
    try:
        return fit(given.item.raw, kind)
    except ConversionError as error:
        raise given.fault(error.fault.problem, *error.fault.steps, remedy=error.fault.remedy) from None


def _completed(objects: list[KubeObject], pods: Iterable[Pod]) -> list[KubeObject]:
    """Add the objects that always exist, and bring volumes to the state that their controllers would."""
    pods = list(pods)
    present = {(type(item), item.namespace, item.name) for item in objects}
    objects = objects + [
        claim
        for pod in pods
        if any(volume.ephemeral is not None for volume in pod.spec.volumes)
        for claim in (claim_of(each, pod.namespace) for each in ephemeral_claims(to_dict(pod)))
        if (PersistentVolumeClaim, claim.namespace, claim.name) not in present
    ]
    default_class = default_storage_class(to_dict(item) for item in objects if isinstance(item, StorageClass))
    volumes = {item.name for item in objects if isinstance(item, PersistentVolume)}
    spaces = {"default"} | {item.namespace for item in (*objects, *pods) if isinstance(item, NamespacedObject)}
    spaces -= {item.name for item in objects if isinstance(item, Namespace)}
    made = [Namespace(metadata=ObjectMeta(name=name)) for name in sorted(spaces)]
    return [_completed_object(item, default_class, volumes) for item in (*made, *objects)]


def _completed_object(item: KubeObject, default_class: str | None, volumes: set[str]) -> KubeObject:
    match item:
        case Namespace():
            return _replace(item, metadata=_replace(item.metadata, labels={**item.labels, _NAME_LABEL: item.name}))
        case PersistentVolume() if not item.status.phase:
            phase = "Available" if item.spec.claim_ref is None else "Bound"
            return _replace(item, status=_replace(item.status, phase=phase))
        case PersistentVolumeClaim():
            return _completed_claim(item, default_class, volumes)
        case _:
            return item


def _completed_claim(
    claim: PersistentVolumeClaim, default_class: str | None, volumes: set[str]
) -> PersistentVolumeClaim:
    spec, metadata = claim.spec, claim.metadata
    if spec.storage_class_name is None and default_class is not None and not spec.volume_name:
        spec = _replace(spec, storage_class_name=default_class)
    if spec.volume_name in volumes and not claim.status.phase:
        metadata = _replace(metadata, annotations={_BOUND: "yes", **metadata.annotations})
    metadata = _replace(metadata, namespace=claim.namespace)
    return _replace(claim, metadata=metadata, spec=spec)


# Notes


def _notes(given: Sequence[Given], nodes: Sequence[Node], pods: Sequence[Pod], kinds: CustomKinds) -> list[str]:
    notes = []
    unknown = [each.item for each in given if isinstance(each.item, Unknown)]
    ignored = Counter(each.kind for each in unknown if (each.api_version, each.kind) not in kinds)
    if ignored:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
        notes.append(f"ignored: {listed} (kinds that the simulation does not support)")
    closed = [node.name for node in nodes if value(node.status.allocatable.get("pods", 0)) <= 0]
    if closed:
        notes.append(f"no pod can go to {_some(closed)}: status.allocatable has no pods; add for example pods: 110")
    names = {node.name for node in nodes}
    lost = [pod.key for pod in pods if pod.node_name and pod.node_name not in names]
    if lost:
        notes.append(f"not counted, because their nodes are not among the manifests: {_some(lost)}")
    if not nodes:
        notes.append("there is no Node among the manifests, so no pod can be placed")
    return notes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _start(given: Sequence[Given]) -> float:
    """Return the latest time in the manifests, so that new pods are younger than existing ones."""
    times = [parse_time(BEGINNING)]
    for each in given:
        written = [each.item.metadata.creation_timestamp]
        if isinstance(each.item, Pod):
            written.append(each.item.status.start_time)
        times += [parse_time(time) for time in written if time]
    return max(times)
