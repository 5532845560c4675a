"""What an API server does to a pod before a scheduler sees it: defaults, priority, tolerations, merged selectors.

Pods that come from a cluster have all this already, and pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.affinity import Affinity, PodAffinity, PodAffinityTerm, Toleration, TopologySpreadConstraint
from mooring.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from mooring.api.pod import DEFAULT_SCHEDULER_NAME, Container, Pod, PodSpec, ResourceRequirements
from mooring.api.policy import PriorityClass
from mooring.api.quantity import QuantityLike
from mooring.api.resources import CPU, is_hugepages, is_pod_level, pod_requests
from mooring.api.yaml_reader import Step
from mooring.simulate.sources import InputError

_replace = msgspec.structs.replace

#: The classes that every cluster has.
SYSTEM_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_PREEMPT: Final = "PreemptLowerPriority"
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_NO_EXECUTE: Final = "NoExecute"
_STAY_SECONDS: Final = 300


class AdmissionError(InputError):
    """A pod that an API server would refuse: which field, why, and what to do."""

    def __init__(self, steps: tuple[Step, ...], problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.steps = steps
        self.problem = problem
        self.remedy = remedy


class Admission:
    """Admits pods to a cluster that has certain priority classes."""

    def __init__(self, classes: Iterable[PriorityClass] = ()) -> None:
        system = (PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in SYSTEM_CLASSES.items())
        self._classes = {item.name: item for item in (*system, *classes)}
        defaults = [item for item in self._classes.values() if item.global_default]
        self._default = min(defaults, key=lambda item: item.value, default=None)

    def admit(self, pod: Pod) -> Pod:
        """The pod as an API server would store it. Raises AdmissionError."""
        if not pod.spec.containers:
            raise AdmissionError(("spec", "containers"), "is required", "give the pod at least one container")
        spec = _containers(pod.spec)
        spec = _pod_resources(_replace(pod, spec=spec))
        spec = self._priority(spec, exists=bool(pod.uid))
        spec = _replace(
            spec,
            scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
            tolerations=_tolerations(spec.tolerations),
            affinity=_affinity(spec.affinity, pod.labels),
            topology_spread_constraints=tuple(_spread(each, pod.labels) for each in spec.topology_spread_constraints),
        )
        metadata = _replace(pod.metadata, namespace=pod.namespace)
        return _replace(pod, metadata=metadata, spec=spec)

    def _priority(self, spec: PodSpec, *, exists: bool) -> PodSpec:
        name = spec.priority_class_name
        found = self._classes.get(name) if name else self._default
        if name and found is None:
            if spec.priority is None:
                known = ", ".join(sorted(self._classes))
                raise AdmissionError(
                    ("spec", "priorityClassName"),
                    f"no PriorityClass with name {name} was found",
                    f"add the PriorityClass to the manifests, or use one of {known}",
                )
            return _replace(spec, preemption_policy=spec.preemption_policy or _PREEMPT)
        value = found.value if found is not None else 0
        if spec.priority is not None and spec.priority != value:
            if not exists:
                raise AdmissionError(
                    ("spec", "priority"),
                    f"{spec.priority} is not the priority that the pod's class gives it ({value})",
                    "name a PriorityClass in spec.priorityClassName and leave spec.priority out",
                )
            value = spec.priority  # the class was another one when the pod was made
        policy = (found.preemption_policy if found is not None else None) or _PREEMPT
        return _replace(
            spec,
            priority=value,
            priority_class_name=found.name if found is not None else "",
            preemption_policy=spec.preemption_policy if exists and spec.preemption_policy else policy,
        )


# Resources


def _containers(spec: PodSpec) -> PodSpec:
    containers = tuple(_container(each, host_network=spec.host_network) for each in spec.containers)
    init = tuple(_container(each, host_network=spec.host_network) for each in spec.init_containers)
    return _replace(spec, containers=containers, init_containers=init)


def _container(container: Container, *, host_network: bool) -> Container:
    """A limit is also the request where there is none; on the host's network a container's ports are the host's."""
    resources = container.resources
    if any(name not in resources.requests for name in resources.limits):
        container = _replace(container, resources=_replace(resources, requests=resources.limits | resources.requests))
    if host_network and any(not port.host_port for port in container.ports):
        ports = tuple(_replace(port, host_port=port.host_port or port.container_port) for port in container.ports)
        container = _replace(container, ports=ports)
    return container


