"""The controllers of scheduler-plugins: the status of PodGroups and ElasticQuotas of scheduling.x-k8s.io."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import Model, NamespacedObject
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityError, QuantityLike
from mooring.controllers.quota_usage import format_amounts
from mooring.controllers.reconciler import Context, Reconciler, Selection
from mooring.framework.custom_resources import CustomResource
from mooring.kube import Change, Client, KubeError, Resource
from mooring.live.custom import resource_for
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota, add, amounts_of, request_of
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"
_OVER: Final = frozenset({FINISHED, FAILED})
#: The minimum interval between writes of a quota's usage.
_USAGE_SECONDS: Final = 1.0


class GroupPodStatus(Model, kw_only=True):
    """The status of a pod, reduced to its phase."""

    phase: str = ""


class GroupPod(NamespacedObject, kw_only=True):
    """A pod of a PodGroup, reduced to the fields that the controller needs."""

    status: GroupPodStatus = GroupPodStatus()

    @property
    def group(self) -> str:
        """The key of its PodGroup."""
        return f"{self.namespace}/{self.labels.get(LABEL, '')}"


class RunningPod(Pod, kw_only=True, dict=True, gc=True):
    """A running pod."""


_MEMBERS: Final = Resource(GroupPod, "", "v1", "Pod", "pods", True)
_RUNNING_PODS: Final = Resource(RunningPod, "", "v1", "Pod", "pods", True)


class Counts(msgspec.Struct, frozen=True):
    """The number of pods of a PodGroup, in total and by phase."""

    pods: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


def next_phase(phase: str, min_member: int, counts: Counts) -> str:
    """Return the phase of a PodGroup that follows from its pods."""
    if phase in _OVER:
        return phase
    if phase == "":
        return PENDING
    if counts.pods < min_member:
        return PENDING
    if phase == PENDING:
        return SCHEDULING
    healthy = counts.running + counts.succeeded
    if counts.succeeded >= min_member:
        return FINISHED
    if counts.failed and counts.failed + healthy >= min_member:
        return FAILED
    return RUNNING if healthy >= min_member else SCHEDULING


class SchedulerPluginsPodGroupReconciler(Reconciler):
    """Maintains the phase and the counts of PodGroups (scheduling.x-k8s.io)."""

    name = "podgroup.scheduling.x-k8s.io"
    volcano = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._members: dict[str, dict[str, GroupPod]] = {}

    def selections(self) -> Iterable[Selection]:
        """Watch PodGroups and their pods."""
        return (Selection(resource_for(PodGroup)), Selection(_MEMBERS, labels=LABEL))

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the changed PodGroup, or the previous and the current PodGroup of a pod."""
        found = change.object
        if isinstance(found, PodGroup):
            return (found.key,) if change.new is not None else ()
        if not isinstance(found, GroupPod):
            return ()
        affected = []
        for pod, exists in ((change.old, False), (change.new, True)):
            if pod is None:
                continue
            members = self._members.setdefault(pod.group, {})
            if exists:
                members[pod.key] = pod
            else:
                members.pop(pod.key, None)
            if not members:
                del self._members[pod.group]
            affected.append(pod.group)
        return dict.fromkeys(affected)

    async def reconcile(self, key: str) -> float | None:
        """Patch the status if it changed."""
        group = self.cache.get(PodGroup, key)
        if group is None or group.status.phase in _OVER:
            return None
        members = self._members.get(key, {})
        patch = self._status_patch(group, members)
        if patch:
            await self.context.client.patch(
                resource_for(PodGroup),
                group.name,
                {"status": patch},
                namespace=group.namespace,
                subresource="status",
            )
        return None

    def _status_patch(self, group: PodGroup, members: dict[str, GroupPod]) -> dict[str, Any]:
        status, by_phase = group.status, Counter(pod.status.phase for pod in members.values())
        counts = Counts(len(members), by_phase["Running"], by_phase["Succeeded"], by_phase["Failed"])
        before, after = status.phase, next_phase(status.phase, group.min_member, counts)
        patch: dict[str, Any] = {} if before == after else {"phase": after}
        if before in ("", PENDING):
            if after == SCHEDULING and (owners := _owners(members)):
                patch["occupiedBy"] = owners
            return patch
        for name in ("running", "succeeded", "failed"):
            if getattr(counts, name) != (getattr(status, name) or 0):
                patch[name] = getattr(counts, name)
        return patch


