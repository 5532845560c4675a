"""ResourceQuotas: the usage of objects, the admission that charges it, and the controller that releases it.

Admission adds the usage of new and enlarged objects to `status.used`, and the controller subtracts the usage of deleted
and reduced ones, so that neither has to count all objects of the namespace. The controller counts all of them only for
a new or changed quota.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.pod import Pod
from mooring.api.quantity import parse_quantity
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended, is_hugepages, pod_requests
from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.pod_defaults import qos_class
from mooring.apiserver.quantities import canonical_quantity
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key, Tools
from mooring.cluster.errors import forbidden
from mooring.cluster.kind import Kind
from mooring.cluster.store import ADDED, DELETED, Change, Store
from mooring.cluster.table_printer import age, columns

QUOTAS: Final = "resourcequotas"
_CLAIMS: Final = "persistentvolumeclaims"
#: Resources of the core group whose objects a quota can count by their plain name.
_COUNTED: Final = frozenset({_CLAIMS, "configmaps", "replicationcontrollers", QUOTAS, "secrets", "services"})
#: Resources that every container must specify if a quota limits them.
_SPECIFIED: Final = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_STANDARD: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class Amount(NamedTuple):
    """An amount of a resource, in billionths, and whether it is written with binary suffixes."""

    nano: int
    binary: bool = False

    @classmethod
    def parse(cls, text: Any) -> "Amount":
        """Parse a quantity."""
        quantity = parse_quantity(text)
        scale = quantity.scale + 9
        nano = quantity.unscaled * 10**scale if scale >= 0 else -(-quantity.unscaled // 10**-scale)
        return cls(nano, str(text).endswith("i"))

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum. It is written like the first amount that is not zero."""
        return Amount(self.nano + other.nano, self.binary if self.nano else other.binary)

    def minus(self, other: "Amount") -> "Amount":
        """Return the difference."""
        return Amount(self.nano - other.nano, self.binary if self.nano else other.binary)

    def __str__(self) -> str:
        value, rest = divmod(self.nano, 10**9)
        if self.binary and not rest and value and value % 1024 == 0:
            return canonical_quantity(f"{value // 1024}Ki")
        return canonical_quantity(f"{self.nano}n")


_ONE: Final = Amount(10**9)
_NONE: Final = Amount(0)
Usage = dict[str, Amount]


def usage_of(resource: Resource, document: Document) -> Usage:
    """Return what an object uses of the resources that quotas can limit."""
    usage = {f"count/{resource.stored_as}": _ONE}
    if resource.stored_as in _COUNTED:
        usage[resource.stored_as] = _ONE
    if resource.stored_as == "pods":
        usage |= _pod_usage(document)
    elif resource.stored_as == "services":
        usage |= _service_usage(document)
    elif resource.stored_as == _CLAIMS:
        usage |= _claim_usage(document)
    return usage


def _pod_usage(pod: Document) -> Usage:
    if nested_field(pod, "status", "phase") in {"Succeeded", "Failed"}:
        return {}
    usage = {"pods": _ONE}
    for name, amount in _pod_totals(pod, "requests").items():
        if name in _STANDARD or is_hugepages(name):
            usage[name] = amount
        if name in _STANDARD or is_hugepages(name) or is_extended(name):
            usage[f"requests.{name}"] = amount
    for name, amount in _pod_totals(pod, "limits").items():
        if name in _STANDARD:
            usage[f"limits.{name}"] = amount
    return usage


def _pod_totals(pod: Document, kind: str) -> Usage:
    """Return the total requests or limits of a pod."""
    spec = pod["spec"]

    def as_requests(holder: Document) -> Document:
        resources = holder.get("resources") or {}
        return {**holder, "resources": {"requests": resources.get(kind) or {}}}

    changed = {**spec, "containers": [as_requests(each) for each in spec["containers"]]}
    if "initContainers" in spec:
        changed["initContainers"] = [as_requests(each) for each in spec["initContainers"]]
    if "resources" in spec:
        changed = as_requests(changed)
    holders = [*changed["containers"], *changed.get("initContainers", ()), *([changed] if "resources" in spec else ())]
    written = {name: text for each in holders for name, text in each["resources"]["requests"].items()}
    totals = pod_requests(msgspec.convert({"metadata": {}, "spec": changed}, Pod))
    unit = {CPU: 10**6}
    return {
        name: Amount(total * unit.get(name, 10**9), str(written[name]).endswith("i"))
        for name, total in totals.items()
        if name in written
    }


