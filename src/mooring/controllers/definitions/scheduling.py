"""The definitions of Queue and PodGroup (scheduling.volcano.sh), equivalent to Volcano's."""

from __future__ import annotations

from mooring.api.volcano import SCHEDULING_GROUP
from mooring.controllers.definitions.structural_schema import (
    ATOMIC_LIST,
    SUBDOMAIN,
    Schema,
    amounts,
    column,
    count,
    definition,
    flag,
    label_selector,
    listed,
    made_of,
    mapped,
    moment,
    name,
    network_topology,
    number,
    text,
)
from mooring.controllers.definitions.validation_rules import POD_GROUP_RULES, QUEUE_RULES

_VERSION = "v1beta1"
_AGE = column("AGE", ".metadata.creationTimestamp", "date")


def _node_groups() -> Schema:
    when = "DuringSchedulingIgnoredDuringExecution"
    return made_of({f"required{when}": listed(text()), f"preferred{when}": listed(text())})


def _queue_spec() -> Schema:
    return made_of(
        {
            "weight": number(minimum=1, maximum=65535, default=1),
            "capability": amounts(),
            "deserved": amounts(),
            "guarantee": made_of({"resource": amounts()}),
            "reclaimable": flag(),
            "parent": name(pattern=SUBDOMAIN),
            "priority": count(),
            "affinity": made_of({"nodeGroupAffinity": _node_groups(), "nodeGroupAntiAffinity": _node_groups()}),
            "type": name(),
            "dequeueStrategy": text("fifo", "traverse", default="traverse"),
            "extendClusters": listed(made_of({"name": text(), "weight": number(), "capacity": amounts()})),
        }
    )


def _queue_status() -> Schema:
    phases = {phase: count() for phase in ("unknown", "pending", "running", "inqueue", "completed")}
    return made_of(
        {
            "state": text("Open", "Closed", "Closing", "Unknown"),
            "allocated": amounts(),
            **phases,
            "reservation": made_of({"nodes": listed(text()), "resource": amounts()}),
        }
    )


QUEUE = definition(
    SCHEDULING_GROUP,
    _VERSION,
    "Queue",
    properties={"spec": _queue_spec(), "status": _queue_status()},
    columns=(
        column("PARENT", ".spec.parent"),
        column("STATE", ".status.state"),
        column("WEIGHT", ".spec.weight", "integer"),
        column("RUNNING", ".status.running", "integer", priority=1),
        column("PENDING", ".status.pending", "integer", priority=1),
        _AGE,
    ),
    short_names=("q", "queue-v1beta1"),
    namespaced=False,
    status=True,
    rules=QUEUE_RULES,
)


def _sub_group() -> Schema:
    return made_of(
        {
            "name": name(),
            "subGroupSize": number(minimum=1, default=1),
            "minSubGroups": count(default=0),
            "labelSelector": label_selector(),
            "matchLabelKeys": listed(text(), **ATOMIC_LIST),
            "networkTopology": network_topology(),
        }
    )


def _group_spec() -> Schema:
    return made_of(
        {
            "minMember": count(),
            "minTaskMember": mapped(number()),
            "minResources": amounts(),
            "queue": name(default="default", pattern=SUBDOMAIN),
            "priorityClassName": name(),
            "networkTopology": network_topology(),
            "subGroupPolicy": listed(_sub_group()),
        }
    )


def _group_status() -> Schema:
    condition = made_of(
        {
            "type": text(),
            "status": text(),
            "transitionID": text(),
            "lastTransitionTime": moment(),
            "reason": text(),
            "message": text(),
        }
    )
    return made_of(
        {
            "phase": text("Pending", "Running", "Unknown", "Inqueue", "Completed"),
            "conditions": listed(condition),
            "running": count(),
            "succeeded": count(),
            "failed": count(),
        }
    )


#: Without a status subresource, as in Volcano, whose scheduler updates the whole PodGroup.
POD_GROUP = definition(
    SCHEDULING_GROUP,
    _VERSION,
    "PodGroup",
    properties={"spec": _group_spec(), "status": _group_status()},
    columns=(
        column("STATUS", ".status.phase"),
        column("minMember", ".spec.minMember", "integer"),
        column("RUNNINGS", ".status.running", "integer"),
        _AGE,
        column("QUEUE", ".spec.queue", priority=1),
    ),
    short_names=("pg", "podgroup-v1beta1"),
    rules=POD_GROUP_RULES,
)
