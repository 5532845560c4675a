"""Privilege escalation prevention: users can grant only permissions that they hold themselves.

Creating or changing a role needs its permissions or the verb `escalate`, and binding it the same or the verb `bind`.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.cluster.api_resource import Resource
from mooring.cluster.auth.authorization import RBAC_GROUP, Attributes, covers, is_allowed, role_rules, rules_for
from mooring.cluster.errors import forbidden, not_found
from mooring.cluster.request_context import User
from mooring.cluster.store import Store

#: The rules of a ClusterRole that aggregates others: what they will contain is unknown.
_EVERYTHING: Final = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)
_ROLES: Final = frozenset({f"roles.{RBAC_GROUP}", f"clusterroles.{RBAC_GROUP}"})
_BINDINGS: Final = frozenset({f"rolebindings.{RBAC_GROUP}", f"clusterrolebindings.{RBAC_GROUP}"})
#: The fields of a rule, with their names in messages.
_SHOWN: Final = {
    "nonResourceURLs": "NonResourceURLs",
    "apiGroups": "APIGroups",
    "resources": "Resources",
    "resourceNames": "ResourceNames",
    "verbs": "Verbs",
}


def check_escalation(
    store: Store, user: User, resource: Resource, namespace: str, document: Document, old: Document | None = None
) -> None:
    """Raise ApiError if a new or changed role or binding grants permissions that the user does not have."""
    if user.is_admin:
        return
    if resource.stored_as in _ROLES:
        _check_role(store, user, resource, namespace, document, old)
    elif resource.stored_as in _BINDINGS:
        _check_binding(store, user, resource, namespace, document, old)


def _check_role(
    store: Store, user: User, resource: Resource, namespace: str, document: Document, old: Document | None
) -> None:
    fields = ("rules", "aggregationRule")
    if old is not None and all(document.get(key) == old.get(key) for key in fields):
        return
    name = document["metadata"].get("name", "")
    if is_allowed(store, user, Attributes("escalate", RBAC_GROUP, resource.plural, "", namespace, name)):
        return
    wanted = _EVERYTHING if document.get("aggregationRule") else document.get("rules") or ()
    _check_rules(store, user, resource, namespace, name, wanted)


def _check_binding(
    store: Store, user: User, resource: Resource, namespace: str, document: Document, old: Document | None
) -> None:
    fields = ("subjects", "roleRef")
    if old is not None and all(document.get(key) == old.get(key) for key in fields):
        return
    role = document.get("roleRef") or {}
    plural = "clusterroles" if role.get("kind") == "ClusterRole" else "roles"
    if is_allowed(store, user, Attributes("bind", RBAC_GROUP, plural, "", namespace, str(role.get("name", "")))):
        return
    wanted = role_rules(store, role, namespace)
    if wanted is None:
        raise not_found(resource._replace(plural=plural).target(str(role.get("name", ""))))
    _check_rules(store, user, resource, namespace, document["metadata"].get("name", ""), wanted)


def _check_rules(
    store: Store, user: User, resource: Resource, namespace: str, name: str, wanted: Iterable[Document]
) -> None:
    held = list(rules_for(store, user, namespace))

    def is_held(rule: Document) -> bool:
        return all(any(covers(each, part) for each in held) for part in _parts(rule, held))

    missing = [rule for rule in wanted if not is_held(rule)]
    if missing:
        groups = ", ".join(f'"{each}"' for each in user.groups)
        raise forbidden(
            resource.target(name),
            f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
            + "\n".join(map(_shown, missing)),
        )


def _parts(rule: Document, held: list[Document]) -> Iterator[Attributes]:
    """Yield the requests that a rule allows. Requests that no held rule distinguishes are yielded once."""

    def tokens(key: str) -> list[str]:
        named = {each for other in held for each in other.get(key) or ()}
        # A held rule can match all resources with a subresource (`*/scale`).
        found = {each if each in named else (each.partition("/")[2],): each for each in rule.get(key) or ()}
        return list(found.values())

    verbs = tokens("verbs")
    for verb, path in itertools.product(verbs, rule.get("nonResourceURLs") or ()):
        yield Attributes(verb, path=path)
    if rule.get("resources"):
        names = tokens("resourceNames") or [""]
        for verb, group, full, name in itertools.product(verbs, tokens("apiGroups"), tokens("resources"), names):
            resource, _, subresource = full.partition("/")
            yield Attributes(verb, group, resource, subresource, "", name)


def _shown(rule: Document) -> str:
    def texts(value: Any) -> str:
        return "[" + ", ".join(f'"{each}"' for each in value) + "]"

    return "{" + ", ".join(f"{name}:{texts(rule[key])}" for key, name in _SHOWN.items() if rule.get(key)) + "}"
