"""Resource requests and limits of pods: the metrics of kube-scheduler's /metrics/resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.api.pod import Container, Pod
from mooring.api.resources import CPU, is_attachable, is_hugepages, pod_requests

_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})


def render_resources(pods: Iterable[Pod], accept: str = "") -> tuple[bytes, str]:
    """Return the metrics of pods in the format that the client prefers, and its content type."""
    registry = CollectorRegistry()
    registry.register(_PodResources(pods))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _PodResources(Collector):
    def __init__(self, pods: Iterable[Pod]) -> None:
        self._pods = pods

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the request and limit families."""
        requested = GaugeMetricFamily("kube_pod_resource_request", "Resource requests by pod.", labels=_LABELS)
        limited = GaugeMetricFamily("kube_pod_resource_limit", "Resource limits by pod.", labels=_LABELS)
        for pod in self._pods:
            _add(requested, pod, pod_requests(pod))
            _add(limited, pod, pod_limits(pod))
        yield requested
        yield limited


def _add(family: GaugeMetricFamily, pod: Pod, amounts: dict[str, int]) -> None:
    priority = "" if pod.spec.priority is None else str(pod.spec.priority)
    head = (pod.namespace, pod.name, pod.node_name, pod.scheduler_name, priority)
    for name, amount in amounts.items():
        if amount:
            family.add_metric((*head, name, _unit(name)), amount / 1000 if name == CPU else amount)


def _unit(name: str) -> str:
    if name == CPU:
        return "cores"
    if name in _BYTES or is_hugepages(name):
        return "bytes"
    return "integer" if is_attachable(name) else ""


def pod_limits(pod: Pod) -> dict[str, int]:
    """Return the limits of a pod: aggregated as requests are, but overhead is added only to existing limits."""
    spec = pod.spec
    pod_level = spec.resources
    limited = msgspec.structs.replace(
        spec,
        containers=_as_requests(spec.containers),
        init_containers=_as_requests(spec.init_containers),
        resources=None if pod_level is None else msgspec.structs.replace(pod_level, requests=pod_level.limits),
        overhead={},
    )
    amounts = pod_requests(msgspec.structs.replace(pod, spec=limited))
    if spec.overhead:
        with_overhead = pod_requests(
            msgspec.structs.replace(pod, spec=msgspec.structs.replace(limited, overhead=spec.overhead))
        )
        amounts = {name: with_overhead[name] for name in amounts}
    return amounts


def _as_requests(containers: Sequence[Container]) -> list[Container]:
    return [
        msgspec.structs.replace(each, resources=msgspec.structs.replace(each.resources, requests=each.resources.limits))
        for each in containers
    ]