def _service_usage(service: Document) -> Usage:
    spec = service["spec"]
    ports = spec.get("ports") or ()
    count = 0
    if spec.get("type") == "NodePort" or (
        spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    ):
        count = len(ports)
    elif spec.get("type") == "LoadBalancer":
        count = sum("nodePort" in each for each in ports)
    balancers = _ONE if spec.get("type") == "LoadBalancer" else _NONE
    return {"services.nodeports": Amount(count * 10**9), "services.loadbalancers": balancers}


def _claim_usage(claim: Document) -> Usage:
    text = nested_field(claim, "spec", "resources", "requests", "storage")
    size = Amount.parse(text) if text else _NONE
    usage = {"requests.storage": size}
    if name := claim["spec"].get("storageClassName"):
        usage |= {f"{name}{_STORAGE_CLASS}requests.storage": size, f"{name}{_STORAGE_CLASS}{_CLAIMS}": _ONE}
    return usage


def _matches(quota: Document, resource: Resource, document: Document) -> bool:
    """Return whether the scopes of a quota match an object. Only pods have scopes."""
    spec = quota["spec"]
    scopes: list[Document] = [{"scopeName": each, "operator": "Exists"} for each in spec.get("scopes") or ()]
    scopes += nested_field(spec, "scopeSelector", "matchExpressions") or ()
    if not scopes:
        return True
    return resource.stored_as == "pods" and all(_in_scope(each, document) for each in scopes)


def _in_scope(scope: Document, pod: Document) -> bool:
    spec = pod["spec"]
    match scope.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _in_priority_class(scope, spec.get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return any("namespaceSelector" in each or each.get("namespaces") for each in _affinity_terms(spec))
    return False


def _in_priority_class(scope: Document, name: str) -> bool:
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)


def _affinity_terms(spec: Document) -> Iterator[Document]:
    for kind in ("podAffinity", "podAntiAffinity"):
        given = nested_field(spec, "affinity", kind) or {}
        yield from given.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for each in given.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield each.get("podAffinityTerm") or {}


