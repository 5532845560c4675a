"""What a scheduler must be allowed to do on a cluster: the least, for the configuration in force.

One place for the command `mooring rbac`, the Helm chart and the tests that run under exactly this role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.volcano import PodGroup
from mooring.config import SchedulerConfiguration
from mooring.framework.custom_resources import CustomResource
from mooring.framework.declarations import READING, declared_kinds, rules_of
from mooring.framework.plugin import Plugin, Rule
from mooring.kube import resource_of
from mooring.live.batch.scheduler import KINDS as BATCH_KINDS
from mooring.live.informers import KINDS

RBAC: Final = "rbac.authorization.k8s.io"
#: Where a cluster says by which authority its users' certificates are signed.
AUTHENTICATION_NAMESPACE: Final = "kube-system"
AUTHENTICATION_CONFIG: Final = "extension-apiserver-authentication"
#: Built-in plugins that write, and what.
WRITING: Final = {
    "DefaultPreemption": Rule(("",), ("pods",), ("delete",)),
    "DefaultBinder": Rule(("",), ("pods/binding",), ("create",)),
    "VolumeBinding": Rule(("",), ("persistentvolumeclaims", "persistentvolumes"), ("patch",)),
}
#: To ask who a reader of the endpoints is, and whether they may.
SERVING: Final = (
    Rule(("authentication.k8s.io",), ("tokenreviews",), ("create",)),
    Rule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)),
)
#: In `AUTHENTICATION_NAMESPACE`.
LOOKING_UP: Final = Rule(("",), ("configmaps",), ("get",), (AUTHENTICATION_CONFIG,))
#: What is served to those who are let in, beside health.
ENDPOINTS: Final = (
    "/configz", "/decisions", "/decisions/*", "/flagz", "/metrics", "/metrics/*", "/plugins", "/statusz"
)  # fmt: skip


class Grantee(msgspec.Struct, frozen=True):
    """Who is allowed: a service account, or a user if one is named; ``name`` is what the roles are called."""

    service_account: str = "mooring"
    namespace: str = "kube-system"
    name: str = "mooring"
    user: str = ""

    def subject(self) -> dict[str, str]:
        """As it stands in a binding."""
        if self.user:
            return {"apiGroup": RBAC, "kind": "User", "name": self.user}
        return {"kind": "ServiceAccount", "name": self.service_account, "namespace": self.namespace}


def cluster_rules(
    config: SchedulerConfiguration, *, served: bool = True, batch: bool = False, extra: Iterable[Rule] = ()
) -> list[Rule]:
    """What must be allowed in all namespaces. ``extra`` is what plugins need beside, for resources of their own."""
    enabled = {plugin.name for profile in config.profiles for each in profile.plugins.values() for plugin in each}
    rules = [*base_rules(), *(rule for plugin, rule in WRITING.items() if plugin in enabled)]
    rules += [rule for rule in batch_rules() if rule not in rules] if batch else []
    return [*rules, *(SERVING if served else ()), *extra]


def base_rules() -> list[Rule]:
    """What every scheduler does, whatever its configuration."""
    return [
        *_reading(),
        # After an answer was lost, the pod itself tells whether it is bound.
        Rule(("",), ("pods",), ("get",)),
        Rule(("",), ("pods/status",), ("patch",)),
        Rule(("events.k8s.io",), ("events",), ("create", "patch")),
    ]


def batch_rules() -> list[Rule]:
    """What batch sessions do beside: Volcano's resources, the queues that every cluster has, and evictions."""
    volcano = (resource_of(PodGroup).group,)
    rules = [
        *_reading(kind for kind in BATCH_KINDS if kind not in KINDS),
        Rule(volcano, ("queues",), ("create",)),
        Rule(volcano, ("podgroups", "podgroups/status", "queues/status"), ("patch",)),
    ]
    # Sessions bind, also volumes, and evict, whatever the profiles of the other pods do.
    return [*rules, *WRITING.values()]


def plugin_rules(classes: Iterable[type[Plugin]]) -> list[Rule]:
    """What plugins need beside: to read the kinds that they list and no scheduler reads, and what they ask for."""
    classes = tuple(classes)
    others = [kind for kind in declared_kinds(classes) if kind not in KINDS and not issubclass(kind, CustomResource)]
    places = [resource_of(kind) for kind in others]
    return [*rules_of(classes), *(Rule((place.group,), (place.plural,), READING) for place in places)]


def namespace_rules(config: SchedulerConfiguration, *, served: bool = True) -> dict[str, list[Rule]]:
    """What must be allowed in single namespaces."""
    rules: dict[str, list[Rule]] = {}
    election = config.leader_election
    if election.leader_elect:
        rules[election.resource_namespace] = lease_rules(election.resource_name)
    if served:
        allowed = rules.setdefault(AUTHENTICATION_NAMESPACE, [])
        allowed.append(LOOKING_UP)
    return rules


def lease_rules(name: str) -> list[Rule]:
    """What holding a lease of this name takes, in its namespace."""
    group, leases = ("coordination.k8s.io",), ("leases",)
    # A name cannot restrict what does not exist yet.
    return [Rule(group, leases, ("create",)), Rule(group, leases, ("get", "update"), (name,))]


def manifests(
    config: SchedulerConfiguration,
    grantee: Grantee,
    *,
    served: bool = True,
    batch: bool = False,
    viewer: bool = False,
    extra: Iterable[Rule] = (),
) -> list[dict[str, Any]]:
    """The roles and their bindings; with ``viewer``, also a role (not bound) for those who read the endpoints."""
    rules = cluster_rules(config, served=served, batch=batch, extra=extra)
    found = roles(grantee, rules, namespace_rules(config, served=served))
    if viewer:
        endpoints = [{"nonResourceURLs": list(ENDPOINTS), "verbs": ["get"]}]
        found.append(_object("ClusterRole", f"{grantee.name}-viewer", rules=endpoints))
    return found


def _reading(kinds: Iterable[type[KubeObject]] = KINDS) -> Iterator[Rule]:
    """Everything that is watched, a rule for each API group."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        resource = resource_of(kind)
        groups.setdefault(resource.group, []).append(resource.plural)
    for group, plurals in groups.items():
        yield Rule((group,), tuple(sorted(plurals)), ("list", "watch"))


def roles(grantee: Grantee, rules: Iterable[Rule], by_namespace: Mapping[str, Iterable[Rule]]) -> list[dict[str, Any]]:
    """A role with these rules in all namespaces, one for each namespace with rules of its own, and their bindings."""
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
