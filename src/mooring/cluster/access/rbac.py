"""What the stored roles and bindings allow."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mooring.apiserver.documents import Document
from mooring.cluster.calls import User
from mooring.cluster.store import Store

_GROUP = "rbac.authorization.k8s.io"


class Wish(NamedTuple):
    """What somebody wants to do."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    #: A path that is no resource, such as `/healthz`.
    path: str = ""

    @property
    def full_resource(self) -> str:
        """`pods/status`, or just `pods`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def is_allowed(store: Store, user: User, wish: Wish) -> bool:
    """Whether a role that the user has allows it."""
    if user.is_admin or (wish.path and _is_open(wish.path)):
        return True
    if wish.resource == "selfsubjectaccessreviews" or wish.resource in {
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
    }:
        return True
    return any(_covers(rule, wish) for rule in rules_for(store, user, wish.namespace))


def _is_open(path: str) -> bool:
    """Whether everybody may look at a path: health, version and discovery."""
    return path.startswith(("/healthz", "/livez", "/readyz", "/version", "/api", "/openapi"))


def rules_for(store: Store, user: User, namespace: str) -> Iterator[Document]:
    """The rules of all roles that the user has in a namespace, or in the whole cluster."""
    for stored in store.objects(f"clusterrolebindings.{_GROUP}"):
        if any(_is_subject(each, user, "") for each in stored.document.get("subjects", ())):
            yield from _rules(store, stored.document["roleRef"], "")
    if not namespace:
        return
    for stored in store.objects(f"rolebindings.{_GROUP}", namespace):
        if any(_is_subject(each, user, namespace) for each in stored.document.get("subjects", ())):
            yield from _rules(store, stored.document["roleRef"], namespace)


def why_allowed(store: Store, user: User, wish: Wish) -> str:
    """Which binding allows it, in Kubernetes' words; empty where no binding is needed."""
    if user.is_admin:
        return ""
    places: list[tuple[str, str, str | None]] = [("ClusterRoleBinding", f"clusterrolebindings.{_GROUP}", None)]
    if wish.namespace:
        places.append(("RoleBinding", f"rolebindings.{_GROUP}", wish.namespace))
    for kind, storage, namespace in places:
        for stored in store.objects(storage, namespace):
            document = stored.document
            for subject in document.get("subjects", ()):
                if _is_subject(subject, user, namespace or "") and any(
                    _covers(rule, wish) for rule in _rules(store, document["roleRef"], namespace or "")
                ):
                    metadata, role = document["metadata"], document["roleRef"]
                    name = f"{metadata['name']}/{namespace}" if namespace else metadata["name"]
                    whom = f'{subject["kind"]} "{subject["name"]}"'
                    return f'RBAC: allowed by {kind} "{name}" of {role["kind"]} "{role["name"]}" to {whom}'
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


def _covers(rule: Document, wish: Wish) -> bool:
    verbs = rule.get("verbs", ())
    if "*" not in verbs and wish.verb not in verbs:
        return False
    if wish.path:
        return any(
            each in {"*", wish.path} or (each.endswith("*") and wish.path.startswith(each[:-1]))
            for each in rule.get("nonResourceURLs", ())
        )
    groups = rule.get("apiGroups", ())
    if "*" not in groups and wish.group not in groups:
        return False
    resources = rule.get("resources", ())
    if not ({"*", wish.full_resource} & set(resources) or f"*/{wish.subresource}" in resources):
        return False
    names = rule.get("resourceNames")
    return not names or wish.name in names


def refusal(user: User, wish: Wish) -> str:
    """Why not, in Kubernetes' words."""
    if wish.path:
        return f'User "{user.name}" cannot {wish.verb} path "{wish.path}"'
    where = f'in the namespace "{wish.namespace}"' if wish.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {wish.verb} resource "{wish.full_resource}" in API group "{wish.group}" {where}'
