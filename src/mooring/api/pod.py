"""Pods: specification and status."""

import functools
from typing import Final

from msgspec import field
from msgspec.structs import force_setattr

from mooring.api.affinity import Affinity, Toleration, TopologySpreadConstraint
from mooring.api.meta import Condition, Model, NamespacedObject, ObjectMeta
from mooring.api.quantity import QuantityLike
from mooring.api.resources import pod_requests
from mooring.api.volumes import Volume, with_source

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


class ContainerPort(Model, kw_only=True):
    """A port of a container, and the host port."""

    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = ""
    protocol: str = ""

    @property
    def host_key(self) -> tuple[str, str, int]:
        """The host address, protocol and port, with Kubernetes' defaults."""
        return self.host_ip or "0.0.0.0", self.protocol or "TCP", self.host_port


class ResourceClaimUse(Model, kw_only=True):
    """A resource claim of the pod that a container uses."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Model, kw_only=True):
    """Requests and limits of a container or a pod."""

    requests: dict[str, QuantityLike] = field(default_factory=dict)
    limits: dict[str, QuantityLike] = field(default_factory=dict)
    claims: tuple[ResourceClaimUse, ...] = ()


class RestartRuleExitCodes(Model, kw_only=True):
    """The exit codes of a restart rule."""

    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Model, kw_only=True):
    """A restart rule of a container."""

    action: str = ""
    exit_codes: RestartRuleExitCodes | None = None


class Container(Model, kw_only=True):
    """One container of a pod."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Whether the init container is a sidecar (`restartPolicy: Always`)."""
        return self.restart_policy == "Always"


class PodSchedulingGate(Model, kw_only=True):
    """A scheduling gate, which blocks scheduling until it is removed."""

    name: str = ""


class PodResourceClaim(Model, kw_only=True):
    """A dynamic resource claim of a pod, by name or by template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Model, kw_only=True):
    """The pod group that a pod is scheduled with."""

    pod_group_name: str | None = None


class PodOS(Model, kw_only=True):
    """The operating system of a pod."""

    name: str = ""


class PodSpec(Model, kw_only=True):
    """The specification of a pod."""

    #: The volumes with a source that schedulers read. Others, such as config maps and the token of the service account,
    #: are left out: the API server names the volume of that token at random, so no two pods would be alike.
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_selector: dict[str, str] | None = None
    service_account_name: str = ""
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    host_users: bool | None = None
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    runtime_class_name: str | None = None
    overhead: dict[str, QuantityLike] = field(default_factory=dict)
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    os: PodOS | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    scheduling_group: PodSchedulingGroup | None = None

    def __post_init__(self) -> None:
        if self.volumes:
            force_setattr(self, "volumes", with_source(self.volumes))


class ContainerStatus(Model, kw_only=True):
    """The status of a container."""

    name: str = ""
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    ready: bool = False
    restart_count: int = 0
    allocated_resources: dict[str, QuantityLike] = field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Model, kw_only=True):
    """The claim that was created for an entry of `spec.resourceClaims`."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Model, kw_only=True):
    """The request of a generated claim for an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Model, kw_only=True):
    """The claim that was created for extended resources of a pod."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableMappedResources(Model, kw_only=True):
    """An amount of a node's resource that the devices of a claim are."""

    name: str = ""
    quantity: QuantityLike | None = None


class NodeAllocatableOverheadResources(Model, kw_only=True):
    """An amount of a node's resource that is needed to use the devices of a claim."""

    name: str = ""
    per_pod: QuantityLike | None = None
    per_container: QuantityLike | None = None


class NodeAllocatableResourceClaimStatus(Model, kw_only=True):
    """The resources of the node that a pod uses through a claim, and the containers that refer to the claim."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    mapping: tuple[NodeAllocatableMappedResources, ...] = ()
    overhead: tuple[NodeAllocatableOverheadResources, ...] = ()


class PodStatus(Model, kw_only=True):
    """The status of a pod."""

    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    pod_ip: str = ""
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    allocated_resources: dict[str, QuantityLike] = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class PodTemplateSpec(Model, kw_only=True):
    """A pod template."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Pod(NamespacedObject, kw_only=True, dict=True, gc=True):
    """A pod.

    ``spec`` and ``status`` have the fields of Kubernetes that affect scheduling, in snake_case, for example
    ``pod.spec.tolerations``. Pods are immutable.

    Attributes:
        metadata: The name, namespace, uid, labels, annotations, owners and timestamps. ``pod.name``, ``pod.namespace``,
            ``pod.uid``, ``pod.labels``, ``pod.annotations`` and ``pod.key`` (``namespace/name``) are shortcuts.
        spec: The specification.
        status: The status.
        api_version: ``v1``.
        kind: ``Pod``.
    """

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Pod")
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def node_name(self) -> str:
        """The name of the node that the pod is bound to; empty if it is not bound."""
        return self.spec.node_name

    @property
    def priority(self) -> int:
        """The pod's priority; 0 if it has none."""
        return self.spec.priority or 0

    @property
    def scheduler_name(self) -> str:
        """The name of the scheduler that the pod is for; ``default-scheduler`` if it names none."""
        return self.spec.scheduler_name or DEFAULT_SCHEDULER_NAME

    @property
    def may_preempt(self) -> bool:
        """Whether the pod may preempt others: its preemption policy is not ``Never``."""
        return self.spec.preemption_policy != "Never"

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether the pod has succeeded or failed."""
        return self.status.phase in {"Succeeded", "Failed"}

    @functools.cached_property
    def requests(self) -> dict[str, int]:
        """The requests of the pod by resource: CPU in millicores, other resources in whole units. Read-only.

        Init containers, sidecars, overhead and pod-level resources count as in Kubernetes.
        """
        return pod_requests(self)

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of a type, such as ``PodScheduled``; None if there is none."""
        for condition in self.status.conditions:
            if condition.type == kind:
                return condition
        return None