def _owners(members: dict[str, GroupPod]) -> str:
    """Return the owners of the first pod."""
    if not members:
        return ""
    first = members[min(members)]
    return ",".join(sorted(f"{first.namespace}/{owner.name}" for owner in first.metadata.owner_references))


class ElasticQuotaReconciler(Reconciler):
    """Maintains the usage of ElasticQuotas by running pods."""

    name = "elasticquota.scheduling.x-k8s.io"
    volcano = False

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: Namespace -> pod -> its requests.
        self._used: dict[str, dict[str, dict[str, int]]] = {}
        self._written: dict[str, float] = {}

    def selections(self) -> Iterable[Selection]:
        """Watch ElasticQuotas and running pods."""
        running = Selection(_RUNNING_PODS, fields="status.phase=Running")
        return (Selection(resource_for(ElasticQuota)), running)

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the namespace."""
        found = change.object
        if isinstance(found, RunningPod):
            pods = self._used.setdefault(found.namespace, {})
            if change.new is not None:
                pods[found.key] = request_of(change.new)
            else:
                pods.pop(found.key, None)
            if not pods:
                del self._used[found.namespace]
        elif not isinstance(found, ElasticQuota):
            return ()
        return (found.namespace,)

    async def reconcile(self, key: str) -> float | None:
        """Patch the usage if it changed, at most once per `_USAGE_SECONDS`."""
        quota = self._quota(key)
        if quota is None:
            self._written.pop(key, None)
            return None
        used = dict.fromkeys((*(quota.spec.min or {}), *(quota.spec.max or {})), 0)
        for request in self._used.get(key, {}).values():
            add(used, request)
        if _is_written(quota.status.used, format_amounts(used)):
            return None
        now = self.context.clock()
        due = self._written.get(key, 0.0) + _USAGE_SECONDS
        if now < due:
            return due - now
        self._written[key] = now
        await self.context.client.patch(
            resource_for(ElasticQuota),
            quota.name,
            {"status": {"used": {**dict.fromkeys(quota.status.used or {}), **format_amounts(used)}}},
            namespace=quota.namespace,
            subresource="status",
        )
        return None

    def _quota(self, namespace: str) -> ElasticQuota | None:
        """Return the oldest quota of a namespace, or None."""
        found = [each for each in self.cache.all(ElasticQuota).values() if each.namespace == namespace]
        return min(found, key=lambda each: (each.metadata.creation_timestamp or "", each.name), default=None)


def _is_written(written: Mapping[str, QuantityLike] | None, used: Mapping[str, QuantityLike]) -> bool:
    """Return whether a status has these amounts. An invalid status does not, and is overwritten."""
    try:
        return written is not None and amounts_of(written) == amounts_of(used)
    except QuantityError:
        return False


#: Kind -> its controller.
_RECONCILERS: Final[tuple[tuple[type[CustomResource], type[Reconciler]], ...]] = (
    (PodGroup, SchedulerPluginsPodGroupReconciler),
    (ElasticQuota, ElasticQuotaReconciler),
)


async def served_reconcilers(client: Client) -> tuple[type[Reconciler], ...]:
    """Return the controllers whose kinds the cluster serves. A kind counts as served if discovery fails."""
    found = []
    for kind, reconciler in _RECONCILERS:
        try:
            if await client.serves(resource_for(kind)):
                found.append(reconciler)
        except KubeError:
            found.append(reconciler)
    return tuple(found)