class QuotaAdmission:
    """The admission of objects by the quotas of their namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def charge(self, resource: Resource, document: Document, old: Document | None, *, dry_run: bool) -> None:
        """Add the usage of a new or changed object to the quotas. Raises ApiError if it exceeds one of them."""
        if not resource.namespaced:
            return
        quotas = list(self._store.objects(QUOTAS, document["metadata"]["namespace"]))
        if not quotas:
            return
        usage = usage_of(resource, document)
        before = {} if old is None else usage_of(resource, old)
        more = {
            name: added for name, amount in usage.items() if (added := amount.minus(before.get(name, _NONE))).nano > 0
        }
        charged: list[Document] = []
        for stored in quotas:
            quota = stored.document
            if _matches(quota, resource, document):
                charged += self._charged(quota, resource, document, usage, more)
        if not dry_run:
            for quota in charged:
                self._store.put(QUOTAS, quota["metadata"]["namespace"], quota["metadata"]["name"], quota)

    def _charged(
        self, quota: Document, resource: Resource, document: Document, usage: Usage, more: Usage
    ) -> list[Document]:
        """Return the quota with the new usage, or nothing if it is not affected."""
        name, status = quota["metadata"]["name"], quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        target = resource.target(document["metadata"].get("name", ""))
        if resource.stored_as == "pods" and (faults := _unspecified(document["spec"], _SPECIFIED & set(hard))):
            raise forbidden(target, f"failed quota: {name}: must specify {faults}")
        names = sorted(hard.keys() & more.keys())
        if not names:
            return []
        if unknown := [each for each in names if each not in used]:
            raise forbidden(target, f"status unknown for quota: {name}, resources: {','.join(unknown)}")
        totals = {each: Amount.parse(used[each]).plus(more[each]) for each in names}
        exceeded = [each for each in names if totals[each].nano > Amount.parse(hard[each]).nano]
        if exceeded:
            shown = [_shown(exceeded, amounts) for amounts in (more, used, hard)]
            raise forbidden(
                target, f"exceeded quota: {name}, requested: {shown[0]}, used: {shown[1]}, limited: {shown[2]}"
            )
        fresh = {**used, **{each: str(total) for each, total in totals.items()}}
        return [{**quota, "status": {**status, "used": fresh}}]


def _shown(names: Iterable[str], amounts: Any) -> str:
    return ",".join(f"{each}={amounts[each]}" for each in names)


def _unspecified(spec: Document, names: Iterable[str]) -> str:
    """Return which limited resources which containers do not specify."""
    if spec.get("resources"):
        return ""
    found: list[str] = []
    for name in sorted(names):
        kind, _, plain = name.rpartition(".")
        containers = sorted(
            each["name"]
            for each in (*spec["containers"], *spec.get("initContainers", ()))
            if plain not in (nested_field(each, "resources", kind or "requests") or {})
        )
        if containers:
            found.append(f"{name} for: {','.join(containers)}")
    return "; ".join(found)


class ResourceQuotaController(Controller):
    """A controller that counts the usage of a new quota, and releases the usage of deleted and reduced objects."""

    name = "resourcequota-controller"

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        #: The usage to release, by quota.
        self._released: dict[Key, list[tuple[int, Usage]]] = {}
        #: The version of the store at which the usage of a quota was counted.
        self._counted: dict[Key, int] = {}

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return a quota, or the quotas of a deleted or reduced object."""
        document = change.stored.document
        namespace = document["metadata"].get("namespace")
        if not namespace:
            return []
        if storage == QUOTAS and change.kind == DELETED:
            self._counted.pop((namespace, document["metadata"]["name"]), None)
        keys = [(namespace, document["metadata"]["name"])] if storage == QUOTAS and change.kind != DELETED else []
        if change.kind == ADDED or change.previous is None:
            return keys
        for stored in self.tools.store.objects(QUOTAS, namespace):
            key = (namespace, stored.document["metadata"]["name"])
            if less := self._reduction(storage, change, stored.document):
                self._released.setdefault(key, []).append((change.version, less))
                keys.append(key)
        return keys

    def _reduction(self, storage: str, change: Change, quota: Document) -> Usage:
        """Return how much less an object uses after a change."""
        if change.previous is None or (change.kind != DELETED and storage not in {"pods", "services", _CLAIMS}):
            return {}
        resource = self.tools.registry.mapper.of(storage)
        if not _matches(quota, resource, change.previous.document):
            return {}
        after = {} if change.kind == DELETED else usage_of(resource, change.stored.document)
        limited = quota["spec"].get("hard") or {}
        return {
            name: less
            for name, amount in usage_of(resource, change.previous.document).items()
            if name in limited and (less := amount.minus(after.get(name, _NONE))).nano > 0
        }

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Update the status of a quota."""
        key, quota = (namespace, name), self.tools.find(QUOTAS, namespace, name)
        released = self._released.pop(key, [])
        if quota is None:
            return None
        hard, status = quota["spec"].get("hard") or {}, quota.get("status") or {}
        if key not in self._counted or status.get("hard", {}) != hard or set(status.get("used") or {}) != set(hard):
            used = self._count(quota, hard)
            self._counted[key] = self.tools.store.version
        else:
            used = {each: Amount.parse(text) for each, text in status["used"].items()}
            for version, usage in released:
                if version > self._counted[key]:
                    for each, less in usage.items():
                        left = used[each].minus(less)
                        used[each] = left if left.nano > 0 else _NONE
        fresh = {"hard": dict(hard), "used": {each: str(used[each]) for each in hard}}
        self.tools.set_status(QUOTAS, quota, fresh if hard else {})
        return None

    def _count(self, quota: Document, hard: Document) -> Usage:
        """Count the usage of all objects of the namespace."""
        used = dict.fromkeys(hard, _NONE)
        mapper = self.tools.registry.mapper
        for storage in self.tools.store.storages():
            if storage not in {"pods", _CLAIMS} and not any(storage in each for each in hard):
                continue
            resource = mapper.of(storage)
            for stored in self.tools.store.objects(storage, quota["metadata"]["namespace"]):
                if _matches(quota, resource, stored.document):
                    for name, amount in usage_of(resource, stored.document).items():
                        if name in used:
                            used[name] = used[name].plus(amount)
        return used


def _resource_quota_row(document: Document, now: float) -> list[Any]:
    status = document.get("status", {})
    hard, used = status.get("hard", {}), status.get("used", {})
    requests = [f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard) if not key.startswith("limits.")]
    limits = [f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard) if key.startswith("limits.")]
    return [document["metadata"]["name"], ", ".join(requests), ", ".join(limits), age(document, now)]


RESOURCE_QUOTA: Final = Kind(
    Resource("", "v1", QUOTAS, "ResourceQuota", short_names=("quota",), subresources=("status",)),
    columns=columns("Name Request Limit Age", _resource_quota_row),
    returns_deleted=True,
    controllers=(ResourceQuotaController,),
)
