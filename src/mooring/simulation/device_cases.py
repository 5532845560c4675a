"""Devices in cases for `evaluate`: pods in flight, allocations, the writes of PreBind, and queueing hints."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.devices import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from mooring.api.meta import KubeObject, format_time
from mooring.api.pod import Pod
from mooring.framework.custom_resources import event_name
from mooring.framework.device_allocations import claim_statuses
from mooring.framework.events import POD_EVENTS, ActionType, ClusterEvent, Hint
from mooring.framework.state import CycleState
from mooring.framework.status import Code, Status
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.scheduler import binding
from mooring.scheduler.answers import PluginFailure, as_status
from mooring.scheduler.cache import placed
from mooring.scheduler.engine import Engine
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.simulation.cases import CaseError, object_of, pod_of

DEVICE_KINDS: Final = (DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice, DeviceTaintRule)
#: What random and current values read in answers.
_SHARE, _NOW = "SHARE", "NOW"

_replace = msgspec.structs.replace


class _Waits(BaseException):
    """PreBind would go on waiting."""


class RecordingClaimWriter:
    """A claim writer that records every write as kube-scheduler makes it. Nothing is awaited."""

    shares_allocations = False
    patient = True

    def __init__(self) -> None:
        self.writes: list[dict[str, Any]] = []
        #: The time, which reads NOW.
        self.now = ""

    def take(self) -> list[dict[str, Any]]:
        """Return the writes since the last call."""
        found, self.writes = self.writes, []
        return found

    def _record(self, verb: str, resource: str, name: str, **rest: Any) -> None:
        self.writes.append({"verb": verb, "resource": resource, "name": name, **rest})

    async def until_written(
        self, claim: ResourceClaim, outcome: asyncio.Future[ResourceClaim | None]
    ) -> ResourceClaim | None:
        """Wait for the write of another pod; there is none."""
        return await outcome

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim: it does not change."""
        return claim

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Record the claim, and make up a name."""
        name = f"{claim.metadata.generate_name}00001"
        shown = {key: value for key, value in _plain(claim).items() if key in ("metadata", "spec")}
        self._record("create", "resourceclaims", name, object={"status": {}, **shown})
        return _replace(claim, metadata=_replace(claim.metadata, name=name, uid="uid-created-1"))

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        """Record the finalizers."""
        self._record("update", "resourceclaims", claim.name, finalizers=list(claim.metadata.finalizers))
        return claim

    async def update_status(self, claim: ResourceClaim, before: ResourceClaim) -> ResourceClaim:
        """Record the status."""
        status = shown_allocation(_plain(claim.status), self.now)
        self._record("update", "resourceclaims", claim.name, subresource="status", status=status)
        return claim

    async def unreserve(self, claim: ResourceClaim, uid: str) -> ResourceClaim:
        """Record the patch."""
        patch = {"metadata": {"uid": claim.uid}, "status": {"reservedFor": [{"$patch": "delete", "uid": uid}]}}
        self._record("patch", "resourceclaims", claim.name, subresource="status", patch=patch)
        users = tuple(each for each in claim.status.reserved_for if each.uid != uid)
        return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=users))

    async def delete(self, claim: ResourceClaim) -> None:
        """Record the deletion."""
        self._record("delete", "resourceclaims", claim.name)

    async def patch_pod_status(self, pod: Pod, patch: dict[str, Any], *, merge: bool = False) -> None:
        """Record the patch."""
        self._record("patch", "pods", pod.name, subresource="status", patch=_plain(patch))

    async def pause(self, seconds: float) -> None:
        """End PreBind: it waits for a driver."""
        raise _Waits

    def start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run the work at once."""
        run_at_once(work)

    def waited(self, profile: str, claims: Sequence[ResourceClaim], status: str, seconds: float) -> None:
        """Record nothing: there are no metrics."""


def run_at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the coroutine waits")


def shown_allocation(value: Any, now: str) -> Any:
    """Return plain data with placeholders for random and current values."""
    if isinstance(value, dict):
        shown = {key: shown_allocation(item, now) for key, item in value.items()}
        if "shareID" in shown:
            shown["shareID"] = _SHARE
        if now and shown.get("allocationTimestamp") == now:
            shown["allocationTimestamp"] = _NOW
        return shown
    return [shown_allocation(item, now) for item in value] if isinstance(value, (list, tuple)) else value


def has_devices(case: Mapping[str, Any]) -> bool:
    """Return whether a case is about devices: it has claims, classes or slices, or its pod refers to claims."""
    kinds = {kind.__name__ for kind in DEVICE_KINDS}
    objects, pod = case.get("objects"), case.get("pod")
    spec = pod.get("spec") if isinstance(pod, dict) else None
    if "before" in case or "events" in case or (isinstance(spec, dict) and spec.get("resourceClaims")):
        return True
    return isinstance(objects, list) and any(isinstance(each, dict) and each.get("kind") in kinds for each in objects)


