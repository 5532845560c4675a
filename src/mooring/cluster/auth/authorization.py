"""RBAC authorization by the stored roles and bindings."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mooring.apiserver.documents import Document
from mooring.cluster.request_context import User
from mooring.cluster.store import Store

_GROUP = "rbac.authorization.k8s.io"


class Attributes(NamedTuple):
    """The attributes of a request that authorization evaluates."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    #: A path that is not a resource, such as `/healthz`.
    path: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its subresource, such as `pods/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def is_allowed(store: Store, user: User, attributes: Attributes) -> bool:
    """Return whether a role of the user allows a request."""
    if user.is_admin or (attributes.path and _is_open(attributes.path)):
        return True
    if attributes.resource == "selfsubjectaccessreviews" or attributes.resource in {
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
    }:
        return True
    return any(_covers(rule, attributes) for rule in rules_for(store, user, attributes.namespace))


def _is_open(path: str) -> bool:
    """Return whether all users may read a path, as for health, version and discovery."""
    return path.startswith(("/healthz", "/livez", "/readyz", "/version", "/api", "/openapi"))


def rules_for(store: Store, user: User, namespace: str) -> Iterator[Document]:
    """Yield the rules of all roles of a user in a namespace, or in the whole cluster."""
    for stored in store.objects(f"clusterrolebindings.{_GROUP}"):
        if any(_is_subject(each, user, "") for each in stored.document.get("subjects", ())):
            yield from _rules(store, stored.document["roleRef"], "")
    if not namespace:
        return
    for stored in store.objects(f"rolebindings.{_GROUP}", namespace):
        if any(_is_subject(each, user, namespace) for each in stored.document.get("subjects", ())):
            yield from _rules(store, stored.document["roleRef"], namespace)


def allowed_reason(store: Store, user: User, attributes: Attributes) -> str:
    """Return the binding that allows a request, as Kubernetes describes it; empty if no binding is needed."""
    if user.is_admin:
        return ""
    places: list[tuple[str, str, str | None]] = [("ClusterRoleBinding", f"clusterrolebindings.{_GROUP}", None)]
    if attributes.namespace:
        places.append(("RoleBinding", f"rolebindings.{_GROUP}", attributes.namespace))
    for kind, storage, namespace in places:
        for stored in store.objects(storage, namespace):
            document = stored.document
            for subject in document.get("subjects", ()):
                if _is_subject(subject, user, namespace or "") and any(
                    _covers(rule, attributes) for rule in _rules(store, document["roleRef"], namespace or "")
                ):
                    metadata, role = document["metadata"], document["roleRef"]
                    name = f"{metadata['name']}/{namespace}" if namespace else metadata["name"]
                    bound = f'{subject["kind"]} "{subject["name"]}"'
                    return f'RBAC: allowed by {kind} "{name}" of {role["kind"]} "{role["name"]}" to {bound}'
    return ""


def _rules(store: Store, reference: Document, namespace: str) -> Iterable[Document]:
    if reference.get("kind") == "ClusterRole":
        found = store.get(f"clusterroles.{_GROUP}", "", reference.get("name", ""))
    else:
        found = store.get(f"roles.{_GROUP}", namespace, reference.get("name", ""))
    if found is None:
        return ()
    selectors = (found.document.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if selectors:
        return _aggregated(store, selectors)
    return found.document.get("rules") or ()


def _aggregated(store: Store, selectors: list[Document]) -> list[Document]:
    from mooring.cluster.selectors import selector_of

    compiled = [selector_of(each) for each in selectors]
    return [
        rule
        for stored in store.objects(f"clusterroles.{_GROUP}")
        if any(each.matches(stored.document["metadata"].get("labels") or {}) for each in compiled)
        for rule in stored.document.get("rules") or ()
    ]


def _is_subject(subject: Document, user: User, namespace: str) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(user.name == name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}"
    return False


def _covers(rule: Document, attributes: Attributes) -> bool:
    verbs = rule.get("verbs", ())
    if "*" not in verbs and attributes.verb not in verbs:
        return False
    if attributes.path:
        return any(
            each in {"*", attributes.path} or (each.endswith("*") and attributes.path.startswith(each[:-1]))
            for each in rule.get("nonResourceURLs", ())
        )
    groups = rule.get("apiGroups", ())
    if "*" not in groups and attributes.group not in groups:
        return False
    resources = rule.get("resources", ())
    if not ({"*", attributes.full_resource} & set(resources) or f"*/{attributes.subresource}" in resources):
        return False
    names = rule.get("resourceNames")
    return not names or attributes.name in names


def forbidden_message(user: User, asked: Attributes) -> str:
    """Return the message for a denied request."""
    if asked.path:
        return f'User "{user.name}" cannot {asked.verb} path "{asked.path}"'
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return (
        f'User "{user.name}" cannot {asked.verb} resource "{asked.full_resource}" in API group "{asked.group}" {where}'
    )
