"""The quotas of all namespaces and their use, actual and hypothetical."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.api.pod import Pod
from mooring.api.quantity import QuantityError, QuantityLike
from mooring.api.resources import check_amounts
from mooring.framework import Lister
from mooring.plugins.capacity_scheduling.elastic_quota import (
    BASE,
    UNLIMITED,
    Amounts,
    ElasticQuota,
    add,
    amounts_of,
    over,
    request_of,
    sum_of,
)

_EVERYTHING = dict.fromkeys(BASE, UNLIMITED)
_NOTHING: Amounts = {}


class Quota:
    """One namespace's quota."""

    __slots__ = ("max", "min", "pods", "used")

    def __init__(self, least: Amounts, most: Amounts, used: Amounts, pods: dict[str, Amounts]) -> None:
        self.min = least
        self.max = most
        self.used = used
        #: The charge of each pod, by uid.
        self.pods = pods

    def add(self, pod: Pod) -> None:
        """Charge a pod, once."""
        if pod.uid not in self.pods:
            charge = self.pods[pod.uid] = request_of(pod)
            add(self.used, charge)

    def remove(self, pod: Pod) -> None:
        """Remove the charge of a pod; it need not exist."""
        charge = self.pods.pop(pod.uid, None)
        if charge is not None:
            add(self.used, charge, -1)

    def clone(self) -> Quota:
        """Return a copy for hypothetical changes."""
        return Quota(self.min, self.max, dict(self.used), dict(self.pods))

    @property
    def over_min(self) -> bool:
        """Whether the namespace uses more than its guarantee."""
        return over(self.used, _NOTHING, self.min, 0)

    def over_min_with(self, request: Amounts) -> bool:
        """Return whether the namespace would use more than its guarantee with a request."""
        return over(request, self.used, self.min, 0)

    def over_max_with(self, request: Amounts) -> bool:
        """Return whether the namespace would use more than its maximum with a request."""
        return over(request, self.used, self.max, UNLIMITED)


class Snapshot:
    """All quotas, for hypothetical changes. Quotas are copied on write."""

    __slots__ = ("_base", "_changed", "_least", "_used")

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._base = quotas
        self._changed: dict[str, Quota] = {}
        self._least = sum_of(quota.min for quota in quotas.values())
        self._used = sum_of(quota.used for quota in quotas.values())

    def get(self, namespace: str) -> Quota | None:
        """Return a namespace's quota, if it has one; read only."""
        return self._changed.get(namespace) or self._base.get(namespace)

    def add(self, pod: Pod) -> None:
        """Add a hypothetical pod."""
        self._change(pod, 1)

    def remove(self, pod: Pod) -> None:
        """Remove a pod hypothetically."""
        self._change(pod, -1)

    def _change(self, pod: Pod, sign: int) -> None:
        namespace = pod.namespace
        quota = self.get(namespace)
        if quota is None or (pod.uid in quota.pods) == (sign > 0):
            return
        if namespace not in self._changed:
            quota = self._changed[namespace] = quota.clone()
        add(self._used, quota.pods[pod.uid] if sign < 0 else request_of(pod), sign)
        if sign > 0:
            quota.add(pod)
        else:
            quota.remove(pod)

    def over_all_with(self, request: Amounts) -> bool:
        """Return whether all namespaces together would use more than the sum of guarantees with a request."""
        total = dict(self._used)
        add(total, request)
        return over(total, _NOTHING, self._least, 0)

    def clone(self) -> Snapshot:
        """Return a copy; changes to it do not affect this one."""
        copy = Snapshot.__new__(Snapshot)
        copy._base, copy._least = self._base, self._least
        copy._used = dict(self._used)
        copy._changed = {namespace: quota.clone() for namespace, quota in self._changed.items()}
        return copy


class Quotas:
    """The current quotas. If a namespace has several, the first one applies."""

    def __init__(
        self, quotas: Lister[ElasticQuota], pods: Lister[Pod], report: Callable[[ElasticQuota, str], None]
    ) -> None:
        """``report`` is called with a quota whose amounts are invalid."""
        self._lister = quotas
        self._pods = pods
        self._report = report
        self.by_namespace: dict[str, Quota] = {}
        for namespace in {item.namespace for item in quotas.list()}:
            self._renew(namespace)
        quotas.listen(self._quota_changed)
        pods.listen(self._pod_changed)

    def add(self, pod: Pod) -> None:
        """Add a pod that has a node."""
        quota = self.by_namespace.get(pod.namespace)
        if quota is not None:
            quota.add(pod)

    def remove(self, pod: Pod) -> None:
        """Remove a pod that has no node any more."""
        quota = self.by_namespace.get(pod.namespace)
        if quota is not None:
            quota.remove(pod)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the current quotas."""
        return Snapshot(self.by_namespace)

    def _quota_changed(self, old: ElasticQuota | None, new: ElasticQuota | None, /) -> None:
        item = new if new is not None else old
        if item is not None:
            self._renew(item.namespace)

    def _renew(self, namespace: str) -> None:
        item = next(iter(self._lister.list(namespace)), None)
        if item is None:
            self.by_namespace.pop(namespace, None)
            return
        errors: list[str] = []
        least = _limit("spec.min", item.spec.min, {}, errors)
        most = _limit("spec.max", item.spec.max, _EVERYTHING, errors)
        if errors:
            self._report(item, "; ".join(errors))
        known = self.by_namespace.get(namespace)
        if known is not None:
            known.min, known.max = least, most
            return
        made = self.by_namespace[namespace] = Quota(least, most, {}, {})
        for pod in self._pods.list(namespace):
            if pod.node_name:
                made.add(pod)

    def _pod_changed(self, old: Pod | None, new: Pod | None, /) -> None:
        if new is None:
            if old is not None:
                self.remove(old)
        elif new.node_name:
            self.add(new)


def _limit(field: str, given: Mapping[str, QuantityLike] | None, otherwise: Amounts, errors: list[str]) -> Amounts:
    """Return a quota's limit; invalid amounts count as 0 and are added to ``errors``."""
    if given is None:
        return otherwise
    found: Amounts = {}
    for name, quantity in given.items():
        try:
            check_amounts(field, {name: quantity})
        except QuantityError as error:
            errors.append(f"{error}; the amount counts as 0")
        else:
            found |= amounts_of({name: quantity})
    return found
