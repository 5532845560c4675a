"""The status of the community's PodGroups and ElasticQuotas, as the controller of scheduler-plugins keeps it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from mooring.api.meta import Model, NamespacedObject
from mooring.api.pod import Pod
from mooring.controllers.amounts import written
from mooring.controllers.reconciler import Reconciler, Selection, Tools
from mooring.framework.custom_resources import CustomResource
from mooring.kube import Change, Client, KubeError, Resource
from mooring.live.custom import resource_for
from mooring.plugins.capacity_scheduling.amounts import add, amounts_of, request_of
from mooring.plugins.capacity_scheduling.elastic_quota import ElasticQuota
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup

PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"
_OVER: Final = frozenset({FINISHED, FAILED})
#: Usage is written at most this often.
_USAGE_SECONDS: Final = 1.0


class MemberStatus(Model, kw_only=True):
    """How a pod fares."""

    phase: str = ""


class Member(NamespacedObject, kw_only=True):
    """A pod of a group, as much of it as its group needs to know."""

    status: MemberStatus = MemberStatus()

    @property
    def group(self) -> str:
        """The key of its group."""
        return f"{self.namespace}/{self.labels.get(LABEL, '')}"


class RunningPod(Pod, kw_only=True, dict=True, gc=True):
    """A pod that runs."""


_MEMBERS: Final = Resource(Member, "", "v1", "Pod", "pods", True)
_RUNNING_PODS: Final = Resource(RunningPod, "", "v1", "Pod", "pods", True)


class Counts(msgspec.Struct, frozen=True):
    """The pods of a group: all, and by what became of them."""

    pods: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0


def next_phase(phase: str, least: int, counts: Counts) -> str:
    """The phase of a group that follows from its pods."""
    if phase in _OVER:
        return phase
    if phase == "":
        return PENDING
    if counts.pods < least:
        return PENDING
    if phase == PENDING:
        return SCHEDULING
    good = counts.running + counts.succeeded
    if counts.succeeded >= least:
        return FINISHED
    if counts.failed and counts.failed + good >= least:
        return FAILED
    return RUNNING if good >= least else SCHEDULING


class CommunityGroups(Reconciler):
    """Keeps the phases and counts of PodGroups (scheduling.x-k8s.io)."""

    name = "podgroup.scheduling.x-k8s.io"
    volcano = False

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._members: dict[str, dict[str, Member]] = {}

    def selections(self) -> Iterable[Selection]:
        """Groups and their pods."""
        return (Selection(resource_for(PodGroup)), Selection(_MEMBERS, labels=LABEL))

    def concerns(self, change: Change[Any]) -> Iterable[str]:
        """The group itself, or the groups that a pod was and is in."""
        found = change.object
        if isinstance(found, PodGroup):
            return (found.key,) if change.new is not None else ()
        if not isinstance(found, Member):
            return ()
        concerned = []
        for pod, there in ((change.old, False), (change.new, True)):
            if pod is None:
                continue
            members = self._members.setdefault(pod.group, {})
            if there:
                members[pod.key] = pod
            else:
                members.pop(pod.key, None)
            if not members:
                del self._members[pod.group]
            concerned.append(pod.group)
        return dict.fromkeys(concerned)

    async def reconcile(self, key: str) -> float | None:
        """Write what has changed."""
        group = self.view.get(PodGroup, key)
        if group is None or group.status.phase in _OVER:
            return None
        members = self._members.get(key, {})
        patch = self._news(group, members)
        if patch:
            await self.tools.client.patch(
                resource_for(PodGroup),
                group.name,
                {"status": patch},
                namespace=group.namespace,
                subresource="status",
            )
        return None

    def _news(self, group: PodGroup, members: dict[str, Member]) -> dict[str, Any]:
        status, by_phase = group.status, Counter(pod.status.phase for pod in members.values())
        counts = Counts(len(members), by_phase["Running"], by_phase["Succeeded"], by_phase["Failed"])
        before, after = status.phase, next_phase(status.phase, group.min_member, counts)
        news: dict[str, Any] = {} if before == after else {"phase": after}
        if before in ("", PENDING):
            if after == SCHEDULING and (owners := _owners(members)):
                news["occupiedBy"] = owners
            return news
        for name in ("running", "succeeded", "failed"):
            if getattr(counts, name) != (getattr(status, name) or 0):
                news[name] = getattr(counts, name)
        return news


def _owners(members: dict[str, Member]) -> str:
    """What made the first of the pods."""
    if not members:
        return ""
    first = members[min(members)]
    return ",".join(sorted(f"{first.namespace}/{owner.name}" for owner in first.metadata.owner_references))


class ElasticQuotas(Reconciler):
    """Keeps what running pods use of ElasticQuotas."""

    name = "elasticquota.scheduling.x-k8s.io"
    volcano = False

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        #: Namespace -> what each running pod is charged.
        self._used: dict[str, dict[str, dict[str, int]]] = {}
        self._written: dict[str, float] = {}

    def selections(self) -> Iterable[Selection]:
        """Quotas, and the pods that run."""
        running = Selection(_RUNNING_PODS, fields="status.phase=Running")
        return (Selection(resource_for(ElasticQuota)), running)

    def concerns(self, change: Change[Any]) -> Iterable[str]:
        """The namespace."""
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
        """Write what has changed, though not too often."""
        quota = self._quota(key)
        if quota is None:
            self._written.pop(key, None)
            return None
        used = dict.fromkeys((*(quota.spec.min or {}), *(quota.spec.max or {})), 0)
        for request in self._used.get(key, {}).values():
            add(used, request)
        if quota.status.used is not None and amounts_of(quota.status.used) == amounts_of(written(used)):
            return None
        now = self.tools.clock()
        due = self._written.get(key, 0.0) + _USAGE_SECONDS
        if now < due:
            return due - now
        self._written[key] = now
        await self.tools.client.patch(
            resource_for(ElasticQuota),
            quota.name,
            {"status": {"used": {**dict.fromkeys(quota.status.used or {}), **written(used)}}},
            namespace=quota.namespace,
            subresource="status",
        )
        return None

    def _quota(self, namespace: str) -> ElasticQuota | None:
        """The namespace's quota; of several, the first."""
        found = [each for each in self.view.all(ElasticQuota).values() if each.namespace == namespace]
        return min(found, key=lambda each: (each.metadata.creation_timestamp or "", each.name), default=None)


#: Who looks after which of the community's kinds.
_RECONCILERS: Final[tuple[tuple[type[CustomResource], type[Reconciler]], ...]] = (
    (PodGroup, CommunityGroups),
    (ElasticQuota, ElasticQuotas),
)


async def served(client: Client) -> tuple[type[Reconciler], ...]:
    """The reconcilers whose kinds the cluster serves; all of them where that cannot be found out."""
    found = []
    for kind, reconciler in _RECONCILERS:
        try:
            if await client.serves(resource_for(kind)):
                found.append(reconciler)
        except KubeError:
            found.append(reconciler)
    return tuple(found)
