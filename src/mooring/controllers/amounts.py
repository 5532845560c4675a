"""What pods need at least, as Volcano writes it into a PodGroup: in the words of a quota."""

from __future__ import annotations

from typing import Final

from mooring.api.pod import Pod
from mooring.api.quantity import format_quantity
from mooring.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages, is_native, pod_requests
from mooring.observe.pod_resource_metrics import pod_limits

_LIMITED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_BINARY: Final = frozenset({MEMORY, EPHEMERAL_STORAGE})


def quota_usage(pod: Pod) -> dict[str, int]:
    """What a quota would count for a pod: requests by both of their names, limits, and the pod itself."""
    usage = {"pods": 1, "count/pods": 1}
    for name, amount in pod_requests(pod).items():
        if not is_native(name) or is_hugepages(name) or name in _LIMITED:
            usage[name] = usage[f"requests.{name}"] = amount
    for name, amount in pod_limits(pod).items():
        if name in _LIMITED:
            usage[f"limits.{name}"] = amount
    return usage


def add(total: dict[str, int], usage: dict[str, int], times: int) -> None:
    """Add what some equal pods need."""
    for name, amount in usage.items():
        if times > 0:
            total[name] = total.get(name, 0) + amount * times


def written(amounts: dict[str, int]) -> dict[str, str]:
    """Amounts as quantities."""
    return {name: _quantity(name, amount) for name, amount in sorted(amounts.items())}


def _quantity(name: str, amount: int) -> str:
    plain = name.removeprefix("requests.").removeprefix("limits.")
    return format_quantity(amount, binary=plain in _BINARY or is_hugepages(plain), milli=plain == CPU)
