"""Scenarios: the nodes, pods and other objects that a simulation starts with, built from manifests.

Manifests get defaults, pass admission, and workloads are expanded into pods, as in a real cluster. Objects that come
from a cluster are not changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.api.codec import Unknown, fit, to_dict
from mooring.api.core import Namespace
from mooring.api.decode_errors import ConversionError
from mooring.api.devices import ResourceClaim
from mooring.api.meta import KubeObject, NamespacedObject, ObjectMeta, parse_time
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.quantity import value
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.api.volcano import PodGroup
from mooring.api.volcano_jobs import VolcanoJob
from mooring.api.workloads import ReplicaSet
from mooring.apiserver.admission import default_storage_class
from mooring.apiserver.workloads import ephemeral_claims
from mooring.framework.custom_resources import CustomResource
from mooring.framework.declarations import CustomKinds
from mooring.simulation.admission import Admission, AdmissionError
from mooring.simulation.device_claims import completed_claim, with_claims
from mooring.simulation.sources import Given, session_conf_in
from mooring.simulation.validation import validate
from mooring.simulation.workloads import KINDS, Expander, claim_of, controller_of, key_of, uid_of

if TYPE_CHECKING:
    from mooring.simulation.jobs import JobExpander, ScenarioJob
    from mooring.simulation.session_settings import SessionSettings

_replace = msgspec.structs.replace

#: The start time of a simulation, unless the manifests contain a later time.
BEGINNING: Final = "2026-01-01T00:00:00Z"
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_BOUND: Final = "pv.kubernetes.io/bind-completed"


class Workload(msgspec.Struct, frozen=True, order=True):
    """The workload that a pod belongs to, as named in the manifests."""

    kind: str
    namespace: str
    name: str


class ScenarioPod(msgspec.Struct, frozen=True):
    """A pod with its workload; None for a pod without one."""

    pod: Pod
    workload: Workload | None = None


class Scenario(msgspec.Struct, frozen=True):
    """The initial state of a simulation."""

    nodes: list[Node]
    #: All objects except nodes and pods.
    objects: list[KubeObject]
    #: The pods in the order in which they are queued; pods with a node are running.
    pods: list[ScenarioPod]
    #: Notes for the user.
    notes: list[str]
    #: The start time, in seconds since the epoch.
    start: float
    #: Volcano's jobs. Their pods are among ``pods``, but are created later.
    jobs: list[ScenarioJob] = []
    #: The finished pods. Only gangs count them.
    finished: list[Pod] = []


def build(
    given: Sequence[Given],
    *,
    seed: int = 0,
    kinds: CustomKinds | None = None,
    sessions: SessionSettings | None = None,
) -> Scenario:
    """Build a scenario from manifests. Raises ManifestError or InputError.

    ``kinds`` are the kinds that plugins declare, ``sessions`` the settings of batch sessions, if there are any.
    """
    kinds = kinds or {}
    _refuse_twins(given)
    for each in given:
        validate(each)
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
    jobs = None if sessions is None else _job_expander(given, written.values(), admission, sessions)
    pods: list[ScenarioPod] = []
    objects: list[KubeObject] = []
    expanded: list[ScenarioJob] = []
    for each in given:
        if (pod := written.get(id(each))) is not None:
            pods.append(ScenarioPod(pod, _workload(pod, parents)))
        elif isinstance(each.item, KINDS):
            made = expander.expand(each)
            parents |= {key_of(o): controller_of(o) for o in made.objects if isinstance(o, ReplicaSet)}
            pods += [ScenarioPod(pod, _workload(pod, parents)) for pod in made.pods]
            objects += [each.item, *made.objects]
        elif isinstance(each.item, VolcanoJob):
            if jobs is not None:
                job, more = jobs.expand(each)
                expanded.append(job)
                pods += [ScenarioPod(pod, _workload(pod, parents)) for task in job.pods.values() for pod in task]
                objects += more
        elif isinstance(each.item, KubeObject) and not isinstance(each.item, Node):
            objects.append(each.item)
        objects += [_fitted(each, kind) for kind in kinds.get((each.item.api_version, each.item.kind), ())]
    finished = [each.pod for each in pods if each.pod.is_finished]
    pods = [each for each in pods if not each.pod.is_finished]
    start = _start(given)
    if sessions is not None:
        pods, objects, expanded = _with_gangs(pods, objects, expanded, sessions, start)
    claimed, claims = with_claims([each.pod for each in pods], objects)
    pods = [_replace(each, pod=claimed.get(each.pod.uid, each.pod)) for each in pods]
    objects = _completed([*objects, *claims], [each.pod for each in pods])
    ignores_jobs = sessions is None
    notes = _notes(given, nodes, [each.pod for each in pods], kinds, ignores_jobs=ignores_jobs)
    return Scenario(nodes, objects, pods, notes, start, expanded, finished)


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


# Gangs


def _job_expander(
    given: Sequence[Given], pods: Iterable[Pod], admission: Admission, sessions: SessionSettings
) -> JobExpander:
    from mooring.simulation.jobs import JobExpander  # slow to import, and seldom needed

    items = [each.item for each in given]
    return JobExpander(
        admission=admission,
        pods=pods,
        claims={f"{item.namespace}/{item.name}" for item in items if isinstance(item, PersistentVolumeClaim)},
        groups={item.key for item in items if isinstance(item, PodGroup)},
        priorities={item.name: item.value for item in items if isinstance(item, PriorityClass)},
        scheduler_name=sessions.scheduler_names[0],
        queue=sessions.default_queue,
    )


def _with_gangs(
    pods: list[ScenarioPod],
    objects: list[KubeObject],
    jobs: list[ScenarioJob],
    sessions: SessionSettings,
    start: float,
) -> tuple[list[ScenarioPod], list[KubeObject], list[ScenarioJob]]:
    """Add the PodGroups and queues that controllers create, and set creation times, by which sessions order."""
    from mooring.simulation.gangs import Creation, Grouping, standing_objects  # slow to import, and seldom needed

    grouping, creation = Grouping(objects, sessions), Creation(start)

    def admitted(pod: Pod) -> Pod:
        if pod.scheduler_name not in sessions.scheduler_names:
            return pod
        if not pod.status.phase:
            pod = _replace(pod, status=_replace(pod.status, phase="Pending"))
        return creation.dated(grouping.assign(pod))

    pods = [_replace(each, pod=admitted(each.pod)) for each in pods]
    dated = {each.pod.uid: each.pod for each in pods}
    jobs = [
        _replace(job, pods={task: [dated[pod.uid] for pod in made] for task, made in job.pods.items()}) for job in jobs
    ]
    objects = [creation.dated(item) if isinstance(item, PodGroup) else item for item in (*objects, *grouping.created)]
    return pods, [*objects, *standing_objects(objects, sessions)], jobs


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
    """Add the objects that always exist, and set the state of volumes as their controllers do."""
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
        case ResourceClaim():
            return completed_claim(item)
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


def _notes(
    given: Sequence[Given], nodes: Sequence[Node], pods: Sequence[Pod], kinds: CustomKinds, *, ignores_jobs: bool
) -> list[str]:
    notes = []
    unknown = [each.item for each in given if isinstance(each.item, Unknown) and session_conf_in(each) is None]
    ignored = Counter(each.kind for each in unknown if (each.api_version, each.kind) not in kinds)
    if ignores_jobs and (jobs := sum(isinstance(each.item, VolcanoJob) for each in given)):
        ignored["Job (batch.volcano.sh)"] = jobs
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
