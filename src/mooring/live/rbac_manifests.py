"""RBAC roles with the least permissions that a scheduler needs for its configuration.

`mooring rbac`, the Helm chart and the tests all use these roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.volcano import PodGroup
from mooring.batch.conf import BatchConf
from mooring.batch.device_config import CONFIG_MAP
from mooring.batch.device_kinds import config_map_place, locks_nodes, reads_reports
from mooring.batch.session_claims import SessionClaims
from mooring.config import SchedulerConfiguration
from mooring.framework.custom_resources import CustomResource
from mooring.framework.declarations import READING, permitted_kinds, rules_of
from mooring.framework.plugin import Plugin, Rule
from mooring.kube import resource_of
from mooring.live.endpoints.client_ca import AUTHENTICATION_CONFIG, AUTHENTICATION_NAMESPACE
from mooring.live.informers import BATCH_KINDS, DEVICE_KINDS, KINDS
from mooring.live.recording import WORKLOAD_KINDS

RBAC: Final = "rbac.authorization.k8s.io"
#: Built-in plugin -> the rule for its writes.
WRITING: Final = {
    "DefaultPreemption": Rule(("",), ("pods",), ("delete",)),
    "DefaultBinder": Rule(("",), ("pods/binding",), ("create",)),
    "GpuSharing": Rule(("",), ("pods",), ("patch",)),
    "VolumeBinding": Rule(("",), ("persistentvolumeclaims", "persistentvolumes"), ("patch",)),
}
#: The rule for annotating pods with suggestions and decisions, and for removing the scheduling gate of queue admission.
ANNOTATING: Final = Rule(("",), ("pods",), ("patch",))
#: The rules for endpoint authentication and authorization.
SERVING: Final = (
    Rule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    Rule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)
#: The rule for reading the client CA, in `AUTHENTICATION_NAMESPACE`.
LOOKING_UP: Final = Rule(("",), ("configmaps",), ("get",), (AUTHENTICATION_CONFIG,))
#: The rule for reading the ConfigMap of the session plugin deviceshare.
READING_DEVICES: Final = Rule(("",), ("configmaps",), ("get",), (CONFIG_MAP,))
#: The rule for reading what MindCluster reports about NPUs, for the same plugin.
READING_REPORTS: Final = Rule(("",), ("configmaps",), ("list",))
#: The rule for the node locks of the session plugin deviceshare.
LOCKING_NODES: Final = Rule(("",), ("nodes",), ("get", "patch"))
#: The rule for members of an active-active group, in the namespace of the leases: each run has another lease.
MEMBERSHIP: Final = Rule(
    ("coordination.k8s.io",), ("leases",), ("create", "get", "list", "update", "delete")
)  # fmt: skip
#: The paths that need authorization.
ENDPOINTS: Final = (
    "/configz", "/decisions", "/decisions/*", "/flagz", "/metrics", "/metrics/*", "/plugins", "/statusz"
)  # fmt: skip
#: The paths of the dashboard, and those to which questions are posted.
DASHBOARD: Final = ("/dashboard", "/dashboard/*")
DASHBOARD_POSTS: Final = ("/dashboard/api/what-if",)
#: The paths of the what-if service.
WHAT_IF: Final = ("/what-if", "/what-if/*")


class Grantee(msgspec.Struct, frozen=True):
    """The subject of the roles: a service account, or a user if one is given. ``name`` is the name of the roles."""

    service_account: str = "mooring"
    namespace: str = "kube-system"
    name: str = "mooring"
    user: str = ""

    def subject(self) -> dict[str, str]:
        """Return the subject of a binding."""
        if self.user:
            return {"apiGroup": RBAC, "kind": "User", "name": self.user}
        return {"kind": "ServiceAccount", "name": self.service_account, "namespace": self.namespace}


def cluster_rules(
    config: SchedulerConfiguration,
    *,
    served: bool = True,
    batch: BatchConf | bool = False,
    extra: Iterable[Rule] = (),
) -> list[Rule]:
    """Return the cluster-wide rules.

    ``batch`` is the configuration of batch sessions, or whether they run with Volcano's default configuration.
    ``extra`` contains the additional rules of plugins.
    """
    enabled = {plugin.name for profile in config.profiles for each in profile.plugins.values() for plugin in each}
    rules = [*base_rules(), *(rule for plugin, rule in WRITING.items() if plugin in enabled)]
    if batch:
        conf = batch if isinstance(batch, BatchConf) else None
        rules += [rule for rule in (*batch_rules(), *session_plugin_rules(conf)) if rule not in rules]
    return [*rules, *(SERVING if served else ()), *extra]


def base_rules() -> list[Rule]:
    """Return the rules for every configuration."""
    return [
        *_reading(),
        # If a response is lost, the scheduler reads the pod to find out whether it is bound.
        Rule(("",), ("pods",), ("get",)),
        Rule(("",), ("pods/status",), ("patch",)),
        Rule(("events.k8s.io",), ("events",), ("create", "patch")),
    ]


def read_only_rules(extra: Iterable[Rule] = ()) -> list[Rule]:
    """Return the rules for `mooring record` and `mooring shadow`, which change nothing."""
    # What-if scales these workloads; decisions do not depend on them.
    kinds: dict[type[KubeObject], None] = dict.fromkeys((*KINDS, *DEVICE_KINDS, *WORKLOAD_KINDS, *BATCH_KINDS))
    return [*_reading(kinds), READING_DEVICES, *(rule for rule in extra if set(rule.verbs) <= set(READING))]


def batch_rules() -> list[Rule]:
    """Return the additional rules for batch sessions: Volcano's resources, creating queues, binding and evicting."""
    volcano = (resource_of(PodGroup).group,)
    rules = [
        *_reading(kind for kind in BATCH_KINDS if kind not in KINDS),
        Rule(volcano, ("queues",), ("create",)),
        Rule(("",), ("events",), ("create", "patch")),
        READING_DEVICES,
        Rule(volcano, ("podgroups", "podgroups/status", "queues/status"), ("patch",)),
    ]
    # Sessions bind pods, volumes and devices and evict pods, independently of the profiles.
    rules += [WRITING[name] for name in ("DefaultPreemption", "DefaultBinder", "VolumeBinding")]
    return [*rules, *plugin_rules([SessionClaims])]


