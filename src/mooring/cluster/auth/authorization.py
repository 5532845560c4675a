"""RBAC authorization by the stored roles and bindings."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from mooring.apiserver.documents import Document
from mooring.cluster.request_context import User
from mooring.cluster.store import Store

RBAC_GROUP: Final = "rbac.authorization.k8s.io"


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
    return any(covers(rule, attributes) for rule in rules_for(store, user, attributes.namespace))


def _is_open(path: str) -> bool:
    """Return whether all users may read a path, as for health, version and discovery."""
    return path.startswith(("/healthz", "/livez", "/readyz", "/version", "/api", "/openapi"))


def rules_for(store: Store, user: User, namespace: str) -> Iterator[Document]:
    """Yield the rules of all roles of a user in a namespace, or in the whole cluster."""
    for stored in store.objects(f"clusterrolebindings.{RBAC_GROUP}"):
        if any(_is_subject(each, user, "") for each in stored.document.get("subjects", ())):
            yield from role_rules(store, stored.document["roleRef"], "") or ()
    if not namespace:
        return
    for stored in store.objects(f"rolebindings.{RBAC_GROUP}", namespace):
        if any(_is_subject(each, user, namespace) for each in stored.document.get("subjects", ())):
            yield from role_rules(store, stored.document["roleRef"], namespace) or ()


def allowed_reason(store: Store, user: User, attributes: Attributes) -> str:
    """Return the binding that allows a request, as Kubernetes describes it; empty if no binding is needed."""
    if user.is_admin:
        return ""
    places: list[tuple[str, str, str | None]] = [("ClusterRoleBinding", f"clusterrolebindings.{RBAC_GROUP}", None)]
    if attributes.namespace:
        places.append(("RoleBinding", f"rolebindings.{RBAC_GROUP}", attributes.namespace))
    for kind, storage, namespace in places:
        for stored in store.objects(storage, namespace):
            document = stored.document
            for subject in document.get("subjects", ()):
                if _is_subject(subject, user, namespace or "") and any(
                    covers(rule, attributes) for rule in role_rules(store, document["roleRef"], namespace or "") or ()
                ):
                    metadata, role = document["metadata"], document["roleRef"]
                    name = f"{metadata['name']}/{namespace}" if namespace else metadata["name"]
                    bound = f'{subject["kind"]} "{subject["name"]}"'
                    return f'RBAC: allowed by {kind} "{name}" of {role["kind"]} "{role["name"]}" to {bound}'
    return ""


def role_rules(store: Store, reference: Document, namespace: str) -> Sequence[Document] | None:
    """Return the rules of the role that a binding refers to, or None if the role does not exist."""
    if reference.get("kind") == "ClusterRole":
        found = store.get(f"clusterroles.{RBAC_GROUP}", "", reference.get("name", ""))
    else:
        found = store.get(f"roles.{RBAC_GROUP}", namespace, reference.get("name", ""))
    if found is None:
        return None
    selectors = (found.document.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if selectors:
        return _aggregated(store, selectors)
    return found.document.get("rules") or ()


def _aggregated(store: Store, selectors: list[Document]) -> list[Document]:
    from mooring.cluster.selectors import selector_of

    compiled = [selector_of(each) for each in selectors]
    return [
        rule
        for stored in store.objects(f"clusterroles.{RBAC_GROUP}")
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


def covers(rule: Document, attributes: Attributes) -> bool:
    """Return whether a rule allows a request."""
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
