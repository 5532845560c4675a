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


class PlacementBuilder(Builder[Pod]):
    """The half of the pod builder that is about where the pod goes."""

    __slots__ = ()

    def node(self, name: str) -> Self:
        """The node the pod is on."""
        return self._with_spec(node_name=name)

    def nominated(self, node: str) -> Self:
        """The node that room is being made on."""
        return self._with_status(nominated_node_name=node)

    def priority(self, priority: int) -> Self:
        """How important it is."""
        return self._with_spec(priority=priority)

    def preemption_policy(self, policy: str) -> Self:
        """``Never``, or ``PreemptLowerPriority``."""
        return self._with_spec(preemption_policy=policy)

    def scheduler(self, name: str) -> Self:
        """The profile that places it."""
        return self._with_spec(scheduler_name=name)

    def toleration(self, key: str = "", value: str | None = None, effect: str = "", *, operator: str = "") -> Self:
        """Tolerate a taint: any value (``Exists``) unless one is given."""
        made = Toleration(
            key=key, value=value or "", effect=effect, operator=operator or ("Exists" if value is None else "Equal")
        )
        return self._with_spec(tolerations=(*self._object.spec.tolerations, made))

    # Nodes

    def node_selector(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Only nodes with these labels; given nothing, a selector that is there but empty."""
        return self._with_spec(node_selector={**(self._object.spec.node_selector or {}), **(labels or {}), **more})

    def node_affinity(self, *expressions: Expression, fields: Iterable[Expression] = ()) -> Self:
        """Require one more term: ``.node_affinity(("zone", "In", "a", "b"), ("disk", "Exists"))``; terms are ORed."""
        old = self._node_affinity
        terms = old.required.node_selector_terms if old.required is not None else ()
        required = NodeSelector(node_selector_terms=(*terms, node_term(expressions, fields)))
        return self._with_node_affinity(required_during_scheduling_ignored_during_execution=required)

    def node_affinity_in(self, key: str, values: Iterable[str]) -> Self:
        """Require a term: a label has one of some values."""
        return self.node_affinity((key, "In", *values))

    def node_affinity_not_in(self, key: str, values: Iterable[str]) -> Self:
        """Require a term: a label has none of some values."""
        return self.node_affinity((key, "NotIn", *values))

    def node_names(self, *names: str) -> Self:
        """Require a term for each node name, as daemon set pods do."""
        return (
            self if not names else self.node_affinity(fields=[("metadata.name", "In", names[0])]).node_names(*names[1:])
        )

    def preferred_node_affinity(self, weight: int, *expressions: Expression, fields: Iterable[Expression] = ()) -> Self:
        """Prefer nodes that a term matches."""
        made = PreferredSchedulingTerm(weight=weight, preference=node_term(expressions, fields))
        terms = (*self._node_affinity.preferred, made)
        return self._with_node_affinity(preferred_during_scheduling_ignored_during_execution=terms)

    def preferred_node_affinity_in(self, weight: int, key: str, values: Iterable[str]) -> Self:
        """Prefer nodes where a label has one of some values."""
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
        """Require pods that match in the same domain."""
        near = self._affinity.pod_affinity or PodAffinity()
        term = _term(topology_key, selector, namespaces, namespace_selector)
        changed = msgspec.structs.replace(
            near, required_during_scheduling_ignored_during_execution=(*near.required, term)
        )
        return self._with_affinity(pod_affinity=changed)

    def pod_anti_affinity(
        self,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Require that no pod that matches is in the same domain."""
        far = self._affinity.pod_anti_affinity or PodAntiAffinity()
        term = _term(topology_key, selector, namespaces, namespace_selector)
        changed = msgspec.structs.replace(
            far, required_during_scheduling_ignored_during_execution=(*far.required, term)
        )
        return self._with_affinity(pod_anti_affinity=changed)

    def preferred_pod_affinity(
        self,
        weight: int,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Prefer domains with pods that match."""
        near = self._affinity.pod_affinity or PodAffinity()
        term = _term(topology_key, selector, namespaces, namespace_selector)
        terms = (*near.preferred, WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term))
        changed = msgspec.structs.replace(near, preferred_during_scheduling_ignored_during_execution=terms)
        return self._with_affinity(pod_affinity=changed)

    def preferred_pod_anti_affinity(
        self,
        weight: int,
        topology_key: str,
        selector: SelectorLike,
        *,
        namespaces: Iterable[str] = (),
        namespace_selector: SelectorLike = None,
    ) -> Self:
        """Prefer domains without pods that match."""
        far = self._affinity.pod_anti_affinity or PodAntiAffinity()
        term = _term(topology_key, selector, namespaces, namespace_selector)
        terms = (*far.preferred, WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term))
        changed = msgspec.structs.replace(far, preferred_during_scheduling_ignored_during_execution=terms)
        return self._with_affinity(pod_anti_affinity=changed)

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
        """Spread over the domains of a key, as hard as ``when`` (``DoNotSchedule`` or ``ScheduleAnyway``) says."""
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


def _term(
    topology_key: str, selector: SelectorLike, namespaces: Iterable[str], namespace_selector: SelectorLike
) -> PodAffinityTerm:
    return PodAffinityTerm(
        label_selector=as_selector(selector),
        topology_key=topology_key,
        namespaces=tuple(namespaces),
        namespace_selector=as_selector(namespace_selector),
    )


Amounts = Mapping[str, QuantityLike]


class PodBuilder(PlacementBuilder):
    """Builds a pod: containers and volumes here, where it wants to be in ``PlacementBuilder``."""

    __slots__ = ()

    # Containers

    def req(self, amounts: Amounts | None = None, /, **more: QuantityLike) -> Self:
        """Add a container that asks for these amounts."""
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
        """Set the image of the last container (of a first one if there is none)."""
        return self._with_last(image=image)

    def port(self, host_port: int, protocol: str = "TCP", *, host_ip: str = "") -> Self:
        """Take a port of the node, for the last container (for a first one if there is none)."""
        port = ContainerPort(container_port=host_port, host_port=host_port, protocol=protocol, host_ip=host_ip)
        containers = self._object.spec.containers
        return self._with_last(ports=(*(containers[-1].ports if containers else ()), port))

    def guaranteed(self) -> Self:
        """Hold all containers there are to what they ask for, so that it is theirs (quality of service)."""
        spec = self._object.spec
        return self._with_spec(containers=_held(spec.containers), init_containers=_held(spec.init_containers))

    def pod_req(self, amounts: Amounts | None = None, /, **more: QuantityLike) -> Self:
        """Ask for amounts for the pod as a whole."""
        return self._with_spec(resources=ResourceRequirements(requests=amounts_of(amounts, more)))

    def overhead(self, amounts: Amounts | None = None, /, **more: QuantityLike) -> Self:
        """What the runtime adds."""
        return self._with_spec(overhead=amounts_of(amounts, more))

    # Volumes and claims

    def volume(self, volume: Volume) -> Self:
        """Add a volume; its name, if it has none, is its number."""
        volumes = self._object.spec.volumes
        if not volume.name:
            volume = msgspec.structs.replace(volume, name=f"v{len(volumes) + 1}")
        return self._with_spec(volumes=(*volumes, volume))

    def pvc(self, claim: str, *, read_only: bool = False) -> Self:
        """Use a claim."""
        source = PersistentVolumeClaimVolume(claim_name=claim, read_only=read_only)
        return self.volume(Volume(persistent_volume_claim=source))

    def ephemeral(self, name: str, *, storage_class: str | None = None, size: QuantityLike = "1Gi") -> Self:
        """Have a claim made for the pod, named ``<pod>-<name>``."""
        spec = PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            storage_class_name=storage_class,
            resources=VolumeResources(requests={"storage": size}),
        )
        source = EphemeralVolume(volume_claim_template=PersistentVolumeClaimTemplate(spec=spec))
        return self.volume(Volume(name=name, ephemeral=source))

    def csi(self, driver: str) -> Self:
        """Use an inline CSI volume."""
        return self.volume(Volume(csi=CSIVolume(driver=driver)))

    def image_volume(self, reference: str) -> Self:
        """Mount an image."""
        return self.volume(Volume(image=ImageVolume(reference=reference)))

    def resource_claim(self, name: str, claim: str | None = None, *, template: str | None = None) -> Self:
        """Use a dynamic resource claim."""
        made = PodResourceClaim(name=name, resource_claim_name=claim, resource_claim_template_name=template)
        return self._with_spec(resource_claims=(*self._object.spec.resource_claims, made))

    # The rest

    def host_network(self, *, host_users: bool | None = None) -> Self:
        """Use the node's network."""
        return self._with_spec(host_network=True, host_users=host_users)

    def gate(self, *names: str) -> Self:
        """Add scheduling gates."""
        gates = tuple(PodSchedulingGate(name=name) for name in names)
        return self._with_spec(scheduling_gates=(*self._object.spec.scheduling_gates, *gates))

    def phase(self, phase: str) -> Self:
        """How far it is, such as ``Running`` or ``Failed``."""
        return self._with_status(phase=phase)

    def started(self, time: str) -> Self:
        """When its node took it on."""
        return self._with_status(start_time=time)

    def condition(self, kind: str, status: str = "True", reason: str = "") -> Self:
        """Add a condition."""
        made = Condition(type=kind, status=status, reason=reason)
        return self._with_status(conditions=(*self._object.status.conditions, made))

    def given(self, container: str, *, allocated: Amounts | None = None, actual: Amounts | None = None) -> Self:
        """What the node promised and gave a container (``c1`` is the first), as while it is being resized."""
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
    """Begin a pod without containers: it asks for nothing and goes anywhere."""
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


def _held(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(
        msgspec.structs.replace(each, resources=msgspec.structs.replace(each.resources, limits=each.resources.requests))
        for each in containers
    )