class DeviceCase:
    """The parts of a case and of its answer that concern devices."""

    def __init__(self, engine: Engine, case: Mapping[str, Any], writer: RecordingClaimWriter) -> None:
        self._engine = engine
        self._runner: PluginRunner = engine.profiles.first
        self._case = case
        self._writer = writer
        writer.now = format_time(engine.profiles.first.handle.clock())
        plugin = self._runner.profile.plugins.get("DynamicResources")
        self._plugin = plugin if isinstance(plugin, DynamicResources) else None

    def place_before(self) -> None:
        """Run pods through a scheduling cycle up to Reserve. Raises CaseError."""
        given = self._case.get("before", [])
        if not isinstance(given, list):
            raise CaseError("before: not a list; give objects with pod and node")
        for number, entry in enumerate(given):
            where = f"before[{number}]"
            if not isinstance(entry, dict) or not isinstance(entry.get("node"), str):
                raise CaseError(f"{where}.node: not a name; give the node that the pod was placed on")
            self._place(pod_of(entry.get("pod"), f"{where}.pod"), entry["node"], where)

    def _place(self, pod: Pod, node_name: str, where: str) -> None:
        runner, cache = self._runner, self._engine.cache
        row = cache.table.row_of.get(node_name)
        if row is None:
            raise CaseError(f"{where}.node: there is no node {node_name!r} among the objects")
        cache.objects.put(pod)
        state = CycleState()
        if runner.pre_filter(state, pod).status.is_success:
            with contextlib.suppress(PluginFailure):  # then nothing is in flight
                runner.filter_node(state, pod, cache.table.nodes[row])
        assumed = cache.assume(pod, node_name, claim_statuses(state, node_name)).pod
        binding.reserve(runner.profile, state, assumed, node_name)

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return the plugin's verdict on a pod that is about to be queued."""
        for bound in self._runner.profile.pre_enqueue:
            if bound.name == "DynamicResources":
                return as_status(bound.call(pod)).by(bound.name)
        return Status()

    def allocations(self, state: CycleState, pod: Pod, names: list[str]) -> dict[str, Any]:
        """Return what would be allocated on some nodes."""
        found: dict[str, Any] = {}
        for name in names if self._plugin is not None else ():
            assert self._plugin is not None
            chosen = self._plugin.allocations(state, pod, name)
            if chosen is None:
                continue
            plan, allocations = chosen
            found[name] = {}
            for claim, allocation in zip(plan.claims, allocations.values(), strict=True):
                shown = _allocation(allocation)
                if claim.metadata.generate_name:
                    shown["requests"] = _plain(plan.requests)
                    shown["mappings"] = _plain(plan.mappings)
                found[name][claim.name] = {k: value for k, value in shown.items() if value or k == "devices"}
        return found

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> dict[str, Any] | None:
        """Return what Reserve and PreBind do for a node; None without claims."""
        plugin = self._plugin
        if plugin is None or plugin.pre_bind_pre_flight(state, pod, node_name) is not None:
            return None
        pod = placed(pod, node_name, claim_statuses(state, node_name))
        status = as_status(plugin.reserve(state, pod, node_name))
        shown: dict[str, Any] = {"node": node_name, "reserve": _status(status)}
        self._writer.take()
        if status.is_success:
            shown["preBind"] = self._pre_bind(plugin, state, pod, node_name)
        writes = self._writer.take()
        return shown | ({"writes": writes} if writes else {})

    def _pre_bind(self, plugin: DynamicResources, state: CycleState, pod: Pod, node_name: str) -> dict[str, Any]:
        work: Any = plugin.pre_bind(state, pod, node_name)
        try:
            return _status(as_status(run_at_once(work)))
        except _Waits:
            return {"code": Code.WAIT.title, "plugin": plugin.name}

    def hints(self, pod: Pod) -> list[str]:
        """Return the plugin's hint for each event. Raises CaseError."""
        given = self._case.get("events", [])
        if not isinstance(given, list):
            raise CaseError("events: not a list; give objects with resource, old and new")
        registered = self._plugin.events_to_register() if self._plugin is not None else []
        return [self._hint(pod, registered, each, f"events[{number}]") for number, each in enumerate(given)]

    def _hint(self, pod: Pod, registered: list[ClusterEvent], event: Any, where: str) -> str:
        if not isinstance(event, dict):
            raise CaseError(f"{where}: not an object with resource, old and new")
        old = object_of(event["old"], f"{where}.old") if event.get("old") else None
        new = object_of(event["new"], f"{where}.new") if event.get("new") else None
        resource, action = _event(old, new)
        resources = {resource, *POD_EVENTS} if resource == "Pod" else {resource}
        covering = [each for each in registered if each.resource in resources and each.actions & action]
        if not covering:
            return "not registered"
        queues = any(each.hint is None or each.hint(pod, old, new) is Hint.QUEUE for each in covering)
        return "Queue" if queues else "Skip"

    def writes(self) -> list[dict[str, Any]]:
        """Return what was written since the last call."""
        return self._writer.take()


def _event(old: KubeObject | None, new: KubeObject | None) -> tuple[str, ActionType]:
    """Return the resource and the action of an event. An update counts as any update of its kind."""
    item = new if new is not None else old
    if item is None:
        raise CaseError("events: an event needs old or new")
    action = ActionType.ADD if old is None else ActionType.DELETE if new is None else ActionType.UPDATE
    return event_name(type(item)), action


def _plain(value: Any) -> Any:
    """Return plain dictionaries and lists."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _allocation(allocation: AllocationResult) -> dict[str, Any]:
    shown = shown_allocation(_plain(allocation), "")
    devices = shown.get("devices", {})
    return {
        "devices": devices.get("results", []),
        "config": devices.get("config"),
        "nodeSelector": shown.get("nodeSelector"),
    }


def _status(status: Status) -> dict[str, Any]:
    return {"code": status.code.title, "reasons": list(status.reasons)}
