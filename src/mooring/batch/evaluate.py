"""Evaluates sessions offline: a configuration and objects in, Volcano's decisions out."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from mooring.api.codec import Unknown, decode_object
from mooring.api.core import Namespace
from mooring.api.decode_errors import ManifestError
from mooring.api.devices import ResourceClaim, ResourceClaimStatus
from mooring.api.meta import Condition, KubeObject, parse_time
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.volcano import PodGroup, PodGroupStatus, Queue
from mooring.batch.actions import ACTIONS
from mooring.batch.cluster import BatchCluster
from mooring.batch.conf import BatchConf, read_conf
from mooring.batch.cpu_sets import format_cpus
from mooring.batch.debug_dump import at_open
from mooring.batch.device_config import DEFAULT, DeviceConfig, DeviceConfigError, config_of
from mooring.batch.device_kinds import config_map_place
from mooring.batch.kube_plugins import RELEASE
from mooring.batch.mindcluster_reports import in_places, npu_reports, report_places
from mooring.batch.plugins import PLUGINS
from mooring.batch.plugins.numa_aware import NumaAware
from mooring.batch.run import Outcome, PodNote, close_session, open_session, run_actions
from mooring.batch.session import NodeUsage, Session
from mooring.batch.task import ALLOCATED, PIPELINED, TaskInfo
from mooring.columns.table import NodeTable
from mooring.config.config_errors import ConfigError
from mooring.framework.handle import Handle
from mooring.framework.listers import ObjectStore

_MONTH = 30 * 86_400
_NOON = 12


class CaseError(ValueError):
    """A case is invalid."""


def evaluate(
    case: Mapping[str, Any], *, trace: bool = False, plugins: Mapping[str, type[Any]] = PLUGINS
) -> dict[str, Any]:
    """Evaluate one case: ``{"conf": text, "objects": [...], "sessions"?: 2, "then"?: [...], "usage"?: {...}}``.

    The objects in ``then`` replace others before the second session. ``usage`` has the measured load of nodes, in per
    cent: ``{"node-1": {"cpu": 80, "memory": 50}}``.
    """
    conf = _conf(case.get("conf"), plugins)
    objects, then = list(_objects(case)), list(_objects(case, "then"))
    sessions = case.get("sessions", 1)
    if sessions not in (1, 2):
        raise CaseError("sessions: give 1 or 2")
    config = offline_device_config(case.get("objects", []), conf)
    cluster = offline_cluster(objects)
    cluster.device_config = config
    cluster.usage = _usage(case.get("usage", {}), cluster.handle.clock())
    answer, after = _session(conf, cluster, objects, trace, plugins)
    if sessions == 2:
        following = offline_cluster(after)
        following.device_config = config
        following.memory = cluster.memory
        following.usage = cluster.usage
        for item in then:
            following.handle.lister(type(item)).put(item)
        answer["next"] = _session(conf, following, after, trace, plugins)[0]
    return answer


def _conf(text: object, plugins: Mapping[str, type[Any]]) -> BatchConf:
    if not isinstance(text, str):
        raise CaseError("conf: not text; give the text of a volcano-scheduler.conf")
    try:
        return read_conf(text, source="conf", actions=ACTIONS, plugins=plugins, both_spellings=False)
    except ConfigError as error:
        raise CaseError(str(error)) from None


def _usage(given: object, now: float) -> dict[str, NodeUsage]:
    try:
        loads = msgspec.convert(given, dict[str, dict[Literal["cpu", "memory"], float]])
    except msgspec.ValidationError as error:
        raise CaseError(f"usage: {error}") from None
    return {name: NodeUsage(load.get("cpu", 0.0), load.get("memory", 0.0), now) for name, load in loads.items()}


def _objects(case: Mapping[str, Any], key: str = "objects") -> Iterator[KubeObject]:
    given = case.get(key, [])
    if not isinstance(given, list):
        raise CaseError(f"{key}: not a list; give the cluster's objects as a list")
    for number, raw in enumerate(given):
        if not isinstance(raw, dict):
            raise CaseError(f"{key}[{number}]: not an object")
        try:
            item = decode_object(raw)
        except ManifestError as error:
            raise CaseError(f"{key}[{number}]: {error}") from None
        if isinstance(item, KubeObject):
            yield item


def offline_device_config(objects: Iterable[Mapping[str, Any]], conf: BatchConf) -> DeviceConfig:
    """Return the ConfigMap of the device plugins, or the default, with what MindCluster reports."""
    config_maps = [raw for raw in objects if raw.get("kind") == "ConfigMap"]
    places = report_places(conf)
    reports = npu_reports(conf, [raw for raw in config_maps if in_places(raw, places)])
    return msgspec.structs.replace(_offline_config_map(config_maps, conf), reports=reports)


def _offline_config_map(config_maps: Iterable[Mapping[str, Any]], conf: BatchConf) -> DeviceConfig:
    namespace, name = config_map_place(conf)
    for raw in config_maps:
        if name:
            item = decode_object(dict(raw))
            if isinstance(item, Unknown) and (item.metadata.namespace, item.name) == (namespace, name):
                try:
                    return config_of(raw.get("data") or {})
                except DeviceConfigError:
                    break
    return DEFAULT


def _session(
    conf: BatchConf, cluster: BatchCluster, objects: list[KubeObject], trace: bool, plugins: Mapping[str, type[Any]]
) -> tuple[dict[str, Any], list[KubeObject]]:
    session = cluster.session(conf)
    session.journal = []
    opened = open_session(session, plugins)
    traced = at_open(session, opened) if trace else {}
    run_actions(session)
    outcome = close_session(session, opened)
    answer = _answer(session, outcome)
    if trace:
        held = sorted(task.key for job in session.jobs.values() for task in job.of_status(ALLOCATED))
        answer["trace"] = {**traced, "ops": session.journal, **({"held": held} if held else {})}
    return answer, list(_after(session, outcome, objects))


def offline_cluster(objects: list[KubeObject]) -> BatchCluster:
    """Return objects as a cluster without a scheduler; the time is noon, a month after the last creation timestamp."""
    created = [each.metadata.creation_timestamp for each in objects]
    latest = max((parse_time(text) for text in created if text), default=time.time())
    noon = datetime.fromtimestamp(latest + _MONTH).replace(hour=_NOON, minute=0, second=0, microsecond=0).timestamp()
    table, store = NodeTable(RELEASE), ObjectStore()
    handle = Handle(table=table, objects=store, clock=lambda: noon, rng=random.Random(0))
    cluster = BatchCluster(handle, images_on_arrival=True, hides_unevicted=True)
    for item in objects:
        if isinstance(item, Node):
            table.add_node(item)
        elif isinstance(item, Namespace):
            table.set_namespace(item.name, item.labels)
        elif not isinstance(item, Pod) or not item.is_finished:
            store.put(item)
    for item in objects:
        if isinstance(item, Pod):
            cluster.put(item)
            if item.node_name and not item.is_finished:
                table.add_pod(item)
    return cluster


def _answer(session: Session, outcome: Outcome) -> dict[str, Any]:
    pipelined = [task for job in session.jobs.values() for task in job.of_status(PIPELINED)]
    views = session.memory.get(NumaAware.name, {})
    free = {name: format_cpus(view.free) for name, view in sorted(views.items()) if view.free is not None}
    annotated = {task.key: dict(task.annotations) for task in session.bindings if task.annotations}
    locks = sorted(
        f"{task.node_name} {lock.name}"
        for task in session.bindings
        for lock in session.node_locks.get(task.uid, ())
        if lock.stays
    )
    return {
        "bound": {task.key: task.node_name for task in sorted(session.bindings, key=lambda task: task.key)},
        "pipelined": {task.key: task.node_name for task in sorted(pipelined, key=lambda task: task.key)},
        "evicted": sorted(task.key for task, _ in session.evictions),
        "podGroups": {uid: _group(status) for uid, status in sorted(outcome.groups.items())},
        "pods": {note.task.key: _pod(note) for note in outcome.pods if _changes(note)},
        "queues": {name: {"allocated": held} for name, held in sorted(outcome.queues.items())},
        **({"annotations": dict(sorted(annotated.items()))} if annotated else {}),
        **({"locks": locks} if locks else {}),
        **({"numa": free} if free else {}),
    }


def _group(status: PodGroupStatus) -> dict[str, Any]:
    shown: dict[str, Any] = {"phase": status.phase}
    for name in ("running", "succeeded", "failed"):
        if getattr(status, name):
            shown[name] = getattr(status, name)
    conditions = []
    for each in status.conditions:
        condition = {"type": each.type, "status": each.status, "reason": each.reason}
        message = each.message.partition(" Origin reason is")[0]
        if message:
            condition["message"] = message
        conditions.append(condition)
    if conditions:
        shown["conditions"] = conditions
    return shown


def _pod(note: PodNote) -> dict[str, Any]:
    shown: dict[str, Any] = {"reason": note.reason.reason}
    nominated = note.reason.nominated_node or note.task.pod.status.nominated_node_name
    if nominated:
        shown["nominatedNode"] = nominated
    return shown


def _changes(note: PodNote) -> bool:
    """Return whether a pod's status would be written."""
    pod, reason = note.task.pod, note.reason
    known = pod.condition("PodScheduled")
    if known is None or (known.status, known.reason, known.message) != ("False", reason.reason, reason.message):
        return True
    return bool(reason.nominated_node) and reason.nominated_node != pod.status.nominated_node_name


