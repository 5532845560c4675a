"""Builder of pods for tests: ``make_pod("p").req(cpu="1").label(app="web").obj()``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

import msgspec

from mooring.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from mooring.api.meta import Condition, ObjectMeta
from mooring.api.pod import (
    Container,
    ContainerPort,
    ContainerRestartRule,
    ContainerStatus,
    Pod,
    PodResourceClaim,
    PodSchedulingGate,
    ResourceRequirements,
)
from mooring.api.quantity import QuantityLike
from mooring.api.volumes import (
    CSIVolume,
    EphemeralVolume,
    ImageVolume,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolume,
    Volume,
    VolumeResources,
)
from mooring.testing.builders import Builder, Expression, SelectorLike, amounts_of, as_selector, node_term

Amounts = Mapping[str, QuantityLike]


class PodBuilder(Builder[Pod]):
    """A builder of pods."""

    __slots__ = ()

    def node(self, name: str) -> Self:
        """Set the node of the pod."""
        return self._with_spec(node_name=name)

    def nominated(self, node: str) -> Self:
        """Set the nominated node."""
        return self._with_status(nominated_node_name=node)

    def priority(self, priority: int) -> Self:
        """Set the priority."""
        return self._with_spec(priority=priority)

    def preemption_policy(self, policy: str) -> Self:
        """Set the preemption policy: ``Never`` or ``PreemptLowerPriority``."""
        return self._with_spec(preemption_policy=policy)

    def scheduler(self, name: str) -> Self:
        """Set the scheduler name."""
        return self._with_spec(scheduler_name=name)

    def toleration(self, key: str = "", value: str | None = None, effect: str = "", *, operator: str = "") -> Self:
        """Tolerate a taint: any value (``Exists``) unless one is given."""
        made = Toleration(
            key=key, value=value or "", effect=effect, operator=operator or ("Exists" if value is None else "Equal")
        )
        return self._with_spec(tolerations=(*self._object.spec.tolerations, made))

    # Nodes

    def node_selector(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Require nodes with these labels; without arguments, set an empty selector."""
        return self._with_spec(node_selector={**(self._object.spec.node_selector or {}), **(labels or {}), **more})

    def node_affinity(self, *expressions: Expression, fields: Iterable[Expression] = ()) -> Self:
        """Add a required term: ``.node_affinity(("zone", "In", "a", "b"), ("disk", "Exists"))``; terms are ORed."""
        old = self._node_affinity
        terms = old.required.node_selector_terms if old.required is not None else ()
        required = NodeSelector(node_selector_terms=(*terms, node_term(expressions, fields)))
        return self._with_node_affinity(required_during_scheduling_ignored_during_execution=required)

    def node_affinity_in(self, key: str, values: Iterable[str]) -> Self:
        """Add a required term: the label has one of the values."""
        return self.node_affinity((key, "In", *values))

    def node_affinity_not_in(self, key: str, values: Iterable[str]) -> Self:
        """Add a required term: the label has none of the values."""
        return self.node_affinity((key, "NotIn", *values))

    def node_names(self, *names: str) -> Self:
        """Add a required term for each node name, as in DaemonSet pods."""
        return (
            self if not names else self.node_affinity(fields=[("metadata.name", "In", names[0])]).node_names(*names[1:])
        )

    def preferred_node_affinity(self, weight: int, *expressions: Expression, fields: Iterable[Expression] = ()) -> Self:
        """Add a preferred term."""
        made = PreferredSchedulingTerm(weight=weight, preference=node_term(expressions, fields))
        terms = (*self._node_affinity.preferred, made)
        return self._with_node_affinity(preferred_during_scheduling_ignored_during_execution=terms)

    def preferred_node_affinity_in(self, weight: int, key: str, values: Iterable[str]) -> Self:
        """Add a preferred term: the label has one of the values."""
        return self.preferred_node_affinity(weight, (key, "In", *values))

    # Other pods

    def pod_affinity(
        self,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Require matching pods in the same topology domain."""
        term = _term(topology_key, selector, namespaces, namespace_selector)
        return self._with_affinity(pod_affinity=_add_term(self._affinity.pod_affinity or PodAffinity(), term))

    def pod_anti_affinity(
        self,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Require that no matching pod is in the same topology domain."""
        term = _term(topology_key, selector, namespaces, namespace_selector)
        terms = self._affinity.pod_anti_affinity or PodAntiAffinity()
        return self._with_affinity(pod_anti_affinity=_add_term(terms, term))

    def preferred_pod_affinity(
        self,
        weight: int,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Prefer topology domains with matching pods."""
        term = _term(topology_key, selector, namespaces, namespace_selector)
        return self._with_affinity(pod_affinity=_add_term(self._affinity.pod_affinity or PodAffinity(), term, weight))

    def preferred_pod_anti_affinity(
        self,
        weight: int,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Prefer topology domains without matching pods."""
        term = _term(topology_key, selector, namespaces, namespace_selector)
        terms = self._affinity.pod_anti_affinity or PodAntiAffinity()
        return self._with_affinity(pod_anti_affinity=_add_term(terms, term, weight))

    def spread(
        self,
        topology_key: str,
        selector: SelectorLike = None,
        *,
        max_skew: int = 1,
        when: str = "DoNotSchedule",
        min_domains: int | None = None,
        node_affinity_policy: str | None = None,
        node_taints_policy: str | None = None,
        match_label_keys: Iterable[str] = (),
    ) -> Self:
        """Add a topology spread constraint; ``when`` is ``DoNotSchedule`` or ``ScheduleAnyway``."""
        made = TopologySpreadConstraint(
            max_skew=max_skew,
            topology_key=topology_key,
            when_unsatisfiable=when,
            label_selector=as_selector(selector),
            min_domains=min_domains,
            node_affinity_policy=node_affinity_policy,
            node_taints_policy=node_taints_policy,
            match_label_keys=tuple(match_label_keys),
        )
        return self._with_spec(topology_spread_constraints=(*self._object.spec.topology_spread_constraints, made))

    @property
    def _affinity(self) -> Affinity:
        return self._object.spec.affinity or Affinity()

    @property
    def _node_affinity(self) -> NodeAffinity:
        return self._affinity.node_affinity or NodeAffinity()

    def _with_affinity(self, **changes: object) -> Self:
        return self._with_spec(affinity=msgspec.structs.replace(self._affinity, **changes))

    def _with_node_affinity(self, **changes: object) -> Self:
        return self._with_affinity(node_affinity=msgspec.structs.replace(self._node_affinity, **changes))

    def _with_spec(self, **changes: object) -> Self:
        return self._with(spec=msgspec.structs.replace(self._object.spec, **changes))

    def _with_status(self, **changes: object) -> Self:
        return self._with(status=msgspec.structs.replace(self._object.status, **changes))

    # Containers

    def req(self, amounts: Amounts | None = None, /, **more: QuantityLike) -> Self:
        """Add a container with these requests."""
        return self.container(req=amounts_of(amounts, more))

    def container(
        self, image: str = "", *, req: Amounts | None = None, name: str = "", restart_rules: tuple[str, ...] = ()
    ) -> Self:
        """Add a container; ``restart_rules`` are actions such as ``RestartAllContainers``."""
        number = len(self._object.spec.containers) + 1
        made = _container(name or f"c{number}", image, req, restart_rules=restart_rules)
        return self._with_spec(containers=(*self._object.spec.containers, made))

    def init(
        self,
        amounts: Amounts | None = None,
        /,
        *,
        sidecar: bool = False,
        image: str = "",
        name: str = "",
        restart_rules: tuple[str, ...] = (),
        host_port: int = 0,
        **more: QuantityLike,
    ) -> Self:
        """Add an init container, or a sidecar."""
        number = len(self._object.spec.init_containers) + 1
        made = _container(
            name or f"i{number}", image, amounts_of(amounts, more), sidecar=sidecar, restart_rules=restart_rules
        )
        if host_port:
            port = ContainerPort(container_port=host_port, host_port=host_port, protocol="TCP")
            made = msgspec.structs.replace(made, ports=(port,))
        return self._with_spec(init_containers=(*self._object.spec.init_containers, made))

    def image(self, image: str) -> Self:
        """Set the image of the last container. Adds a container if there is none."""
        return self._with_last(image=image)

    def port(self, host_port: int, protocol: str = "TCP", *, host_ip: str = "") -> Self:
        """Add a host port to the last container. Adds a container if there is none."""
        port = ContainerPort(container_port=host_port, host_port=host_port, protocol=protocol, host_ip=host_ip)
        containers = self._object.spec.containers
        return self._with_last(ports=(*(containers[-1].ports if containers else ()), port))

    def guaranteed(self) -> Self:
        """Set the limits of all containers to their requests (QoS class Guaranteed)."""
        spec = self._object.spec
        return self._with_spec(
            containers=_with_limits(spec.containers), init_containers=_with_limits(spec.init_containers)
        )

    def pod_req(self, amounts: Amounts | None = None, /, **more: QuantityLike) -> Self:
        """Set the pod-level requests."""
        return self._with_spec(resources=ResourceRequirements(requests=amounts_of(amounts, more)))

    def overhead(self, amounts: Amounts | None = None, /, **more: QuantityLike) -> Self:
        """Set the overhead of the runtime class."""
        return self._with_spec(overhead=amounts_of(amounts, more))

    # Volumes and claims

    def volume(self, volume: Volume) -> Self:
        """Add a volume. A volume without a name is named after its number."""
        volumes = self._object.spec.volumes
        if not volume.name:
            volume = msgspec.structs.replace(volume, name=f"v{len(volumes) + 1}")
        return self._with_spec(volumes=(*volumes, volume))

    def pvc(self, claim: str, *, read_only: bool = False) -> Self:
        """Add a volume from a claim."""
        source = PersistentVolumeClaimVolume(claim_name=claim, read_only=read_only)
        return self.volume(Volume(persistent_volume_claim=source))

    def ephemeral(self, name: str, *, storage_class: str | None = None, size: QuantityLike = "1Gi") -> Self:
        """Add an ephemeral volume, whose claim is named ``<pod>-<name>``."""
        spec = PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            storage_class_name=storage_class,
            resources=VolumeResources(requests={"storage": size}),
        )
        source = EphemeralVolume(volume_claim_template=PersistentVolumeClaimTemplate(spec=spec))
        return self.volume(Volume(name=name, ephemeral=source))

    def csi(self, driver: str) -> Self:
        """Add an inline CSI volume."""
        return self.volume(Volume(csi=CSIVolume(driver=driver)))

    def image_volume(self, reference: str) -> Self:
        """Add an image volume."""
        return self.volume(Volume(image=ImageVolume(reference=reference)))

    def resource_claim(self, name: str, claim: str | None = None, *, template: str | None = None) -> Self:
        """Add a resource claim."""
        made = PodResourceClaim(name=name, resource_claim_name=claim, resource_claim_template_name=template)
        return self._with_spec(resource_claims=(*self._object.spec.resource_claims, made))

    # Other fields

    def host_network(self, *, host_users: bool | None = None) -> Self:
        """Use the node's network."""
        return self._with_spec(host_network=True, host_users=host_users)

    def gate(self, *names: str) -> Self:
        """Add scheduling gates."""
        gates = tuple(PodSchedulingGate(name=name) for name in names)
        return self._with_spec(scheduling_gates=(*self._object.spec.scheduling_gates, *gates))

    def phase(self, phase: str) -> Self:
        """Set the phase, such as ``Running`` or ``Failed``."""
        return self._with_status(phase=phase)

    def started(self, time: str) -> Self:
        """Set the start time."""
        return self._with_status(start_time=time)

    def condition(self, kind: str, status: str = "True", reason: str = "") -> Self:
        """Add a condition."""
        made = Condition(type=kind, status=status, reason=reason)
        return self._with_status(conditions=(*self._object.status.conditions, made))

    def given(self, container: str, *, allocated: Amounts | None = None, actual: Amounts | None = None) -> Self:
        """Set the allocated and actual resources of a container (``c1`` is the first), as during a resize."""
        status = ContainerStatus(
            name=container,
            allocated_resources=dict(allocated or {}),
            resources=ResourceRequirements(requests=dict(actual)) if actual is not None else None,
        )
        return self._with_status(container_statuses=(*self._object.status.container_statuses, status))

    def _with_last(self, **changes: object) -> Self:
        containers = self._object.spec.containers or (Container(name="c1"),)
        last = msgspec.structs.replace(containers[-1], **changes)
        return self._with_spec(containers=(*containers[:-1], last))


def make_pod(name: str, namespace: str = "default") -> PodBuilder:
    """Start a pod without containers, requests or constraints."""
    return PodBuilder(Pod(metadata=ObjectMeta(name=name, namespace=namespace)))


def _container(
    name: str, image: str, req: Amounts | None, *, sidecar: bool = False, restart_rules: Iterable[str] = ()
) -> Container:
    return Container(
        name=name,
        image=image,
        resources=ResourceRequirements(requests=dict(req or {})),
        restart_policy="Always" if sidecar else None,
        restart_policy_rules=tuple(ContainerRestartRule(action=action) for action in restart_rules),
    )


def _with_limits(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(
        msgspec.structs.replace(each, resources=msgspec.structs.replace(each.resources, limits=each.resources.requests))
        for each in containers
    )


def _term(
    topology_key: str, selector: SelectorLike, namespaces: Iterable[str], namespace_selector: SelectorLike
) -> PodAffinityTerm:
    return PodAffinityTerm(
        label_selector=as_selector(selector),
        topology_key=topology_key,
        namespaces=tuple(namespaces),
        namespace_selector=as_selector(namespace_selector),
    )


def _add_term(
    terms: PodAffinity | PodAntiAffinity, term: PodAffinityTerm, weight: int | None = None
) -> PodAffinity | PodAntiAffinity:
    """Return the affinity with one more term: a preferred one if it has a weight."""
    if weight is None:
        required = (*terms.required, term)
        return msgspec.structs.replace(terms, required_during_scheduling_ignored_during_execution=required)
    preferred = (*terms.preferred, WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term))
    return msgspec.structs.replace(terms, preferred_during_scheduling_ignored_during_execution=preferred)
