"""What a scheduler must be allowed to do on a cluster: the least, for the configuration in force.

One place for the command `mooring rbac`, the Helm chart and the tests that run under exactly this role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from mooring.config import SchedulerConfiguration
from mooring.framework.custom_resources import CustomResource
from mooring.framework.declared import declared_kinds
from mooring.framework.permissions import READING, Rule, rules_of
from mooring.framework.plugin import Plugin
from mooring.kube import resource_of
from mooring.live.informers import KINDS

RBAC: Final = "rbac.authorization.k8s.io"
#: Where a cluster says by which authority its users' certificates are signed.
AUTHENTICATION_NAMESPACE: Final = "kube-system"
AUTHENTICATION_CONFIG: Final = "extension-apiserver-authentication"
#: What is served to those who are let in, beside health.
ENDPOINTS: Final = ("/configz", "/decisions", "/decisions/*", "/flagz", "/metrics", "/metrics/*", "/statusz")


class Grantee(msgspec.Struct, frozen=True):
    """Who is allowed: a service account; ``name`` is what the roles are called."""

    service_account: str = "mooring"
    namespace: str = "kube-system"
    name: str = "mooring"


def cluster_rules(config: SchedulerConfiguration, *, served: bool = True, extra: Iterable[Rule] = ()) -> list[Rule]:
    """What must be allowed in all namespaces. ``extra`` is what plugins need beside, for resources of their own."""
    rules = [*_reading(), *_deciding(config)]
    if served:
        rules.append(Rule(("authentication.k8s.io",), ("tokenreviews",), ("create",)))
        rules.append(Rule(("authorization.k8s.io",), ("subjectaccessreviews",), ("create",)))
    return [*rules, *extra]


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
        group, name = ("coordination.k8s.io",), (election.resource_name,)
        # A name cannot restrict what does not exist yet.
        rules[election.resource_namespace] = [
            Rule(group, ("leases",), ("create",)),
            Rule(group, ("leases",), ("get", "update"), name),
        ]
    if served:
        allowed = rules.setdefault(AUTHENTICATION_NAMESPACE, [])
        allowed.append(Rule(("",), ("configmaps",), ("get",), (AUTHENTICATION_CONFIG,)))
    return rules


def manifests(
    config: SchedulerConfiguration,
    grantee: Grantee,
    *,
    served: bool = True,
    viewer: bool = False,
    extra: Iterable[Rule] = (),
) -> list[dict[str, Any]]:
    """The roles and their bindings; with ``viewer``, also a role (not bound) for those who read the endpoints."""
    rules = [rule.document() for rule in cluster_rules(config, served=served, extra=extra)]
    found = [_object("ClusterRole", grantee.name, rules=rules), _binding("Cluster", grantee)]
    for namespace, allowed in namespace_rules(config, served=served).items():
        documents = [rule.document() for rule in allowed]
        found.append(_object("Role", grantee.name, namespace, rules=documents))
        found.append(_binding("", grantee, namespace))
    if viewer:
        endpoints = [{"nonResourceURLs": list(ENDPOINTS), "verbs": ["get"]}]
        found.append(_object("ClusterRole", f"{grantee.name}-viewer", rules=endpoints))
    return found


def _reading() -> Iterator[Rule]:
    """Everything that is watched, a rule for each API group."""
    groups: dict[str, list[str]] = {}
    for kind in KINDS:
        resource = resource_of(kind)
        groups.setdefault(resource.group, []).append(resource.plural)
    for group, plurals in groups.items():
        yield Rule((group,), tuple(sorted(plurals)), ("list", "watch"))


def _deciding(config: SchedulerConfiguration) -> Iterator[Rule]:
    """What is written."""
    enabled = {plugin.name for profile in config.profiles for each in profile.plugins.values() for plugin in each}
    # After an answer was lost, the pod itself tells whether it is bound.
    yield Rule(("",), ("pods",), ("get", "delete") if "DefaultPreemption" in enabled else ("get",))
    yield Rule(("",), ("pods/status",), ("patch",))
    if "DefaultBinder" in enabled:
        yield Rule(("",), ("pods/binding",), ("create",))
    if "VolumeBinding" in enabled:
        yield Rule(("",), ("persistentvolumeclaims", "persistentvolumes"), ("patch",))
    yield Rule(("events.k8s.io",), ("events",), ("create", "patch"))


def _object(kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **rest}


def _binding(scope: str, grantee: Grantee, namespace: str = "") -> dict[str, Any]:
    role = {"apiGroup": RBAC, "kind": f"{scope}Role", "name": grantee.name}
    subject = {"kind": "ServiceAccount", "name": grantee.service_account, "namespace": grantee.namespace}
    return _object(f"{scope}RoleBinding", grantee.name, namespace, roleRef=role, subjects=[subject])
