"""The minimum permissions of the controllers; `mooring.live.rbac_manifests` has those of the scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.hyper_nodes import TOPOLOGY_GROUP
from mooring.api.volcano import SCHEDULING_GROUP
from mooring.api.volcano_jobs import FLOW_GROUP, JOB_GROUP
from mooring.controllers.admission.manifests import (
    WEBHOOK_CONFIGURATION,
    WEBHOOK_SERVICE,
    cluster_rules,
    secret_rules,
)
from mooring.controllers.volcano_detection import DEPLOYMENTS, LEASE
from mooring.framework.plugin import Rule
from mooring.live.endpoints.client_ca import AUTHENTICATION_NAMESPACE
from mooring.live.rbac_manifests import LOOKING_UP, SERVING, Grantee, lease_rules, roles
from mooring.plugins.coscheduling.pod_group import PodGroup

_COMMUNITY: Final = PodGroup.declaration.group
_LISTING: Final = ("list", "watch")
READING: Final = (
    Rule(("",), ("namespaces", "nodes", "pods"), _LISTING),
    Rule(("apps",), ("replicasets", "statefulsets"), _LISTING),
    Rule(("scheduling.k8s.io",), ("priorityclasses",), _LISTING),
    Rule((SCHEDULING_GROUP,), ("podgroups", "queues"), _LISTING),
    Rule((JOB_GROUP,), ("cronjobs", "jobs"), _LISTING),
    Rule((FLOW_GROUP,), ("jobflows", "jobtemplates"), _LISTING),
    Rule((TOPOLOGY_GROUP,), ("hypernodes",), _LISTING),
    Rule(("bus.volcano.sh",), ("commands",), _LISTING),
    Rule((_COMMUNITY,), ("elasticquotas", "podgroups"), _LISTING),
    # Owners of pods for which PodGroups are created.
    Rule(("apps",), ("daemonsets",), ("get",)),
    Rule(("batch",), ("jobs",), ("get",)),
)
WRITING: Final = (
    Rule((SCHEDULING_GROUP,), ("queues",), ("create", "patch")),
    Rule((SCHEDULING_GROUP,), ("queues/status",), ("patch",)),
    Rule((SCHEDULING_GROUP,), ("podgroups",), ("create", "patch", "delete")),
    Rule((_COMMUNITY,), ("elasticquotas/status", "podgroups/status"), ("patch",)),
    Rule((JOB_GROUP,), ("jobs",), ("get", "create", "patch", "delete")),
    Rule((JOB_GROUP,), ("cronjobs/status", "jobs/status"), ("patch",)),
    Rule((FLOW_GROUP,), ("jobflows/status", "jobtemplates/status"), ("patch",)),
    Rule((TOPOLOGY_GROUP,), ("hypernodes",), ("create", "patch", "delete")),
    Rule((TOPOLOGY_GROUP,), ("hypernodes/status",), ("patch",)),
    # For clusters with OwnerReferencesPermissionEnforcement: objects with blockOwnerDeletion are created.
    Rule((JOB_GROUP,), ("cronjobs/finalizers", "jobs/finalizers"), ("update",)),
    Rule((FLOW_GROUP,), ("jobflows/finalizers",), ("update",)),
    Rule(("",), ("pods/finalizers",), ("update",)),
    Rule(("bus.volcano.sh",), ("commands",), ("delete",)),
    Rule(("",), ("pods",), ("create", "patch", "delete")),
    # Objects of job plugins and job volumes.
    Rule(("",), ("configmaps",), ("get", "create", "patch", "delete")),
    Rule(("",), ("secrets", "services"), ("get", "create", "delete")),
    Rule(("networking.k8s.io",), ("networkpolicies",), ("get", "create", "delete")),
    Rule(("",), ("persistentvolumeclaims",), ("get", "create")),
    Rule(("",), ("events",), ("create", "patch")),
)
#: For `volcano_detection`.
VOLCANO_DETECTION: Final = (
    Rule(("coordination.k8s.io",), ("leases",), ("get",), (LEASE,)),
    Rule(("apps",), ("deployments",), ("get",), DEPLOYMENTS),
)


def manifests(
    grantee: Grantee, *, served: bool = True, lease_name: str, extra: Iterable[Rule] = (), admission: bool = False
) -> list[dict[str, Any]]:
    """Return the roles of the controllers and their bindings. ``extra`` contains the rules of job plugins.

    ``admission`` adds those of the webhook, whose configurations, Service and namespace have their default names.
    The rules for detecting Volcano's controllers are cluster-wide, because Volcano's namespace need not exist.
    """
    rules = [*READING, *WRITING, *VOLCANO_DETECTION, *(SERVING if served else ()), *extra]
    by_namespace = {AUTHENTICATION_NAMESPACE: [*lease_rules(lease_name), *((LOOKING_UP,) if served else ())]}
    if admission:
        rules += cluster_rules(WEBHOOK_CONFIGURATION)
        by_namespace[AUTHENTICATION_NAMESPACE] += secret_rules(f"{WEBHOOK_SERVICE}-certificate")
    return roles(grantee, rules, by_namespace)