# The objects of the second session


def _after(session: Session, outcome: Outcome, objects: list[KubeObject]) -> Iterator[KubeObject]:
    bound = {task.uid: task for task in session.bindings}
    gone = {task.uid for task, _ in session.evictions}
    notes = {note.task.uid: note for note in outcome.pods}
    reserved = session.kube.device_reservations
    claims = {claim.uid: claim for uid in bound if uid in reserved for claim in reserved[uid].written_claims()}
    replace = msgspec.structs.replace
    for item in objects:
        if isinstance(item, Pod):
            if item.uid in gone or item.is_terminating:
                continue
            yield _pod_after(item, bound.get(item.uid), notes.get(item.uid))
        elif isinstance(item, PodGroup):
            status = outcome.groups.get(item.key)
            yield item if status is None else replace(item, status=status)
        elif isinstance(item, Queue):
            held = outcome.queues.get(item.name, {})
            yield replace(item, status=replace(item.status, allocated=dict(held)))
        elif isinstance(item, ResourceClaim):
            claim = _claim_after(claims.get(item.uid, item), gone)
            if claim is not None:
                yield claim
        else:
            yield item


def _claim_after(claim: ResourceClaim, gone: set[str]) -> ResourceClaim | None:
    """Return a claim without the pods that are gone; None if one of them owned it."""
    if any(owner.uid in gone and owner.controller for owner in claim.metadata.owner_references):
        return None
    users = tuple(each for each in claim.status.reserved_for if each.uid not in gone)
    if users == claim.status.reserved_for:
        return claim
    replace = msgspec.structs.replace
    return replace(claim, status=replace(claim.status, reserved_for=users) if users else ResourceClaimStatus())


def _pod_after(pod: Pod, task: TaskInfo | None, note: PodNote | None) -> Pod:
    replace = msgspec.structs.replace
    if task is not None:
        conditions = (*(c for c in pod.status.conditions if c.type != "PodScheduled"),)
        scheduled = Condition(type="PodScheduled", status="True")
        status = replace(pod.status, phase="Running", conditions=(*conditions, scheduled))
        return replace(task.pod, spec=replace(pod.spec, node_name=task.node_name), status=status)
    if note is None:
        return pod
    condition = Condition(type="PodScheduled", status="False", reason=note.reason.reason, message=note.reason.message)
    others = tuple(c for c in pod.status.conditions if c.type != "PodScheduled")
    nominated = note.reason.nominated_node or pod.status.nominated_node_name
    return replace(pod, status=replace(pod.status, conditions=(*others, condition), nominated_node_name=nominated))
