"""Pods for tests: ``make_pod("p").req(cpu="1", memory="1Gi").label(app="web").toleration("gpu").obj()``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

import msgspec

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
from mooring.testing.builder import amounts_of
from mooring.testing.pod_placement import PlacementBuilder

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