def session_plugin_rules(conf: BatchConf | None) -> list[Rule]:
    """Return the additional rules of session plugins, which depend on their arguments."""
    if conf is None:
        return []
    rules = [LOCKING_NODES] if locks_nodes(conf) else []
    if reads_reports(conf):
        rules.append(READING_REPORTS)
    _, config_map = config_map_place(conf)
    if config_map not in ("", CONFIG_MAP):
        rules.append(msgspec.structs.replace(READING_DEVICES, resource_names=(config_map,)))
    return rules


def plugin_rules(classes: Iterable[type[Plugin]]) -> list[Rule]:
    """Return the additional rules of plugins: to read the kinds that they list, and the rules that they declare."""
    classes = tuple(classes)
    others = [kind for kind in permitted_kinds(classes) if kind not in KINDS and not issubclass(kind, CustomResource)]
    places = [resource_of(kind) for kind in others]
    return [*rules_of(classes), *(Rule((place.group,), (place.plural,), READING) for place in places)]


def namespace_rules(
    config: SchedulerConfiguration, *, served: bool = True, active_active: bool = False
) -> dict[str, list[Rule]]:
    """Return the rules for individual namespaces."""
    rules: dict[str, list[Rule]] = {}
    election = config.leader_election
    if active_active:
        rules[election.resource_namespace] = [MEMBERSHIP]
    elif election.leader_elect:
        rules[election.resource_namespace] = lease_rules(election.resource_name)
    if served:
        allowed = rules.setdefault(AUTHENTICATION_NAMESPACE, [])
        allowed.append(LOOKING_UP)
    return rules


def lease_rules(name: str) -> list[Rule]:
    """Return the rules for holding a lease of this name, in its namespace."""
    group, leases = ("coordination.k8s.io",), ("leases",)
    # RBAC cannot restrict create by name.
    return [Rule(group, leases, ("create",)), Rule(group, leases, ("get", "update"), (name,))]


def manifests(
    config: SchedulerConfiguration,
    grantee: Grantee,
    *,
    served: bool = True,
    batch: BatchConf | bool = False,
    viewer: bool = False,
    dashboard: bool = False,
    active_active: bool = False,
    what_if: bool = False,
    extra: Iterable[Rule] = (),
) -> list[dict[str, Any]]:
    """Return the roles and their bindings; `cluster_rules` describes ``batch`` and ``extra``.

    With ``viewer``, also an unbound role for reading the endpoints; with ``dashboard``, one for the dashboard; with
    ``what_if``, one for clients of the what-if service.
    """
    rules = cluster_rules(config, served=served, batch=batch, extra=extra)
    found = roles(grantee, rules, namespace_rules(config, served=served, active_active=active_active))
    if viewer:
        endpoints = [{"nonResourceURLs": list(ENDPOINTS), "verbs": ["get"]}]
        found.append(_object("ClusterRole", f"{grantee.name}-viewer", rules=endpoints))
    if dashboard:
        found.append(_object("ClusterRole", f"{grantee.name}-dashboard", rules=dashboard_rules()))
    if what_if:
        found.append(_object("ClusterRole", f"{grantee.name}-what-if", rules=what_if_rules()))
    return found


def dashboard_rules() -> list[dict[str, Any]]:
    """Return the rules for people who use the dashboard."""
    return [
        {"nonResourceURLs": list(DASHBOARD), "verbs": ["get"]},
        {"nonResourceURLs": list(DASHBOARD_POSTS), "verbs": ["post"]},
    ]


def what_if_rules() -> list[dict[str, Any]]:
    """Return the rules for clients of the what-if service."""
    return [{"nonResourceURLs": list(WHAT_IF), "verbs": ["get", "post", "delete"]}]


def _reading(kinds: Iterable[type[KubeObject]] = KINDS) -> Iterator[Rule]:
    """Yield a rule for each API group of the watched kinds."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        resource = resource_of(kind)
        groups.setdefault(resource.group, []).append(resource.plural)
    for group, plurals in groups.items():
        yield Rule((group,), tuple(sorted(plurals)), ("list", "watch"))


def roles(grantee: Grantee, rules: Iterable[Rule], by_namespace: Mapping[str, Iterable[Rule]]) -> list[dict[str, Any]]:
    """Return a ClusterRole with these rules, a Role for each namespace, and their bindings."""
    found = [_object("ClusterRole", grantee.name, rules=_documents(rules)), _binding("Cluster", grantee)]
    for namespace, allowed in by_namespace.items():
        found.append(_object("Role", grantee.name, namespace, rules=_documents(allowed)))
        found.append(_binding("", grantee, namespace))
    return found


def _documents(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    return [rule.document() for rule in rules]


def _object(kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **rest}


def _binding(scope: str, grantee: Grantee, namespace: str = "") -> dict[str, Any]:
    role = {"apiGroup": RBAC, "kind": f"{scope}Role", "name": grantee.name}
    return _object(f"{scope}RoleBinding", grantee.name, namespace, roleRef=role, subjects=[grantee.subject()])
