"""PodGroupGang: the gang of a pod that the engine schedules, for suggestions.

The gang is a PodGroup of `scheduling.k8s.io` (the plugin GangScheduling) or of `scheduling.x-k8s.io` (Coscheduling).
A decision places its pods one after another on the node table, and removes them again. Reserve does not run, so
volumes and devices that pods of the gang would share are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup, native_group_key
from mooring.columns.nodes import Nodes
from mooring.plugins.coscheduling.plugin import Coscheduling, gap
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup, group_key
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.scheduler.attempt_results import ScheduleFailure
from mooring.scheduler.engine import Engine
from mooring.scheduler.gang_suggestions import Gang, GangChange, GangOutcome, named, share_of
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.schedule_pod import evaluate_pod

_replace = msgspec.structs.replace
_Group = NativePodGroup | PodGroup


class PodGroupGang(Gang):
    """A PodGroup of the pod-by-pod engine."""

    def __init__(self, runner: PluginRunner, key: str, group: _Group | None, pods: list[Pod], *, native: bool) -> None:
        self.table = runner.table
        self.key = key
        self.minimum_field = "minCount" if native else "minMember"
        self.minimum = _minimum(group) if group is not None else 0
        placed = self.table.pods
        self.pending = sorted((pod for pod in pods if pod.uid not in placed), key=lambda pod: pod.name)
        self.placed = sum(pod.uid in placed for pod in pods)
        self._runner = runner
        self._group = group
        self._native = native

    def decide(self, change: GangChange) -> GangOutcome:
        """Place the pods one after another until enough have a node, or too few are left."""
        group = change.group if isinstance(change.group, NativePodGroup | PodGroup) else self._group
        if group is None:
            return GangOutcome(False)
        known = {pod.uid: pod for pod in (*self.pending, *change.pods)}
        pods = [_alone(pod) for pod in known.values() if not pod.spec.scheduling_gates]
        minimum = _minimum(group)
        if self.placed + len(pods) < minimum:
            return GangOutcome(False)
        with self._cluster_with(change):
            if isinstance(group, PodGroup) and not self._has_room(group, minimum):
                return GangOutcome(False, stuck=next(iter(known.values())))
            return self._place(pods, minimum)

    def _place(self, pods: list[Pod], minimum: int) -> GangOutcome:
        nodes: dict[str, str] = {}
        failure: tuple[Pod, ScheduleFailure] | None = None
        try:
            for number, pod in enumerate(pods):
                outcome, _ = evaluate_pod(self._runner, pod)
                if isinstance(outcome, ScheduleFailure):
                    failure = failure or (pod, outcome)
                    if self.placed + len(nodes) + len(pods) - number - 1 < minimum:
                        break
                else:
                    nodes[pod.uid] = outcome.node_name
                    self.table.add_pod(pod, outcome.node_name)
        finally:
            for uid in nodes:
                self.table.remove_pod(uid)
        starts = bool(nodes) and self.placed + len(nodes) >= minimum
        if failure is None or starts:
            return GangOutcome(starts, tuple(nodes.values()))
        statuses = failure[1].statuses
        causes = [] if statuses is None else [(status.plugin, rows) for status, rows in statuses.groups()]
        stuck = next((pod for pod in self.pending if pod.uid == failure[0].uid), failure[0])
        return GangOutcome(False, tuple(nodes.values()), stuck, tuple(causes))

    def _has_room(self, group: PodGroup, minimum: int) -> bool:
        """Return whether the nodes have room for spec.minResources, as Coscheduling requires."""
        if group.spec.min_resources is None:
            return True
        placed = self.table.pods
        own = [info for info in placed.values() if group_key(info.pod) == self.key] if self.placed else []
        return not gap(Nodes(self.table), group.spec.min_resources, minimum, own)

    def with_minimum(self, minimum: int) -> KubeObject | None:
        """Return the group with another minimum, and the same share of its minimum resources."""
        group = self._group
        if isinstance(group, NativePodGroup):
            policy = group.spec.scheduling_policy
            if policy.gang is None:
                return None
            policy = _replace(policy, gang=_replace(policy.gang, min_count=minimum))
            return _replace(group, spec=_replace(group.spec, scheduling_policy=policy))
        if group is None:
            return None
        least = group.spec.min_resources
        least = None if least is None else share_of(least, minimum, self.minimum)
        spec: Any = group.spec  # a struct at run time
        return _replace(group, spec=_replace(spec, min_member=minimum, min_resources=least))

    def changes(self, outcome: GangOutcome, after: GangChange) -> Iterator[GangChange]:
        """Yield changes for a group that does not exist, or whose pods do not exist or are gated."""
        if after.kind:
            return
        gated = [pod for pod in self.pending if pod.spec.scheduling_gates]
        if gated:
            text = f"Remove the scheduling gates of {len(gated)} pods: {named([pod.name for pod in gated])}"
            free = tuple(_replace(pod, spec=_replace(pod.spec, scheduling_gates=())) for pod in gated)
            yield GangChange("remove-gate", text, pods=free)
        if self._group is None:
            made = self._made(len(self.pending))
            yield GangChange("create-group", f"Create PodGroup {self.key}, which its pods name", made)
            return
        missing = self.minimum - self.placed - len(self.pending)
        if missing > 0:
            yield from self._more_pods(missing)

    def _more_pods(self, missing: int) -> Iterator[GangChange]:
        pattern = self.pending[-1]
        made = tuple(copy_of(pattern, number) for number in range(missing))
        count = self.placed + len(self.pending)
        exist = f"only {count} of at least {self.minimum} exist"
        what = "a pod" if missing == 1 else f"{missing} more pods"
        yield GangChange("create-pods", f"Create {what} of the group: {exist}", pods=made)
        text = f"Reduce {self.minimum_field} of PodGroup {self.key} from {self.minimum} to {count}"
        yield GangChange("reduce-minimum", text, self.with_minimum(count))

    def _made(self, minimum: int) -> KubeObject:
        namespace, _, name = self.key.partition("/")
        head = {"metadata": {"name": name, "namespace": namespace, "uid": f"new-{name}"}}
        if self._native:
            spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
            made: KubeObject = msgspec.convert({**head, "spec": spec}, NativePodGroup)
            return made
        return msgspec.convert({**head, "spec": {"minMember": minimum}}, PodGroup)


def gang_of(engine: Engine, pod: Pod) -> PodGroupGang | None:
    """Return the gang of a pod that an engine schedules; None if the pod is in no gang."""
    runner = engine.profiles.runners.get(pod.scheduler_name)
    if runner is None:
        return None
    plugins, objects = runner.profile.plugins, engine.cache.objects
    gangs = plugins.get(GangScheduling.name)
    key = native_group_key(pod)
    if key and isinstance(gangs, GangScheduling) and gangs.active:
        native = gangs.group_of(pod)
        pods = _with(pod, gangs.members(key))
        return PodGroupGang(runner, key, native, pods, native=True)
    key = group_key(pod)
    groups = plugins.get(Coscheduling.name)
    if key and isinstance(groups, Coscheduling):
        group = objects.lister(PodGroup).get(key.partition("/")[2], pod.namespace)
        return PodGroupGang(runner, key, group, _with(pod, groups.members(key)), native=False)
    return None


def _with(pod: Pod, pods: list[Pod]) -> list[Pod]:
    return pods if any(each.uid == pod.uid for each in pods) else [*pods, pod]


def _minimum(group: _Group) -> int:
    return group.spec.min_count if isinstance(group, NativePodGroup) else group.min_member


def _alone(pod: Pod) -> Pod:
    """Return a pod without a nomination and without its group, because it would be rejected alone."""
    labels = {name: value for name, value in pod.metadata.labels.items() if name != LABEL}
    return _replace(
        pod,
        metadata=_replace(pod.metadata, labels=labels),
        spec=_replace(pod.spec, scheduling_group=None),
        status=_replace(pod.status, nominated_node_name=""),
    )


def copy_of(pod: Pod, number: int) -> Pod:
    """Return another pod like a pod of a gang."""
    name = f"{pod.name}-new-{number}"
    return _replace(pod, metadata=_replace(pod.metadata, name=name, uid=f"{pod.uid}-new-{number}"))
