"""The PodGroup controller: creates PodGroups for pods of batch schedulers that have none, one per owner or pod."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.api.core import Namespace
from mooring.api.label_selectors import parse_int
from mooring.api.meta import KubeObject, Model, NamespacedObject, ObjectMeta, OwnerReference
from mooring.api.pod import Pod
from mooring.api.volcano import GROUP_ANNOTATION, NetworkTopology, PodGroup, PodGroupSpec, PodGroupStatus
from mooring.api.workloads import DaemonSet, Job
from mooring.controllers.constants import (
    BUDGET_MAX_UNAVAILABLE,
    BUDGET_MIN_AVAILABLE,
    COOLDOWN,
    GROUP_MIN_MEMBER,
    JOB_NAME,
    NETWORK_MODE,
    NETWORK_TIER,
    PENDING,
    PREEMPTABLE,
    PREFIX,
    QUEUE_NAME,
    REVOCABLE_ZONE,
)
from mooring.controllers.quota_usage import add_usage, format_amounts, quota_usage
from mooring.controllers.reconciler import Reconciler, Selection
from mooring.kube import AlreadyExists, BadRequest, Change, NotFound, PatchType, Resource
from mooring.logs import get_logger
from mooring.unexpected_errors import shortened

log = get_logger("mooring.controller")

_PREFIX: Final = "podgroup-"
#: `minMember` has 32 bits.
_MAX_MEMBERS: Final = 2**31 - 1
#: The retry interval while the cluster does not serve PodGroups.
_UNSERVED_SECONDS: Final = 2.0


class _Replicas(Model, kw_only=True):
    replicas: int | None = None


class PodSet(NamespacedObject, kw_only=True):
    """The fields of a ReplicaSet or StatefulSet that PodGroups need."""

    spec: _Replicas = _Replicas()


class ReplicaSetHead(PodSet, kw_only=True):
    """A ReplicaSet."""


class StatefulSetHead(PodSet, kw_only=True):
    """A StatefulSet."""


_SETS: Final[dict[str, type[PodSet]]] = {"ReplicaSet": ReplicaSetHead, "StatefulSet": StatefulSetHead}
_READ_ON_DEMAND: Final[dict[str, type[KubeObject]]] = {"DaemonSet": DaemonSet, "Job": Job}


class PodGroupReconciler(Reconciler):
    """Creates PodGroups, updates them when the owner of their pods changes, and assigns pods to them."""

    name = "podgroup"

    def selections(self) -> Iterable[Selection]:
        """Watch pods of batch schedulers except those of jobs, PodGroups, namespaces, and owners of pods."""
        for scheduler in self.context.settings.scheduler_names:
            # The pods of jobs are created with their job's PodGroup.
            yield Selection.of(Pod, labels=f"!{JOB_NAME}", fields=f"spec.schedulerName={scheduler}")
        yield Selection.of(PodGroup)
        yield Selection.of(Namespace)
        for kind, model in _SETS.items():
            yield Selection(Resource(model, "apps", "v1", kind, f"{kind.lower()}s", True))

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return a pod without a PodGroup, or an owner whose replicas or annotations changed."""
        found = change.new
        if isinstance(found, Pod):
            if GROUP_ANNOTATION not in found.annotations and not found.is_finished:
                return (f"Pod/{found.key}",)
        elif isinstance(found, PodSet):
            old = change.old
            if old is None or old.spec != found.spec or old.annotations != found.annotations:
                kind = type(found).__name__.removesuffix("Head")
                return (f"{kind}/{found.key}",)
        return ()

    async def reconcile(self, key: str) -> float | None:
        """Reconcile the PodGroup of a pod or of an owner."""
        kind, _, name = key.partition("/")
        if kind == "Pod":
            return await self._reconcile_pod(name)
        owner = self.cache.get(_SETS[kind], name)
        return None if owner is None else await self._reconcile_owner(owner)

    async def _reconcile_pod(self, key: str) -> float | None:
        pod = self.cache.get(Pod, key)
        if pod is None or pod.annotations.get(GROUP_ANNOTATION) or pod.is_terminating or pod.is_finished:
            return None
        name = group_name(pod)
        if self.cache.get(PodGroup, f"{pod.namespace}/{name}") is None:
            try:
                await self.context.client.create(await self._group(pod))
            except AlreadyExists:
                pass
            except BadRequest as error:
                # Admission refuses the PodGroup, for example because its queue does not exist or is closed.
                self.context.record_event(pod, "FailedCreate", f"the PodGroup was refused: {error}", type="Warning")
                raise
            except NotFound:
                return _UNSERVED_SECONDS  # PodGroups are not served, or the namespace is being deleted
            else:
                log.debug("created a PodGroup", group=name, pod=key)
        patch = {"metadata": {"uid": pod.uid, "annotations": {GROUP_ANNOTATION: name}}}
        try:
            await self.context.client.patch(Pod, pod.name, patch, namespace=pod.namespace, type=PatchType.STRATEGIC)
        except NotFound:
            return None
        return None

    async def _reconcile_owner(self, owner: PodSet) -> float | None:
        group = self.cache.get(PodGroup, f"{owner.namespace}/{_PREFIX}{owner.uid}")
        if group is None:
            return None
        if owner.spec.replicas == 0:
            with contextlib.suppress(NotFound):
                await self.context.client.delete(PodGroup, group.name, namespace=group.namespace, uid=group.uid)
            return None
        pod = next(iter(self._members(group)), None)
        if pod is not None:
            await self._update(group, await self._group(pod))
        return None

    def _members(self, group: PodGroup) -> list[Pod]:
        """Return the pods of a PodGroup, newest first."""
        pods = self.cache.all(Pod).values()
        found = [pod for pod in pods if pod.namespace == group.namespace and group_name(pod) == group.name]
        return sorted(found, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name), reverse=True)

    async def _update(self, group: PodGroup, wanted: PodGroup) -> None:
        spec = PodGroupSpec(
            min_member=wanted.spec.min_member,
            min_resources=wanted.spec.min_resources,
            priority_class_name=wanted.spec.priority_class_name,
        )
        current = PodGroupSpec(
            min_member=group.spec.min_member,
            min_resources=group.spec.min_resources,
            priority_class_name=group.spec.priority_class_name,
        )
        annotations = {k: v for k, v in wanted.annotations.items() if group.annotations.get(k) != v}
        if spec == current and not annotations:
            return
        patch = {
            "metadata": {"annotations": annotations},
            "spec": {
                "minMember": spec.min_member,
                "minResources": spec.min_resources,
                "priorityClassName": spec.priority_class_name or None,
            },
        }
        await self.context.client.patch(PodGroup, group.name, patch, namespace=group.namespace)

    async def _group(self, pod: Pod) -> PodGroup:
        inherited = await self._inherited(pod) if self.context.settings.inherit_owner_annotations else {}
        namespace = self.cache.get(Namespace, pod.namespace)
        default = "" if namespace is None else namespace.annotations.get(QUEUE_NAME, "")
        return group_of(pod, inherited, queue=default or self.context.settings.default_queue)

    async def _inherited(self, pod: Pod) -> dict[str, str]:
        """Return the annotations of a pod's owners."""
        found: dict[str, str] = {}
        for owner in pod.metadata.owner_references:
            if owner.kind in _SETS:
                cached: KubeObject | None = self.cache.get(_SETS[owner.kind], f"{pod.namespace}/{owner.name}")
            elif owner.kind in _READ_ON_DEMAND:
                cached = await self._read(_READ_ON_DEMAND[owner.kind], owner.name, pod.namespace)
            else:
                cached = None
            if cached is not None:
                found = {**cached.annotations, **found}
        return found

    async def _read(self, kind: type[KubeObject], name: str, namespace: str) -> KubeObject | None:
        try:
            return await self.context.client.get(kind, name, namespace=namespace)
        except NotFound:
            return None


