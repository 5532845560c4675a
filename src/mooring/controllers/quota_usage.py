"""The quota usage of pods, as Volcano writes it to `minResources` of a PodGroup."""

from __future__ import annotations

from typing import Final

from mooring.api.pod import Pod
from mooring.api.quantity import format_quantity
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages, is_native, pod_requests
from mooring.observe.pod_resource_metrics import pod_limits

_LIMITED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_BINARY: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})


def quota_usage(pod: Pod) -> dict[str, int]:
    """Return what a ResourceQuota counts for a pod: requests (under both names), limits, and the pod itself."""
    usage = {"pods": 1, "count/pods": 1}
    for name, amount in pod_requests(pod).items():
        if not is_native(name) or is_hugepages(name) or name in _LIMITED:
            usage[name] = usage[f"requests.{name}"] = amount
    for name, amount in pod_limits(pod).items():
        if name in _LIMITED:
            usage[f"limits.{name}"] = amount
    return usage


def add_usage(total: dict[str, int], usage: dict[str, int], times: int) -> None:
    """Add the usage of a number of equal pods to a total."""
    for name, amount in usage.items():
        if times > 0:
            total[name] = total.get(name, 0) + amount * times


def format_amounts(amounts: dict[str, int]) -> dict[str, str]:
    """Format amounts as quantities."""
    return {name: _quantity(name, amount) for name, amount in sorted(amounts.items())}


def _quantity(name: str, amount: int) -> str:
    resource = name.removeprefix("requests.").removeprefix("limits.")
    return format_quantity(amount, binary=resource in _BINARY or is_hugepages(resource), milli=resource == CPU)