def _pod_resources(pod: Pod) -> PodSpec:
    """What a pod that limits itself as a whole asks for where it does not say: what its containers do, or the limit."""
    spec = pod.spec
    if spec.resources is None or not (spec.resources.limits or spec.resources.requests):
        return spec
    requests, limits = dict(spec.resources.requests), dict(spec.resources.limits)
    for name, quantity in _total(_asking_for_limits(pod)).items():
        if is_hugepages(name) and name not in requests:
            limits.setdefault(name, quantity)
    if limits:
        for name, quantity in _total(pod).items():
            if is_pod_level(name) and not is_hugepages(name):
                requests.setdefault(name, quantity)
        for name, quantity in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, quantity)
    return _replace(spec, resources=_replace(spec.resources, requests=requests, limits=limits))


def _total(pod: Pod) -> dict[str, QuantityLike]:
    """What the containers of a pod ask for together."""
    bare = _replace(pod, spec=_replace(pod.spec, overhead={}, resources=None))
    return {name: f"{amount}m" if name == CPU else amount for name, amount in pod_requests(bare).items()}


def _asking_for_limits(pod: Pod) -> Pod:
    def limited(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(_replace(c, resources=ResourceRequirements(requests=c.resources.limits)) for c in containers)

    spec = pod.spec
    return _replace(
        pod,
        spec=_replace(spec, containers=limited(spec.containers), init_containers=limited(spec.init_containers)),
    )


# Tolerations and selectors


def _tolerations(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """A pod stays for five minutes on a node that is not ready or cannot be reached, unless it says otherwise."""
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(each.key in (key, "") and each.effect in (_NO_EXECUTE, "") for each in tolerations):
            stay = Toleration(key=key, operator="Exists", effect=_NO_EXECUTE, toleration_seconds=_STAY_SECONDS)
            tolerations = (*tolerations, stay)
    return tolerations


def _affinity(affinity: Affinity | None, labels: Mapping[str, str]) -> Affinity | None:
    if affinity is None:
        return None
    return _replace(
        affinity,
        pod_affinity=_terms(affinity.pod_affinity, labels),
        pod_anti_affinity=_terms(affinity.pod_anti_affinity, labels),
    )


def _terms(affinity: PodAffinity | None, labels: Mapping[str, str]) -> PodAffinity | None:
    if affinity is None:
        return None
    return _replace(
        affinity,
        required_during_scheduling_ignored_during_execution=tuple(_term(each, labels) for each in affinity.required),
        preferred_during_scheduling_ignored_during_execution=tuple(
            _replace(each, pod_affinity_term=_term(each.pod_affinity_term, labels)) for each in affinity.preferred
        ),
    )


def _term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _merged(term.label_selector, "In", term.match_label_keys, labels)
    return _replace(term, label_selector=_merged(selector, "NotIn", term.mismatch_label_keys, labels))


def _spread(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> TopologySpreadConstraint:
    selector = _merged(constraint.label_selector, "In", constraint.match_label_keys, labels)
    return _replace(constraint, label_selector=selector)


def _merged(
    selector: LabelSelector | None, operator: str, keys: tuple[str, ...], labels: Mapping[str, str]
) -> LabelSelector | None:
    """A selector with the pod's own values of some labels written into it; no selector stays none."""
    if selector is None or not keys:
        return selector
    known = selector.match_expressions
    added = [
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],)) for key in keys if key in labels
    ]
    return _replace(selector, match_expressions=(*known, *(each for each in added if each not in known)))