def group_name(pod: Pod) -> str:
    """Return the name of a pod's PodGroup, which contains the UID of its controller or else of the pod."""
    owner = _controller(pod)
    return f"{_PREFIX}{pod.uid if owner is None else owner.uid}"


def group_of(pod: Pod, inherited: Mapping[str, str], *, queue: str) -> PodGroup:
    """Return the PodGroup of a pod. ``inherited`` are the annotations of the pod's owners."""
    min_member = _min_member(inherited.get(GROUP_MIN_MEMBER))
    amounts: dict[str, int] = {}
    add_usage(amounts, quota_usage(pod), min_member)
    annotations = {key: value for key, value in inherited.items() if key.startswith(PREFIX)}
    for key in (PREEMPTABLE, COOLDOWN, REVOCABLE_ZONE):
        if key in pod.annotations:
            annotations[key] = pod.annotations[key]
    for key in (BUDGET_MIN_AVAILABLE, BUDGET_MAX_UNAVAILABLE):
        if key in pod.annotations:
            annotations[key] = pod.annotations[key]
            break
    labels: dict[str, str] = {key: pod.labels[key] for key in (PREEMPTABLE, COOLDOWN) if key in pod.labels}
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(pod),
            namespace=pod.namespace,
            labels=labels,
            annotations=annotations,
            owner_references=_owners(pod),
        ),
        spec=PodGroupSpec(
            min_member=min_member,
            queue=pod.annotations.get(QUEUE_NAME) or queue,
            priority_class_name=pod.spec.priority_class_name,
            min_resources=dict(format_amounts(amounts)),
            network_topology=_topology(pod),
        ),
        status=PodGroupStatus(phase=PENDING),
    )


def _min_member(text: str | None) -> int:
    if text is None:
        return 1
    found = parse_int(text)
    if found is None or not 0 <= found <= _MAX_MEMBERS:
        log.warning("invalid annotation; using minMember 1", annotation=GROUP_MIN_MEMBER, value=shortened(text))
        return 1
    return found


def _controller(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def _owners(pod: Pod) -> tuple[OwnerReference, ...]:
    if _controller(pod) is not None:
        return pod.metadata.owner_references
    reference = OwnerReference(
        api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True, block_owner_deletion=True
    )
    return (reference,)


def _topology(pod: Pod) -> NetworkTopology | None:
    mode, tier = pod.annotations.get(NETWORK_MODE), pod.annotations.get(NETWORK_TIER)
    if mode is None and tier is None:
        return None
    soft = mode is not None and mode.lower() == "soft"
    highest = None if tier is None else parse_int(tier)
    return NetworkTopology(mode="soft" if soft else "hard", highest_tier_allowed=highest)
