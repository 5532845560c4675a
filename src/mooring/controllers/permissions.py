"""The least permissions that the controllers need; `mooring.live.rbac_manifests` has those of the scheduler."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.volcano import SCHEDULING_GROUP
from mooring.api.volcano_jobs import JOB_GROUP
from mooring.controllers.volcano_detection import DEPLOYMENTS, LEASE
from mooring.framework.plugin import Rule
from mooring.live.rbac_manifests import AUTHENTICATION_NAMESPACE, LOOKING_UP, SERVING, Grantee, lease_rules, roles
from mooring.plugins.coscheduling.pod_group import PodGroup

_COMMUNITY: Final = PodGroup.declaration.group
_LISTING: Final = ("list", "watch")
READING: Final = (
    Rule(("",), ("namespaces", "pods"), _LISTING),
    Rule(("apps",), ("replicasets", "statefulsets"), _LISTING),
    Rule(("scheduling.k8s.io",), ("priorityclasses",), _LISTING),
    Rule((SCHEDULING_GROUP,), ("podgroups", "queues"), _LISTING),
    Rule((JOB_GROUP,), ("jobs",), _LISTING),
    Rule(("bus.volcano.sh",), ("commands",), _LISTING),
    Rule((_COMMUNITY,), ("elasticquotas", "podgroups"), _LISTING),
    # What owns a pod that gets a group.
    Rule(("apps",), ("daemonsets",), ("get",)),
    Rule(("batch",), ("jobs",), ("get",)),
)
WRITING: Final = (
    Rule((SCHEDULING_GROUP,), ("queues",), ("create", "patch")),
    Rule((SCHEDULING_GROUP,), ("queues/status",), ("patch",)),
    Rule((SCHEDULING_GROUP,), ("podgroups",), ("create", "patch", "delete")),
    Rule((_COMMUNITY,), ("elasticquotas/status", "podgroups/status"), ("patch",)),
    Rule((JOB_GROUP,), ("jobs",), ("delete",)),
    Rule((JOB_GROUP,), ("jobs/status",), ("patch",)),
    # Where the cluster checks it: who makes an object that keeps its owner from going must be able to say so.
    Rule((JOB_GROUP,), ("jobs/finalizers",), ("update",)),
    Rule(("",), ("pods/finalizers",), ("update",)),
    Rule(("bus.volcano.sh",), ("commands",), ("delete",)),
    Rule(("",), ("pods",), ("create", "patch", "delete")),
    # What plugins and volumes of jobs need.
    Rule(("",), ("configmaps",), ("create", "patch", "delete")),
    Rule(("",), ("services",), ("create", "delete")),
    Rule(("networking.k8s.io",), ("networkpolicies",), ("create", "delete")),
    Rule(("",), ("persistentvolumeclaims",), ("get", "create")),
    Rule(("events.k8s.io",), ("events",), ("create", "patch")),
)
#: To see whether Volcano's own controllers run.
NEIGHBOURS: Final = (
    Rule(("coordination.k8s.io",), ("leases",), ("get",), (LEASE,)),
    Rule(("apps",), ("deployments",), ("get",), DEPLOYMENTS),
)


def manifests(grantee: Grantee, *, served: bool = True, lease_name: str) -> list[dict[str, Any]]:
    """The roles of the controllers, and their bindings.

    To see Volcano's controllers in their own namespace, a cluster-wide role is used: the namespace need not exist.
    """
    rules = [*READING, *WRITING, *NEIGHBOURS, *(SERVING if served else ())]
    by_namespace = {AUTHENTICATION_NAMESPACE: [*lease_rules(lease_name), *((LOOKING_UP,) if served else ())]}
    return roles(grantee, rules, by_namespace)
